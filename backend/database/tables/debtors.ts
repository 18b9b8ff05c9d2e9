/** Rows of debtors. */
import type { Bit } from './bit.ts'

export interface DebtorRow {
  id: string
  account_id: string
  external_id: string | null
  name: string
  /** The name as the prefix search compares it: NFKC, lower case. */
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
  /** JSON object: a ladder of its own; null: the account's. */
  ladder: string | null
  /** When the planner looks at it next; null: when something changes. */
  plan_at: string | null
  /** When the personal data went, on request; nothing of the row changes any more. */
  erased_at: string | null
  /** JSON object. */
  metadata: string
  created_at: string
  updated_at: string
  /** From 1; rises by one with each change (see `stampOf`). */
  revision: number
}

export interface DebtorTables {
  debtors: DebtorRow
}
