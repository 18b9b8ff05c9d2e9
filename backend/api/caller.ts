/** The caller of an operation: the key and its account, as they were when the call was authenticated. */

import { isReadOnly } from '../accounts/accounts.ts'
import { effectiveScopes, readScopes, type Scope } from '../accounts/scopes.ts'
import type { KeyWithAccount } from '../api-keys/api-keys.ts'
import type { AccountStatus } from '../database/tables.ts'

export interface Caller {
  readonly key: {
    readonly id: string
    readonly name: string
    readonly prefix: string
    readonly grantedScopes: readonly Scope[]
    /** The granted scopes that the account allows at present. */
    readonly effectiveScopes: readonly Scope[]
    /** In calls per hour. */
    readonly rateLimit: number
    readonly createdAt: string
    /** Null if the key does not expire. */
    readonly expiresAt: string | null
    /** The last use before this call, accurate to 5 s. */
    readonly lastUsedAt: string | null
  }
  readonly account: {
    readonly id: string
    readonly name: string
    readonly status: AccountStatus
    readonly readOnly: boolean
    readonly timezone: string
    readonly defaultCurrency: string
    readonly paymentTermsDays: number
    readonly isDemo: boolean
  }
}

export function callerOf(row: KeyWithAccount): Caller {
  const grantedScopes = readScopes(row.granted_scopes)
  return {
    key: {
      id: row.key_id,
      name: row.key_name,
      prefix: row.prefix,
      grantedScopes,
      effectiveScopes: effectiveScopes(grantedScopes, row.scope_allowance),
      rateLimit: row.rate_limit,
      createdAt: row.key_created_at,
      expiresAt: row.expires_at,
      lastUsedAt: row.last_used_at,
    },
    account: {
      id: row.account_id,
      name: row.account_name,
      status: row.status,
      readOnly: isReadOnly(row.status),
      timezone: row.timezone,
      defaultCurrency: row.default_currency,
      paymentTermsDays: row.payment_terms_days,
      isDemo: row.is_demo === 1,
    },
  }
}
