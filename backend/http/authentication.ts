/**
 * The authentication scheme `principal` of every API route. It compares the principal from the gateway with the
 * database, so that a revocation takes effect with the next call even if the gateway's cache is stale.
 */
import assert from 'node:assert'
import type { Lifecycle, Request, ResponseToolkit, Server } from '@hapi/hapi'
import { LRUCache } from 'lru-cache'
import type { Contract } from '../../shared/contract/contract.ts'
import {
  CLIENT_ADDRESS_HEADER,
  PRINCIPAL_HEADER,
  PRINCIPAL_LIFETIME_MS,
  PRINCIPAL_REJECTION_HEADER,
  type Principal,
  type PrincipalRejection,
  SIGNATURE_TOLERANCE_MS,
  type SignedPrincipal,
  verifyPrincipal,
} from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { type Caller, callerOf } from '../api/caller.ts'
import type { Operation } from '../api/operation.ts'
import { findKeyById } from '../api-keys/api-keys.ts'
import { isAddressAllowed, isExpired } from '../api-keys/key-status.ts'
import type { LastUsed } from '../api-keys/last-used.ts'
import type { Database } from '../database/database.ts'

/** The size of the LRU cache of verified principals, which take half a kilobyte each. */
const PRINCIPALS_MAX = 5_000
/**
 * How far `expiresAt` may be in the future. Without this limit, an attacker with the gateway secret could sign a
 * principal that never expires. The clock of the backend that signed the principal may be ahead.
 */
const EXPIRES_WITHIN_MS = PRINCIPAL_LIFETIME_MS + SIGNATURE_TOLERANCE_MS

export interface AuthenticationDeps {
  readonly database: Database
  readonly contract: Contract
  readonly operations: readonly Operation[]
  readonly gatewaySecrets: readonly string[]
  readonly lastUsed: LastUsed
  readonly clock: () => Date
}

/** On routes that use the strategy, `request.auth.credentials` is a `Caller`. */
export function registerPrincipalStrategy(server: Server, deps: AuthenticationDeps): void {
  const verify = createVerifier(deps.gatewaySecrets)
  const routes = new Map(
    deps.contract.operations.map(({ method, path, operationId, scope }) => {
      const operation = deps.operations.find((candidate) => candidate.operationId === operationId)
      return [`${method} ${path}`, { scope, operation }]
    }),
  )
  server.auth.scheme('principal', () => ({
    async authenticate(request, h): Promise<Lifecycle.ReturnValueTypes> {
      const now = deps.clock()
      const principal = verify(String(request.headers[PRINCIPAL_HEADER]), now.getTime())
      if (typeof principal === 'string') return rejectPrincipal(h, principal)
      const { scope, operation } = routeOf(request, routes)
      const target = { accountId: principal.accountId, id: String(request.params['id'] ?? ''), now }
      // `begin` reads while the key is checked; api/routes.ts calls `finish`.
      const finish =
        operation !== undefined && 'begin' in operation
          ? operation.begin(target, deps.database)
          : undefined
      const caller = await findCaller(request, principal, now, deps)
      if (typeof caller === 'string') return rejectPrincipal(h, caller)
      checkScope(caller, scope)
      return h.authenticated({ credentials: { ...caller }, artifacts: { finish } })
    },
  }))
  server.auth.strategy('principal', 'principal')
}

/**
 * Returns a function that verifies principals. Verified principals are cached, because a gateway sends the same
 * principal for up to a minute. A reload changes `secrets`: from then on, cached principals that were signed with a
 * removed secret are invalid.
 */
function createVerifier(secrets: readonly string[]) {
  const cache = new LRUCache<string, SignedPrincipal>({ max: PRINCIPALS_MAX })
  return (text: string, now: number): Principal | PrincipalRejection => {
    const cached = cache.get(text)
    const isCached = cached !== undefined && secrets.includes(cached.secret)
    const found = isCached ? cached : verifyPrincipal(text, secrets)
    if (found === undefined) return 'principal_invalid'
    if (!isCached) cache.set(text, found)
    if (now > found.expiresAt) return 'principal_expired'
    // A forged `expiresAt` can also be NaN, which is no less than any limit.
    return found.expiresAt <= now + EXPIRES_WITHIN_MS ? found.principal : 'principal_invalid'
  }
}

async function findCaller(
  request: Request,
  principal: Principal,
  now: Date,
  { database, lastUsed }: AuthenticationDeps,
): Promise<Caller | PrincipalRejection> {
  const row = await findKeyById(database.read, principal.keyId)
  if (row === undefined || row.account_id !== principal.accountId) return 'principal_invalid'
  if (row.revoked_at !== null) return 'key_revoked'
  if (
    row.key_revision !== principal.keyRevision ||
    row.account_revision !== principal.accountRevision
  ) {
    return 'revision_changed'
  }
  if (isExpired(row, now)) return 'key_expired'
  lastUsed.record(row.key_id, now)
  checkAddress(row.allowed_addresses, request)
  return callerOf(row)
}

/** The gateway has already checked the address. This check protects against a bug in the gateway. */
function checkAddress(allowed: string | null, { headers }: Request): void {
  const address = headers[CLIENT_ADDRESS_HEADER]
  if (isAddressAllowed(allowed, typeof address === 'string' ? address : undefined)) return
  throw new Problem('address_not_allowed', 'This key cannot be used from this address.', {
    headers: { 'www-authenticate': 'Bearer realm="api"' },
  })
}

/** The reason is for the gateway, which acts on it; clients never see it. */
function rejectPrincipal(
  h: ResponseToolkit,
  reason: PrincipalRejection,
): Lifecycle.ReturnValueTypes {
  return h.response().code(401).header(PRINCIPAL_REJECTION_HEADER, reason).takeover()
}

interface Route {
  readonly scope: string | undefined
  readonly operation: Operation | undefined
}

function routeOf({ route }: Request, routes: ReadonlyMap<string, Route>): Route {
  const name = `${route.method.toUpperCase()} ${route.path}`
  const found = routes.get(name)
  assert(found !== undefined, `${name} is not in the contract`)
  return found
}

/** The gateway has already checked the scope. This check protects against a bug in the gateway. */
function checkScope({ key }: Caller, scope: string | undefined): void {
  if (scope === undefined || key.effectiveScopes.some((effective) => effective === scope)) return
  throw new Problem(
    'insufficient_scope',
    `This call needs the scope ${scope}, which this key cannot use at present.`,
    {
      members: {
        required_scope: scope,
        scopes: key.effectiveScopes,
        granted_scopes: key.grantedScopes,
      },
      headers: {
        'www-authenticate': `Bearer realm="api", error="insufficient_scope", scope="${scope}"`,
      },
    },
  )
}
