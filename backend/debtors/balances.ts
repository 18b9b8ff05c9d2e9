import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { cappedSum } from '../database/capped-sum.ts'
import type { Reader } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import { jsonRows } from '../lists/json-rows.ts'

/** The balance of a debtor in one currency. Its three sums are capped (see `cappedSum`). */
export interface Balance {
  readonly currency: string
  /** The amount due on open invoices (see `INVOICE_IS_OPEN`). */
  readonly outstanding: number
  /** The part of `outstanding` on invoices that are past due. */
  readonly overdue: number
  /** Money on account: received, but not allocated to an invoice. */
  readonly unapplied: number
}

/**
 * Returns the balances of each debtor, sorted by currency, in a map by debtor id. `today` is the current date in the
 * account's time zone.
 */
export async function readBalances(
  reader: Reader,
  accountId: string,
  debtorIds: readonly string[],
  today: string,
): Promise<ReadonlyMap<string, readonly Balance[]>> {
  if (debtorIds.length === 0) return new Map()
  const rows = await readRows(reader, { accountId, debtorIds, today })
  return new Map(rows.map((row) => [row.id, balancesOf(row)]))
}

const readRows = prepared(
  (
    reader: Reader,
    values: {
      readonly accountId: string
      readonly debtorIds: readonly string[]
      readonly today: string
    },
  ) =>
    reader
      .selectFrom('debtors')
      .where('account_id', '=', values.accountId)
      .where('id', 'in', values.debtorIds)
      .select(['id', selectBalances(reader, values.today).as('balances')]),
)

/**
 * An invoice with the status `partially_paid` also counts as open. This condition and the next one contain literals
 * instead of parameters, because a database uses a partial index only if the text of the statement contains the
 * condition of the index.
 */
export const INVOICE_IS_OPEN = sql<SqlBool>`invoices.status in ('open', 'partially_paid')`
export const PAYMENT_IS_UNAPPLIED = sql<SqlBool>`payments.status = 'recorded' and payments.unapplied_amount > 0`

/** A row with the column that `selectBalances` selects. */
export interface RowWithBalances {
  /** A JSON text, see `balancesOf`. */
  readonly balances: string
}

/** Returns the expression of the column `balances`, for a statement that selects rows of `debtors`. */
export function selectBalances(reader: Reader, today: string): RawBuilder<string> {
  const overdue = sql`case when invoices.due_date < ${today} then invoices.amount_due else 0 end`
  return jsonRows(
    reader,
    ['currency', 'outstanding', 'overdue', 'unapplied'],
    sql`select currency, ${cappedSum('outstanding')} as outstanding, ${cappedSum('overdue')} as overdue,
        ${cappedSum('unapplied')} as unapplied
      from (
        select invoices.currency, invoices.amount_due as outstanding, ${overdue} as overdue, 0 as unapplied
        from invoices where invoices.debtor_id = debtors.id and ${INVOICE_IS_OPEN}
        union all
        select payments.currency, 0, 0, payments.unapplied_amount
        from payments where payments.debtor_id = debtors.id and ${PAYMENT_IS_UNAPPLIED}
      ) as amounts
      group by currency order by currency`,
  )
}

export function balancesOf({ balances }: RowWithBalances): Balance[] {
  const rows: [string, number, number, number][] = JSON.parse(balances)
  return rows.map(([currency, outstanding, overdue, unapplied]) => {
    return { currency, outstanding, overdue, unapplied }
  })
}
