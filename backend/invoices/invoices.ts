/** Creates and reads invoices. Whether an invoice is overdue is derived, never stored. */
import { type SqlBool, sql } from 'kysely'
import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { addDays, todayIn } from '../calendar/calendar.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { Reader, Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import { INVOICE_COLUMNS } from '../database/tables/invoices.ts'
import type { DebtorRow, InvoiceRow, InvoiceRowWithOptionalLines } from '../database/tables.ts'
import { findDebtorIdByExternalId, lockDebtor, markDebtorUpdated } from '../debtors/debtors.ts'
import { recordEvent, selectEnabledOrPausedEndpoints } from '../events/events.ts'
import { UNINDEXED_ACCOUNT_ID } from '../lists/keyset.ts'
import { initialChasing } from '../reminders/planning/initial-chasing.ts'
import { insertWithUniqueExternalId } from '../validation/external-id.ts'
import { type FieldError, fieldErrorsProblem } from '../validation/field-errors.ts'
import { OLD_INVOICE } from './holds.ts'
import { generateInvoiceNumber } from './invoice-number.ts'
import { type NewLine, type Totals, totalsOf } from './lines.ts'
import { representInvoice } from './representation.ts'

export interface NewInvoice {
  readonly debtor: { readonly id: string } | { readonly externalId: string }
  /** If it is null, the number is generated. */
  readonly number: string | null
  readonly externalId: string | null
  readonly currency: string
  /** If it is undefined, the amount is the total of the lines. */
  readonly amount: number | undefined
  readonly lines: readonly NewLine[]
  /** If it is null, the current date applies. */
  readonly issueDate: string | null
  /** If it is null, the due date is computed from the payment terms. */
  readonly dueDate: string | null
  readonly status: 'draft' | 'open'
  readonly poNumber: string | null
  readonly notes: string | null
  readonly paymentUrl: string | null
  /**
   * If this is false and the invoice is already past due, no reminder is sent about the invoice until a person
   * resumes chasing. The default is true.
   */
  readonly chaseIfOverdue?: boolean
  readonly metadata: Readonly<Record<string, string>>
}

export interface InvoiceOwner {
  readonly accountId: string
  readonly timezone: string
  readonly paymentTermsDays: number
}

/**
 * Throws `debtor_not_found`, `total_mismatch`, `validation_failed`, `duplicate_external_id`,
 * `duplicate_invoice_number`.
 */
export async function createInvoice(
  tx: Transaction,
  owner: InvoiceOwner,
  input: NewInvoice,
  now: Date,
): Promise<InvoiceRow> {
  const { accountId } = owner
  const today = todayIn(owner.timezone, now)
  const issueDate = input.issueDate ?? today
  const { debtor, totals } = await checkInvoice(tx, accountId, input, issueDate)
  const termsDays = debtor.payment_terms_days ?? owner.paymentTermsDays
  const dueDate = input.dueDate ?? addDays(issueDate, termsDays)
  const isOld = input.chaseIfOverdue === false && dueDate < today
  const isChased = input.status === 'open' && !isOld
  const coverableInvoice = {
    id: createId('inv'),
    currency: input.currency,
    due_date: dueDate,
    amount_due: totals.amount,
  }
  const row: InvoiceRow = {
    ...coverableInvoice,
    account_id: accountId,
    debtor_id: debtor.id,
    number: input.number ?? (await generateInvoiceNumber(tx, accountId)),
    external_id: input.externalId,
    amount: totals.amount,
    amount_paid: 0,
    amount_credited: 0,
    line_items: JSON.stringify(totals.lines),
    issue_date: issueDate,
    overdue_announced: 0,
    status: input.status,
    po_number: input.poNumber,
    notes: input.notes,
    payment_url: input.paymentUrl,
    chasing_stage: null,
    chasing_last_message_at: null,
    ...(isChased
      ? await initialChasing(tx, debtor, owner.timezone, coverableInvoice, now)
      : notChased(isOld ? OLD_INVOICE : null)),
    chasing_cycle: 1,
    disputed_at: null,
    chasing_hold: null,
    chasing_hold_until: null,
    paid_at: null,
    voided_at: null,
    written_off_at: null,
    metadata: JSON.stringify(input.metadata),
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
    revision: 1,
  }
  await insertInvoice(tx, row, input.number)
  // A draft is not owed yet, and therefore changes no balance.
  if (row.status === 'open') await markDebtorUpdated(tx, accountId, debtor.id, now)
  const represent = (today: string) => representInvoice(row, today)
  await recordEvent(tx, { accountId, type: 'invoice.created', subjectId: row.id, represent }, now)
  return row
}

function notChased(chasing_blocked_reason: string | null) {
  return {
    chasing_status: 'stopped',
    chasing_next_stage: null,
    chasing_next_action_at: null,
    chasing_blocked_reason,
  } as const
}

/** Locks the debtor and adds up the lines. Throws a single 422 that reports every error. */
async function checkInvoice(
  tx: Transaction,
  accountId: string,
  input: NewInvoice,
  issueDate: string,
): Promise<{ debtor: DebtorRow; totals: Totals }> {
  const totals = totalsOf(input.amount, input.lines)
  const errors: FieldError[] = 'errors' in totals ? [...totals.errors] : []
  if (input.dueDate !== null && input.dueDate < issueDate) {
    const detail = `due_date must not be before the issue date, ${issueDate}`
    errors.push({ pointer: '/due_date', code: 'out_of_range', detail })
  }
  const debtor = await lockDebtorOf(tx, accountId, input.debtor)
  if (debtor === undefined) {
    const [field, description] = 'id' in input.debtor ? BY_ID : BY_EXTERNAL_ID
    errors.push({
      pointer: `/${field}`,
      code: 'debtor_not_found',
      detail: `${field} must be the ${description} of a debtor`,
    })
  }
  if (errors.length > 0 || debtor === undefined || 'errors' in totals) {
    throw fieldErrorsProblem(errors, 'errors' in totals ? totals.members : {})
  }
  return { debtor, totals }
}

const BY_ID = ['debtor_id', 'id'] as const
const BY_EXTERNAL_ID = ['debtor_external_id', 'external id'] as const

async function lockDebtorOf(
  tx: Transaction,
  accountId: string,
  debtor: NewInvoice['debtor'],
): Promise<DebtorRow | undefined> {
  const id =
    'id' in debtor ? debtor.id : await findDebtorIdByExternalId(tx, accountId, debtor.externalId)
  return id === undefined ? undefined : await lockDebtor(tx, accountId, id)
}

async function insertInvoice(
  tx: Transaction,
  row: InvoiceRow,
  requestedNumber: string | null,
): Promise<void> {
  try {
    await insertWithUniqueExternalId(tx, 'invoices', row, () =>
      tx.insertInto('invoices').values(row).execute(),
    )
  } catch (error) {
    const isInUse =
      error instanceof ConstraintViolation && error.columns.includes('invoices.number')
    if (!isInUse) throw error
    if (requestedNumber === null) {
      // Another client has meanwhile created an invoice with the number that was generated here.
      row.number = await generateInvoiceNumber(tx, row.account_id)
      return insertInvoice(tx, row, requestedNumber)
    }
    const existing = await tx
      .selectFrom('invoices')
      .select('id')
      .where('account_id', '=', row.account_id)
      .where('number', '=', row.number)
      .executeTakeFirst()
    throw new Problem(
      'duplicate_invoice_number',
      'Another of your invoices already has this number: see existing_id.',
      { members: { existing_id: existing?.id }, cause: error },
    )
  }
}

export async function findInvoice(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<InvoiceRow | undefined> {
  const [row] = await findInvoices(reader, accountId, [id])
  return row
}

export async function findDebtorIdOfInvoice(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<string | undefined> {
  const [row] = await readDebtorId(reader, { accountId, id })
  return row?.debtor_id
}

const readDebtorId = prepared(
  (reader: Reader, { accountId, id }: { readonly accountId: string; readonly id: string }) =>
    reader
      .selectFrom('invoices')
      .select('debtor_id')
      .where('account_id', '=', accountId)
      .where('id', '=', id),
)

/** For reading many invoices whose lines are not needed: the lines of one invoice can have 256 KB. */
export const COLUMNS_WITHOUT_LINES = INVOICE_COLUMNS.filter((name) => name !== 'line_items')

/** Returns the invoices that exist in the account, in no particular order. */
export async function findInvoices(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<InvoiceRow[]> {
  return await readInvoices(reader, { accountId, ids })
}

const readInvoices = prepared(
  (reader: Reader, { accountId, ids }: { accountId: string; ids: readonly string[] }) =>
    reader
      .selectFrom('invoices')
      .select(INVOICE_COLUMNS)
      .where('account_id', '=', accountId)
      .where('id', 'in', ids),
)

/** Like `findInvoices`; but if there are several ids, reads the lines only if a webhook event may need them. */
export async function findInvoicesToSettle(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<InvoiceRowWithOptionalLines[]> {
  // For one invoice, checking whether its lines are needed would usually take longer than reading them.
  if (ids.length === 1) return await readInvoices(reader, { accountId, ids })
  return await readInvoicesToSettle(reader, { accountId, ids })
}

const readInvoicesToSettle = prepared(
  (reader: Reader, { accountId, ids }: { accountId: string; ids: readonly string[] }) =>
    reader
      .selectFrom('invoices')
      .select(COLUMNS_WITHOUT_LINES)
      .select((eb) =>
        eb
          .case()
          .when(
            eb.exists(
              selectEnabledOrPausedEndpoints(reader, accountId).select('webhook_endpoints.id'),
            ),
          )
          .then(eb.ref('line_items'))
          .end()
          .as('line_items'),
      )
      .where('account_id', '=', accountId)
      .where('id', 'in', ids),
)

/**
 * Returns at most `max` open and partially paid invoices of a debtor in one currency, without their lines. The invoice
 * `firstId`, if given, comes first. The others follow by due date. A debtor may have thousands of invoices, and reading
 * all would block the process.
 */
export async function listOpenInvoices(
  reader: Reader,
  accountId: string,
  debtorId: string,
  currency: string,
  { max, firstId }: { readonly max: number; readonly firstId?: string | undefined },
): Promise<InvoiceRowWithOptionalLines[]> {
  const open = reader
    .selectFrom('invoices')
    .select(COLUMNS_WITHOUT_LINES)
    .select(sql<null>`null`.as('line_items'))
    // With the plain column, SQLite would use an index of the account instead of that of the debtor's open invoices.
    .where(UNINDEXED_ACCOUNT_ID, '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where('currency', '=', currency)
    .where(IS_OPEN)
  // With `firstId`, the database must sort all open invoices of the debtor.
  const ordered = firstId === undefined ? open : open.orderBy(sql`id = ${firstId}`, 'desc')
  return await ordered.orderBy('due_date').orderBy('id').limit(max).execute()
}

/** Only literals, not parameters, match the condition of a partial index. */
const IS_OPEN = sql<SqlBool>`status in ('open', 'partially_paid')`
