/**
 * A year of one account's books, of any size. There is a debtor for every ten invoices; most older invoices are
 * paid and most newer ones open, with reminders about those that were paid late. Every value follows from the
 * number of its record, so that a caller knows the records without reading them.
 */
import { sql } from 'kysely'
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
const INVOICES_EACH = 10
const BATCH = 2_000

export interface Ledger {
  readonly accountId: string
  readonly invoices: number
  /** The end of the year. */
  readonly now: Date
}

export function debtorCount({ invoices }: Ledger): number {
  return Math.ceil(invoices / INVOICES_EACH)
}

/** Returns an id as long as real ones; like them, ids sort by creation. */
export function idOf(prefix: 'deb' | 'inv' | 'pay' | 'msg', place: number): string {
  return `${prefix}_01K${String(place).padStart(23, '0')}`
}

/** Returns the number of the invoice's debtor. The invoices of a debtor are spread over the year. */
export function debtorOf(ledger: Ledger, place: number): number {
  return (place * 7919) % debtorCount(ledger)
}

export function emailOf(debtor: number): string {
  return `ap-${debtor}@customer.example`
}

export function nameOf(debtor: number): string {
  return `${SYLLABLES[debtor % 97]} & Sons ${debtor}`
}

/** First words of names; about a hundredth of the debtors has each. */
const SYLLABLES = Array.from(
  { length: 97 },
  (_, n) => `Firm${String.fromCharCode(97 + (n % 26))}${n}`,
)

export function createdAt({ now, invoices }: Ledger, place: number): Date {
  return new Date(now.getTime() - ((invoices - place) / invoices) * SPAN_DAYS * DAY_MS)
}

/** Undefined if it is not paid. */
export function paidAt(ledger: Ledger, place: number): Date | undefined {
  // One in twenty never pays by itself; the others after 15 to 75 days.
  if (place % 20 === 0) return undefined
  const at = new Date(createdAt(ledger, place).getTime() + (15 + ((place * 31) % 61)) * DAY_MS)
  return at < ledger.now ? at : undefined
}

/** Reminders about some invoices that were paid late, and about those that are not paid yet. */
export function remindedAt(ledger: Ledger, place: number): Date | undefined {
  const at = new Date(createdAt(ledger, place).getTime() + (TERMS_DAYS + 3) * DAY_MS)
  const paid = paidAt(ledger, place)
  return at < ledger.now && (paid === undefined || paid > at) ? at : undefined
}

/** Fills an empty account. `advance` is called after each batch. */
export async function seedLedger(
  database: Database,
  url: string,
  ledger: Ledger,
  advance: (invoices: number) => void,
): Promise<void> {
  const insert = isPostgres(url) ? insertIntoPostgres : insertIntoSqlite
  if (!isPostgres(url)) await database.transaction(prepareSqlite)
  for (let from = 0; from < debtorCount(ledger); from += BATCH) {
    const rows = placesFrom(from, debtorCount(ledger)).map((place) => debtorRow(ledger, place))
    await database.transaction((tx) => insert(tx, 'debtors', rows))
  }
  for (let from = 0; from < ledger.invoices; from += BATCH) {
    const places = placesFrom(from, ledger.invoices)
    const paid = places.filter((place) => paidAt(ledger, place) !== undefined)
    const reminded = places.filter((place) => remindedAt(ledger, place) !== undefined)
    await database.transaction(async (tx) => {
      await insert(
        tx,
        'invoices',
        places.map((place) => invoiceRow(ledger, place)),
      )
      await insert(
        tx,
        'payments',
        paid.map((place) => paymentRow(ledger, place)),
      )
      await insert(
        tx,
        'payment_allocations',
        paid.map((place) => allocationRow(ledger, place)),
      )
      await insert(
        tx,
        'messages',
        reminded.map((place) => messageRow(ledger, place)),
      )
      await insert(
        tx,
        'message_invoices',
        reminded.map((place) => coverRow(ledger, place)),
      )
    })
    advance(places.length)
  }
  // Autovacuum would do this. SQLite keeps no statistics in service either.
  if (isPostgres(url)) await database.transaction((tx) => sql`analyze`.execute(tx))
}

function placesFrom(from: number, end: number): number[] {
  return Array.from({ length: Math.min(BATCH, end - from) }, (_, n) => from + n)
}

/** Inserts write all over the indexes, so SQLite keeps them in memory and rarely writes to the disk. */
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

function debtorRow(ledger: Ledger, place: number): DebtorRow {
  // Debtors were created evenly over the year; each was last changed with its newest invoice.
  const created = createdAt(ledger, place * INVOICES_EACH).toISOString()
  const name = nameOf(place)
  return {
    id: idOf('deb', place),
    account_id: ledger.accountId,
    external_id: `C-${place}`,
    name,
    name_search: name.toLowerCase(),
    email: emailOf(place),
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

function amountOf(place: number): number {
  return 1_000 + ((place * 6151) % 500_000)
}

function isOverdue(ledger: Ledger, place: number): boolean {
  const due = dateOf(createdAt(ledger, place), TERMS_DAYS)
  return paidAt(ledger, place) === undefined && due < dateOf(ledger.now)
}

function invoiceRow(ledger: Ledger, place: number): InvoiceRow {
  const created = createdAt(ledger, place)
  const paid = paidAt(ledger, place)
  const amount = amountOf(place)
  return {
    id: idOf('inv', place),
    account_id: ledger.accountId,
    debtor_id: idOf('deb', debtorOf(ledger, place)),
    number: `INV-${place}`,
    external_id: `E-${place}`,
    currency: 'EUR',
    amount,
    amount_credited: 0,
    amount_paid: paid === undefined ? 0 : amount,
    amount_due: paid === undefined ? amount : 0,
    line_items: '[]',
    issue_date: dateOf(created),
    due_date: dateOf(created, TERMS_DAYS),
    // The event was sent already; otherwise the backend would begin by sending it.
    overdue_announced: isOverdue(ledger, place) ? 1 : 0,
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

function paymentRow(ledger: Ledger, place: number): PaymentRow {
  const at = paidAt(ledger, place) ?? ledger.now
  const invoice = { id: idOf('inv', place), status: 'paid', amount_due: 0 }
  return {
    id: idOf('pay', place),
    account_id: ledger.accountId,
    debtor_id: idOf('deb', debtorOf(ledger, place)),
    amount: amountOf(place),
    currency: 'EUR',
    unapplied_amount: 0,
    received_on: dateOf(at),
    method: 'bank_transfer',
    reference: `INV-${place}`,
    external_id: `B-${place}`,
    status: 'recorded',
    idempotency_key: `bank-line-${place}`,
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

function allocationRow({ accountId }: Ledger, place: number): AllocationRow {
  return {
    payment_id: idOf('pay', place),
    position: 0,
    account_id: accountId,
    invoice_id: idOf('inv', place),
    amount: amountOf(place),
  }
}

function messageRow(ledger: Ledger, place: number): MessageRow {
  const at = (remindedAt(ledger, place) ?? ledger.now).toISOString()
  const bounced = place % 13 === 0
  return {
    id: idOf('msg', place),
    account_id: ledger.accountId,
    debtor_id: idOf('deb', debtorOf(ledger, place)),
    channel: 'email',
    direction: 'outbound',
    kind: 'reminder',
    stage: place % 7 === 0 ? 'reminder' : 'friendly',
    status: bounced ? 'bounced' : 'delivered',
    suppression_reason: null,
    suppression_detail: null,
    approval_required: 0,
    approval_status: null,
    approval_decided_by: null,
    approval_decided_at: null,
    recipient: emailOf(debtorOf(ledger, place)),
    subject: `Invoice INV-${place} is past due`,
    body: 'This is to remind you of an invoice that has not been paid yet. '.repeat(8),
    amount_due: amountOf(place),
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

function coverRow({ accountId }: Ledger, place: number): MessageInvoiceRow {
  return {
    message_id: idOf('msg', place),
    position: 0,
    account_id: accountId,
    invoice_id: idOf('inv', place),
  }
}
