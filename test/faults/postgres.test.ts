// PostgreSQL is stopped, crashed and restarted while clients record payments through three backends.
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import { openLedger } from '../fixtures/payments/ledger.ts'
import { copyTemplate, startPostgres } from '../fixtures/servers/postgres.ts'
import { call } from '../fixtures/service/call.ts'

const PAYERS = 8
const PAYMENTS_EACH = 25

t.setTimeout(900_000)

async function open(t: Test) {
  const server = await startPostgres()
  t.teardown(() => server.remove())
  const { url: databaseUrl } = await copyTemplate(server.url('postgres'))
  return { server, ...(await openLedger(t, { databaseUrl, backends: 3 })) }
}

t.test(
  'no payment is lost or recorded twice despite stops and crashes of the database',
  async (t) => {
    const { server, system, history, apiKey, invoice, payer, check } = await open(t)
    const invoiceId = await invoice(PAYERS * PAYMENTS_EACH * 100)
    let paid = 0
    const paying = Array.from({ length: PAYERS }, async (_, index) => {
      const { pay } = payer(`payer-${index}`)
      for (let n = 0; n < PAYMENTS_EACH; n += 1) {
        const key = `${index}-${n}`
        await pay({ key, reference: key, invoiceId, amount: 100 })
        paid += 1
      }
    })
    const all = PAYERS * PAYMENTS_EACH
    for (const signal of ['SIGINT', 'SIGQUIT', 'SIGINT', 'SIGQUIT'] as const) {
      const target = Math.min(all, paid + all / 8)
      while (paid < target) await delay(5)
      await server.stop(signal)
      await server.start()
    }
    await Promise.all(paying)
    const statuses = new Set(
      history.events.flatMap((event) => (event.type === 'unknown' ? [event.status] : [])),
    )
    t.strictSame(
      [...statuses].filter((status) => status !== undefined && ![502, 503, 504].includes(status)),
      [],
      'calls failed only with errors that are documented as retryable',
    )
    const { json } = await call(`${system.url}/api/v1/invoices/${invoiceId}`, { key: apiKey })
    matches(t, json, { status: 'paid', amount_due: 0 })
    const { violations, figures } = await check()
    t.strictSame(violations, [])
    matches(t, figures, { intents: all, acknowledged: all, payments: all, duplicates: 0 })
    t.comment(figures)
  },
)

t.test('a revoked key stays revoked after a crash of the database', async (t) => {
  const { server, system } = await open(t)
  const account = await system.operator.createAccount('Other')
  const { id, secret } = await system.operator.issueKey(account)
  const me = () => call(`${system.url}/api/v1/me`, { key: secret })
  t.equal((await me()).status, 200)
  await system.operator.revokeKey(id)
  await server.stop('SIGQUIT')
  t.ok(
    [401, 503].includes((await me()).status),
    'rejected, or unavailable because the key cannot be read',
  )
  await server.start()
  for (let n = 0; n < 50; n += 1) {
    const { status } = await me()
    t.not(status, 200)
    if (status === 401) break
    await delay(20)
  }
  t.equal((await me()).status, 401)
})
