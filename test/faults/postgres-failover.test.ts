/**
 * The primary is lost under payers through two gateways and two backends, and its synchronous standby
 * promoted. Promised: nothing that was acknowledged is lost, nothing is recorded twice, writes are back
 * within 5 s of the promotion, and no backend continues with the former primary, also when it runs again: a
 * key that was revoked since stays refused. The time is asserted as promised: it is fifteen times what
 * was seen, and a connection that is not ended takes longer to be noticed.
 */
import t, { type Test } from 'tap'
import { openLedger } from '../fixtures/payments/ledger.ts'
import { type PostgresPair, startPostgresPair } from '../fixtures/servers/postgres-pair.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { connect } from '../fixtures/service/two-backends.ts'
import { until } from '../fixtures/service/until.ts'

const PAYERS = 8
const WRITES_BACK_MS_MAX = 5_000

t.setTimeout(300_000)

async function failOver(
  t: Test,
  lose: (pair: PostgresPair) => unknown,
  restore: (pair: PostgresPair) => unknown,
) {
  const pair = await startPostgresPair(t)
  const redis = await startRedis(t)
  const options = { databaseUrl: pair.url, backends: 2, gateways: 2, redisUrl: redis.url }
  const ledger = await openLedger(t, options)
  const { system } = ledger
  const invoiceId = await ledger.invoice(900_000_000)
  const doomed = await system.operator.issueKey(await system.operator.createAccount('Other'))
  const me = () =>
    Promise.all(
      system.gateways.map(async ({ url }) => {
        const { status } = await call(`${url}/api/v1/me`, { key: doomed.secret })
        return status
      }),
    )
  t.strictSame(await me(), [200, 200])

  // So many at once that each backend keeps idle connections, which no statement's failure would end.
  const burst = ledger.payer('burst')
  const at = Array.from({ length: 5 * PAYERS }, (_, n) => `burst-${n}`)
  await Promise.all(at.map((key) => burst.pay({ key, reference: key, invoiceId, amount: 100 })))

  let paid = 0
  let isOver = false
  const paying = Array.from({ length: PAYERS }, async (_, place) => {
    const { pay } = ledger.payer(`payer-${place}`)
    for (let n = 0; !isOver; n++) {
      const key = `${place}-${n}`
      await pay({ key, reference: key, invoiceId, amount: 100 })
      paid++
    }
  })
  const morePaid = async (what: string) => {
    const before = paid
    await until(() => paid >= before + 4 * PAYERS, what)
  }
  await morePaid('payments flow')

  await lose(pair)
  const lostAt = performance.now()
  await pair.standby.promote()
  const promotedAt = performance.now()
  const before = paid
  await until(() => paid > before, 'a payment is recorded', WRITES_BACK_MS_MAX)
  const writesBackMs = performance.now() - promotedAt
  await morePaid('payments flow again')
  // Over a connection of its own, which also follows the primary.
  await until(
    () =>
      system.operator.revokeKey(doomed.id).then(
        () => true,
        () => false,
      ),
    'the key is revoked',
  )

  await restore(pair)
  const former = await connect(t, pair.at(pair.primary))
  const sessions = async () => {
    const { rows } = await former.query(
      // A commit that waits for the standby does so for ever, also when the backend has closed its connection.
      `select count(*)::int as n from pg_stat_activity
        where application_name = 'receivables backend' and wait_event is distinct from 'SyncRep'`,
    )
    return rows[0].n
  }
  await until(async () => (await sessions()) === 0, 'no backend has a session there', 20_000)
  for (let n = 0; n < 100; n++) {
    t.notOk((await me()).includes(200), 'a revoked key stays refused')
  }
  t.strictSame(await me(), [401, 401])
  // One that starts while both accept writes chooses the right one.
  await system.backends[1]?.stop('SIGKILL')
  await system.startBackend(1)
  await system.backends[0]?.stop('SIGTERM')
  await until(async () => (await me()).every((status) => status !== 503), 'decided again')
  t.strictSame(await me(), [401, 401])
  await system.startBackend(0)
  isOver = true
  await Promise.all(paying)

  const { violations, figures } = await ledger.check()
  t.strictSame(violations, [])
  t.equal(figures.acknowledged, figures.intents)
  t.equal(figures.payments, figures.intents)
  t.comment(
    `promoted after ${(promotedAt - lostAt).toFixed(0)} ms, writes back ${writesBackMs.toFixed(0)} ms later; ${JSON.stringify(figures)}`,
  )
}

// Each starts nine processes: the hardest runs always.
const skip = process.env['FAILOVERS'] === 'all' ? false : 'FAILOVERS=all runs it'

t.test('killed, and started again beside the new one', { skip }, (t) =>
  failOver(
    t,
    ({ primary }) => primary.signalAll('SIGKILL'),
    async ({ primary }) => {
      await primary.stop()
      await primary.start()
    },
  ),
)

t.test('frozen, and going on beside the new one', (t) =>
  failOver(
    t,
    ({ primary }) => primary.signalAll('SIGSTOP'),
    ({ primary }) => primary.signalAll('SIGCONT'),
  ),
)

t.test('cut off, and connected again', { skip }, (t) =>
  failOver(
    t,
    ({ link }) => link.cut(),
    ({ link }) => link.heal(),
  ),
)
