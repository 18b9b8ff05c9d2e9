import { currencyExponent } from '../money/money.ts'
import type { Caller } from './caller.ts'
import type { Operation } from './operation.ts'
import { parametersOf, parseQuery } from './query.ts'

/** The window of the gateways' rate limit. */
const RATE_LIMIT_WINDOW_SECONDS = 3600

/** `GET /me` needs no scope, and works in every account status. */
export const meOperation: Operation = {
  operationId: 'getMe',
  async respond({ query, caller }) {
    // Rejects every query parameter.
    parseQuery({}, parametersOf(query))
    return { status: 200, body: JSON.stringify(renderMe(caller)), headers: {} }
  },
}

function renderMe({ account, key }: Caller) {
  return {
    // The published type name of this object.
    object: 'probe',
    account: {
      id: account.id,
      name: account.name,
      status: account.status,
      read_only: account.readOnly,
      timezone: account.timezone,
      default_currency: account.defaultCurrency,
      currency_exponent: currencyExponent(account.defaultCurrency),
    },
    key: {
      id: key.id,
      label: key.name,
      prefix: key.prefix,
      scopes: key.effectiveScopes,
      granted_scopes: key.grantedScopes,
      rate_limit: key.rateLimit,
      rate_limit_window_seconds: RATE_LIMIT_WINDOW_SECONDS,
      created_at: key.createdAt,
      expires_at: key.expiresAt,
      last_used_at: key.lastUsedAt,
    },
  }
}
