import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import {
  type Fault,
  failpointKey,
  failpointsEnv,
  hasFired,
  POINTS,
  type Point,
} from '../fixtures/payments/failpoints.ts'
import { type Ledger, openLedger } from '../fixtures/payments/ledger.ts'
import type { PaymentIntent } from '../fixtures/payments/payers.ts'
import { lockDatabase } from '../fixtures/service/database.ts'
import { until } from '../fixtures/service/until.ts'

const CALLERS = [1, 2, 8]

/** From these points on, the payment is recorded, even if the caller gets no response. */
const DURABLE: readonly Point[] = ['after_commit', 'half_response']

// Many processes are started, which takes minutes on a busy machine.
t.setTimeout(900_000)
t.jobs = 3

t.test(
  'a payment is recorded once if the backend is killed at any point of recording it',
  sweep('kill'),
)
t.test(
  'a payment is recorded once if the driver throws at any point of recording it',
  sweep('throw'),
)
t.test(
  'a payment is recorded once if the backend stalls at any point of recording it',
  sweep('stall'),
)

function sweep(fault: Fault) {
  return async (t: Test) => {
    const directory = failpointsDirectory(t)
    const ledger = await openLedger(t, { backendEnv: failpointsEnv(directory) })
    for (const point of POINTS) {
      for (const callers of CALLERS) {
        const key = failpointKey(fault, point, String(callers))
        const invoiceId = await ledger.invoice(1_000)
        const intent = { key, reference: key, invoiceId, amount: 400 }
        const restarted = fault === 'kill' ? ledger.system.startBackend() : undefined
        const replayed = await payConcurrently(ledger, intent, callers)
        t.ok(hasFired(directory, key), `${key} has fired`)
        await restarted
        if (fault !== 'stall') {
          const originals = replayed.filter((isReplay) => !isReplay).length
          t.equal(
            originals,
            DURABLE.includes(point) ? 0 : 1,
            `${key}: responses that are not replays`,
          )
        }
      }
    }
    const { violations, figures } = await ledger.check()
    t.strictSame(violations, [])
    const intents = POINTS.length * CALLERS.length
    matches(t, figures, { intents, acknowledged: intents, payments: intents, duplicates: 0 })
  }
}

t.test(
  'a backend that is killed during a group of payments of one customer has recorded none of them',
  killDuringGroups(),
)
t.test(
  'a backend that is killed during a group of payments of different customers has recorded none of them',
  killDuringGroups('own debtor'),
)

/** If the invoices have no debtor of their own, all payments of a group are made to the same invoice. */
function killDuringGroups(debtor?: 'own debtor') {
  return async (t: Test) => {
    const directory = failpointsDirectory(t)
    const ledger = await openLedger(t, { backendEnv: failpointsEnv(directory) })
    const { system, databasePath } = ledger
    // The first group is interrupted in the middle (two done, one in progress, one not begun; if the debtors differ,
    // all in progress), and the second after its last payment.
    const groups = [
      ['a', 'b', failpointKey('kill', 'after_payment', 'c'), 'd'],
      ['e', 'f', failpointKey('kill', 'before_commit', 'g')],
    ]
    for (const keys of groups) {
      const sharedInvoiceId = await ledger.invoice(1_000)
      const intents: PaymentIntent[] = []
      for (const key of [`alone-${keys[0]}`, ...keys]) {
        const invoiceId =
          debtor === undefined ? sharedInvoiceId : await ledger.invoice(1_000, debtor)
        intents.push({ key, reference: key, invoiceId, amount: 100 })
      }
      const unlock = await lockDatabase(t, databasePath)
      // The first payment waits for the lock, as a group of its own. The others queue behind it, and form one group.
      const paid = []
      for (const intent of intents) {
        paid.push(ledger.payer(intent.key).pay(intent))
        // The backend's own work may wait for the lock too.
        await until(
          async () => (await transactionsWaiting(system.backend)) >= paid.length,
          `${intent.key} waits`,
        )
      }
      const restarted = system.startBackend()
      await unlock()
      const responses = await Promise.all(paid)
      await restarted
      t.ok(
        keys.some((key) => hasFired(directory, key)),
        'the failpoint of the group has fired',
      )
      const replays = responses.filter(({ headers }) => headers['idempotent-replayed'] === 'true')
      t.equal(replays.length, 0, 'no payment of the group had been recorded')
    }
    const { violations, figures } = await ledger.check()
    t.strictSame(violations, [])
    matches(t, figures, { intents: 9, acknowledged: 9, payments: 9, duplicates: 0 })
  }
}

/** Resolves with the number of transactions that wait for the database's single writer. */
async function transactionsWaiting({
  operationsPort,
}: {
  operationsPort: number
}): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${operationsPort}/metrics`)).text()
  const [, waiting] =
    /^receivables_backend_transactions_waiting(?:\{.*\})? (\d+)$/m.exec(metrics) ?? []
  return Number(waiting)
}

function failpointsDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'failpoints-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  return directory
}

/**
 * Sends the payment from several callers at the same time, then repeats it, and sends another body with the same key.
 * For each of the first callers, resolves with whether its response was a replay.
 */
async function payConcurrently(
  ledger: Ledger,
  intent: PaymentIntent,
  callers: number,
): Promise<boolean[]> {
  const responses = await Promise.all(
    Array.from({ length: callers }, (_, n) => ledger.payer(`${intent.key}-${n}`).pay(intent)),
  )
  const late = ledger.payer(`${intent.key}-late`)
  await late.pay(intent)
  await late.pay({ ...intent, amount: intent.amount + 1 })
  return responses.map(({ headers }) => headers['idempotent-replayed'] === 'true')
}
