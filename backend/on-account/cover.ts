/**
 * Money on account has been received from a debtor, but is not allocated to an invoice. For reminders, it
 * covers the debtor's open invoices in the same currency, starting with the invoice that is due first.
 */
import { type SqlBool, sql } from 'kysely'
import { cappedSum } from '../database/capped-sum.ts'
import type { Reader } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import type { InvoiceRow } from '../database/tables.ts'

/** Minor units on account, by currency. */
export type MoneyOnAccount = ReadonlyMap<string, number>

export type CoverableInvoice = Pick<InvoiceRow, 'id' | 'currency' | 'due_date' | 'amount_due'>

/**
 * Returns how much of each invoice the money covers, in minor units, by invoice id. An uncovered invoice is absent.
 * `invoices` must be all open invoices of one debtor, in any order.
 */
export function coverInvoices(
  invoices: readonly CoverableInvoice[],
  onAccount: MoneyOnAccount,
): ReadonlyMap<string, number> {
  const covered = new Map<string, number>()
  if (onAccount.size === 0) return covered
  const remaining = new Map(onAccount)
  for (const { id, currency, amount_due } of invoices.toSorted(byDueDate)) {
    const amount = Math.min(remaining.get(currency) ?? 0, amount_due)
    if (amount <= 0) continue
    covered.set(id, amount)
    remaining.set(currency, (remaining.get(currency) ?? 0) - amount)
  }
  return covered
}

/** Compares two invoices by the order in which money on account covers them. */
export function byDueDate(
  a: Pick<InvoiceRow, 'id' | 'due_date'>,
  b: Pick<InvoiceRow, 'id' | 'due_date'>,
): number {
  if (a.due_date !== b.due_date) return a.due_date < b.due_date ? -1 : 1
  return a.id < b.id ? -1 : 1
}

/** Returns the money on account by debtor id. A debtor without money on account is absent. */
export async function readMoneyOnAccount(
  reader: Reader,
  debtorIds: readonly string[],
): Promise<ReadonlyMap<string, MoneyOnAccount>> {
  if (debtorIds.length === 0) return new Map()
  const rows = await sumMoneyOnAccount(reader, { debtorIds })
  const byDebtor = Map.groupBy(rows, (row) => row.debtor_id)
  return new Map(
    [...byDebtor].map(([id, sums]) => [
      id,
      new Map(sums.map(({ currency, amount }) => [currency, amount])),
    ]),
  )
}

/**
 * Contains literals, because a database uses a partial index only if the statement contains the condition of the index.
 */
const IS_ON_ACCOUNT = sql<SqlBool>`status = 'recorded' and unapplied_amount > 0`

const sumMoneyOnAccount = prepared(
  (reader: Reader, { debtorIds }: { debtorIds: readonly string[] }) =>
    reader
      .selectFrom('payments')
      .select(['debtor_id', 'currency', cappedSum('unapplied_amount').as('amount')])
      .where('debtor_id', 'in', debtorIds)
      .where(IS_ON_ACCOUNT)
      .groupBy(['debtor_id', 'currency']),
)

/** The part of a payment that becomes money on account when the payment is recorded. */
export interface IncomingMoney {
  readonly currency: string
  readonly amount: number
}

/**
 * Like `coverInvoices`, for the open invoices and the money on account of the debtor. `incoming` counts as money on
 * account.
 */
export async function readCover(
  reader: Reader,
  debtorId: string,
  incoming?: IncomingMoney,
): Promise<ReadonlyMap<string, number>> {
  const onAccount = new Map((await readMoneyOnAccount(reader, [debtorId])).get(debtorId))
  if (incoming !== undefined) {
    const { currency, amount } = incoming
    onAccount.set(currency, (onAccount.get(currency) ?? 0) + amount)
  }
  if (onAccount.size === 0) return new Map()
  return coverInvoices(await readOpenInvoices(reader, { debtorId }), onAccount)
}

/** Whether the money on account covers the whole amount of an invoice that is being created. */
export async function coversNewInvoice(
  reader: Reader,
  debtorId: string,
  invoice: CoverableInvoice,
): Promise<boolean> {
  const onAccount = (await readMoneyOnAccount(reader, [debtorId])).get(debtorId)
  if (!onAccount?.has(invoice.currency)) return false
  const open = await readOpenInvoices(reader, { debtorId })
  return coverInvoices([...open, invoice], onAccount).get(invoice.id) === invoice.amount_due
}

const IS_OPEN = sql<SqlBool>`status in ('open', 'partially_paid')`

const readOpenInvoices = prepared((reader: Reader, { debtorId }: { debtorId: string }) =>
  reader
    .selectFrom('invoices')
    .select(['id', 'currency', 'due_date', 'amount_due'])
    .where('debtor_id', '=', debtorId)
    .where(IS_OPEN),
)
