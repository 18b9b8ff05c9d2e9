import { getAccount } from '../accounts/accounts.ts'
import { OPERATOR } from '../accounts/audit.ts'
import type { Ladder } from '../reminders/planning/ladder.ts'
import {
  type ChasingSettings,
  type ChasingSettingsChange,
  changeChasingSettings,
  readChasingSettings,
} from '../reminders/settings.ts'
import { type Command, defineCommand, splitList, UsageError } from './command.ts'

export const scheduleCommands: readonly Command[] = [
  defineCommand({
    name: 'reminders schedule',
    summary:
      'Show when an account reminds, and change it. What is on its way stays as it is. An ordinary schedule is 3,10,21,35.',
    arguments: [],
    options: {
      account: { type: 'string', required: true, value: 'ID', description: 'The account.' },
      ladder: {
        type: 'string',
        value: 'F,R,F,F',
        description: 'Days past due of friendly, reminder, firm and final.',
      },
      courtesy: {
        type: 'string',
        value: 'N',
        description: 'Days before the due date at which a courtesy goes out, or none.',
      },
      holidays: {
        type: 'string',
        value: 'D,…',
        description:
          'All days, YYYY-MM-DD, in addition to weekends, on which no reminder is sent; or none.',
      },
      'chase-from': {
        type: 'string',
        value: 'D',
        description: 'What fell due before this day is never chased; none: everything is.',
      },
    },
    async run({ account: id, ...wanted }, context) {
      const database = await context.database()
      await getAccount(database.read, id)
      const before = await readChasingSettings(database.read, id)
      const change = changeOf(before, wanted)
      const act = { actor: OPERATOR, now: context.now }
      const settings =
        Object.keys(change).length === 0
          ? before
          : await database.transaction((tx) => changeChasingSettings(tx, id, change, act))
      const { ladder, holidays, chaseFrom } = settings
      return { json: { ladder, holidays, chase_from: chaseFrom }, text: renderSchedule(settings) }
    },
  }),
]

interface Wanted {
  readonly ladder: string | undefined
  readonly courtesy: string | undefined
  readonly holidays: string | undefined
  readonly 'chase-from': string | undefined
}

function changeOf(
  { ladder }: ChasingSettings,
  { ladder: stages, courtesy, holidays, 'chase-from': chaseFrom }: Wanted,
): ChasingSettingsChange {
  const isLadder = stages !== undefined || courtesy !== undefined
  return {
    ...(isLadder && { ladder: { ...ladder, ...parseStages(stages), ...parseCourtesy(courtesy) } }),
    ...(holidays !== undefined && { holidays: holidays === 'none' ? [] : splitList(holidays) }),
    ...(chaseFrom !== undefined && { chaseFrom: chaseFrom === 'none' ? null : chaseFrom }),
  }
}

function parseStages(text: string | undefined): Partial<Ladder> {
  if (text === undefined) return {}
  const [friendly, reminder, firm, final, ...others] = splitList(text).map(Number)
  if (
    friendly === undefined ||
    reminder === undefined ||
    firm === undefined ||
    final === undefined ||
    others.length > 0
  ) {
    throw new UsageError(`--ladder is four numbers with commas between, not ${text}`)
  }
  return { friendly, reminder, firm, final }
}

function parseCourtesy(text: string | undefined): Partial<Ladder> {
  if (text === undefined) return {}
  return { courtesy: text === 'none' ? null : -Math.abs(Number(text)) }
}

function renderSchedule({ ladder, holidays, chaseFrom }: ChasingSettings): string {
  const { courtesy, friendly, reminder, firm, final } = ladder
  return [
    ...(courtesy === null ? [] : [`courtesy: ${-courtesy} days before the due date`]),
    `friendly: ${friendly} days past due`,
    `reminder: ${reminder}`,
    `firm:     ${firm}, once approved`,
    `final:    ${final}, once approved`,
    `holidays: ${holidays.join(', ') || 'none'}`,
    `chased:   ${chaseFrom === null ? 'everything' : `what fell due on ${chaseFrom} or later`}`,
  ].join('\n')
}
