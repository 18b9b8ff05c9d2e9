/** Reads the records of an account with which an imported file is compared. */
import type { Reader } from '../database/tables.ts'
import { inParts } from './in-parts.ts'
import { type Ledger, settlementId } from './ledger.ts'
import type { PaymentRecord, ServiceRecords } from './records.ts'

/** A customer of the account, which is compared with the file. */
export interface KnownCustomer {
  readonly id: string
  readonly external_id: string | null
  readonly name: string
  readonly email: string | null
}

export interface AccountRecords {
  /** The records that the file names, and the customers of its invoices. */
  readonly records: ServiceRecords
  readonly customers: readonly KnownCustomer[]
}

export async function readAccountRecords(
  reader: Reader,
  accountId: string,
  { customers, invoices }: Ledger,
): Promise<AccountRecords> {
  const externalIds = invoices.map(({ externalId }) => externalId)
  const byId = await inParts(externalIds, (names) =>
    invoicesOf(reader, accountId).where('external_id', 'in', names).execute(),
  )
  const foundById = new Set(byId.map(({ external_id }) => external_id))
  // An invoice with this number may exist without the external id, if it was not imported.
  const others = invoices.filter(({ externalId }) => !foundById.has(externalId))
  const byNumber = await inParts(
    others.map(({ number }) => number),
    (names) => invoicesOf(reader, accountId).where('number', 'in', names).execute(),
  )
  const found = [...new Map([...byId, ...byNumber].map((row) => [row.id, row])).values()]
  const named = await inParts([...customers.keys()], (names) =>
    debtorsOf(reader, accountId).where('external_id', 'in', names).execute(),
  )
  const known = new Set(named.map(({ id }) => id))
  const owners = [...new Set(found.map(({ debtor_id }) => debtor_id))]
  const debtors = await inParts(
    owners.filter((id) => !known.has(id)),
    (names) => debtorsOf(reader, accountId).where('id', 'in', names).execute(),
  )
  const payments = await readPayments(reader, accountId, invoices.map(settlementId))
  return {
    records: { debtors: [...named, ...debtors], invoices: found, payments },
    customers: named,
  }
}

function invoicesOf(reader: Reader, accountId: string) {
  return reader
    .selectFrom('invoices')
    .select(['id', 'external_id', 'debtor_id', 'number', 'currency', 'amount', 'amount_due'])
    .select(['issue_date', 'due_date', 'status'])
    .where('account_id', '=', accountId)
}

function debtorsOf(reader: Reader, accountId: string) {
  return reader
    .selectFrom('debtors')
    .select(['id', 'external_id', 'name', 'email'])
    .where('account_id', '=', accountId)
}

async function readPayments(
  reader: Reader,
  accountId: string,
  ids: readonly string[],
): Promise<PaymentRecord[]> {
  const rows = await inParts(ids, (names) =>
    reader
      .selectFrom('payments')
      .select(['id', 'external_id', 'currency', 'amount', 'received_on', 'status'])
      .where('account_id', '=', accountId)
      .where('external_id', 'in', names)
      .execute(),
  )
  const allocations = await inParts(
    rows.map(({ id }) => id),
    (names) =>
      reader
        .selectFrom('payment_allocations')
        .select(['payment_id', 'invoice_id'])
        .where('payment_id', 'in', names)
        .orderBy('position')
        .execute(),
  )
  const byPayment = Map.groupBy(allocations, ({ payment_id }) => payment_id)
  return rows.map((row) => ({ ...row, allocations: byPayment.get(row.id) ?? [] }))
}
