import { getAccount } from '../accounts/accounts.ts'
import {
  type ChasingSettings,
  type ChasingSettingsChange,
  changeChasingSettings,
  readChasingSettings,
} from '../reminders/chasing-settings.ts'
import type { Ladder } from '../reminders/planning/ladder.ts'
import { ACCOUNT, type Command, defineCommand, splitList, UsageError } from './command.ts'
import { parseListOrNone, parseWholeNumber } from './input/option-values.ts'

export const scheduleCommands: readonly Command[] = [
  defineCommand({
    name: 'reminders schedule',
    summary:
      'Show or change the schedule of an account’s reminders. A change of --ladder or --courtesy does not affect reminders that are already scheduled. A common value of --ladder is 3,10,21,35.',
    arguments: [],
    options: {
      account: ACCOUNT,
      ladder: {
        type: 'string',
        value: 'N,N,N,N',
        description:
          'The number of days past due at which each stage is sent: friendly, reminder, firm and final.',
      },
      courtesy: {
        type: 'string',
        value: 'N',
        description:
          'The number of days before the due date at which a courtesy notice is sent. With the value none, no courtesy notice is sent.',
      },
      holidays: {
        type: 'string',
        value: 'D,…',
        description:
          'The holidays as YYYY-MM-DD: no reminder is sent on these days, nor on weekends. The value none removes all holidays.',
      },
      'chase-from': {
        type: 'string',
        value: 'D',
        description:
          'A date as YYYY-MM-DD: no reminder is sent for invoices that fell due before this date. The value none removes the date.',
      },
    },
    async run({ account: id, ...options }, context) {
      const database = await context.database()
      await getAccount(database.read, id)
      const before = await readChasingSettings(database.read, id)
      const change = changeOf(before, options)
      const settings =
        Object.keys(change).length === 0
          ? before
          : await context.performAction((tx, actionContext) =>
              changeChasingSettings(tx, id, change, actionContext),
            )
      const { ladder, holidays, chaseFrom } = settings
      return { json: { ladder, holidays, chase_from: chaseFrom }, text: renderSchedule(settings) }
    },
  }),
]

interface ScheduleOptions {
  readonly ladder: string | undefined
  readonly courtesy: string | undefined
  readonly holidays: string | undefined
  readonly 'chase-from': string | undefined
}

function changeOf(
  { ladder }: ChasingSettings,
  { ladder: stages, courtesy, holidays, 'chase-from': chaseFrom }: ScheduleOptions,
): ChasingSettingsChange {
  const changesLadder = stages !== undefined || courtesy !== undefined
  return {
    ...(changesLadder && {
      ladder: { ...ladder, ...parseStages(stages), ...parseCourtesy(courtesy) },
    }),
    ...(holidays !== undefined && { holidays: parseListOrNone('--holidays', holidays) }),
    ...(chaseFrom !== undefined && { chaseFrom: chaseFrom === 'none' ? null : chaseFrom }),
  }
}

function parseStages(text: string | undefined): Partial<Ladder> {
  if (text === undefined) return {}
  const [friendly, reminder, firm, final, ...others] = splitList(text).map((days) =>
    parseWholeNumber('--ladder', days),
  )
  if (
    friendly === undefined ||
    reminder === undefined ||
    firm === undefined ||
    final === undefined ||
    others.length > 0
  ) {
    throw new UsageError(`--ladder must be four numbers separated by commas, not ${text}`)
  }
  return { friendly, reminder, firm, final }
}

/** In the ladder, the courtesy notice has a negative number of days past due. The option may have a minus sign too. */
function parseCourtesy(text: string | undefined): Partial<Ladder> {
  if (text === undefined) return {}
  return {
    courtesy: text === 'none' ? null : -parseWholeNumber('--courtesy', text.replace(/^-/, '')),
  }
}

function renderSchedule({ ladder, holidays, chaseFrom }: ChasingSettings): string {
  const { courtesy, friendly, reminder, firm, final } = ladder
  return [
    ...(courtesy === null ? [] : [`courtesy: ${-courtesy} days before the due date`]),
    `friendly: ${friendly} days past due`,
    `reminder: ${reminder}`,
    `firm:     ${firm}, after approval`,
    `final:    ${final}, after approval`,
    `holidays: ${holidays.join(', ') || 'none'}`,
    `chased:   ${chaseFrom === null ? 'all invoices' : `invoices that fell due on ${chaseFrom} or later`}`,
  ].join('\n')
}
