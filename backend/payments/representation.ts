import type { PaymentRow } from '../database/tables.ts'
import { currencyExponent } from '../money/money.ts'
import type { ShownAllocation } from './payment-list.ts'

/** The JSON of a payment in the API, in events, in Settings and in the CLI. */
export function representPayment(row: PaymentRow, allocations: readonly ShownAllocation[]) {
  return {
    object: 'payment',
    id: row.id,
    debtor_id: row.debtor_id,
    external_id: row.external_id,
    amount: row.amount,
    currency: row.currency,
    currency_exponent: currencyExponent(row.currency),
    allocations: allocations.map((allocation) => ({
      invoice_id: allocation.invoice_id,
      amount: allocation.amount,
    })),
    unapplied_amount: row.unapplied_amount,
    received_on: row.received_on,
    method: row.method,
    reference: row.reference,
    status: row.status,
    idempotency_key: row.idempotency_key,
    source: row.source,
    recorded_by: JSON.parse(row.recorded_by),
    effects: JSON.parse(row.effects),
    metadata: JSON.parse(row.metadata),
    created_at: row.created_at,
    updated_at: row.updated_at,
    revision: row.revision,
  }
}
