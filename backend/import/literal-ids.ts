/**
 * Finds customers that another system has created with an external id whose percent sign does not come from the
 * encoding of an import, such as `50%`. Without this, an import would create a second customer, because it encodes this
 * id as `50%25`.
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
 * Returns the id in the file if an import encodes it, although another system may have stored it unchanged. Returns
 * undefined for any other id: e.g. `A%20B` may also be the external id that an import has created from `A B`.
 */
function literalIdOf({ id, externalId }: LedgerCustomer): string | undefined {
  if (id === externalId || /\s/u.test(id)) return undefined
  return fromExternalId(id) === id ? id : undefined
}
