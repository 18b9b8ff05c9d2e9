/** Rows of accounts and of what was done to them. */
import type { Bit } from './bit.ts'

export type AccountStatus = 'trial' | 'trial_paused' | 'active' | 'suspended' | 'cancelled'

export interface AccountRow {
  id: string
  name: string
  status: AccountStatus
  /** IANA name; calendar dates of the account are judged in it. */
  timezone: string
  default_currency: string
  payment_terms_days: number
  /** JSON array of the scopes that keys may use at present; null: every scope. */
  scope_allowance: string | null
  is_demo: Bit
  /** Raised by narrowing and by a change of status: cached principals of the account lapse. */
  revision: number
  /** The number the next generated invoice number takes. */
  next_invoice_number: number
  /** Where debtors' questions go besides to us; null: to us alone. */
  reply_to: string | null
  /** What becomes of money that a payment allocates to no invoice. */
  apply_credit: 'manual' | 'oldest_first'
  created_at: string
  updated_at: string
}

/** Append-only: who did what, from where. */
export interface AuditRow {
  id: string
  account_id: string | null
  actor_type: 'operator' | 'user' | 'api_key' | 'system'
  actor_id: string | null
  actor_label: string
  action: string
  subject_id: string | null
  /** JSON object; holds no secret. */
  detail: string
  address: string | null
  created_at: string
}

export interface AccountTables {
  accounts: AccountRow
  audit_log: AuditRow
}
