// How SQLite finds messages, invoices of a customer, and entries of the audit log. Its plan does not depend on the
// rows, because it has no statistics.
import { join } from 'node:path'
import { type CompiledQuery, sql } from 'kysely'
import t, { type Test } from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { type AuditFilters, listAudit, OPERATOR } from '../../../backend/accounts/audit.ts'
import { kyselyOnConnection } from '../../../backend/database/sqlite/kysely.ts'
import type { Tables, Transaction } from '../../../backend/database/tables.ts'
import { createDebtor } from '../../../backend/debtors/debtors.ts'
import { selectDebtorsWithUnfoldedTerms } from '../../../backend/debtors/ledger-totals.ts'
import { planTakeBack } from '../../../backend/import/take-back-plan.ts'
import { hasResumableInvoices } from '../../../backend/invoices/actions.ts'
import { createInvoice, listOpenInvoices } from '../../../backend/invoices/invoices.ts'
import {
  countInvoices,
  INVOICE_VIEWS,
  type InvoiceSearch,
  type InvoiceView,
  searchInvoices,
} from '../../../backend/invoices/search-invoices.ts'
import { stopMessagesTo } from '../../../backend/messages/cancel-messages.ts'
import { listMessages } from '../../../backend/messages/messages.ts'
import { measureQueues } from '../../../backend/metrics.ts'
import { stopRemindersCoveredByMoneyOnAccount } from '../../../backend/reminders/planning/stop-covered-reminders.ts'
import { previewReminders } from '../../../backend/reminders/preview.ts'
import { createMetrics } from '../../../shared/process/metrics.ts'
import { plainDebtor, plainInvoice } from '../../fixtures/accounts/plain-records.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

const NOW = new Date('2026-11-21T10:15:00.000Z')

/** Creates a customer with an overdue invoice. `planOf` resolves with SQLite's steps that find rows of the table. */
async function openPlanner(t: Test) {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const { read, transaction } = await openTestDatabase(t, { url })
  const debtor = await transaction(async (tx) => {
    const { id, timezone } = await createAccount(
      tx,
      { name: 'Acme Ltd', timezone: 'Europe/Amsterdam' },
      { actor: OPERATOR, now: NOW },
    )
    const owner = { accountId: id, isDemo: false, timezone, paymentTermsDays: 30 }
    const row = await createDebtor(tx, owner, plainDebtor(), NOW)
    await createInvoice(tx, owner, plainInvoice({ debtor: row, dueDate: '2026-11-01' }), NOW)
    return row
  })
  async function planOf(
    work: (tx: Transaction) => Promise<unknown>,
    table = 'messages',
  ): Promise<string[]> {
    const texts: string[] = []
    const recording = kyselyOnConnection<Tables>({
      executeQuery<R>(query: CompiledQuery) {
        texts.push(query.sql)
        return read.executeQuery<R>(query as CompiledQuery<R>)
      },
      async *streamQuery() {},
    })
    await work(recording)
    const plans = texts.map((text) =>
      transaction((tx) => {
        const anyValue = sql.raw(`explain query plan ${text.replace(/\?\d+/g, "'x'")}`)
        return sql<{ detail: string }>`${anyValue}`.execute(tx)
      }),
    )
    const steps = (await Promise.all(plans)).flatMap(({ rows }) => rows)
    return steps.map(({ detail }) => detail).filter((detail) => detail.split(' ')[1] === table)
  }
  return { debtor, planOf }
}

// Regression: SQLite read all messages while all other writes waited.
t.test('unsent messages of a customer are read from their own index', async (t) => {
  const { debtor, planOf } = await openPlanner(t)
  const incoming = { currency: 'EUR', amount: 100 }
  const plans = {
    'archiving, pausing and erasing': await planOf((tx) =>
      stopMessagesTo(tx, debtor, 'the customer was archived', NOW),
    ),
    'a payment on account': await planOf((tx) =>
      stopRemindersCoveredByMoneyOnAccount(
        tx,
        debtor,
        { incoming, detail: 'money was received' },
        NOW,
      ),
    ),
    'the preview of reminders': await planOf((tx) =>
      previewReminders(tx, debtor.account_id, NOW, 14),
    ),
  }
  for (const [name, steps] of Object.entries(plans)) {
    t.ok(
      steps.includes('SEARCH messages USING INDEX messages_pending (debtor_id=? AND status=?)'),
      name,
    )
    t.notOk(
      steps.some((step) => /^SCAN|\(account_id=\?\)$/.test(step)),
      name,
    )
  }
})

// Regression: SQLite read all messages of the account if few of them were sent in the requested time.
t.test('the messages that were sent since a time are read from the index of sending', async (t) => {
  const { debtor, planOf } = await openPlanner(t)
  const newest = { sort: 'created_at', direction: 'desc', rowsMax: 51, after: undefined } as const
  const steps = await planOf((tx) =>
    listMessages(tx, debtor.account_id, { sent_since: NOW.toISOString() }, newest),
  )
  t.ok(
    steps.includes('SEARCH messages USING INDEX messages_by_sending (account_id=? AND sent_at>?)'),
  )
})

// Regression: SQLite read all unpaid invoices of the account, or all with the status. Payments and resumed reminders
// did so while all other writes waited.
t.test('invoices of a customer are read from an index of the customer', async (t) => {
  const { debtor, planOf } = await openPlanner(t)
  const { id: debtorId, account_id: accountId } = debtor
  const search = (view: InvoiceView): InvoiceSearch => ({
    ...{ view, sort: 'due', debtorId, currency: 'EUR' },
    ...{ number: undefined, dueSince: undefined, dueBefore: undefined },
    amount: { min: undefined, max: undefined },
  })
  const reads: Record<string, (tx: Transaction) => Promise<unknown>> = {
    'open invoices': (tx) => listOpenInvoices(tx, accountId, debtorId, 'EUR', { max: 1 }),
    'open invoices, one first': (tx) =>
      listOpenInvoices(tx, accountId, debtorId, 'EUR', { max: 1, firstId: 'inv_1' }),
    'invoices to resume': (tx) => hasResumableInvoices(tx, accountId, debtorId),
  }
  for (const view of INVOICE_VIEWS) {
    const options = { after: undefined, limit: 50 }
    reads[`list: ${view}`] = (tx) =>
      searchInvoices(tx, accountId, search(view), '2026-11-21', options)
    reads[`count: ${view}`] = (tx) => countInvoices(tx, accountId, search(view), '2026-11-21')
  }
  for (const [name, read] of Object.entries(reads)) {
    const [step = ''] = await planOf(read, 'invoices')
    t.ok(step.includes('debtor_id=?'), `${name}: ${step}`)
  }
})

// The worker of the totals looks for such terms every few seconds.
t.test('search terms that older versions wrote are read from their own index', async (t) => {
  const { planOf } = await openPlanner(t)
  const plan = await planOf((tx) => selectDebtorsWithUnfoldedTerms(tx).execute(), 'debtor_terms')
  t.strictSame(plan, ['SCAN debtor_terms USING INDEX debtor_terms_unfolded'])
})

// Regression: SQLite read nearly all messages of the account for each customer that was taken back.
t.test('the messages of imported customers are read by customer', async (t) => {
  const { debtor, planOf } = await openPlanner(t)
  const imported = [debtor.id, 'deb_2', 'deb_3'].map((id) => ({ id, kind: 'customer' as const }))
  const steps = await planOf((tx) => planTakeBack(tx, debtor.account_id, imported))
  t.strictSame(steps, [
    'SEARCH messages USING INDEX messages_by_debtor (account_id=? AND debtor_id=?)',
  ])
})

// Regression: each scrape read all messages of all accounts: with two million, for more than a second.
t.test('the metrics of waiting messages are read from the index of unsent messages', async (t) => {
  const { planOf } = await openPlanner(t)
  const steps = await planOf(async (read) => {
    const metrics = createMetrics('backend')
    measureQueues(metrics, { read }, () => NOW)
    await metrics.registry.metrics()
  })
  t.strictSame(steps, [
    'SCAN messages USING COVERING INDEX messages_pending',
    'SEARCH messages USING INDEX messages_pending',
  ])
})

// Regression: SQLite read all entries of the person to find those of one action. With 700,000 entries, this took 18
// seconds.
t.test('entries of the audit log are read from the index of their filters', async (t) => {
  const { planOf } = await openPlanner(t)
  const newest = { sort: 'created_at', direction: 'desc', rowsMax: 51, after: undefined } as const
  const action = 'debtor.archived'
  const actor = 'ada@acme.example'
  const cases: [AuditFilters, string][] = [
    [{}, 'by_account (account_id=?)'],
    [{ actor }, 'by_actor (account_id=? AND actor_label=?)'],
    [{ action }, 'by_action (account_id=? AND action=?)'],
    [{ actor, action }, 'by_actor_and_action (account_id=? AND actor_label=? AND action=?)'],
    [{ actor, action, subjectId: 'deb_1' }, 'by_subject (account_id=? AND subject_id=?)'],
  ]
  for (const [filters, index] of cases) {
    const steps = await planOf((tx) => listAudit(tx, 'acct_1', filters, newest), 'audit_log')
    t.strictSame(steps, [`SEARCH audit_log USING INDEX audit_log_${index}`])
  }
})
