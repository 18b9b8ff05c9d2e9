/**
 * Generates a year of one account's records, with any number of invoices. There is a debtor for every ten invoices.
 * Most older invoices are paid, most newer invoices are open, and there are reminders about invoices that were paid
 * late or not at all. Every value is computed from the number of its record, so that a caller knows the records without
 * reading them.
 */
import { sql } from 'kysely'
import { encodeTime } from 'ulid'
import type { Database, Transaction } from '../../../backend/database/database.ts'
import { isPostgres } from '../../../backend/database/open.ts'
import type {
  AllocationRow,
  DebtorRow,
  InvoiceRow,
  MessageInvoiceRow,
  MessageRow,
  PaymentRow,
} from '../../../backend/database/tables.ts'

const DAY_MS = 86_400_000
const SPAN_DAYS = 365
const TERMS_DAYS = 30
const INVOICES_PER_DEBTOR = 10
const BATCH = 2_000

export interface Ledger {
  readonly accountId: string
  readonly invoices: number
  /** The end of the year. */
  readonly now: Date
}

export function debtorCount({ invoices }: Ledger): number {
  return Math.ceil(invoices / INVOICES_PER_DEBTOR)
}

/**
 * Returns an id that has the form of a real id. Like real ids, these ids begin with the time of creation, except those
 * of payments and messages, which begin with the time when their invoice was created.
 */
export function idOf(ledger: Ledger, prefix: 'deb' | 'inv' | 'pay' | 'msg', index: number): string {
  const invoice = prefix === 'deb' ? index * INVOICES_PER_DEBTOR : index
  const at = Math.floor(createdAt(ledger, invoice).getTime())
  return `${prefix}_${encodeTime(at)}${String(index).padStart(16, '0')}`
}

/** Returns the number of the invoice's debtor. The invoices of a debtor are spread over the year. */
export function debtorOf(ledger: Ledger, index: number): number {
  return (index * 7919) % debtorCount(ledger)
}

export function emailOf(debtor: number): string {
  return `ap-${debtor}@customer.example`
}

export function nameOf(debtor: number): string {
  return `${FIRST_WORDS[debtor % 97]} & Sons ${debtor}`
}

/** The first words of names. About a hundredth of the debtors has each of them. */
const FIRST_WORDS = Array.from(
  { length: 97 },
  (_, n) => `Firm${String.fromCharCode(97 + (n % 26))}${n}`,
)

export function createdAt({ now, invoices }: Ledger, index: number): Date {
  return new Date(now.getTime() - ((invoices - index) / invoices) * SPAN_DAYS * DAY_MS)
}

/** Returns when the invoice was paid; undefined if it was not. */
export function paidAt(ledger: Ledger, index: number): Date | undefined {
  // One invoice in twenty is never paid. The others are paid after 15 to 75 days.
  if (index % 20 === 0) return undefined
  const at = new Date(createdAt(ledger, index).getTime() + (15 + ((index * 31) % 61)) * DAY_MS)
  return at < ledger.now ? at : undefined
}

/** Returns when a reminder was sent: three days after the due date; undefined if the invoice was paid by then. */
export function remindedAt(ledger: Ledger, index: number): Date | undefined {
  const at = new Date(createdAt(ledger, index).getTime() + (TERMS_DAYS + 3) * DAY_MS)
  const paid = paidAt(ledger, index)
  return at < ledger.now && (paid === undefined || paid > at) ? at : undefined
}

/** Fills an empty account. `advance` is called after each batch of invoices. */
export async function seedLedger(
  database: Database,
  url: string,
  ledger: Ledger,
  advance: (invoices: number) => void,
): Promise<void> {
  const insert = isPostgres(url) ? insertIntoPostgres : insertIntoSqlite
  if (!isPostgres(url)) await database.transaction(prepareSqlite)
  for (let from = 0; from < debtorCount(ledger); from += BATCH) {
    const rows = indexesFrom(from, debtorCount(ledger)).map((index) => debtorRow(ledger, index))
    await database.transaction((tx) => insert(tx, 'debtors', rows))
  }
  for (let from = 0; from < ledger.invoices; from += BATCH) {
    const indexes = indexesFrom(from, ledger.invoices)
    const paid = indexes.filter((index) => paidAt(ledger, index) !== undefined)
    const reminded = indexes.filter((index) => remindedAt(ledger, index) !== undefined)
    await database.transaction(async (tx) => {
      await insert(
        tx,
        'invoices',
        indexes.map((index) => invoiceRow(ledger, index)),
      )
      await insert(
        tx,
        'payments',
        paid.map((index) => paymentRow(ledger, index)),
      )
      await insert(
        tx,
        'payment_allocations',
        paid.map((index) => allocationRow(ledger, index)),
      )
      await insert(
        tx,
        'messages',
        reminded.map((index) => messageRow(ledger, index)),
      )
      await insert(
        tx,
        'message_invoices',
        reminded.map((index) => messageInvoiceRow(ledger, index)),
      )
    })
    advance(indexes.length)
  }
  // In production, autovacuum collects statistics on PostgreSQL, and SQLite has none.
  if (isPostgres(url)) await database.transaction((tx) => sql`analyze`.execute(tx))
}

function indexesFrom(from: number, end: number): number[] {
  return Array.from({ length: Math.min(BATCH, end - from) }, (_, n) => from + n)
}

/** Makes SQLite keep the indexes in memory and write rarely, because inserts change pages all over the indexes. */
async function prepareSqlite(tx: Transaction): Promise<void> {
  await sql`pragma cache_size = -1000000`.execute(tx)
  await sql`pragma wal_autocheckpoint = 100000`.execute(tx)
}

type Rows = readonly (object & { readonly account_id: string })[]

/** Passes all rows as one parameter, so that the statement does not grow with them. */
async function insertIntoSqlite(tx: Transaction, table: string, rows: Rows): Promise<void> {
  const columns = Object.keys(rows[0] ?? {})
  if (columns.length === 0) return
  const values = columns.map((column) => sql`value ->> ${sql.lit(`$.${column}`)}`)
  await sql`insert into ${sql.table(table)} (${sql.join(columns.map((column) => sql.ref(column)))})
    select ${sql.join(values)} from json_each(${JSON.stringify(rows)})`.execute(tx)
}

async function insertIntoPostgres(tx: Transaction, table: string, rows: Rows): Promise<void> {
  const columns = Object.keys(rows[0] ?? {}).map((column) => sql.ref(column))
  if (columns.length === 0) return
  await sql`insert into ${sql.table(table)} (${sql.join(columns)}) select ${sql.join(columns)}
    from json_populate_recordset(null::${sql.table(table)}, ${JSON.stringify(rows)})`.execute(tx)
}

function debtorRow(ledger: Ledger, index: number): DebtorRow {
  // Debtors were created evenly over the year, and have not been changed.
  const created = createdAt(ledger, index * INVOICES_PER_DEBTOR).toISOString()
  const name = nameOf(index)
  return {
    id: idOf(ledger, 'deb', index),
    account_id: ledger.accountId,
    external_id: `C-${index}`,
    name,
    name_search: name.toLowerCase(),
    email: emailOf(index),
    phone: '+31201234567',
    language: 'nl',
    timezone: null,
    currency: 'EUR',
    payment_terms_days: TERMS_DAYS,
    address: null,
    tax_id: null,
    company_number: null,
    status: 'active',
    is_demo: 0,
    contactability_email: 'ok',
    chasing_status: 'active',
    chasing_reason: null,
    chasing_until: null,
    ladder: null,
    plan_at: null,
    erased_at: null,
    metadata: '{}',
    created_at: created,
    updated_at: created,
    revision: 1,
  }
}

function dateOf(at: Date, plusDays = 0): string {
  return new Date(at.getTime() + plusDays * DAY_MS).toISOString().slice(0, 10)
}

function amountOf(index: number): number {
  return 1_000 + ((index * 6151) % 500_000)
}

function isOverdue(ledger: Ledger, index: number): boolean {
  const due = dateOf(createdAt(ledger, index), TERMS_DAYS)
  return paidAt(ledger, index) === undefined && due < dateOf(ledger.now)
}

function invoiceRow(ledger: Ledger, index: number): InvoiceRow {
  const created = createdAt(ledger, index)
  const paid = paidAt(ledger, index)
  const amount = amountOf(index)
  return {
    id: idOf(ledger, 'inv', index),
    account_id: ledger.accountId,
    debtor_id: idOf(ledger, 'deb', debtorOf(ledger, index)),
    number: `INV-${index}`,
    external_id: `E-${index}`,
    currency: 'EUR',
    amount,
    amount_credited: 0,
    amount_paid: paid === undefined ? 0 : amount,
    amount_due: paid === undefined ? amount : 0,
    line_items: '[]',
    issue_date: dateOf(created),
    due_date: dateOf(created, TERMS_DAYS),
    // The event counts as sent. Otherwise, the backend would send it when it starts.
    overdue_announced: isOverdue(ledger, index) ? 1 : 0,
    status: paid === undefined ? 'open' : 'paid',
    po_number: null,
    notes: null,
    payment_url: null,
    chasing_status: paid === undefined ? 'active' : 'stopped',
    chasing_stage: null,
    chasing_next_stage: null,
    chasing_next_action_at: null,
    chasing_last_message_at: null,
    chasing_blocked_reason: null,
    chasing_cycle: 1,
    disputed_at: null,
    chasing_hold: null,
    chasing_hold_until: null,
    paid_at: paid?.toISOString() ?? null,
    voided_at: null,
    written_off_at: null,
    metadata: '{}',
    created_at: created.toISOString(),
    updated_at: (paid ?? created).toISOString(),
    revision: 1,
  }
}

function paymentRow(ledger: Ledger, index: number): PaymentRow {
  const at = paidAt(ledger, index) ?? ledger.now
  const invoice = { id: idOf(ledger, 'inv', index), status: 'paid', amount_due: 0 }
  return {
    id: idOf(ledger, 'pay', index),
    account_id: ledger.accountId,
    debtor_id: idOf(ledger, 'deb', debtorOf(ledger, index)),
    amount: amountOf(index),
    currency: 'EUR',
    unapplied_amount: 0,
    received_on: dateOf(at),
    method: 'bank_transfer',
    reference: `INV-${index}`,
    external_id: `B-${index}`,
    status: 'recorded',
    idempotency_key: `bank-line-${index}`,
    request_fingerprint: null,
    source: 'api',
    recorded_by: JSON.stringify({ type: 'api_key', id: 'key_0', label: 'ERP' }),
    effects: JSON.stringify({
      invoices: [invoice],
      messages_cancelled: [],
      messages_in_flight: [],
    }),
    metadata: '{}',
    created_at: at.toISOString(),
    updated_at: at.toISOString(),
    revision: 1,
  }
}

function allocationRow(ledger: Ledger, index: number): AllocationRow {
  return {
    payment_id: idOf(ledger, 'pay', index),
    position: 0,
    account_id: ledger.accountId,
    invoice_id: idOf(ledger, 'inv', index),
    amount: amountOf(index),
  }
}

function messageRow(ledger: Ledger, index: number): MessageRow {
  const at = (remindedAt(ledger, index) ?? ledger.now).toISOString()
  const bounced = index % 13 === 0
  return {
    id: idOf(ledger, 'msg', index),
    account_id: ledger.accountId,
    debtor_id: idOf(ledger, 'deb', debtorOf(ledger, index)),
    channel: 'email',
    direction: 'outbound',
    kind: 'reminder',
    stage: index % 7 === 0 ? 'reminder' : 'friendly',
    status: bounced ? 'bounced' : 'delivered',
    suppression_reason: null,
    suppression_detail: null,
    approval_required: 0,
    approval_status: null,
    approval_decided_by: null,
    approval_decided_at: null,
    recipient: emailOf(debtorOf(ledger, index)),
    subject: `Invoice INV-${index} is past due`,
    body: 'This is to remind you of an invoice that has not been paid yet. '.repeat(8),
    amount_due: amountOf(index),
    currency: 'EUR',
    days_past_due: 3,
    provider_message_id: null,
    delivered_at: bounced ? null : at,
    bounce_type: bounced ? 'hard' : null,
    bounce_code: bounced ? '5.1.1' : null,
    soft_bounces: 0,
    scheduled_for: at,
    sent_at: at,
    created_at: at,
    updated_at: at,
    revision: 1,
  }
}

function messageInvoiceRow(ledger: Ledger, index: number): MessageInvoiceRow {
  return {
    message_id: idOf(ledger, 'msg', index),
    position: 0,
    account_id: ledger.accountId,
    invoice_id: idOf(ledger, 'inv', index),
  }
}
