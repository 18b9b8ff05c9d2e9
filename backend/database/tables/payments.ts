/** Rows of payments. */

export interface PaymentRow {
  id: string
  account_id: string
  debtor_id: string
  amount: number
  currency: string
  unapplied_amount: number
  received_on: string
  method: 'bank_transfer' | 'card' | 'direct_debit' | 'cash' | 'cheque' | 'other'
  reference: string | null
  external_id: string | null
  status: 'recorded' | 'reversed'
  /** Stays for ever, so that a repeat after any time is known. */
  idempotency_key: string | null
  /** Of the call that recorded it, as in `idempotency_keys`; null without a key, and before there was one. */
  request_fingerprint: string | null
  source: 'api' | 'app' | 'import'
  /** JSON object {type, id, label}. */
  recorded_by: string
  /** JSON object: what recording it did, as answered then. */
  effects: string
  metadata: string
  created_at: string
  updated_at: string
  /** From 1; rises by one with each change (see `stampOf`). */
  revision: number
}

export interface AllocationRow {
  payment_id: string
  /** Place in the request, from 0. */
  position: number
  account_id: string
  invoice_id: string
  amount: number
}

export interface PaymentTables {
  payments: PaymentRow
  payment_allocations: AllocationRow
}
