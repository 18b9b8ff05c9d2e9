// A payment needs two round trips to PostgreSQL: the first locks and reads rows, the second writes and commits.
import t from 'tap'
import { setApplyCredit } from '../../../backend/accounts/apply-credit.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { startRecordingProxy } from '../../fixtures/servers/recording-proxy.ts'
import { startBackend } from '../../fixtures/service/backend.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { newPostgresUrl } from '../../fixtures/service/database-url.ts'

/** Returns the verb of a statement and the name of its table, or of the function that it calls. */
function summaryOf(text: string): string {
  const [verb = ''] = /^\w+/.exec(text) ?? []
  const [, table] = /^(?:insert into|update|select .*? from) "(\w+)"/.exec(text) ?? []
  const [, called] = /^select (\w+)\(/.exec(text) ?? []
  const subject = table ?? called
  return subject === undefined ? verb : `${verb} ${subject}`
}

t.test('a payment to an invoice needs two round trips to PostgreSQL', async (t) => {
  const url = new URL(await newPostgresUrl(t))
  const proxy = await startRecordingProxy(t, Number(url.port))
  url.port = String(proxy.port)
  const database = await openTestDatabase(t, { url: url.href })
  const backend = await startBackend(t, { database })
  const key = await backend.createKey()
  const create = async (path: string, body: object, idempotencyKey: string) => {
    const headers = { 'idempotency-key': idempotencyKey }
    const { status, json } = await backend.call(key, 'POST', `/api/v1/${path}`, { body, headers })
    t.equal(status, 201)
    return String(json['id'])
  }
  const debtorId = await create('debtors', { name: 'Globex' }, 'debtor')
  const invoice = { debtor_id: debtorId, currency: 'EUR', amount: 1000 }
  const invoiceId = await create('invoices', invoice, 'invoice')
  for (const attempt of ['first', 'second']) {
    proxy.takeTransaction()
    await create('payments', { invoice_id: invoiceId, currency: 'EUR', amount: 1 }, attempt)
    t.strictSame(
      proxy.takeTransaction().map((group) => group.map(summaryOf)),
      [
        [
          'begin',
          'select pg_advisory_xact_lock',
          'update debtors',
          'select invoices',
          'select messages',
          'select webhook_endpoints',
        ],
        [
          'update invoices',
          'insert payments',
          'insert payment_allocations',
          'insert idempotency_keys',
          'commit',
        ],
      ],
      `the ${attempt} payment`,
    )
  }
})

// Regression: a payment to a debtor with thousands of open invoices read all their lines, which could be gigabytes.
t.test('a payment that names no invoice does not read the lines of open invoices', async (t) => {
  const url = new URL(await newPostgresUrl(t))
  const proxy = await startRecordingProxy(t, Number(url.port))
  url.port = String(proxy.port)
  const database = await openTestDatabase(t, { url: url.href })
  const testAccount = await openTestAccount(t, {}, { database })
  const { accountId, backend } = testAccount
  await database.transaction((tx) =>
    setApplyCredit(tx, accountId, 'oldest_first', { actor: OPERATOR, now: backend.now }),
  )
  const { debtor_id } = await testAccount.createInvoice()
  proxy.takeTransaction()
  const payment = await testAccount.create('/api/v1/payments', {
    debtor_id,
    currency: 'EUR',
    amount: 1,
  })
  t.equal(payment.allocations.length, 1)
  const statements = proxy.takeTransaction().flat()
  t.equal(statements.filter((text) => text.includes('from "invoices"')).length, 1)
  t.strictSame(
    statements.filter((text) => /select .*(?<!as )"line_items"/.test(text)),
    [],
  )
})
