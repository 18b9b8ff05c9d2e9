/**
 * Routes for the internal requests of gateways, which are signed. Clients cannot reach these routes through a
 * gateway.
 */
import type { ServerRoute } from '@hapi/hapi'
import Joi from 'joi'
import { LOOK_UPS_PER_REQUEST_MAX } from '../../shared/contract/api-key.ts'
import { PRINCIPAL_LIFETIME_MS, signPrincipal } from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { callerOf } from '../api/caller.ts'
import { findKeysByDigest, type KeyWithAccount } from '../api-keys/api-keys.ts'
import { isExpired, readAllowedAddresses } from '../api-keys/key-status.ts'
import type { LastUsed } from '../api-keys/last-used.ts'
import type { Pepper } from '../api-keys/peppers.ts'
import type { Database } from '../database/database.ts'

export interface InternalDeps {
  readonly database: Database
  readonly peppers: readonly Pepper[]
  readonly gatewaySecrets: readonly string[]
  readonly lastUsed: LastUsed
  readonly clock: () => Date
  /** Returns the reasons for which the backend accepts no calls at present; empty if it accepts calls. */
  readonly unreadiness: () => Promise<readonly string[]>
}

/** SHA-256 in base64url. */
const DIGEST = Joi.string().pattern(/^[\w-]{43}$/)

/** Gateways of version 0.1.0 also look up a single key, with `digest`. */
const LOOK_UP = Joi.object<{ digest?: string; digests?: readonly string[] }>({
  digest: DIGEST,
  digests: Joi.array().items(DIGEST).min(1).max(LOOK_UPS_PER_REQUEST_MAX),
})
  .xor('digest', 'digests')
  .prefs({ convert: false })

export function internalRoutes(deps: InternalDeps): ServerRoute[] {
  return [
    {
      method: 'POST',
      path: '/internal/api-keys/look-up',
      async handler(request) {
        const { digest, digests } = parseLookUp(request.payload)
        if (digests !== undefined) return { results: await lookUp(digests, deps) }
        const [result] = await lookUp([digest ?? ''], deps)
        return result
      },
    },
    {
      method: 'GET',
      path: '/internal/ready',
      async handler(_request, h) {
        const reasons = await deps.unreadiness()
        return reasons.length === 0
          ? { ready: true }
          : h.response({ ready: false, reasons }).code(503)
      },
    },
  ]
}

/**
 * Reads committed state: a look-up that starts after the response to a revocation returns the key as revoked. Results
 * are in the order of the digests.
 */
async function lookUp(digests: readonly string[], deps: InternalDeps) {
  const rows = await findKeysByDigest(deps.database.read, digests, deps.peppers)
  return rows.map((row) => describeKey(row, deps))
}

function describeKey(
  row: KeyWithAccount | undefined,
  { gatewaySecrets, lastUsed, clock }: InternalDeps,
) {
  if (row === undefined) return { found: false }
  if (row.revoked_at !== null) return { found: true, revoked: true }
  const now = clock()
  if (isExpired(row, now)) return { found: true, revoked: false, expired: true }
  lastUsed.record(row.key_id, now)
  const { key, account } = callerOf(row)
  const principalExpiresAt = now.getTime() + PRINCIPAL_LIFETIME_MS
  const principal = {
    keyId: key.id,
    keyRevision: row.key_revision,
    accountId: account.id,
    accountRevision: row.account_revision,
  }
  return {
    found: true,
    revoked: false,
    expired: false,
    key_id: key.id,
    account_id: account.id,
    scopes: key.effectiveScopes,
    granted_scopes: key.grantedScopes,
    rate_limit: key.rateLimit,
    allowed_addresses: readAllowedAddresses(row.allowed_addresses),
    key_revision: row.key_revision,
    account_revision: row.account_revision,
    principal: signPrincipal(principal, principalExpiresAt, gatewaySecrets),
    expires_at: principalExpiresAt,
  }
}

function parseLookUp(payload: unknown): {
  readonly digest?: string
  readonly digests?: readonly string[]
} {
  try {
    const { value, error } = LOOK_UP.validate(JSON.parse(String(payload)))
    if (error !== undefined) throw error
    return value
  } catch (cause) {
    throw new Problem('bad_request', 'The body must be {"digest": …} or {"digests": […]}.', {
      cause,
    })
  }
}
