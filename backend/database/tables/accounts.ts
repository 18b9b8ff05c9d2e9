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
  /** Increased when `scope_allowance` or `status` changes, which invalidates the account's cached principals. */
  revision: number
  /** The number from which the next invoice number is generated. */
  next_invoice_number: number
  /** An additional address for replies of debtors. Null: only the service receives replies. */
  reply_to: string | null
  /** Whether unallocated money of new payments stays on account, or is allocated to the oldest open invoices. */
  apply_credit: 'manual' | 'oldest_first'
  /** The time since which Admins need a second factor; null: Admins need none. */
  second_factor_required_at: string | null
  /** The name in reminders; null: the account's name. */
  sender_name: string | null
  /** The id of the logo in reminders; null: no logo. */
  logo_id: string | null
  created_at: string
  updated_at: string
}

/**
 * One action. Rows are never deleted. When the personal data of a debtor is erased, it is also removed from `detail`.
 */
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

/** A logo that an account or one of its messages uses. */
export interface AccountLogoRow {
  account_id: string
  /** SHA-256 of the content, base64url. */
  id: string
  media_type: 'image/png' | 'image/jpeg'
  /** In pixels. */
  width: number
  height: number
  /** Base64. */
  content: string
  created_at: string
}

export interface AccountTables {
  accounts: AccountRow
  account_logos: AccountLogoRow
  payment_details: PaymentDetailsRow
  audit_log: AuditRow
}
