// PostgreSQL stopped, crashed and started while payers pay through three backends.
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { copyDatabase } from '../../backend/database/copy.ts'
import { openDatabase } from '../../backend/database/open.ts'
import { call } from '../fixtures/call.ts'
import { SILENT } from '../fixtures/database.ts'
import { startHistory } from '../fixtures/history.ts'
import { createPayer } from '../fixtures/payers.ts'
import { checkPayments } from '../fixtures/payment-checker.ts'
import { copyTemplate, startPostgres } from '../fixtures/postgres.ts'
import { startSystem } from '../fixtures/system.ts'

const PAYERS = 8
const PAYMENTS_EACH = 25

t.setTimeout(240_000)

async function open(t: Test) {
  const directory = t.testdir()
  const host = { testdir: () => directory, teardown: (work: () => unknown) => t.teardown(work) }
  const server = await startPostgres()
  t.teardown(() => server.remove())
  const { url: databaseUrl } = await copyTemplate(server.url('postgres'))
  const system = await startSystem(host, { databaseUrl, backends: 3 })
  const accountId = await system.operator.createAccount()
  const { secret: apiKey } = await system.operator.issueKey(accountId, { rateLimit: 1_000_000 })
  const dispatcher = new Agent({ connections: 32 })
  t.teardown(() => dispatcher.destroy())
  const create = async (path: string, body: object): Promise<string> =>
    (await call(`${system.url}/api/v1/${path}`, { key: apiKey, body, dispatcher })).json.id
  const debtor_id = await create('debtors', { name: 'Globex' })
  const history = startHistory(join(directory, 'history.jsonl'))
  return {
    server,
    system,
    history,
    apiKey,
    invoice: (amount: number) => create('invoices', { debtor_id, currency: 'EUR', amount }),
    payer: (client: string) =>
      createPayer({ client, accountId, apiKey, urls: () => [system.url], history, dispatcher }),
    /** What stands in the database, as a file that the checker can read. */
    async books() {
      const path = join(directory, 'books.db')
      const from = await openDatabase({ url: databaseUrl, log: SILENT, user: 'migrator' })
      const to = await openDatabase({ url: `sqlite:${path}`, log: SILENT, user: 'backend' })
      const progress = { begin() {}, advance() {}, end() {} }
      await copyDatabase({ from, to, sqlite: 'to', progress })
      await to.close()
      await from.close()
      return path
    },
  }
}

t.test('payments are exact over stops and crashes of the database', async (t) => {
  const { server, system, history, apiKey, invoice, payer, books } = await open(t)
  const invoiceId = await invoice(PAYERS * PAYMENTS_EACH * 100)
  let paid = 0
  const paying = Array.from({ length: PAYERS }, async (_, place) => {
    const { pay } = payer(`payer-${place}`)
    for (let n = 0; n < PAYMENTS_EACH; n += 1) {
      const key = `${place}-${n}`
      await pay({ key, reference: key, invoiceId, amount: 100 })
      paid += 1
    }
  })
  const all = PAYERS * PAYMENTS_EACH
  for (const signal of ['SIGINT', 'SIGQUIT', 'SIGINT', 'SIGQUIT'] as const) {
    const until = Math.min(all, paid + all / 8)
    while (paid < until) await delay(5)
    await server.stop(signal)
    await server.start()
  }
  await Promise.all(paying)
  const codes = new Set(history.events.flatMap((e) => (e.type === 'info' ? [e.status] : [])))
  t.same(
    [...codes].filter((status) => status !== undefined && ![502, 503, 504].includes(status)),
    [],
    'only errors that are promised, that ask for another try',
  )
  const { json } = await call(`${system.url}/api/v1/invoices/${invoiceId}`, { key: apiKey })
  t.match(json, { status: 'paid', amount_due: 0 })
  const { violations, figures } = await checkPayments(await books(), history.events)
  t.strictSame(violations, [])
  t.match(figures, { intents: all, acknowledged: all, payments: all, duplicates: 0 })
  t.comment(figures)
})

t.test('a revoked key stays revoked over a crash of the database', async (t) => {
  const { server, system } = await open(t)
  const account = await system.operator.createAccount('Other')
  const { id, secret } = await system.operator.issueKey(account)
  const me = () => call(`${system.url}/api/v1/me`, { key: secret })
  t.equal((await me()).status, 200)
  await system.operator.revokeKey(id)
  await server.stop('SIGQUIT')
  t.ok([401, 503].includes((await me()).status), 'refused, or not decided')
  await server.start()
  for (let n = 0; n < 50; n += 1) {
    const { status } = await me()
    t.not(status, 200)
    if (status === 401) break
    await delay(20)
  }
  t.equal((await me()).status, 401)
})
