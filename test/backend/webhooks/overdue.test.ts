import t from 'tap'
import { recordOverdueEvents } from '../../../backend/invoices/overdue-events.ts'
import { openWebhooks, type Webhooks } from '../../fixtures/accounts/webhooks.ts'
import { matches } from '../../fixtures/matches.ts'
import { recordLog } from '../../fixtures/recorded-log.ts'
import { SILENT } from '../../fixtures/service/database.ts'

t.test('an invoice becomes overdue once, at midnight in the account’s time zone', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  await webhooks.createEndpoint('https://example.com/hook', ['invoice.overdue'])
  // It is 23:30 on the 21st in Amsterdam.
  testAccount.backend.now = new Date('2026-11-21T22:30:00Z')
  const fields = { issue_date: '2026-11-01', due_date: '2026-11-21' }
  const invoice = await testAccount.createInvoice(fields)
  await testAccount.createInvoice({ ...fields, status: 'draft' })
  await recordOverdue(webhooks)
  t.strictSame(await webhooks.eventTypes(), [], 'not on the due date')
  webhooks.advanceClock(3_600_000)
  await recordOverdue(webhooks)
  await recordOverdue(webhooks)
  t.strictSame(await webhooks.eventTypes(), ['invoice.overdue'])
  const [delivery] = await webhooks.deliveries()
  const { body } = await testAccount.backend.database.read
    .selectFrom('webhook_events')
    .select('body')
    .where('id', '=', delivery?.event_id ?? '')
    .executeTakeFirstOrThrow()
  matches(t, JSON.parse(body).data, {
    object: { id: invoice.id, is_overdue: true, days_past_due: 1 },
    previous: { is_overdue: false, days_past_due: 0 },
  })
})

t.test('a paid invoice does not become overdue', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const invoice = await testAccount.createInvoice({
    issue_date: '2026-11-01',
    due_date: '2026-11-02',
  })
  await testAccount.create('/api/v1/payments', {
    amount: 10_000,
    currency: 'EUR',
    invoice_id: invoice.id,
  })
  await webhooks.createEndpoint('https://example.com/hook')
  await recordOverdue(webhooks)
  t.strictSame(await webhooks.eventTypes(), [])
})

t.test('a new endpoint gets no events about invoices that have long been overdue', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const { id: debtor_id } = await testAccount.createDebtor()
  const fields = { debtor_id, issue_date: '2026-11-01', due_date: '2026-11-02' }
  for (let n = 0; n < 30; n++) await testAccount.createInvoice(fields)
  await recordOverdue(webhooks)
  await webhooks.createEndpoint('https://example.com/hook', ['invoice.overdue'])
  await recordOverdue(webhooks)
  t.strictSame(await webhooks.eventTypes(), [])
  await testAccount.createInvoice(fields)
  await recordOverdue(webhooks)
  t.strictSame(await webhooks.eventTypes(), ['invoice.overdue'])
})

t.test('an account whose time zone is unknown delays no other account', async (t) => {
  // Regression: after a downgrade of Node.js, an account with a recent time zone stopped the events of all accounts.
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const { backend } = testAccount
  await webhooks.createEndpoint('https://example.com/hook', ['invoice.overdue'])
  await testAccount.createInvoice({ issue_date: '2026-11-01', due_date: '2026-11-02' })
  const unknown = await Promise.all([1, 2, 3].map(() => testAccount.otherAccount()))
  const ids = unknown.map(({ accountId }) => accountId)
  await backend.database.transaction((tx) =>
    tx.updateTable('accounts').set({ timezone: 'Mars/Olympus' }).where('id', 'in', ids).execute(),
  )
  const { log, lines } = recordLog<{ account: string; msg: string }>()
  await recordOverdueEvents({ database: backend.database, log }, backend.now)
  t.strictSame(await webhooks.eventTypes(), ['invoice.overdue'])
  t.strictSame(lines.map(({ account }) => account).sort(), ids.sort())
})

function recordOverdue({ testAccount: { backend } }: Webhooks): Promise<void> {
  return recordOverdueEvents({ database: backend.database, log: SILENT }, backend.now)
}
