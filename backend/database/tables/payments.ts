import { allColumns } from './all-columns.ts'

export interface PaymentRow {
  id: string
  account_id: string
  debtor_id: string
  /** All amounts are in minor units of the currency, e.g. in cents. */
  amount: number
  currency: string
  /** The part that is not allocated to invoices: money on account, unless the payment is reversed. */
  unapplied_amount: number
  received_on: string
  method: 'bank_transfer' | 'card' | 'direct_debit' | 'cash' | 'cheque' | 'other'
  reference: string | null
  external_id: string | null
  status: 'recorded' | 'reversed'
  /** Kept forever, so that a repeated request is recognized however late it arrives. */
  idempotency_key: string | null
  /**
   * The fingerprint of the call that recorded the payment, as in the table `idempotency_keys`; null without an
   * idempotency key, and for payments that were recorded before fingerprints were stored.
   */
  request_fingerprint: string | null
  /** `app`: recorded in Settings. */
  source: 'api' | 'app' | 'import'
  /** JSON object {type, id, label}. */
  recorded_by: string
  /** JSON object: the effects of recording the payment, as in the original response. */
  effects: string
  /** JSON object. */
  metadata: string
  created_at: string
  updated_at: string
  /** Starts at 1; see `revision.ts`. */
  revision: number
}

export const PAYMENT_COLUMNS = allColumns<PaymentRow>({
  id: true,
  account_id: true,
  debtor_id: true,
  amount: true,
  currency: true,
  unapplied_amount: true,
  received_on: true,
  method: true,
  reference: true,
  external_id: true,
  status: true,
  idempotency_key: true,
  request_fingerprint: true,
  source: true,
  recorded_by: true,
  effects: true,
  metadata: true,
  created_at: true,
  updated_at: true,
  revision: true,
})

export interface AllocationRow {
  payment_id: string
  /** From 0, in the order in which the allocations of the payment were made. */
  position: number
  account_id: string
  invoice_id: string
  amount: number
}

export interface PaymentTables {
  payments: PaymentRow
  payment_allocations: AllocationRow
}
