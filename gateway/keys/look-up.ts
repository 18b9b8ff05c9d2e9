/** Looks a key up at the backend by its digest. The response is validated here and trusted afterwards. */
import { Problem } from '../../shared/contract/problem.ts'
import { isFieldValue } from '../http1/fields.ts'
import type { Backends, InternalRequest } from '../upstream/backends.ts'

/** The result of one look-up. */
export interface KnownKey {
  readonly keyId: string
  readonly accountId: string
  /** What the key may do at present: granted to the key and allowed by the account. */
  readonly scopes: ReadonlySet<string>
  /** The scopes that it was issued with. */
  readonly grantedScopes: ReadonlySet<string>
  /** Calls in a window. */
  readonly rateLimit: number
  /** Signed by the backend; forwarded as it is. */
  readonly principal: string
  /** `performance.now()` when the look-up began: it saw everything committed before. */
  readonly lookedUpAt: number
}

export type LookUpResult = KnownKey | 'unknown' | 'revoked'

const LOOK_UP_PATH = '/internal/api-keys/look-up'

/** Throws `Problem` 503 if no backend responds: an undecided key is never a 401. */
export async function lookUpKey(
  backends: Pick<Backends, 'request'>,
  digest: string,
  pool: InternalRequest['pool'],
): Promise<LookUpResult> {
  const lookedUpAt = performance.now()
  try {
    const { status, text } = await backends.request({
      method: 'POST',
      path: LOOK_UP_PATH,
      body: { digest },
      pool,
    })
    if (status !== 200) throw new Error(`the backend responded to a key look-up with ${status}`)
    return parseResult(JSON.parse(text), lookedUpAt)
  } catch (cause) {
    throw new Problem('service_unavailable', 'The key cannot be checked at present. Try again.', {
      headers: { 'retry-after': '1' },
      cause,
    })
  }
}

function parseResult(response: unknown, lookedUpAt: number): LookUpResult {
  if (!isRecord(response)) throw malformedResult()
  if (response['found'] === false) return 'unknown'
  if (response['found'] === true && response['revoked'] === true) return 'revoked'
  const { key_id, account_id, scopes, granted_scopes, rate_limit, principal } = response
  if (
    typeof key_id !== 'string' ||
    typeof account_id !== 'string' ||
    !Array.isArray(scopes) ||
    !Array.isArray(granted_scopes) ||
    typeof rate_limit !== 'number' ||
    !Number.isSafeInteger(rate_limit) ||
    typeof principal !== 'string' ||
    !isFieldValue(principal)
  ) {
    throw malformedResult()
  }
  return {
    keyId: key_id,
    accountId: account_id,
    scopes: setOf(scopes.map(String)),
    grantedScopes: setOf(granted_scopes.map(String)),
    rateLimit: rate_limit,
    principal,
    lookedUpAt,
  }
}

/** Keys with the same scopes share one set, since there are few different ones. */
const scopeSets = new Map<string, ReadonlySet<string>>()

function setOf(scopes: readonly string[]): ReadonlySet<string> {
  const name = scopes.join(' ')
  const known = scopeSets.get(name) ?? new Set(scopes)
  scopeSets.set(name, known)
  return known
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function malformedResult(): Error {
  return new Error('the response to a key look-up is malformed')
}
