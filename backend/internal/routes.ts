/** What gateways ask the backend for themselves. Signed; never reachable through a gateway. */
import type { ServerRoute } from '@hapi/hapi'
import Joi from 'joi'
import { PRINCIPAL_LIFETIME_MS, signPrincipal } from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { callerOf } from '../api/caller.ts'
import { findKeyByDigest } from '../api-keys/api-keys.ts'
import type { LastUsed } from '../api-keys/last-used.ts'
import type { Pepper } from '../api-keys/peppers.ts'
import type { Database } from '../database/database.ts'

export interface InternalDeps {
  readonly database: Database
  readonly peppers: readonly Pepper[]
  readonly gatewaySecrets: readonly string[]
  readonly lastUsed: LastUsed
  readonly clock: () => Date
  /** Why the backend takes no calls at present; empty where it does. */
  readonly unreadiness: () => Promise<readonly string[]>
}

/** SHA-256 in base64url. */
const LOOK_UP = Joi.object<{ digest: string }>({
  digest: Joi.string()
    .pattern(/^[\w-]{43}$/)
    .required(),
}).prefs({ convert: false, presence: 'required' })

export function internalRoutes(deps: InternalDeps): ServerRoute[] {
  return [
    {
      method: 'POST',
      path: '/internal/api-keys/look-up',
      handler: (request) => lookUp(parseLookUp(request.payload), deps),
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
 * Reads committed state: a look-up that begins after a revocation was acknowledged sees it. Not
 * finding a key is an answer, not an error.
 */
async function lookUp({ digest }: { digest: string }, deps: InternalDeps) {
  const { database, peppers, gatewaySecrets, lastUsed, clock } = deps
  const row = await findKeyByDigest(database.read, digest, peppers)
  if (row === undefined) return { found: false }
  if (row.revoked_at !== null) return { found: true, revoked: true }
  const now = clock()
  lastUsed.stamp(row.key_id, now)
  const { key, account } = callerOf(row)
  const expiresAt = now.getTime() + PRINCIPAL_LIFETIME_MS
  const principal = {
    keyId: key.id,
    keyRevision: row.key_revision,
    accountId: account.id,
    accountRevision: row.account_revision,
  }
  return {
    found: true,
    revoked: false,
    key_id: key.id,
    account_id: account.id,
    scopes: key.effectiveScopes,
    granted_scopes: key.grantedScopes,
    rate_limit: key.rateLimit,
    key_revision: row.key_revision,
    account_revision: row.account_revision,
    principal: signPrincipal(principal, expiresAt, gatewaySecrets),
    expires_at: expiresAt,
  }
}

function parseLookUp(payload: unknown): { digest: string } {
  try {
    const { value, error } = LOOK_UP.validate(JSON.parse(String(payload)))
    if (error !== undefined) throw error
    return value
  } catch (cause) {
    throw new Problem('bad_request', 'The body must be {"digest": …}.', { cause })
  }
}
