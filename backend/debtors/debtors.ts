/**
 * Creates, reads, locks and lists debtors. Every transaction that changes what a debtor owes or has paid must lock the
 * debtor first, so that these transactions are serialized.
 */

import { createId } from '../../shared/contract/id.ts'
import type { Reader, Transaction } from '../database/database.ts'
import { prepared, preparedPage } from '../database/prepared.ts'
import { nextRevision } from '../database/revision.ts'
import { DEBTOR_COLUMNS } from '../database/tables/debtors.ts'
import type { DebtorRow } from '../database/tables.ts'
import { recordEvent } from '../events/events.ts'
import {
  columnOrUnindexed,
  equals,
  equalsLiteral,
  ignoreSortIndexIfFiltered,
  type KeysetPage,
  type PageBounds,
  type PageVariant,
  pageWithBounds,
  type TimeFilters,
  within,
  withinBounds,
  withinTimes,
} from '../lists/keyset.ts'
import { literalFilter, rangeFilter, readPage, selectPage } from '../lists/page.ts'
import { prefixRange } from '../lists/prefix.ts'
import { insertWithUniqueExternalId } from '../validation/external-id.ts'
import { normalizeText } from '../validation/unicode.ts'
import { type RowWithBalances, selectBalances } from './balances.ts'
import { representDebtor } from './representation.ts'
import { readContactability } from './suppressed-addresses.ts'

export interface NewDebtor {
  readonly name: string
  readonly externalId: string | null
  readonly email: string | null
  readonly phone: string | null
  readonly language: string | null
  readonly timezone: string | null
  readonly currency: string | null
  readonly paymentTermsDays: number | null
  readonly address: object | null
  readonly taxId: string | null
  readonly companyNumber: string | null
  readonly metadata: Readonly<Record<string, string>>
}

export interface DebtorOwner {
  readonly accountId: string
  /** Debtors of a demo account are sample data, and are never contacted. */
  readonly isDemo: boolean
}

/** Throws `duplicate_external_id`. */
export async function createDebtor(
  tx: Transaction,
  { accountId, isDemo }: DebtorOwner,
  input: NewDebtor,
  now: Date,
): Promise<DebtorRow> {
  const row: DebtorRow = {
    id: createId('deb'),
    account_id: accountId,
    external_id: input.externalId,
    name: input.name,
    name_search: normalizeForSearch(input.name),
    email: input.email,
    phone: input.phone,
    language: input.language,
    timezone: input.timezone,
    currency: input.currency,
    payment_terms_days: input.paymentTermsDays,
    address: input.address === null ? null : JSON.stringify(input.address),
    tax_id: input.taxId,
    company_number: input.companyNumber,
    status: 'active',
    is_demo: isDemo ? 1 : 0,
    // The address may already be suppressed, because another debtor has or had the same address.
    contactability_email: await readContactability(tx, accountId, input.email),
    chasing_status: 'active',
    chasing_reason: null,
    chasing_until: null,
    ladder: null,
    plan_at: null,
    erased_at: null,
    metadata: JSON.stringify(input.metadata),
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
    revision: 1,
  }
  await insertWithUniqueExternalId(tx, 'debtors', row, () =>
    tx.insertInto('debtors').values(row).execute(),
  )
  const represent = () => representDebtor(row, [])
  await recordEvent(tx, { accountId, type: 'debtor.created', subjectId: row.id, represent }, now)
  return row
}

export async function findDebtor(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<DebtorRow | undefined> {
  const [row] = await readDebtor(reader, { accountId, id })
  return row
}

interface DebtorKey {
  readonly accountId: string
  readonly id: string
}

const readDebtor = prepared(selectDebtor)

export async function debtorExists(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<boolean> {
  return (await readDebtorId(reader, { accountId, id })).length > 0
}

const readDebtorId = prepared((reader: Reader, { accountId, id }: DebtorKey) =>
  reader
    .selectFrom('debtors')
    .select('id')
    .where('account_id', '=', accountId)
    .where('id', '=', id),
)

function selectDebtor(reader: Reader, { accountId, id }: DebtorKey) {
  return reader
    .selectFrom('debtors')
    .select(DEBTOR_COLUMNS)
    .where('account_id', '=', accountId)
    .where('id', '=', id)
}

/** Locks the debtor until the transaction ends. Other transactions may still insert rows that reference the debtor. */
export async function lockDebtor(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<DebtorRow | undefined> {
  return await selectDebtor(tx, { accountId, id }).forNoKeyUpdate().executeTakeFirst()
}

/** Locks the debtor without reading it; does nothing if there is none. */
export async function lockDebtorId(tx: Transaction, accountId: string, id: string): Promise<void> {
  await selectIdAndLock(tx, { accountId, id })
}

const selectIdAndLock = prepared((tx: Transaction, { accountId, id }: DebtorKey) =>
  tx
    .selectFrom('debtors')
    .select('id')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .forNoKeyUpdate(),
)

export async function findDebtorIdByExternalId(
  reader: Reader,
  accountId: string,
  externalId: string,
): Promise<string | undefined> {
  const row = await reader
    .selectFrom('debtors')
    .select('id')
    .where('account_id', '=', accountId)
    .where('external_id', '=', externalId)
    .executeTakeFirst()
  return row?.id
}

/**
 * Marks the debtor as updated, because its balances change, and sets `plan_at`, so that a worker plans the debtor's
 * reminders again. The update also locks the debtor until the transaction ends. Does nothing if there is no such
 * debtor.
 */
export async function markDebtorUpdated(
  tx: Transaction,
  accountId: string,
  id: string,
  now: Date,
): Promise<void> {
  await markUpdatedById(tx, { accountId, id, at: now.toISOString() })
}

const markUpdatedById = prepared((tx: Transaction, { accountId, id, at }: DebtorKey & UpdateTime) =>
  updateAndReplan(tx, accountId, at).where('id', '=', id),
)

/** Like `markDebtorUpdated`, but for the debtor of an invoice. */
export async function markDebtorOfInvoiceUpdated(
  tx: Transaction,
  accountId: string,
  invoiceId: string,
  now: Date,
): Promise<void> {
  await markUpdatedByInvoice(tx, { accountId, invoiceId, at: now.toISOString() })
}

const markUpdatedByInvoice = prepared(
  (
    tx: Transaction,
    { accountId, invoiceId, at }: { accountId: string; invoiceId: string } & UpdateTime,
  ) =>
    // The debtor of an invoice never changes, so its id can be read before the debtor is locked.
    updateAndReplan(tx, accountId, at).where('id', '=', (eb) =>
      eb
        .selectFrom('invoices')
        .select('debtor_id')
        .where('account_id', '=', accountId)
        .where('id', '=', invoiceId),
    ),
)

interface UpdateTime {
  readonly at: string
}

function updateAndReplan(tx: Transaction, accountId: string, at: string) {
  return tx
    .updateTable('debtors')
    .set({ plan_at: at, ...nextRevision(tx, at) })
    .where('account_id', '=', accountId)
}

/** Sets `plan_at`, so that a worker plans the debtor's reminders again, but does not mark the debtor as updated. */
export async function replanDebtor(
  tx: Transaction,
  accountId: string,
  id: string,
  now: Date,
): Promise<void> {
  await tx
    .updateTable('debtors')
    .set({ plan_at: now.toISOString() })
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .execute()
}

export interface DebtorFilters extends TimeFilters {
  readonly external_id?: string
  readonly email?: string
  /** A prefix of the name. */
  readonly q?: string
  readonly status?: string
}

/** Returns debtors with their balances. `today` is the current date in the account's time zone. */
export async function listDebtors(
  reader: Reader,
  accountId: string,
  { status, q, ...filters }: DebtorFilters,
  today: string,
  page: KeysetPage,
): Promise<(DebtorRow & RowWithBalances)[]> {
  const names = q === undefined ? undefined : nameRangeOf(q)
  const list = {
    table: 'debtors',
    values: { ...filters, ...names, accountId, today },
    // With one of these, few debtors match, so `readPage` need not scan.
    selectiveFilters: [filters.external_id, filters.email],
    broadFilters: [
      literalFilter('status', [status]),
      ...(names === undefined
        ? []
        : [rangeFilter('name_search', names.nameFrom, names.nameBefore)]),
    ],
  } as const
  return await readPage(reader, list, page, (valuesWithBounds, variant) =>
    readDebtors(reader, valuesWithBounds, { ...variant, status }),
  )
}

function nameRangeOf(prefix: string) {
  const { from, before } = prefixRange(normalizeForSearch(prefix))
  return { nameFrom: from, nameBefore: before }
}

type Values = Omit<DebtorFilters, 'status' | 'q'> &
  Partial<ReturnType<typeof nameRangeOf>> &
  PageBounds & { readonly accountId: string; readonly today: string }

type Variant = PageVariant & { readonly status: string | undefined }

const readDebtors = preparedPage((reader: Reader, filters: Values, variant: Variant) => {
  const page = pageWithBounds(variant, filters)
  const pageWithSortHint = ignoreSortIndexIfFiltered(page, { byOtherFilters: [filters.email] })
  const conditions = [
    ...equals('account_id', filters.accountId),
    ...withinTimes(filters, page),
    ...equals('external_id', filters.external_id),
    ...equals('email', filters.email),
    ...equalsLiteral(
      columnOrUnindexed(page, 'status', { noIndexIfFilteredBy: [filters.email, filters.nameFrom] }),
      variant.status,
    ),
    ...within(columnOrUnindexed(page, 'name_search'), filters.nameFrom, filters.nameBefore),
    ...withinBounds(pageWithSortHint),
  ]
  return selectPage<DebtorRow & RowWithBalances>(
    reader,
    'debtors',
    DEBTOR_COLUMNS,
    pageWithSortHint,
    conditions,
    { balances: selectBalances(reader, filters.today) },
  )
})

/** Normalizes a stored text or a search query, so that searches ignore case and variants such as full-width letters. */
export function normalizeForSearch(text: string): string {
  return normalizeText(text, 'NFKC').toLowerCase()
}
