/** Asks the backend what a key's digest stands for. The answer is parsed here and trusted after. */
import { Problem } from '../../shared/contract/problem.ts'
import { isFieldValue } from '../http1/fields.ts'
import type { Upstream } from '../upstream/backends.ts'

/** A key as one look-up found it. */
export interface KnownKey {
  readonly keyId: string
  readonly accountId: string
  /** What the key may do at present: granted and allowed by the account. */
  readonly scopes: ReadonlySet<string>
  /** What it was issued with. */
  readonly grantedScopes: ReadonlySet<string>
  /** Calls a window. */
  readonly rateLimit: number
  /** Signed by the backend; forwarded as it is. */
  readonly principal: string
  /** `performance.now()` when the look-up began: what was committed before it, it saw. */
  readonly lookedUpAt: number
}

export type LookUpResult = KnownKey | 'unknown' | 'revoked'

const LOOK_UP_PATH = '/internal/api-keys/look-up'

/** Throws `Problem` 503: who calls cannot be decided, which is never a 401. */
export async function lookUpKey(upstream: Upstream, digest: string): Promise<LookUpResult> {
  const lookedUpAt = performance.now()
  try {
    const { status, text } = await upstream.ask('POST', LOOK_UP_PATH, { digest })
    if (status !== 200) throw new Error(`the look-up of a key was answered ${status}`)
    return parseAnswer(JSON.parse(text), lookedUpAt)
  } catch (cause) {
    throw new Problem('service_unavailable', 'The key cannot be checked at present. Try again.', {
      headers: { 'retry-after': '1' },
      cause,
    })
  }
}

function parseAnswer(answer: unknown, lookedUpAt: number): LookUpResult {
  if (!isRecord(answer)) throw unreadable()
  if (answer['found'] === false) return 'unknown'
  if (answer['found'] === true && answer['revoked'] === true) return 'revoked'
  const { key_id, account_id, scopes, granted_scopes, rate_limit, principal } = answer
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
    throw unreadable()
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

/** There are few: keys with the same scopes share them, however many are remembered. */
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

function unreadable(): Error {
  return new Error('the answer to the look-up of a key has not the expected form')
}
