import type { AccountRow } from '../database/tables.ts'
import { currencyExponent } from '../money/money.ts'

/**
 * The JSON of an account in events. The caller passes `isReadOnly(row.status)` as `readOnly`, because this file cannot
 * import `isReadOnly` from accounts.ts, which imports this file.
 */
export function representAccount(row: AccountRow, readOnly: boolean) {
  return {
    object: 'account',
    id: row.id,
    name: row.name,
    status: row.status,
    read_only: readOnly,
    timezone: row.timezone,
    default_currency: row.default_currency,
    currency_exponent: currencyExponent(row.default_currency),
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}
