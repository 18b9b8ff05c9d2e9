/** Reads a debtor and its balances in one statement, because this read is the most frequent one. */
import assert from 'node:assert'
import { sql } from 'kysely'
import { addDays } from '../calendar/calendar.ts'
import { cappedSum } from '../database/capped-sum.ts'
import type { Reader } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import { DEBTOR_COLUMNS } from '../database/tables/debtors.ts'
import type { DebtorRow } from '../database/tables.ts'
import { type Balance, INVOICE_IS_OPEN, PAYMENT_IS_UNAPPLIED } from './balances.ts'

export interface DebtorWithBalances {
  readonly row: DebtorRow
  /** Returns one balance per currency. `today` is the account's date at the time of the read. */
  balancesOn(today: string): Balance[]
}

/**
 * Reads what is overdue on each of the three dates that can be today's date in the account's time zone. The read can
 * therefore begin before the account's row, with the time zone, has been read.
 */
export async function findDebtorWithBalances(
  reader: Reader,
  accountId: string,
  id: string,
  now: Date,
): Promise<DebtorWithBalances | undefined> {
  // The date differs by at most one day between UTC and any time zone.
  const utcDate = now.toISOString().slice(0, 10)
  const dates = { yesterday: addDays(utcDate, -1), today: utcDate, tomorrow: addDays(utcDate, 1) }
  const rows = await readRows(reader, { accountId, id, ...dates })
  const [row] = rows
  return row && { row, balancesOn: (date) => balancesOf(rows, dates, date) }
}

type Dates = { readonly [Day in 'yesterday' | 'today' | 'tomorrow']: string }

type Row = Awaited<ReturnType<typeof readRows>>[number]

function balancesOf(rows: readonly Row[], dates: Dates, date: string): Balance[] {
  const overdueColumn = new Map([
    [dates.yesterday, 'overdue_yesterday'],
    [dates.today, 'overdue_today'],
    [dates.tomorrow, 'overdue_tomorrow'],
  ] as const).get(date)
  assert(overdueColumn !== undefined, `${date} was not the current date in any time zone`)
  return rows.flatMap((row) =>
    row.balance_currency === null
      ? []
      : {
          currency: row.balance_currency,
          outstanding: Number(row.outstanding),
          overdue: Number(row[overdueColumn]),
          unapplied: Number(row.unapplied),
        },
  )
}

/**
 * Returns a row for each currency in which the debtor has a balance, or one row without a currency if the debtor has no
 * balance. Returns no row if the debtor does not exist.
 */
const readRows = prepared(
  (reader: Reader, { accountId, id, ...dates }: { accountId: string; id: string } & Dates) => {
    const overdueOn = (date: string) =>
      sql<number>`case when invoices.due_date < ${date} then invoices.amount_due else 0 end`
    const nothing = sql<number>`0`
    const amounts = reader
      .selectFrom('invoices')
      .where('invoices.debtor_id', '=', id)
      .where(INVOICE_IS_OPEN)
      .select([
        'invoices.currency',
        'invoices.amount_due as outstanding',
        overdueOn(dates.yesterday).as('overdue_yesterday'),
        overdueOn(dates.today).as('overdue_today'),
        overdueOn(dates.tomorrow).as('overdue_tomorrow'),
        nothing.as('unapplied'),
      ])
      .unionAll(
        reader
          .selectFrom('payments')
          .where('payments.debtor_id', '=', id)
          .where(PAYMENT_IS_UNAPPLIED)
          .select([
            'payments.currency',
            nothing.as('outstanding'),
            nothing.as('overdue_yesterday'),
            nothing.as('overdue_today'),
            nothing.as('overdue_tomorrow'),
            'payments.unapplied_amount as unapplied',
          ]),
      )
    const balances = reader
      .selectFrom(amounts.as('amounts'))
      .groupBy('currency')
      .select([
        'currency as balance_currency',
        cappedSum('outstanding').as('outstanding'),
        cappedSum('overdue_yesterday').as('overdue_yesterday'),
        cappedSum('overdue_today').as('overdue_today'),
        cappedSum('overdue_tomorrow').as('overdue_tomorrow'),
        cappedSum('unapplied').as('unapplied'),
      ])
    return reader
      .selectFrom('debtors')
      .leftJoin(balances.as('balances'), (join) => join.onTrue())
      .where('debtors.account_id', '=', accountId)
      .where('debtors.id', '=', id)
      .select(DEBTOR_COLUMNS.map((column) => `debtors.${column}` as const))
      .select([
        'balances.balance_currency',
        'balances.outstanding',
        'balances.overdue_yesterday',
        'balances.overdue_today',
        'balances.overdue_tomorrow',
        'balances.unapplied',
      ])
      .orderBy('balances.balance_currency')
  },
)
