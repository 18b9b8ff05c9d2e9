import {
  type KillSwitch,
  type KillSwitchChange,
  killSwitchJson,
  listKillSwitches,
  setKillSwitch,
} from '../reminders/kill-switch.ts'
import {
  type Command,
  type Context,
  defineCommand,
  type Output,
  REASON,
  renderTable,
} from './command.ts'

const account = {
  type: 'string',
  value: 'ID',
  description: 'The id of the account. Without it, the command applies to the whole installation.',
} as const

export const killSwitchCommands: readonly Command[] = [
  defineCommand({
    name: 'kill-switch on',
    summary:
      'Activate the kill switch: all reminders stop immediately. Waiting messages are suppressed; they are not sent after the switch is released.',
    arguments: [],
    options: {
      reason: REASON,
      account,
    },
    run: ({ reason, account: id }, context) => change(context, id, { on: true, reason }),
  }),

  defineCommand({
    name: 'kill-switch off',
    summary:
      'Release the kill switch: reminders that are due are planned again, and sent in each customer’s business hours; the first may be sent within a minute. Messages that were suppressed stay suppressed.',
    arguments: [],
    options: {
      // Releasing the switch needs no reason.
      reason: { type: 'string', value: 'REASON', description: REASON.description },
      account,
    },
    run: ({ reason, account: id }, context) => change(context, id, { on: false, reason }),
  }),

  defineCommand({
    name: 'kill-switch status',
    summary: 'Show the state of each kill switch that has ever been activated.',
    arguments: [],
    options: {},
    async run(_values, context) {
      const { read } = await context.database()
      const switches = await listKillSwitches(read)
      return {
        json: switches.map(represent),
        text: renderTable(
          switches.map(({ accountId, isOn, reason, changedAt, changedBy }) => ({
            scope: accountId ?? 'installation',
            state: isOn ? 'on' : 'off',
            since: changedAt ?? '',
            by: changedBy ?? '',
            reason: reason ?? '',
          })),
        ),
      }
    },
  }),
]

async function change(
  context: Context,
  accountId: string | undefined,
  requested: KillSwitchChange,
): Promise<Output> {
  const changed = await context.performAction((tx, actionContext) =>
    setKillSwitch(tx, accountId ?? null, requested, actionContext),
  )
  const scope = accountId === undefined ? 'the whole installation' : `account ${accountId}`
  const byAccount = accountId === undefined ? '' : ' by this account'
  const effect = changed.isOn ? `no reminder is sent${byAccount}` : 'it blocks no reminder'
  return {
    json: represent(changed),
    text: `The kill switch of ${scope} is ${changed.isOn ? 'on' : 'off'}: ${effect}.`,
  }
}

function represent(killSwitch: KillSwitch) {
  return { ...killSwitchJson(killSwitch), account_id: killSwitch.accountId }
}
