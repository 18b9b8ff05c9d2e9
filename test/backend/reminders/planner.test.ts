import t from 'tap'
import { checkLadder, DEFAULT_LADDER } from '../../../backend/reminders/planning/ladder.ts'
import {
  type DebtorToPlan,
  type InvoiceToPlan,
  planDebtor,
} from '../../../backend/reminders/planning/planner.ts'
import { createWorkingTime } from '../../../backend/reminders/planning/working-time.ts'
import { matches } from '../../fixtures/matches.ts'

/** Noon in Amsterdam on a Tuesday. */
const NOON = new Date('2026-11-24T11:00:00.000Z')

function debtorIn(overrides: Partial<DebtorToPlan> = {}): DebtorToPlan {
  return {
    ladder: DEFAULT_LADDER,
    workingTime: createWorkingTime('Europe/Amsterdam', []),
    chaseFrom: null,
    refusal: undefined,
    lastSentOn: null,
    hasScheduledMessage: false,
    invoices: [],
    ...overrides,
  }
}

let invoiceCount = 0

function invoiceIn(dueOn: string, overrides: Partial<InvoiceToPlan> = {}): InvoiceToPlan {
  invoiceCount++
  return {
    id: `inv_${invoiceCount}`,
    due_date: dueOn,
    chasing_status: 'active',
    chasing_stage: null,
    chasing_next_stage: null,
    chasing_next_action_at: null,
    chasing_last_message_at: null,
    chasing_blocked_reason: null,
    sentOrPlannedStages: [],
    hasWaitingMessage: false,
    ...overrides,
  }
}

/** Returns the fields of an invoice after reminders of the `sentOrPlannedStages`, the last one on `lastOn`. */
const fieldsAfter = (
  sentOrPlannedStages: InvoiceToPlan['sentOrPlannedStages'],
  lastOn: string,
  chasing_stage = sentOrPlannedStages.at(-1),
): Partial<InvoiceToPlan> => ({
  sentOrPlannedStages,
  chasing_stage: chasing_stage === 'courtesy' ? null : (chasing_stage ?? null),
  chasing_last_message_at: `${lastOn}T09:00:00.000Z`,
})

const stagesOf = (debtor: DebtorToPlan, now = NOON) =>
  planDebtor(debtor, now).messages.map(
    ({ stage, invoices: covered }) => `${stage} of ${covered.length}`,
  )

t.test('a stage is due some days after the due date, on a business day', async (t) => {
  const plan = (dueOn: string, now = NOON) => {
    const invoice = invoiceIn(dueOn)
    const { messages, planAgainAt } = planDebtor(debtorIn({ invoices: [invoice] }), now)
    return messages.length === 1 ? 'now' : planAgainAt?.toISOString()
  }
  t.equal(plan('2026-11-21'), 'now')
  t.equal(plan('2026-11-22'), '2026-11-25T07:00:00.000Z', '08:00 in Amsterdam')
  t.equal(plan('2026-11-25'), '2026-11-30T07:00:00.000Z', 'Saturday is no business day')
  t.equal(plan('2026-11-01', new Date('2026-11-24T17:00:00.000Z')), '2026-11-25T07:00:00.000Z')
  t.equal(plan('2026-11-01', new Date('2026-11-24T06:59:00.000Z')), '2026-11-24T07:00:00.000Z')
})

t.test('holidays and the debtor’s time zone determine the business days', async (t) => {
  const workingTime = createWorkingTime('America/New_York', [
    '2026-11-25',
    '2026-11-26',
    '2026-11-27',
  ])
  const debtor = debtorIn({ workingTime, invoices: [invoiceIn('2026-11-22')] })
  t.equal(planDebtor(debtor, NOON).planAgainAt?.toISOString(), '2026-11-30T13:00:00.000Z')
  const closed = createWorkingTime('UTC', everyDayUntil('2037-12-31'))
  const never = planDebtor(
    debtorIn({ workingTime: closed, invoices: [invoiceIn('2026-11-01')] }),
    NOON,
  )
  matches(t, never, { messages: [], planAgainAt: null })
})

function everyDayUntil(last: string): string[] {
  const days: string[] = []
  for (let at = NOON.getTime(); ; at += 86_400_000) {
    const day = new Date(at).toISOString().slice(0, 10)
    if (day > last) return days
    days.push(day)
  }
}

t.test('a late planner plans only the next stage, five days after the previous one', async (t) => {
  const longAgo = '2026-01-05'
  t.strictSame(stagesOf(debtorIn({ invoices: [invoiceIn(longAgo)] })), ['friendly of 1'])
  const after = (lastOn: string) =>
    stagesOf(debtorIn({ invoices: [invoiceIn(longAgo, fieldsAfter(['friendly'], lastOn))] }))
  t.strictSame(after('2026-11-20'), [])
  t.strictSame(after('2026-11-19'), ['reminder of 1'])
  const allSent = fieldsAfter(['friendly', 'reminder', 'firm', 'final'], '2026-03-02')
  t.strictSame(stagesOf(debtorIn({ invoices: [invoiceIn(longAgo, allSent)] })), [])
})

t.test('one message covers all due invoices; firm and final reminders are separate', async (t) => {
  const due = [
    invoiceIn('2026-11-20'),
    invoiceIn('2026-11-12', fieldsAfter(['friendly'], '2026-11-16')),
    invoiceIn('2026-10-20', fieldsAfter(['friendly', 'reminder'], '2026-11-16')),
    invoiceIn('2026-10-01', fieldsAfter(['friendly', 'reminder', 'firm'], '2026-11-16')),
    invoiceIn('2026-12-24'),
  ]
  t.strictSame(stagesOf(debtorIn({ invoices: due })), ['final of 1', 'firm of 1', 'reminder of 2'])
  t.strictSame(
    stagesOf(debtorIn({ invoices: due, hasScheduledMessage: true })),
    ['final of 1', 'firm of 1'],
    'a person can approve these while another message is scheduled',
  )
  const [, , common] = planDebtor(debtorIn({ invoices: due }), NOON).messages
  t.strictSame(
    common?.invoices.map(({ stage }) => stage).sort(),
    ['friendly', 'reminder'],
    'each invoice has its own stage, so that none is skipped',
  )
})

t.test(
  'a debtor gets at most one message a day, and the next one on the following day',
  async (t) => {
    const debtor = debtorIn({ invoices: [invoiceIn('2026-11-20')], lastSentOn: '2026-11-24' })
    matches(t, planDebtor(debtor, NOON), {
      messages: [],
      planAgainAt: new Date('2026-11-25T07:00:00.000Z'),
    })
    t.strictSame(stagesOf({ ...debtor, lastSentOn: '2026-11-23' }), ['friendly of 1'])
    t.strictSame(stagesOf({ ...debtor, lastSentOn: null, hasScheduledMessage: true }), [])
  },
)

t.test('a message covers at most a hundred invoices, the oldest ones', async (t) => {
  const many = Array.from({ length: 120 }, (_, n) => invoiceIn(`2026-${n < 20 ? '09' : '10'}-10`))
  const { messages } = planDebtor(debtorIn({ invoices: many }), NOON)
  t.equal(messages[0]?.invoices.length, 100)
  t.ok(
    many.slice(0, 20).every(({ id }) => messages[0]?.invoices.some((covered) => covered.id === id)),
  )
  const refusal = { reason: 'kill_switch', detail: 'stopped' } as const
  const blocked = planDebtor(debtorIn({ invoices: many, refusal }), NOON).messages
  t.strictSame(
    blocked.map(({ invoices }) => invoices.length),
    [many.length],
    'a blocked message, which is only logged, covers all',
  )
})

t.test('invoices that fell due before chase_from are not chased', async (t) => {
  const old = invoiceIn('2026-10-31')
  const invoices = [old, invoiceIn('2026-11-01')]
  const { messages, invoices: fields } = planDebtor(
    debtorIn({ chaseFrom: '2026-11-01', invoices }),
    NOON,
  )
  t.equal(messages[0]?.invoices.length, 1)
  matches(t, fields.get(old.id), {
    chasing_next_stage: null,
    chasing_next_action_at: null,
    chasing_blocked_reason: 'before_chase_from',
  })
})

t.test('a courtesy reminder is sent by the due date or not at all', async (t) => {
  const ladder = { ...DEFAULT_LADDER, courtesy: -3 }
  t.strictSame(stagesOf(debtorIn({ ladder, invoices: [invoiceIn('2026-11-24')] })), [
    'courtesy of 1',
  ])
  t.strictSame(stagesOf(debtorIn({ ladder, invoices: [invoiceIn('2026-11-27')] })), [
    'courtesy of 1',
  ])
  t.strictSame(stagesOf(debtorIn({ ladder, invoices: [invoiceIn('2026-11-23')] })), [])
  const after = invoiceIn('2026-11-19', fieldsAfter(['courtesy'], '2026-11-16'))
  t.strictSame(stagesOf(debtorIn({ ladder, invoices: [after] })), ['friendly of 1'])
})

t.test('a paused invoice is planned when its pause ends, and not earlier', async (t) => {
  const pausedUntil = (until: Date) =>
    planDebtor(
      debtorIn({
        invoices: [
          invoiceIn('2026-11-20', {
            chasing_status: 'paused',
            chasing_next_action_at: until.toISOString(),
          }),
        ],
      }),
      NOON,
    )
  const later = new Date(NOON.getTime() + 1)
  matches(t, pausedUntil(later), { messages: [], planAgainAt: later })
  matches(t, pausedUntil(NOON), { messages: [{ stage: 'friendly' }], planAgainAt: null })
})

t.test('an invoice shows since when its next reminder has been due', async (t) => {
  const chasing_next_action_at = '2026-11-23T07:00:00.000Z'
  const invoice = invoiceIn('2026-11-20', { chasing_next_action_at })
  const { invoices } = planDebtor(debtorIn({ invoices: [invoice] }), NOON)
  matches(t, invoices.get(invoice.id), { chasing_next_action_at })
})

t.test('paused, stopped and disputed invoices are not chased', async (t) => {
  const states: Partial<InvoiceToPlan>[] = [
    { chasing_status: 'stopped' },
    { chasing_status: 'paused', chasing_blocked_reason: 'disputed' },
    { chasing_status: 'paused', chasing_next_action_at: '2026-11-25T10:00:00.000Z' },
    { hasWaitingMessage: true, sentOrPlannedStages: ['friendly'] },
  ]
  const blocked = states.map((state) => invoiceIn('2026-11-01', state))
  const { messages, planAgainAt } = planDebtor(debtorIn({ invoices: blocked }), NOON)
  t.strictSame(messages, [])
  t.equal(planAgainAt?.toISOString(), '2026-11-25T10:00:00.000Z', 'when the pause ends')
})

t.test('an invoice that reopens continues at the stage it had reached', async (t) => {
  const reopened = invoiceIn('2026-10-01', fieldsAfter([], '2026-11-02', 'firm'))
  t.strictSame(stagesOf(debtorIn({ invoices: [reopened] })), ['firm of 1'])
})

t.test('a blocked reminder is logged once', async (t) => {
  const refusal = { reason: 'no_contact', detail: 'the customer has no e-mail address' } as const
  const debtor = debtorIn({ refusal, invoices: [invoiceIn('2026-11-19')] })
  t.strictSame(stagesOf(debtor), ['friendly of 1'])
  const logged = invoiceIn('2026-11-19', { chasing_blocked_reason: 'no_contact' })
  t.strictSame(stagesOf({ ...debtor, invoices: [logged] }), [])
  t.strictSame(stagesOf({ ...debtor, refusal: undefined, invoices: [logged] }), ['friendly of 1'])
})

t.test('an invoice whose reminder is scheduled is not planned again', async (t) => {
  const invoice = invoiceIn('2026-11-19')
  const plan = planDebtor(debtorIn({ invoices: [invoice] }), NOON)
  const planned = {
    ...invoice,
    ...plan.invoices.get(invoice.id),
    sentOrPlannedStages: ['friendly'] as const,
    hasWaitingMessage: true,
  }
  t.strictSame(stagesOf(debtorIn({ invoices: [planned], hasScheduledMessage: true })), [])
})

t.test('the stages of a ladder are a whole number of days apart, at least five', async (t) => {
  t.strictSame(checkLadder(DEFAULT_LADDER), DEFAULT_LADDER)
  const faults = (change: object) => {
    try {
      checkLadder({ ...DEFAULT_LADDER, ...change })
      return []
    } catch (error) {
      return Object(error).members.errors.map(({ pointer }: { pointer: string }) => pointer)
    }
  }
  t.strictSame(faults({ reminder: 7 }), ['/ladder/reminder'], 'day 7 is too soon after day 3')
  t.strictSame(faults({ reminder: 8 }), [])
  t.strictSame(faults({ courtesy: -1 }), ['/ladder/friendly'])
  t.strictSame(faults({ firm: 11, final: 15 }), ['/ladder/firm', '/ladder/final'])
  t.strictSame(faults({ friendly: 0, final: 400 }), ['/ladder/friendly', '/ladder/final'])
  t.strictSame(faults({ courtesy: 3 }), ['/ladder/courtesy'])
  t.strictSame(faults({ firm: 20.5 }), ['/ladder/firm'])
})

t.test(
  'the send window begins at eight in local time, before and after clocks change',
  async (t) => {
    const opens = (timezone: string, day: string) =>
      createWorkingTime(timezone, [])
        .firstSlot(day, new Date(`${day}T00:00:00Z`))
        ?.toISOString()
    t.equal(opens('Europe/Amsterdam', '2026-03-30'), '2026-03-30T06:00:00.000Z')
    t.equal(opens('Europe/Amsterdam', '2026-03-27'), '2026-03-27T07:00:00.000Z')
    t.equal(opens('Asia/Kathmandu', '2026-11-24'), '2026-11-24T02:15:00.000Z')
    t.equal(opens('America/New_York', '2026-11-02'), '2026-11-02T13:00:00.000Z')
  },
)
