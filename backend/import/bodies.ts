/**
 * Creates request bodies from the records of a file. The command `import` sends these bodies to the API; an import in
 * Settings validates them with the rules of the API.
 */
import { type LedgerCustomer, type LedgerInvoice, paymentExternalIdOf } from './ledger.ts'

export function debtorBodyOf({ externalId, id, name, email }: LedgerCustomer) {
  return { external_id: externalId, name: name ?? id, ...(email === undefined ? {} : { email }) }
}

export function invoiceBodyOf(invoice: LedgerInvoice, chaseOverdue: boolean) {
  const { number, externalId, customerExternalId, currency, amount, issuedOn, dueOn } = invoice
  return {
    external_id: externalId,
    number,
    debtor_external_id: customerExternalId,
    currency,
    amount,
    issue_date: issuedOn,
    ...(dueOn === undefined ? {} : { due_date: dueOn }),
    chase_if_overdue: chaseOverdue,
  }
}

/** The payment of the whole amount of an invoice that is paid according to the file. */
export function paymentBodyOf(invoice: LedgerInvoice, invoiceId: string) {
  return {
    external_id: paymentExternalIdOf(invoice),
    invoice_id: invoiceId,
    currency: invoice.currency,
    amount: invoice.amount,
    received_on: invoice.settledOn,
  }
}
