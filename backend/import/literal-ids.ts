/**
 * An import encodes the customer ids of a file: `50%` becomes the external id `50%25`. Another system may have created
 * this customer with the literal external id `50%`. The import must find this customer instead of creating a second
 * one.
 */
import { fromExternalId } from './external-ids.ts'
import type { Ledger, LedgerCustomer } from './ledger.ts'
import type { DebtorRecord } from './records.ts'

/**
 * Returns the external ids that customers of the file may have in the service, in addition to those that imports store.
 */
export function literalIdsOf({ customers }: Ledger): string[] {
  return [...customers.values()].flatMap((customer) => literalIdOf(customer) ?? [])
}

/** Returns the file with the external ids that its customers have in the service. */
export function withStoredExternalIds(ledger: Ledger, debtors: readonly DebtorRecord[]): Ledger {
  const known = new Set(debtors.map((debtor) => debtor.external_id))
  const changed = new Map<string, string>()
  for (const customer of ledger.customers.values()) {
    const literalId = literalIdOf(customer)
    if (literalId === undefined || !known.has(literalId) || known.has(customer.externalId)) continue
    changed.set(customer.externalId, literalId)
  }
  if (changed.size === 0) return ledger
  const idInService = (externalId: string) => changed.get(externalId) ?? externalId
  const customers = [...ledger.customers.values()].map((customer) => {
    const externalId = idInService(customer.externalId)
    return [externalId, { ...customer, externalId }] as const
  })
  const invoices = ledger.invoices.map((invoice) => ({
    ...invoice,
    customerExternalId: idInService(invoice.customerExternalId),
  }))
  return { ...ledger, customers: new Map(customers), invoices }
}

/**
 * Returns the customer's id in the file if it differs from its encoding, and another system may have stored it
 * unencoded. Returns undefined for any other id: external ids cannot contain spaces, and `A%20B` may be the external id
 * that an import has created from `A B`.
 */
function literalIdOf({ id, externalId }: LedgerCustomer): string | undefined {
  if (id === externalId || /\s/u.test(id)) return undefined
  return fromExternalId(id) === id ? id : undefined
}
