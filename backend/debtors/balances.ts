/** Computes what debtors owe, and their money on account. */
import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { cappedSum } from '../database/capped-sum.ts'
import type { Reader } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import { jsonRows } from '../lists/json-rows.ts'

/** The balance of a debtor in one currency; never summed across currencies. */
export interface Balance {
  readonly currency: string
  /** The amount due on open invoices (see `INVOICE_IS_OPEN`). All three sums are capped (see `cappedSum`). */
  outstanding: number
  /** The part of `outstanding` that is past its due date. */
  overdue: number
  /** Money on account: received, but not allocated to an invoice. */
  unapplied: number
}

/**
 * Returns the balances of each debtor, sorted by currency, in a map by debtor id. `today` is the current date
 * in the account's time zone. A debtor without an entry owes nothing and has no money on account.
 */
export async function readBalances(
  reader: Reader,
  accountId: string,
  debtorIds: readonly string[],
  today: string,
): Promise<ReadonlyMap<string, readonly Balance[]>> {
  if (debtorIds.length === 0) return new Map()
  const [due, unapplied] = await Promise.all([
    sumInvoices(reader, { accountId, debtorIds, today }),
    sumUnapplied(reader, { accountId, debtorIds }),
  ])
  const balances = new Map<string, Balance[]>()
  const findOrAddBalance = (debtorId: string, currency: string): Balance => {
    const ofDebtor = balances.get(debtorId) ?? []
    const existing = ofDebtor.find((balance) => balance.currency === currency)
    if (existing !== undefined) return existing
    const balance = { currency, outstanding: 0, overdue: 0, unapplied: 0 }
    balances.set(debtorId, [...ofDebtor, balance])
    return balance
  }
  for (const row of due) {
    const balance = findOrAddBalance(row.debtor_id, row.currency)
    balance.outstanding = row.outstanding
    balance.overdue = row.overdue
  }
  for (const row of unapplied) {
    findOrAddBalance(row.debtor_id, row.currency).unapplied = row.unapplied
  }
  for (const list of balances.values()) list.sort((a, b) => (a.currency < b.currency ? -1 : 1))
  return balances
}

/**
 * An invoice with the status `partially_paid` also counts as open. These conditions contain literals instead of
 * parameters, because a database uses a partial index only if the text of the statement contains the condition of the
 * index.
 */
export const INVOICE_IS_OPEN = sql<SqlBool>`invoices.status in ('open', 'partially_paid')`
export const PAYMENT_IS_UNAPPLIED = sql<SqlBool>`payments.status = 'recorded' and payments.unapplied_amount > 0`

interface DebtorIds {
  readonly accountId: string
  readonly debtorIds: readonly string[]
}

const sumInvoices = prepared(
  (reader: Reader, { accountId, debtorIds, today }: DebtorIds & { today: string }) =>
    reader
      .selectFrom('debtors')
      .innerJoin('invoices', 'invoices.debtor_id', 'debtors.id')
      .where('debtors.account_id', '=', accountId)
      .where('debtors.id', 'in', debtorIds)
      .where(INVOICE_IS_OPEN)
      .groupBy(['debtors.id', 'invoices.currency'])
      .select([
        'debtors.id as debtor_id',
        'invoices.currency',
        cappedSum('invoices.amount_due').as('outstanding'),
        cappedSum(
          sql`case when invoices.due_date < ${today} then invoices.amount_due else 0 end`,
        ).as('overdue'),
      ]),
)

const sumUnapplied = prepared((reader: Reader, { accountId, debtorIds }: DebtorIds) =>
  reader
    .selectFrom('debtors')
    .innerJoin('payments', 'payments.debtor_id', 'debtors.id')
    .where('debtors.account_id', '=', accountId)
    .where('debtors.id', 'in', debtorIds)
    .where(PAYMENT_IS_UNAPPLIED)
    .groupBy(['debtors.id', 'payments.currency'])
    .select([
      'debtors.id as debtor_id',
      'payments.currency',
      cappedSum('payments.unapplied_amount').as('unapplied'),
    ]),
)

/** The balances of a debtor in a list. The statement that reads the debtor also reads them, see `listOperation`. */
export interface ListedBalances {
  /** A JSON text, see `balancesOfListed`. */
  readonly balances: string
}

/** Returns the expression of the column `balances`, for a statement that selects rows of `debtors`. */
export function selectListedBalances(reader: Reader, today: string): RawBuilder<string> {
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

export function balancesOfListed({ balances }: ListedBalances): Balance[] {
  const rows: [string, number, number, number][] = JSON.parse(balances)
  return rows.map(([currency, outstanding, overdue, unapplied]) => {
    return { currency, outstanding, overdue, unapplied }
  })
}
