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
import type { Money } from '../fixtures/payments/payers.ts'
import { lockDatabase } from '../fixtures/service/database.ts'
import { until } from '../fixtures/service/until.ts'

const CALLERS = [1, 2, 8]

/** From these points on, the payment is recorded, even if the caller gets no response. */
const DURABLE: readonly Point[] = ['after_commit', 'half_answer']

// Processes start many times: on a busy machine that takes minutes.
t.setTimeout(300_000)
t.jobs = 3

t.test(
  'a backend that is killed at any point of a payment has recorded it once or not at all',
  sweep('kill'),
)
t.test('so has a backend that fails at any point of a payment', sweep('throw'))
t.test('so has a backend that stalls at any point of a payment', sweep('stall'))

function sweep(fault: Fault) {
  return async (t: Test) => {
    const directory = failpointsDirectory(t)
    const ledger = await openLedger(t, { backendEnv: failpointsEnv(directory) })
    for (const point of POINTS) {
      for (const callers of CALLERS) {
        const key = failpointKey(fault, point, String(callers))
        const invoiceId = await ledger.invoice(1_000)
        const money = { key, reference: key, invoiceId, amount: 400 }
        const restarted = fault === 'kill' ? ledger.system.startBackend() : undefined
        const replayed = await payAtOnce(ledger, money, callers)
        t.ok(hasFired(directory, key), `${key} happened`)
        await restarted
        if (fault !== 'stall') {
          const originals = replayed.filter((is) => !is).length
          t.equal(originals, DURABLE.includes(point) ? 0 : 1, `${key}: responses but replays`)
        }
      }
    }
    const { violations, figures } = await ledger.check()
    t.strictSame(violations, [])
    const intents = POINTS.length * CALLERS.length
    matches(t, figures, { intents, acknowledged: intents, payments: intents, duplicates: 0 })
  }
}

t.test('a backend killed within a group of payments has recorded none of it', async (t) => {
  const directory = failpointsDirectory(t)
  const ledger = await openLedger(t, { backendEnv: failpointsEnv(directory) })
  const { system, databasePath } = ledger
  // In the middle of the group (two done, one in progress, one not begun), and after its last payment.
  const groups = [
    ['a', 'b', failpointKey('kill', 'after_payment', 'c'), 'd'],
    ['e', 'f', failpointKey('kill', 'before_commit', 'g')],
  ]
  for (const keys of groups) {
    const invoiceId = await ledger.invoice(1_000)
    const pay = (key: string) =>
      ledger.payer(key).pay({ key, reference: key, invoiceId, amount: 100 })
    const unlock = await lockDatabase(t, databasePath)
    // The first payment is a group by itself, which waits for the lock; the others queue behind it as one group.
    const paid = []
    for (const key of [`alone-${keys[0]}`, ...keys]) {
      paid.push(pay(key))
      await until(async () => (await waitingIn(system.backend)) === paid.length, `${key} waits`)
    }
    const restarted = system.startBackend()
    await unlock()
    const responses = await Promise.all(paid)
    await restarted
    t.ok(keys.some((key) => hasFired(directory, key)))
    const replays = responses.filter(({ headers }) => headers['idempotent-replayed'] === 'true')
    t.equal(replays.length, 0, 'nothing of the group was recorded')
  }
  const { violations, figures } = await ledger.check()
  t.strictSame(violations, [])
  matches(t, figures, { intents: 9, acknowledged: 9, payments: 9, duplicates: 0 })
})

/** The number of transactions that wait for the writer. */
async function waitingIn({ operationsPort }: { operationsPort: number }): Promise<number> {
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

/** Resolves with whether each acknowledgement was a replay. Then sends a repeat and another body. */
async function payAtOnce(ledger: Ledger, money: Money, callers: number): Promise<boolean[]> {
  const responses = await Promise.all(
    Array.from({ length: callers }, (_, n) => ledger.payer(`${money.key}-${n}`).pay(money)),
  )
  const late = ledger.payer(`${money.key}-late`)
  await late.pay(money)
  await late.pay({ ...money, amount: money.amount + 1 })
  return responses.map(({ headers }) => headers['idempotent-replayed'] === 'true')
}
