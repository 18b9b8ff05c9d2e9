import t from 'tap'
import { fc } from '../fixtures/properties.ts'
import { createScenario } from '../fixtures/reminders/scenario.ts'
import type { Step } from '../fixtures/reminders/steps.ts'
import { openTestDatabase } from '../fixtures/service/database.ts'

/** `REMINDER_RUNS=5000 npx tap test/faults/reminders-model.test.ts` runs thousands of sequences. */
const RUNS = Number(process.env['REMINDER_RUNS'] ?? 40)
const START = new Date('2026-11-23T09:00:00.000Z')

const which = fc.nat(3)
const on = fc.boolean()

const step: fc.Arbitrary<Step> = fc.oneof(
  // Negative hours set the clock back.
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('wait'),
      hours: fc.constantFrom(-25, -1, 1, 2, 6, 24, 50, 120, 170),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('plan') }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('send') }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('approve') }) },
  fc.record({ do: fc.constantFrom('reject', 'withdraw', 'restart', 'reverse') }),
  { weight: 2, arbitrary: fc.record({ do: fc.constant('crash'), isReceived: on }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('server'),
      state: fc.constantFrom(
        'working',
        'working',
        'unavailable',
        'soft rejection',
        'hard rejection',
        'lost after receipt',
        'lost before receipt',
      ),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pay'), which, inFull: on }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('pay on account'),
      which,
      amount: fc.constantFrom(100, 1000, 1100),
      overpays: on,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('allocate', 'take back'), which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('credit note'), which, inFull: on }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom('dispute', 'resolve', 'pause', 'resume'), which }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('kill switch'), on, everywhere: on }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('suspend'), on }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('apply credit'), on }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('change due date'),
      which,
      days: fc.constantFrom(-20, -4, 3, 12),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('close'), which }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom(
        ...(['archive', 'restore', 'change address', 'clear address'] as const),
        ...(['unsubscribe', 'subscribe', 'reply'] as const),
        ...(['delivery', 'hard bounce', 'soft bounce'] as const),
      ),
      which,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('reword', 'change bank account') }) },
)

/** Sequences that once found a bug. */
const FAILED_BEFORE: Step[][] = [
  // The clock was set back after a crash during a hand-over, before its outcome was marked as unknown.
  [
    { do: 'plan' },
    { do: 'crash', isReceived: false },
    { do: 'wait', hours: -25 },
    { do: 'restart' },
    { do: 'suspend', on: true },
    { do: 'send' },
  ],
  // The suspension of an account ended before a planning run had recorded it. Meanwhile, a person's action caused
  // invoices to be planned again.
  [
    { do: 'plan' },
    { do: 'pay', which: 1, inFull: false },
    { do: 'suspend', on: true },
    { do: 'take back', which: 1 },
  ],
  // A credit note closed an invoice of a customer whose next reminder the kill switch blocked.
  [
    { do: 'plan' },
    { do: 'kill switch', on: true, everywhere: true },
    { do: 'credit note', which: 1, inFull: true },
  ],
  // The clock was set back by a day while a crashed process seemed to be sending, so the customer's next reminder
  // waited for that day.
  [
    { do: 'dispute', which: 0 },
    { do: 'wait', hours: 50 },
    { do: 'plan' },
    { do: 'crash', isReceived: false },
    { do: 'credit note', which: 1, inFull: true },
    { do: 'wait', hours: -25 },
  ],
  // A mail server reported a temporary failure after the next reminder, so the earlier reminder was sent again.
  [
    { do: 'plan' },
    { do: 'send' },
    { do: 'wait', hours: 170 },
    { do: 'plan' },
    { do: 'send' },
    { do: 'soft bounce', which: 0 },
  ],
  // A customer whose address bounced replied. Clearing the bounce resumed the reminders.
  [
    { do: 'plan' },
    { do: 'send' },
    { do: 'hard bounce', which: 0 },
    { do: 'reply', which: 0 },
    { do: 'clear address', which: 0 },
    { do: 'wait', hours: 170 },
    { do: 'plan' },
    { do: 'send' },
  ],
  // The due date was changed after a crash during a hand-over. The retry still named the former date.
  [
    { do: 'plan' },
    { do: 'crash', isReceived: false },
    { do: 'change due date', which: 0, days: 3 },
  ],
  // The clock was set back by a day after a crash, so the customer got another reminder on the day of the crash.
  [
    { do: 'plan' },
    { do: 'wait', hours: 24 },
    { do: 'change due date', which: 0, days: -20 },
    { do: 'crash', isReceived: false },
    { do: 'wait', hours: -25 },
  ],
]

t.test(
  'whatever happens, no message is sent against a safety rail and every open invoice is chased',
  { timeout: 0 },
  async (t) => {
    const database = await openTestDatabase(t)
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), async (steps) => {
        const scenario = await createScenario(database, START)
        for (const one of steps) await scenario.perform(one)
        await scenario.checkEveryoneIsChased()
      }),
      { numRuns: RUNS + FAILED_BEFORE.length, examples: FAILED_BEFORE.map((steps) => [steps]) },
    )
    t.pass(`${RUNS} sequences`)
  },
)
