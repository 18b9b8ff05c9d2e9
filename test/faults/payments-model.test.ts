import t from 'tap'
import { openTestAccount } from '../fixtures/accounts/test-account.ts'
import type { Model } from '../fixtures/payments/model.ts'
import { checkBooks, type Real } from '../fixtures/payments/model-checks.ts'
import {
  allocateConcurrently,
  createInvoice,
  creditConcurrently,
  endInvoice,
  moveClock,
  pay,
  payInRace,
  retry,
  reverseByHand,
  takeBackByHand,
} from '../fixtures/payments/model-commands.ts'
import { fc } from '../fixtures/properties.ts'

/** `PAYMENT_RUNS=5000 npx tap -t 0 test/faults/payments-model.test.ts` runs thousands of sequences. */
const RUNS = Number(process.env['PAYMENT_RUNS'] ?? 40)

// With this limit, even a busy machine has enough time for every sequence.
t.setTimeout(RUNS > 40 ? 0 : 900_000)

const index = fc.nat(5)
const amount = fc.oneof(fc.integer({ min: 1, max: 5 }), fc.constantFrom(10, 999_999_999_998))
const callers = fc.constantFrom(1, 1, 3)
const status = fc.constantFrom('open' as const, 'open' as const, 'draft' as const)
const commands = fc.commands<Model, Real, false>(
  [
    fc.tuple(status, amount).map((args) => createInvoice(...args)),
    fc
      .tuple(index, fc.constantFrom('void' as const, 'written_off' as const))
      .map((args) => endInvoice(...args)),
    fc.tuple(index, amount, fc.boolean(), callers).map((args) => pay(...args)),
    fc.tuple(index, fc.constantFrom(0, 0, 1)).map((args) => retry(...args)),
    fc.tuple(index, fc.integer({ min: 2, max: 4 })).map((args) => payInRace(...args)),
    fc.tuple(index, amount, callers).map((args) => creditConcurrently(...args)),
    fc.tuple(index, index, amount, callers).map((args) => allocateConcurrently(...args)),
    fc.tuple(index, index).map((args) => takeBackByHand(...args)),
    index.map(reverseByHand),
    fc.constantFrom(-20, -1, 0, 1, 20).map(moveClock),
  ],
  { maxCommands: 40, size: '+2' },
)

t.test('after any sequence of calls, the stored records equal those of the model', async (t) => {
  const testAccount = await openTestAccount(t)
  let keys = 0
  let recorded = 0
  await fc.assert(
    fc.asyncProperty(commands, async (commands) => {
      const { id: debtorId } = await testAccount.createDebtor()
      const model: Model = { invoices: [], payments: [] }
      const real: Real = {
        testAccount,
        debtorId,
        seen: new Map(),
        nextKey: () => `model-${keys++}`,
      }
      await createInvoice('open', 10).run(model, real)
      await createInvoice('open', 10).run(model, real)
      await fc.asyncModelRun(() => ({ model, real }), commands)
      await checkBooks(real, model)
      recorded += model.payments.length
    }),
    { numRuns: RUNS },
  )
  t.comment({ recorded })
  t.ok(recorded > 0)
})
