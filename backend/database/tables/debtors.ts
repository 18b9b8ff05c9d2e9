import { allColumns } from './all-columns.ts'
import type { Bit } from './bit.ts'

export interface DebtorRow {
  id: string
  account_id: string
  external_id: string | null
  name: string
  /** The name in the form that the prefix search compares: NFKC, lower case. */
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
  /** When a pause ends by itself; null without a pause, or if the pause lasts until a person ends it. */
  chasing_until: string | null
  /** JSON object: the debtor's own ladder (how many days past due each stage is sent); null: the account's. */
  ladder: string | null
  /** When a worker next plans the debtor's reminders; null if the plan stays valid until some data changes. */
  plan_at: string | null
  /** When the personal data were erased. Afterwards, the debtor can no longer be edited. */
  erased_at: string | null
  /** JSON object. */
  metadata: string
  created_at: string
  updated_at: string
  /** Starts at 1; see `revision.ts`. */
  revision: number
}

export const DEBTOR_COLUMNS = allColumns<DebtorRow>({
  id: true,
  account_id: true,
  external_id: true,
  name: true,
  name_search: true,
  email: true,
  phone: true,
  language: true,
  timezone: true,
  currency: true,
  payment_terms_days: true,
  address: true,
  tax_id: true,
  company_number: true,
  status: true,
  is_demo: true,
  contactability_email: true,
  chasing_status: true,
  chasing_reason: true,
  chasing_until: true,
  ladder: true,
  plan_at: true,
  erased_at: true,
  metadata: true,
  created_at: true,
  updated_at: true,
  revision: true,
})

export interface DebtorTables {
  debtors: DebtorRow
}
