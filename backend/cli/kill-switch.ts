import { OPERATOR } from '../accounts/audit.ts'
import {
  type KillSwitch,
  type KillSwitchChange,
  listKillSwitches,
  renderKillSwitch,
  setKillSwitch,
} from '../reminders/kill-switch.ts'
import { type Command, type Context, defineCommand, type Output, renderTable } from './command.ts'

const account = {
  type: 'string',
  value: 'ID',
  description: 'Of this account alone; of the whole installation unless given.',
} as const

export const killSwitchCommands: readonly Command[] = [
  defineCommand({
    name: 'kill-switch on',
    summary:
      'Stop every reminder at once. Messages that wait are suppressed, and not sent when the switch is released.',
    arguments: [],
    options: {
      reason: { type: 'string', required: true, value: 'R', description: 'Why.' },
      account,
    },
    run: ({ reason, account: id }, context) => change(context, id, { on: true, reason }),
  }),

  defineCommand({
    name: 'kill-switch off',
    summary:
      'Release the switch. Reminders are planned from today; those that were missed are not sent.',
    arguments: [],
    options: {
      reason: { type: 'string', value: 'R', description: 'Why, for the audit log.' },
      account,
    },
    run: ({ reason, account: id }, context) => change(context, id, { on: false, reason }),
  }),

  defineCommand({
    name: 'kill-switch status',
    summary: 'Show the switches that were ever used.',
    arguments: [],
    options: {},
    async run(_values, context) {
      const { read } = await context.database()
      const switches = await listKillSwitches(read)
      return {
        json: switches.map(represent),
        text: renderTable(
          switches.map(({ accountId, isOn, reason, changedAt, changedBy }) => ({
            of: accountId ?? 'installation',
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
  wanted: KillSwitchChange,
): Promise<Output> {
  const act = { actor: OPERATOR, now: context.now }
  const changed = await (await context.database()).transaction((tx) =>
    setKillSwitch(tx, accountId ?? null, wanted, act),
  )
  const whose = accountId === undefined ? 'the whole installation' : `account ${accountId}`
  const effect = changed.isOn ? 'no reminder is sent' : 'reminders are sent again'
  return {
    json: represent(changed),
    text: `The kill switch of ${whose} is ${changed.isOn ? 'on' : 'off'}: ${effect}.`,
  }
}

function represent(found: KillSwitch) {
  return { ...renderKillSwitch(found), account_id: found.accountId }
}
