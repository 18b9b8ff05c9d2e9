// The schema rejects rows that only a mistake in the code could write.
import { sql } from 'kysely'
import t from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { isPostgres } from '../../../backend/database/open.ts'
import type { DebtorRow, InvoiceRow, PaymentRow } from '../../../backend/database/tables.ts'
import { rejectsWith } from '../../fixtures/matches.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { newDatabaseUrl } from '../../fixtures/service/database-url.ts'

const NOW = '2026-11-21T10:15:00.000Z'

function debtorIn(accountId: string, overrides: Partial<DebtorRow> = {}): DebtorRow {
  return {
    id: 'deb_1',
    account_id: accountId,
    external_id: null,
    name: 'Debtor',
    name_search: 'debtor',
    email: null,
    phone: null,
    language: null,
    timezone: null,
    currency: null,
    payment_terms_days: null,
    address: null,
    tax_id: null,
    company_number: null,
    status: 'active',
    is_demo: 0,
    contactability_email: 'missing',
    chasing_status: 'active',
    chasing_reason: null,
    chasing_until: null,
    ladder: null,
    plan_at: null,
    erased_at: null,
    metadata: '{}',
    created_at: NOW,
    updated_at: NOW,
    revision: 1,
    ...overrides,
  }
}

function invoiceIn(accountId: string, overrides: Partial<InvoiceRow> = {}): InvoiceRow {
  return {
    id: 'inv_1',
    account_id: accountId,
    debtor_id: 'deb_1',
    number: 'INV-1',
    external_id: null,
    currency: 'EUR',
    amount: 999_999_999_999,
    amount_paid: 0,
    amount_credited: 0,
    amount_due: 999_999_999_999,
    line_items: '[]',
    issue_date: '2026-11-01',
    due_date: '2026-12-01',
    overdue_announced: 0,
    status: 'open',
    po_number: null,
    notes: null,
    payment_url: null,
    chasing_status: 'active',
    chasing_stage: null,
    chasing_next_stage: null,
    chasing_next_action_at: null,
    chasing_last_message_at: null,
    chasing_blocked_reason: null,
    chasing_cycle: 1,
    disputed_at: null,
    chasing_hold: null,
    chasing_hold_until: null,
    paid_at: null,
    voided_at: null,
    written_off_at: null,
    metadata: '{}',
    created_at: NOW,
    updated_at: NOW,
    revision: 1,
    ...overrides,
  }
}

function paymentIn(accountId: string, overrides: Partial<PaymentRow> = {}): PaymentRow {
  return {
    id: 'pay_1',
    account_id: accountId,
    debtor_id: 'deb_1',
    amount: 100,
    currency: 'EUR',
    unapplied_amount: 0,
    received_on: '2026-11-20',
    method: 'other',
    reference: null,
    external_id: null,
    status: 'recorded',
    idempotency_key: null,
    request_fingerprint: null,
    source: 'api',
    recorded_by: '{}',
    effects: '{}',
    metadata: '{}',
    created_at: NOW,
    updated_at: NOW,
    revision: 1,
    ...overrides,
  }
}

async function openWithInvoice(t: Parameters<typeof openTestDatabase>[0]) {
  const database = await openTestDatabase(t)
  const [account, otherAccount] = await database.transaction(async (tx) => {
    const actionContext = { actor: OPERATOR, now: new Date(NOW) }
    const accounts = [
      await createAccount(tx, { name: 'Acme' }, actionContext),
      await createAccount(tx, { name: 'Other' }, actionContext),
    ] as const
    await tx.insertInto('debtors').values(debtorIn(accounts[0].id)).execute()
    await tx.insertInto('invoices').values(invoiceIn(accounts[0].id)).execute()
    return accounts
  })
  return { database, accountId: account.id, otherAccountId: otherAccount.id }
}

t.test('an invoice with the largest amount is stored, changed and read exactly', async (t) => {
  const { database, accountId } = await openWithInvoice(t)
  const amounts = await database.transaction((tx) =>
    tx
      .updateTable('invoices')
      .set((set) => ({
        amount_paid: set('amount_paid', '+', 3_000_000_000),
        amount_due: set('amount_due', '-', 3_000_000_000),
      }))
      .where('account_id', '=', accountId)
      .returning(['amount', 'amount_paid', 'amount_due'])
      .executeTakeFirst(),
  )
  t.strictSame(amounts, {
    amount: 999_999_999_999,
    amount_paid: 3_000_000_000,
    amount_due: 996_999_999_999,
  })
})

t.test('amounts, statuses and dates that contradict one another are rejected', async (t) => {
  const { database, accountId } = await openWithInvoice(t)
  const update = (change: Partial<InvoiceRow>) =>
    database.transaction((tx) =>
      tx.updateTable('invoices').set(change).where('account_id', '=', accountId).execute(),
    )
  const check = { name: 'ConstraintViolation', kind: 'check' }
  await rejectsWith(t, update({ amount_due: 1 }), check)
  await rejectsWith(t, update({ amount_credited: 1 }), check)
  await rejectsWith(t, update({ amount_credited: -1, amount_due: 1_000_000_000_000 }), check)
  await rejectsWith(t, update({ amount_paid: 1_000_000_000_000, amount_due: -1 }), check)
  await rejectsWith(t, update({ amount: 0, amount_due: 0 }), check)
  await rejectsWith(t, update({ status: 'paid' }), check)
  await rejectsWith(t, update({ due_date: '2026-10-01' }), check)
  const payment = paymentIn(accountId, { amount: 100, unapplied_amount: 101 })
  await rejectsWith(
    t,
    database.transaction((tx) => tx.insertInto('payments').values(payment).execute()),
    check,
  )
})

t.test('a row cannot reference a row of another account', async (t) => {
  const { database, otherAccountId } = await openWithInvoice(t)
  const foreignKey = { name: 'ConstraintViolation', kind: 'foreign_key' }
  await rejectsWith(
    t,
    database.transaction((tx) =>
      tx
        .insertInto('invoices')
        .values(invoiceIn(otherAccountId, { id: 'inv_2' }))
        .execute(),
    ),
    foreignKey,
  )
  await rejectsWith(
    t,
    database.transaction(async (tx) => {
      await tx
        .insertInto('debtors')
        .values(debtorIn(otherAccountId, { id: 'deb_2' }))
        .execute()
      await tx
        .insertInto('payments')
        .values(paymentIn(otherAccountId, { debtor_id: 'deb_2' }))
        .execute()
      await tx
        .insertInto('payment_allocations')
        .values({
          payment_id: 'pay_1',
          position: 0,
          account_id: otherAccountId,
          invoice_id: 'inv_1',
          amount: 100,
        })
        .execute()
    }),
    foreignKey,
  )
})

t.test('duplicate numbers, external ids and idempotency keys are rejected', async (t) => {
  const { database, accountId } = await openWithInvoice(t)
  const insert = (payment: Partial<PaymentRow>) =>
    database.transaction((tx) =>
      tx.insertInto('payments').values(paymentIn(accountId, payment)).execute(),
    )
  const unique = { name: 'ConstraintViolation', kind: 'unique' }
  await insert({ idempotency_key: 'k', external_id: 'x' })
  await rejectsWith(t, insert({ id: 'pay_2', idempotency_key: 'k' }), {
    ...unique,
    columns: ['payments.account_id', 'payments.idempotency_key'],
  })
  await rejectsWith(t, insert({ id: 'pay_2', external_id: 'x' }), {
    ...unique,
    columns: ['payments.account_id', 'payments.external_id'],
  })
  await rejectsWith(
    t,
    database.transaction((tx) =>
      tx
        .insertInto('invoices')
        .values(invoiceIn(accountId, { id: 'inv_2' }))
        .execute(),
    ),
    { ...unique, columns: ['invoices.account_id', 'invoices.number'] },
  )
})

interface IndexColumns {
  readonly index: string
  readonly table: string
  /** The names or numbers of the columns, each followed by a space. */
  readonly columns: string
  readonly isUnique: number | boolean
}

/** The indexes that contain only columns, and have no condition. */
const POSTGRES_INDEXES = sql<IndexColumns>`
  select indexrelid::regclass::text as index, indrelid::regclass::text as table,
    indkey::text || ' ' as columns, indisunique as "isUnique"
  from pg_index join pg_class on pg_class.oid = indrelid
  where relnamespace = current_schema()::regnamespace and indpred is null and indexprs is null`
const SQLITE_INDEXES = sql<IndexColumns>`
  select list.name as "index", tables.name as "table", list."unique" as "isUnique",
    (select group_concat(coalesce(name, list.name) || ' ', '' order by seqno) from pragma_index_info(list.name)) as columns
  from sqlite_schema as tables, pragma_index_list(tables.name) as list
  where tables.type = 'table' and not list.partial`

// Regression: an index of webhook deliveries had the columns of a unique constraint, so each delivery was written to
// both.
t.test('no index has only the first columns of another', async (t) => {
  const url = await newDatabaseUrl(t)
  const database = await openTestDatabase(t, { url })
  const query = isPostgres(url) ? POSTGRES_INDEXES : SQLITE_INDEXES
  const { rows } = await database.transaction((tx) => query.execute(tx))
  t.ok(rows.length > 50)
  for (const { index, table, columns } of rows.filter(({ isUnique }) => !isUnique)) {
    const longer = rows.find(
      (other) =>
        other.index !== index && other.table === table && other.columns.startsWith(columns),
    )
    t.equal(longer?.index, undefined, index)
  }
})
