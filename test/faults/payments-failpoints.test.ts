import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type Fault,
  failpointKey,
  failpointsEnv,
  hasFired,
  POINTS,
  type Point,
} from '../fixtures/failpoints.ts'
import { type Ledger, openLedger } from '../fixtures/ledger.ts'
import type { Money } from '../fixtures/payers.ts'

const CALLERS = [1, 2, 8]

/** Whatever becomes of the first call, its payment stands from this point on. */
const DURABLE: readonly Point[] = ['after_commit', 'half_answer']

// Processes start many times: on a busy machine that takes minutes.
t.setTimeout(300_000)
t.jobs = 3

t.test(
  'a backend killed at any point of a payment has recorded it once or not at all',
  sweep('kill'),
)
t.test('a backend that fails at any point of a payment has, too', sweep('throw'))
t.test('a backend that stalls at any point of a payment has, too', sweep('stall'))

function sweep(fault: Fault) {
  return async (t: Test) => {
    const directory = mkdtempSync(join(tmpdir(), 'failpoints-'))
    t.teardown(() => rmSync(directory, { recursive: true }))
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
          t.equal(originals, DURABLE.includes(point) ? 0 : 1, `${key}: answers that are no replay`)
        }
      }
    }
    const { violations, figures } = await ledger.check()
    t.strictSame(violations, [])
    const intents = POINTS.length * CALLERS.length
    t.match(figures, { intents, acknowledged: intents, payments: intents, duplicates: 0 })
  }
}

/** Resolves with which of the acknowledgements were replays; then come a repeat and another body. */
async function payAtOnce(ledger: Ledger, money: Money, callers: number): Promise<boolean[]> {
  const answers = await Promise.all(
    Array.from({ length: callers }, (_, n) => ledger.payer(`${money.key}-${n}`).pay(money)),
  )
  const late = ledger.payer(`${money.key}-late`)
  await late.pay(money)
  await late.pay({ ...money, amount: money.amount + 1 })
  return answers.map(({ headers }) => headers['idempotent-replayed'] === 'true')
}
