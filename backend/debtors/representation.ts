import type { DebtorRow } from '../database/tables.ts'
import { currencyExponent } from '../money/money.ts'
import type { Balance } from './balances.ts'

/** The JSON of a debtor in the API, events, Settings and the command line. */
export function representDebtor(row: DebtorRow, balances: readonly Balance[]) {
  return {
    object: 'debtor',
    id: row.id,
    external_id: row.external_id,
    name: row.name,
    email: row.email,
    phone: row.phone,
    language: row.language,
    currency: row.currency,
    currency_exponent: row.currency === null ? null : currencyExponent(row.currency),
    payment_terms_days: row.payment_terms_days,
    timezone: row.timezone,
    address: row.address === null ? null : JSON.parse(row.address),
    tax_id: row.tax_id,
    company_number: row.company_number,
    status: row.status,
    is_demo: row.is_demo === 1,
    contactability: { email: row.contactability_email },
    chasing: {
      status: row.chasing_status,
      reason: row.chasing_reason,
      until: row.chasing_until,
    },
    balances: balances.map((balance) => ({
      currency: balance.currency,
      currency_exponent: currencyExponent(balance.currency),
      outstanding: balance.outstanding,
      overdue: balance.overdue,
      unapplied: balance.unapplied,
    })),
    erased_at: row.erased_at,
    metadata: JSON.parse(row.metadata),
    created_at: row.created_at,
    updated_at: row.updated_at,
    revision: row.revision,
  }
}
