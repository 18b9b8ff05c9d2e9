/** Rows of accounts and of their audit log. */
import type { Bit } from './bit.ts'

export type AccountStatus = 'trial' | 'trial_paused' | 'active' | 'suspended' | 'cancelled'

export interface AccountRow {
  id: string
  name: string
  status: AccountStatus
  /** An IANA name; the account's calendar dates are in this time zone. */
  timezone: string
  default_currency: string
  payment_terms_days: number
  /** JSON array of the scopes that keys may use at present; null: every scope. */
  scope_allowance: string | null
  is_demo: Bit
  /**
   * Increased when scopes are narrowed or the status changes: cached principals of the account then expire.
   */
  revision: number
  /** The number of the next generated invoice number. */
  next_invoice_number: number
  /** An additional address for replies of debtors; null: replies are sent only to us. */
  reply_to: string | null
  /** How money that a payment does not allocate to invoices is used. */
  apply_credit: 'manual' | 'oldest_first'
  /** Since when Admins need a second factor; null: they need none. */
  second_factor_required_at: string | null
  created_at: string
  updated_at: string
}

/** Append-only: who did what, and from which address. */
export interface AuditRow {
  id: string
  account_id: string | null
  actor_type: 'operator' | 'user' | 'api_key' | 'system'
  actor_id: string | null
  actor_label: string
  action: string
  subject_id: string | null
  /** JSON object without secrets. */
  detail: string
  address: string | null
  created_at: string
}

/** How customers pay invoices of a currency: a bank account, a payment link, or both. */
export interface PaymentDetailsRow {
  account_id: string
  currency: string
  account_holder: string | null
  /** An IBAN without spaces, or an account number of another form. */
  account_number: string | null
  /** A BIC, or a sort code or routing number. */
  bank_code: string | null
  bank_name: string | null
  /** An https address. */
  payment_link: string | null
  updated_at: string
}

export interface AccountTables {
  accounts: AccountRow
  payment_details: PaymentDetailsRow
  audit_log: AuditRow
}
