/** Reads the records of an account that are compared with an imported file. */
import type { Reader } from '../database/tables.ts'
import { inChunks } from './in-chunks.ts'
import { type Ledger, paymentExternalIdOf } from './ledger.ts'
import { literalIdsOf } from './literal-ids.ts'
import type { PaymentRecord, ServiceRecords } from './records.ts'

/** The members of a customer that the comparison with the file needs. */
export interface KnownCustomer {
  readonly id: string
  readonly external_id: string | null
  readonly name: string
  readonly email: string | null
  readonly erased_at: string | null
}

export interface AccountRecords {
  /** The customers, invoices and payments that the file names, and the customers to which these invoices belong. */
  readonly records: ServiceRecords
  /** The customers that the file names. */
  readonly customers: readonly KnownCustomer[]
}

export async function readAccountRecords(
  reader: Reader,
  accountId: string,
  ledger: Ledger,
): Promise<AccountRecords> {
  const { customers, invoices } = ledger
  const externalIds = invoices.map(({ externalId }) => externalId)
  const byExternalId = await inChunks(externalIds, (chunk) =>
    invoicesOf(reader, accountId).where('external_id', 'in', chunk).execute(),
  )
  const foundExternalIds = new Set(byExternalId.map(({ external_id }) => external_id))
  const unmatched = invoices.filter(({ externalId }) => !foundExternalIds.has(externalId))
  const byNumber = await inChunks(
    unmatched.map(({ number }) => number),
    (chunk) => invoicesOf(reader, accountId).where('number', 'in', chunk).execute(),
  )
  const byId = await inChunks(
    invoices.flatMap(({ serviceId }) => serviceId ?? []),
    (chunk) => invoicesOf(reader, accountId).where('id', 'in', chunk).execute(),
  )
  const all = [...byExternalId, ...byNumber, ...byId]
  const found = [...new Map(all.map((row) => [row.id, row])).values()]
  // `literalIdsOf` returns ids without the encoding of imports: another system may have stored them.
  const customersOfFile = await inChunks([...customers.keys(), ...literalIdsOf(ledger)], (chunk) =>
    debtorsOf(reader, accountId).where('external_id', 'in', chunk).execute(),
  )
  const knownIds = new Set(customersOfFile.map(({ id }) => id))
  const debtorIds = [...new Set(found.map(({ debtor_id }) => debtor_id))]
  const otherCustomers = await inChunks(
    debtorIds.filter((id) => !knownIds.has(id)),
    (chunk) => debtorsOf(reader, accountId).where('id', 'in', chunk).execute(),
  )
  const payments = await readPayments(reader, accountId, invoices.map(paymentExternalIdOf))
  return {
    records: { debtors: [...customersOfFile, ...otherCustomers], invoices: found, payments },
    customers: customersOfFile,
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
    .select(['id', 'external_id', 'name', 'email', 'erased_at'])
    .where('account_id', '=', accountId)
}

async function readPayments(
  reader: Reader,
  accountId: string,
  externalIds: readonly string[],
): Promise<PaymentRecord[]> {
  const rows = await inChunks(externalIds, (chunk) =>
    reader
      .selectFrom('payments')
      .select(['id', 'external_id', 'currency', 'amount', 'received_on', 'status'])
      .where('account_id', '=', accountId)
      .where('external_id', 'in', chunk)
      .execute(),
  )
  const allocations = await inChunks(
    rows.map(({ id }) => id),
    (chunk) =>
      reader
        .selectFrom('payment_allocations')
        .select(['payment_id', 'invoice_id'])
        .where('payment_id', 'in', chunk)
        .orderBy('position')
        .execute(),
  )
  const byPayment = Map.groupBy(allocations, ({ payment_id }) => payment_id)
  return rows.map((row) => ({ ...row, allocations: byPayment.get(row.id) ?? [] }))
}
