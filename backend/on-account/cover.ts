/**
 * Money on account: received from a debtor and allocated to no invoice. For the purpose of reminders it
 * covers the debtor's open invoices of the same currency, those due first before the others.
 */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import type { InvoiceRow } from '../database/tables.ts'

/** Minor units on account, by currency. */
export type Credit = ReadonlyMap<string, number>

export type CoverableInvoice = Pick<InvoiceRow, 'id' | 'currency' | 'due_date' | 'amount_due'>

/**
 * Returns how much of each invoice the credit covers, by invoice id; an invoice without cover is absent.
 * `invoices` must be all open invoices of one debtor, in any order.
 */
export function coverInvoices(
  invoices: readonly CoverableInvoice[],
  credit: Credit,
): ReadonlyMap<string, number> {
  const covered = new Map<string, number>()
  if (credit.size === 0) return covered
  const left = new Map(credit)
  for (const { id, currency, amount_due } of invoices.toSorted(byDueDate)) {
    const amount = Math.min(left.get(currency) ?? 0, amount_due)
    if (amount <= 0) continue
    covered.set(id, amount)
    left.set(currency, (left.get(currency) ?? 0) - amount)
  }
  return covered
}

/** The order in which money is applied: by due date, invoices of the same day by id. */
export function byDueDate(
  a: Pick<InvoiceRow, 'id' | 'due_date'>,
  b: Pick<InvoiceRow, 'id' | 'due_date'>,
): number {
  if (a.due_date !== b.due_date) return a.due_date < b.due_date ? -1 : 1
  return a.id < b.id ? -1 : 1
}

/** The credit of each of these debtors, by debtor id. A debtor without credit is absent. */
export async function readCredit(
  reader: Reader,
  debtorIds: readonly string[],
): Promise<ReadonlyMap<string, Credit>> {
  if (debtorIds.length === 0) return new Map()
  const rows = await sumCredit(reader, { debtorIds })
  const byDebtor = Map.groupBy(rows, (row) => row.debtor_id)
  return new Map(
    [...byDebtor].map(([id, own]) => [
      id,
      // PostgreSQL returns sums as text, because they may exceed 64 bits.
      new Map(own.map(({ currency, amount }) => [currency, Number(amount)])),
    ]),
  )
}

/** Literals, not parameters: a partial index is used only if the statement's text contains its condition. */
const IS_ON_ACCOUNT = sql<SqlBool>`status = 'recorded' and unapplied_amount > 0`

const sumCredit = prepared((reader: Reader, { debtorIds }: { debtorIds: readonly string[] }) =>
  reader
    .selectFrom('payments')
    .select((eb) => [
      'debtor_id',
      'currency',
      eb.fn.sum<number | string>('unapplied_amount').as('amount'),
    ])
    .where('debtor_id', 'in', debtorIds)
    .where(IS_ON_ACCOUNT)
    .groupBy(['debtor_id', 'currency']),
)

/** Money of a payment that is being recorded. */
export interface IncomingCredit {
  readonly currency: string
  readonly amount: number
}

/** The part of each open invoice that the debtor's money on account covers, in minor units, by invoice id. */
export async function readCover(
  reader: Reader,
  debtorId: string,
  incoming?: IncomingCredit,
): Promise<ReadonlyMap<string, number>> {
  const credit = new Map((await readCredit(reader, [debtorId])).get(debtorId))
  if (incoming !== undefined) {
    const { currency, amount } = incoming
    credit.set(currency, (credit.get(currency) ?? 0) + amount)
  }
  if (credit.size === 0) return new Map()
  return coverInvoices(await readOpenInvoices(reader, { debtorId }), credit)
}

const IS_OPEN = sql<SqlBool>`status in ('open', 'partially_paid')`

const readOpenInvoices = prepared((reader: Reader, { debtorId }: { debtorId: string }) =>
  reader
    .selectFrom('invoices')
    .select(['id', 'currency', 'due_date', 'amount_due'])
    .where('debtor_id', '=', debtorId)
    .where(IS_OPEN),
)
