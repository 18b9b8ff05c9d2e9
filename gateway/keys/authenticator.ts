/**
 * Authenticates callers. Only the backend knows keys; the results of look-ups are cached by digest, never by secret. A
 * cached key is sufficient to forward a call, since the backend checks the key again on every call.
 */
import { LRUCache } from 'lru-cache'
import {
  API_KEY_LENGTH,
  digestApiKey,
  LOOK_UPS_PER_REQUEST_MAX,
  parseApiKey,
} from '../../shared/contract/api-key.ts'
import { PRINCIPAL_LIFETIME_MS } from '../../shared/contract/principal.ts'
import { Problem, type ProblemCode } from '../../shared/contract/problem.ts'
import type { Backends } from '../upstream/backends.ts'
import { KnownKeyLookUps } from './known-keys.ts'
import { type KeyVerdict, type KnownKey, type LookUpResult, lookUpKeys } from './look-up.ts'
import { TooManyLookUps, UnknownKeyLookUps } from './unknown-keys.ts'

const SCHEME = 'bearer '
const KEYS_CACHED_MAX = 100_000
/** A cached key is looked up again well before its principal expires. */
const CACHED_MS = PRINCIPAL_LIFETIME_MS * 0.75
/**
 * The minimum age at which a cached key is refreshed in the background when a call uses it. The exact age differs per
 * key (`refreshAge`): otherwise, all keys that were first used right after the gateway's start would be refreshed at
 * the same time.
 */
const REFRESH_FROM_MS = CACHED_MS * (2 / 3)
/**
 * Keys that are due for a refresh are collected for this long, because a request for many keys costs little more than
 * one for a single key.
 */
const REFRESHES_GATHER_MS = 50
/**
 * The maximum number of refresh requests in progress. At this maximum, and for `REFRESH_RETRY_MS` after a look-up has
 * failed, no further key is refreshed in the background.
 */
const REFRESHES_IN_FLIGHT_MAX = 8
const REFRESH_RETRY_MS = 1_000
const NEGATIVE_CACHE_MAX = 100_000
/**
 * Verdicts are final (see `KeyVerdict`). Entries expire nevertheless, so that wrong results of a backend that had a
 * wrong KEY_PEPPER or a wrong database do not last.
 */
const NEGATIVE_CACHE_MS = 60_000

export interface Credential {
  readonly digest: string
  /** The prefix of the key, which only the look-up of an unknown key uses. Empty if the key is cached. */
  readonly prefix: string
  /** The result of an earlier look-up; undefined if it is not cached. */
  readonly cached: KnownKey | undefined
}

export interface AuthenticatorCounts {
  /** Calls whose key was cached (`hits`), looked up (`misses`), or in the negative cache (`negativeHits`). */
  readonly hits: number
  readonly misses: number
  readonly negativeHits: number
  /** The number of cached keys. */
  readonly known: number
  /** The number of keys in the negative cache. */
  readonly negativeEntries: number
  readonly lookUps: Readonly<Record<LookUpOutcome, number>>
  /** Look-ups in progress, except queued ones; includes keys that wait for the next background request. */
  readonly inFlight: number
  /** Queued look-ups of unknown keys. */
  readonly queuedLookUps: number
}

type LookUpOutcome = 'found' | KeyVerdict | 'failed' | 'overloaded'

/** A look-up in progress. `next` is the look-up that will follow it if a call needs a newer result. */
interface LookUp {
  readonly startedAt: number
  readonly key: Promise<KnownKey>
  next: Promise<KnownKey> | undefined
}

export class Authenticator {
  readonly #knownKeyLookUps: KnownKeyLookUps
  readonly #unknownKeyLookUps: UnknownKeyLookUps
  readonly #cachedKeys = new LRUCache<string, KnownKey>({ max: KEYS_CACHED_MAX })
  readonly #negativeCache = new LRUCache<string, KeyVerdict>({
    max: NEGATIVE_CACHE_MAX,
    ttl: NEGATIVE_CACHE_MS,
  })
  readonly #lookUps = new Map<string, LookUp>()
  readonly #outcomes: Record<LookUpOutcome, number> = {
    found: 0,
    unknown: 0,
    revoked: 0,
    expired: 0,
    failed: 0,
    overloaded: 0,
  }
  #hits = 0
  #misses = 0
  #negativeHits = 0
  /** The digests of the keys that the next background request refreshes. */
  readonly #due = new Set<string>()
  #refreshTimer: NodeJS.Timeout | undefined
  #refreshesInFlight = 0
  /** `performance.now()` before which no key is refreshed in the background. */
  #noRefreshBefore = 0

  constructor(backends: Pick<Backends, 'request'>) {
    this.#knownKeyLookUps = new KnownKeyLookUps((digests) =>
      lookUpKeys(backends, digests, 'internal'),
    )
    this.#unknownKeyLookUps = new UnknownKeyLookUps((digests) =>
      lookUpKeys(backends, digests, 'unknownKeys'),
    )
  }

  /**
   * Throws `Problem` 401 with a challenge if the bearer credential is missing, cannot be a key, or is in the negative
   * cache.
   */
  readCredential(authorization: string | undefined): Credential {
    if (authorization === undefined) throw missingKey()
    const isBearer = authorization.slice(0, SCHEME.length).toLowerCase() === SCHEME
    const secret = authorization.slice(SCHEME.length)
    if (!isBearer || secret.length !== API_KEY_LENGTH) throw malformedKey()
    const digest = digestApiKey(secret)
    const cached = this.#cachedKeys.get(digest)
    if (cached !== undefined) return { digest, prefix: '', cached }
    const key = parseApiKey(secret)
    if (key === undefined) throw malformedKey()
    const verdict = this.#negativeCache.get(digest)
    if (verdict !== undefined) {
      this.#negativeHits++
      throw invalidKey(verdict)
    }
    return { digest, prefix: key.prefix, cached }
  }

  /**
   * Returns the key in an `Authorization` header if it is cached, regardless of when it was looked up. Used only to
   * show the limit of the key in the response to a request whose head was rejected.
   */
  peek(authorization: string | undefined): KnownKey | undefined {
    const secret = authorization?.slice(SCHEME.length)
    return secret?.length === API_KEY_LENGTH
      ? this.#cachedKeys.peek(digestApiKey(secret))
      : undefined
  }

  /**
   * Returns undefined if the key is not cached, or was looked up too long ago. A cached key that is due is refreshed in
   * the background.
   */
  findCached({ digest, cached }: Credential): KnownKey | undefined {
    const now = performance.now()
    const age = now - (cached?.lookedUpAt ?? Number.NEGATIVE_INFINITY)
    if (cached !== undefined && age < CACHED_MS) {
      this.#hits++
      if (age > REFRESH_FROM_MS && age > refreshAge(digest)) this.#refresh(digest, now)
      return cached
    }
    this.#misses++
    return undefined
  }

  /**
   * Rejects with `Problem` 401 if the key does not exist, is revoked or has expired, and with 503 if it cannot be
   * checked. `client` is the network of the client.
   */
  lookUp({ digest, prefix, cached }: Credential, client: string): Promise<KnownKey> {
    const running = this.#lookUps.get(digest)
    if (running !== undefined) return running.key
    if (cached !== undefined) return this.#lookUpKnown(digest)
    return this.#track(digest, this.#unknownKeyLookUps.lookUp({ digest, prefix, client }))
  }

  /**
   * Resolves with the result of a look-up that began at or after `since` (`performance.now()`). Rejects as `lookUp`
   * does.
   */
  confirm(digest: string, since: number): Promise<KnownKey> {
    const cached = this.#cachedKeys.get(digest)
    if (cached !== undefined && cached.lookedUpAt >= since) {
      return Promise.resolve(cached)
    }
    const running = this.#lookUps.get(digest)
    if (running === undefined) return this.#lookUpKnown(digest)
    if (running.startedAt >= since) return running.key
    const lookUpAgain = () => this.#lookUpKnown(digest)
    running.next ??= running.key.then(lookUpAgain, lookUpAgain)
    return running.next
  }

  /** Evicts a key that a backend reported as expired, and throws `Problem` 401 without a look-up. */
  rejectExpired(digest: string): never {
    this.#cachedKeys.delete(digest)
    this.#negativeCache.set(digest, 'expired')
    throw invalidKey('expired')
  }

  counts(): AuthenticatorCounts {
    const { queuedLookUps } = this.#unknownKeyLookUps
    return {
      hits: this.#hits,
      misses: this.#misses,
      negativeHits: this.#negativeHits,
      lookUps: this.#outcomes,
      known: this.#cachedKeys.size,
      negativeEntries: this.#negativeCache.size,
      inFlight: this.#lookUps.size - queuedLookUps + this.#due.size,
      queuedLookUps,
    }
  }

  #refresh(digest: string, now: number): void {
    const isFull = this.#refreshesInFlight >= REFRESHES_IN_FLIGHT_MAX
    if (isFull || now < this.#noRefreshBefore || this.#lookUps.has(digest)) return
    this.#due.add(digest)
    if (this.#due.size === LOOK_UPS_PER_REQUEST_MAX) this.#sendRefreshes()
    else this.#refreshTimer ??= setTimeout(() => this.#sendRefreshes(), REFRESHES_GATHER_MS).unref()
  }

  #sendRefreshes(): void {
    clearTimeout(this.#refreshTimer)
    this.#refreshTimer = undefined
    // A call may have caused a look-up of one of these keys in the meantime.
    const digests = [...this.#due].filter((digest) => !this.#lookUps.has(digest))
    this.#due.clear()
    if (digests.length === 0) return
    this.#refreshesInFlight++
    const lookUps = digests.map((digest) => this.#lookUpKnown(digest))
    void Promise.allSettled(lookUps).then(() => this.#refreshesInFlight--)
  }

  #lookUpKnown(digest: string): Promise<KnownKey> {
    return this.#track(digest, this.#knownKeyLookUps.lookUp(digest))
  }

  #track(digest: string, lookUp: Promise<LookUpResult>): Promise<KnownKey> {
    const startedAt = performance.now()
    const key = lookUp
      .then(
        (result) => this.#cache(digest, result),
        (error) => this.#recordFailure(error),
      )
      .finally(() => this.#lookUps.delete(digest))
    this.#lookUps.set(digest, { startedAt, key, next: undefined })
    return key
  }

  #cache(digest: string, result: LookUpResult): KnownKey {
    this.#outcomes[typeof result === 'string' ? result : 'found']++
    if (typeof result === 'string') {
      this.#cachedKeys.delete(digest)
      this.#negativeCache.set(digest, result)
      throw invalidKey(result)
    }
    const key = withSameId(this.#cachedKeys.get(digest), result)
    this.#cachedKeys.set(digest, key)
    return key
  }

  #recordFailure(error: unknown): never {
    if (error instanceof TooManyLookUps) this.#outcomes.overloaded++
    else {
      this.#outcomes.failed++
      this.#noRefreshBefore = performance.now() + REFRESH_RETRY_MS
    }
    throw error
  }
}

/** The age between `REFRESH_FROM_MS` and `CACHED_MS` at which this key is refreshed. */
function refreshAge(digest: string): number {
  const share = Buffer.from(digest.slice(0, 3), 'base64url').readUInt16BE() / 2 ** 16
  return REFRESH_FROM_MS + share * (CACHED_MS - REFRESH_FROM_MS)
}

/** Saves memory: reuses the id string of the earlier result, which the rate limiter keeps in memory anyway. */
function withSameId(before: KnownKey | undefined, key: KnownKey): KnownKey {
  return before?.keyId === key.keyId ? { ...key, keyId: before.keyId } : key
}

const CHALLENGE = 'Bearer realm="api"'

/** RFC 6750, section 3.1: the challenge has no `error` if no credential was sent. */
function missingKey(): Problem {
  return new Problem(
    'missing_api_key',
    'Send the API key in the header Authorization: Bearer <API_KEY>.',
    { headers: { 'www-authenticate': CHALLENGE } },
  )
}

function malformedKey(): Problem {
  return new Problem(
    'malformed_authorization',
    'The Authorization header must be "Bearer" followed by one API key. Copy the whole key again.',
    { headers: { 'www-authenticate': `${CHALLENGE}, error="invalid_token"` } },
  )
}

function invalidKey(verdict: KeyVerdict): Problem {
  const headers = { 'www-authenticate': `${CHALLENGE}, error="invalid_token"` }
  const { code, detail } = VERDICT_PROBLEMS[verdict]
  return new Problem(code, detail, { headers })
}

const VERDICT_PROBLEMS = {
  unknown: { code: 'invalid_api_key', detail: 'This API key does not exist.' },
  revoked: {
    code: 'revoked_api_key',
    detail: 'This API key was revoked. Issue a new one in Settings.',
  },
  expired: {
    code: 'expired_api_key',
    detail: 'This API key has expired. Issue a new one in Settings.',
  },
} as const satisfies Record<KeyVerdict, { code: ProblemCode; detail: string }>

/** The problem does not reveal the allowed addresses, because the caller may have stolen the key. */
export function addressNotAllowed(): Problem {
  return new Problem('address_not_allowed', 'This key cannot be used from this address.', {
    headers: { 'www-authenticate': CHALLENGE },
  })
}

/** RFC 6750, section 3.1. */
export function insufficientScopeChallenge(scope: string): string {
  return `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`
}
