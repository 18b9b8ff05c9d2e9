/**
 * The authentication scheme `principal` of every API route: it checks the gateway's principal against the
 * database before anything is done. The gateway's cache may be stale; the database is not, so that a
 * revocation, a narrowing or a suspension applies from the next call on.
 */
import assert from 'node:assert'
import type { Lifecycle, Request, ResponseToolkit, Server } from '@hapi/hapi'
import { LRUCache } from 'lru-cache'
import type { Contract } from '../../shared/contract/contract.ts'
import {
  CLIENT_ADDRESS_HEADER,
  PRINCIPAL_HEADER,
  type Principal,
  REFUSAL_HEADER,
  type Refusal,
  type SignedPrincipal,
  verifyPrincipal,
} from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { type Caller, callerOf } from '../api/caller.ts'
import { findKeyById } from '../api-keys/api-keys.ts'
import { isAddressAllowed, isExpired } from '../api-keys/key-status.ts'
import type { LastUsed } from '../api-keys/last-used.ts'
import type { Database } from '../database/database.ts'

/** Verified principals that are cached (least recently used), half a kilobyte each. */
const PRINCIPALS_MAX = 5_000

export interface AuthenticationDeps {
  readonly database: Database
  readonly contract: Contract
  readonly gatewaySecrets: readonly string[]
  readonly lastUsed: LastUsed
  readonly clock: () => Date
}

/** Registers the strategy; `request.auth.credentials` of its routes is a `Caller`. */
export function registerPrincipalStrategy(server: Server, deps: AuthenticationDeps): void {
  const verify = createVerifier(deps.gatewaySecrets)
  const scopes = new Map(
    deps.contract.operations.map(({ method, path, scope }) => [`${method} ${path}`, scope]),
  )
  server.auth.scheme('principal', () => ({
    async authenticate(request, h): Promise<Lifecycle.ReturnValueTypes> {
      const caller = await authenticate(request, verify, deps)
      if (typeof caller === 'string') return refuse(h, caller)
      checkScope(caller, requiredScope(request, scopes))
      return h.authenticated({ credentials: { ...caller } })
    },
  }))
  server.auth.strategy('principal', 'principal')
}

/** Caches verified principals: a gateway sends the same one for up to a minute. */
function createVerifier(secrets: readonly string[]) {
  const signed = new LRUCache<string, SignedPrincipal>({ max: PRINCIPALS_MAX })
  return (text: string, now: number): Principal | Refusal => {
    const known = signed.get(text)
    const found = known ?? verifyPrincipal(text, secrets)
    if (found === undefined) return 'principal_invalid'
    if (known === undefined) signed.set(text, found)
    return now > found.expiresAt ? 'principal_expired' : found.principal
  }
}

async function authenticate(
  request: Request,
  verify: ReturnType<typeof createVerifier>,
  { database, lastUsed, clock }: AuthenticationDeps,
): Promise<Caller | Refusal> {
  const now = clock()
  const principal = verify(String(request.headers[PRINCIPAL_HEADER]), now.getTime())
  if (typeof principal === 'string') return principal
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
  lastUsed.stamp(row.key_id, now)
  checkAddress(row.allowed_addresses, request)
  return callerOf(row)
}

/** The gateway has checked the address already, against the list of this revision of the key. */
function checkAddress(allowed: string | null, { headers }: Request): void {
  const address = headers[CLIENT_ADDRESS_HEADER]
  if (isAddressAllowed(allowed, typeof address === 'string' ? address : undefined)) return
  throw new Problem('address_not_allowed', 'This key cannot be used from this address.', {
    headers: { 'www-authenticate': 'Bearer realm="api"' },
  })
}

/** The gateway acts on the reason; clients never see it. */
function refuse(h: ResponseToolkit, reason: Refusal): Lifecycle.ReturnValueTypes {
  return h.response().code(401).header(REFUSAL_HEADER, reason).takeover()
}

function requiredScope(
  { route }: Request,
  scopes: ReadonlyMap<string, string | undefined>,
): string | undefined {
  const operation = `${route.method.toUpperCase()} ${route.path}`
  assert(scopes.has(operation), `${operation} is not in the contract`)
  return scopes.get(operation)
}

/** The gateway has checked it already; this protects against a bug there. */
function checkScope({ key }: Caller, scope: string | undefined): void {
  if (scope === undefined || key.effectiveScopes.some((effective) => effective === scope)) return
  throw new Problem(
    'insufficient_scope',
    `This call needs the scope ${scope}, which this key does not have. Scopes cannot be added to a key; issue a new key.`,
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
