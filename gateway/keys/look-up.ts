/** Looks keys up at the backend by their digests. The response is validated here and trusted afterwards. */
import {
  type AddressPrefixes,
  readAddressPrefixes,
} from '../../shared/contract/address-prefixes.ts'
import { temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { isFieldValue } from '../http1/fields.ts'
import type { Backends, InternalRequest } from '../upstream/backends.ts'

/** A valid key, as a look-up returned it. */
export interface KnownKey {
  readonly keyId: string
  readonly accountId: string
  /** The scopes that were granted to the key and that the account allows at present. */
  readonly scopes: ReadonlySet<string>
  /** The scopes that the key was issued with. */
  readonly grantedScopes: ReadonlySet<string>
  readonly rateLimit: number
  /** The addresses that calls may come from; undefined allows any address. */
  readonly allowedAddresses: AddressPrefixes | undefined
  /** Signed by the backend; the gateway forwards it unchanged. */
  readonly principal: string
  /**
   * `performance.now()` when the look-up began. The result includes every change that was committed before this time.
   */
  readonly lookedUpAt: number
}

/**
 * The verdict on a key that cannot be used. Verdicts are final: a revoked or expired key never becomes valid again, and
 * a key that does not exist is never issued later, because the secrets of new keys are random.
 */
export type KeyVerdict = 'unknown' | 'revoked' | 'expired'

export type LookUpResult = KnownKey | KeyVerdict

const LOOK_UP_PATH = '/internal/api-keys/look-up'

/**
 * Looks up keys with one request, over the connections of `pool`. The request may contain at most
 * `LOOK_UPS_PER_REQUEST_MAX` digests. The results are in the order of the digests. Rejects with `Problem` 503 if there
 * is no valid response: a key that could not be checked must not get 401.
 */
export async function lookUpKeys(
  backends: Pick<Backends, 'request'>,
  digests: readonly string[],
  pool: InternalRequest['pool'],
): Promise<LookUpResult[]> {
  const lookedUpAt = performance.now()
  try {
    const { status, text } = await backends.request({
      method: 'POST',
      path: LOOK_UP_PATH,
      body: { digests },
      pool,
    })
    if (status !== 200) throw new Error(`the backend responded to a key look-up with ${status}`)
    const response: unknown = JSON.parse(text)
    if (!isRecord(response) || !Array.isArray(response['results'])) throw malformedResult()
    const results = response['results'].map((result) => parseResult(result, lookedUpAt))
    if (results.length !== digests.length) throw malformedResult()
    return results
  } catch (cause) {
    throw temporarilyUnavailable('The key cannot be checked at present. Try again.', { cause })
  }
}

function parseResult(result: unknown, lookedUpAt: number): LookUpResult {
  if (!isRecord(result)) throw malformedResult()
  if (result['found'] === false) return 'unknown'
  if (result['found'] === true && result['revoked'] === true) return 'revoked'
  if (result['found'] === true && result['expired'] === true) return 'expired'
  const { key_id, account_id, scopes, granted_scopes, rate_limit, principal } = result
  // Backends of earlier versions do not return this member.
  const { allowed_addresses = null } = result
  if (
    typeof key_id !== 'string' ||
    typeof account_id !== 'string' ||
    !Array.isArray(scopes) ||
    !Array.isArray(granted_scopes) ||
    typeof rate_limit !== 'number' ||
    !Number.isSafeInteger(rate_limit) ||
    typeof principal !== 'string' ||
    !isFieldValue(principal) ||
    (allowed_addresses !== null && !Array.isArray(allowed_addresses))
  ) {
    throw malformedResult()
  }
  return {
    keyId: key_id,
    accountId: account_id,
    scopes: setOf(scopes.map(String)),
    grantedScopes: setOf(granted_scopes.map(String)),
    rateLimit: rate_limit,
    allowedAddresses:
      allowed_addresses === null ? undefined : readAddressPrefixes(allowed_addresses.map(String)),
    principal,
    lookedUpAt,
  }
}

/** Keys with the same scopes share one set, which saves memory. */
const scopeSets = new Map<string, ReadonlySet<string>>()

function setOf(scopes: readonly string[]): ReadonlySet<string> {
  const name = scopes.join(' ')
  const set = scopeSets.get(name) ?? new Set(scopes)
  scopeSets.set(name, set)
  return set
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function malformedResult(): Error {
  return new Error('the response to a key look-up is malformed')
}
