/**
 * Reads what debtors owe to an account. The totals are stored in tables, because summing all invoices would be slow.
 * Only debtors that owe money have a row in `debtor_standings`.
 */
import { type SelectQueryBuilder, type SqlBool, sql } from 'kysely'
import { addDays } from '../calendar/calendar.ts'
import { capped, cappedSum } from '../database/capped-sum.ts'
import type { Reader } from '../database/database.ts'
import type { DueTotalRow, Tables } from '../database/tables.ts'

/** Groups of invoices by days past due. `from` and `to` are the first and the last day; null if there is none. */
export const AGES = [
  { name: 'not_due', from: null, to: 0 },
  { name: 'days_1_30', from: 1, to: 30 },
  { name: 'days_31_60', from: 31, to: 60 },
  { name: 'days_61_90', from: 61, to: 90 },
  { name: 'days_over_90', from: 91, to: null },
] as const

export interface DueTotal {
  /** At most `SUM_MAX`, because a larger sum would not be exact. */
  readonly amount: number
  readonly invoices: number
}

export interface DueByAge {
  readonly currency: string
  readonly outstanding: DueTotal
  readonly overdue: DueTotal
  /** In the order of `AGES`. */
  readonly ages: readonly DueTotal[]
}

/**
 * Returns an entry for each currency in which an invoice is open, sorted by currency code. The amounts include those
 * that archived debtors owe.
 */
export async function readDueByAge(
  reader: Reader,
  accountId: string,
  today: string,
): Promise<DueByAge[]> {
  const totals = reader
    .selectFrom('due_totals')
    .select(['currency', 'due_date', 'amount', 'invoices'])
    .where('account_id', '=', accountId)
  return await sumByAge(reader, totals, today)
}

/** Like `readDueByAge`, but returns only the amounts that archived debtors owe. */
export async function readArchivedDueByAge(
  reader: Reader,
  accountId: string,
  today: string,
): Promise<DueByAge[]> {
  const archived = reader
    .selectFrom('debtor_standings')
    .innerJoin('debtor_dues', 'debtor_dues.debtor_id', 'debtor_standings.debtor_id')
    .select(['currency', 'due_date', 'amount', 'invoices'])
    .where('debtor_standings.account_id', '=', accountId)
    // A literal, so that the partial index is used.
    .where(sql<SqlBool>`debtor_standings.is_active = 0`)
  return await sumByAge(reader, archived, today)
}

type DueRow = Pick<DueTotalRow, 'currency' | 'due_date' | 'amount' | 'invoices'>

async function sumByAge(
  reader: Reader,
  totals: SelectQueryBuilder<Tables, never, DueRow>,
  today: string,
): Promise<DueByAge[]> {
  const [daysAgo30, daysAgo60, daysAgo90] = [30, 60, 90].map((days) => addDays(today, -days))
  // The index of the group in `AGES`, whose boundaries are repeated here.
  const age = sql<number>`case when due_date >= ${today} then 0 when due_date >= ${daysAgo30} then 1
    when due_date >= ${daysAgo60} then 2 when due_date >= ${daysAgo90} then 3 else 4 end`
  const aged = reader
    .selectFrom(totals.as('totals'))
    .select(['currency', 'amount', 'invoices', age.as('age')])
  const rows = await reader
    .selectFrom(aged.as('aged'))
    .groupBy(['currency', 'age'])
    .orderBy('currency')
    .select(({ fn }) => [
      'currency',
      'age',
      cappedSum('amount').as('amount'),
      fn.sum<number | string>('invoices').as('invoices'),
    ])
    .execute()
  return [...Map.groupBy(rows, (row) => row.currency)].flatMap(([currency, groups]) => {
    const ages = AGES.map((_, index) => {
      const group = groups.find((candidate) => Number(candidate.age) === index)
      return { amount: group?.amount ?? 0, invoices: Number(group?.invoices ?? 0) }
    })
    const outstanding = sumOf(ages)
    if (outstanding.invoices === 0) return []
    return [{ currency, outstanding, overdue: sumOf(ages.slice(1)), ages }]
  })
}

function sumOf(totals: readonly DueTotal[]): DueTotal {
  return {
    amount: capped(totals.reduce((sum, { amount }) => sum + amount, 0)),
    invoices: totals.reduce((sum, { invoices }) => sum + invoices, 0),
  }
}

export interface LargeDebtor {
  readonly debtorId: string
  readonly outstanding: number
}

/** A condition on `debtor_balances`, whose rows are kept when a debtor is archived. */
export const IS_BALANCE_OF_ACTIVE_DEBTOR = sql<SqlBool>`exists (select 1 from debtors
  where debtors.id = debtor_balances.debtor_id and debtors.status = 'active')`

/** Returns the active debtors that owe the most in the currency, the largest amount first. */
export async function listLargestDebtors(
  reader: Reader,
  accountId: string,
  currency: string,
  limit: number,
): Promise<LargeDebtor[]> {
  const rows = await reader
    .selectFrom('debtor_balances')
    .select(['debtor_id', 'outstanding'])
    .where('account_id', '=', accountId)
    .where('currency', '=', currency)
    .where(IS_BALANCE_OF_ACTIVE_DEBTOR)
    .orderBy('outstanding', 'desc')
    .orderBy('debtor_id', 'desc')
    .limit(limit)
    .execute()
  return rows.map((row) => ({ debtorId: row.debtor_id, outstanding: Number(row.outstanding) }))
}

/** Counts active debtors that owe money and cannot be reached by e-mail. The count stops at `countMax`. */
export async function countUnreachableDebtorsOwing(
  reader: Reader,
  accountId: string,
  countMax: number,
): Promise<number> {
  const unreachable = reader
    .selectFrom('debtor_standings')
    .select('debtor_id')
    .where('account_id', '=', accountId)
    .where(sql<boolean>`is_active = 1 and is_reachable = 0`)
    .limit(countMax)
  const row = await reader
    .selectFrom(unreachable.as('unreachable'))
    .select(({ fn }) => fn.countAll<number | string>().as('count'))
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

/** Returns the oldest due date of each debtor's open invoices, by debtor id. */
export async function readOldestDueDates(
  reader: Reader,
  debtorIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  if (debtorIds.length === 0) return new Map()
  const rows = await reader
    .selectFrom('debtor_standings')
    .select(['debtor_id', 'oldest_due_date'])
    .where('debtor_id', 'in', debtorIds)
    .execute()
  return new Map(rows.map((row) => [row.debtor_id, row.oldest_due_date]))
}
