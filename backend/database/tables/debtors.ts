/** Rows of debtors. */
import type { Bit } from './bit.ts'

export interface DebtorRow {
  id: string
  account_id: string
  external_id: string | null
  name: string
  /** The name in the form of the prefix search: NFKC, lower case. */
  name_search: string
  email: string | null
  phone: string | null
  language: string | null
  timezone: string | null
  currency: string | null
  payment_terms_days: number | null
  /** JSON object or null. */
  address: string | null
  tax_id: string | null
  company_number: string | null
  status: 'active' | 'archived'
  is_demo: Bit
  contactability_email: 'ok' | 'missing' | 'bounced' | 'complained' | 'unsubscribed'
  chasing_status: 'active' | 'paused' | 'stopped'
  chasing_reason: string | null
  chasing_until: string | null
  /** JSON object: the debtor's own ladder; null: the account's. */
  ladder: string | null
  /** When the planner processes the debtor next; null: when the data changes. */
  plan_at: string | null
  /** When the personal data were erased; the row never changes afterwards. */
  erased_at: string | null
  /** JSON object. */
  metadata: string
  created_at: string
  updated_at: string
  /** Starts at 1 and increases by one with each change (see `stampOf`). */
  revision: number
}

export interface DebtorTables {
  debtors: DebtorRow
}
