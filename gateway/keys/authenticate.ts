/**
 * Who calls. Only the backend knows keys; what it said is remembered here by digest, never by
 * secret. A remembered key may be used to forward, since the backend decides again on every call;
 * it may not be used to refuse: `confirm` comes first (the pipeline sees to that).
 */
import { LRUCache } from 'lru-cache'
import { API_KEY_LENGTH, digestApiKey, parseApiKey } from '../../shared/contract/api-key.ts'
import { PRINCIPAL_LIFETIME_MS } from '../../shared/contract/principal.ts'
import { Problem } from '../../shared/contract/problem.ts'
import type { Upstream } from '../upstream/backends.ts'
import { type KnownKey, type LookUpResult, lookUpKey } from './look-up.ts'

const SCHEME = 'bearer '
const KEYS_REMEMBERED_MAX = 100_000
/** Refreshed well before the backend would find the principal expired. */
const REMEMBER_MS = PRINCIPAL_LIFETIME_MS * 0.75
/**
 * From this age on a key that calls is looked up behind its call, which does not wait: each key at an age
 * of its own, or all that called after a start would be looked up within one moment for ever after.
 */
const REFRESH_FROM_MS = REMEMBER_MS * (2 / 3)
/** Beyond it, and for a while after one has failed, a key waits for the call that finds it too old. */
const REFRESHES_IN_FLIGHT_MAX = 32
const REFRESH_AGAIN_MS = 1_000
/** A random secret that does not exist cannot come to exist; a revoked one stays revoked. */
const REFUSED_REMEMBERED_MAX = 100_000
const REFUSED_REMEMBER_MS = 60_000
/** Look-ups of digests never seen before: a flood of them takes no more than this. */
const STRANGERS_IN_FLIGHT_MAX = 8
const STRANGERS_WAITING_MAX = 500

export interface Credential {
  readonly digest: string
  /** As it was found once, if it was. */
  readonly remembered: KnownKey | undefined
}

/** For operators. */
export interface AuthenticatorCounts {
  /** Calls whose key was remembered; was looked up; was remembered as refused. */
  readonly hits: number
  readonly misses: number
  readonly refusals: number
  /** Keys remembered, and refused ones. */
  readonly known: number
  readonly refused: number
  /** Look-ups that ended, by how. */
  readonly lookUps: Readonly<Record<LookUpOutcome, number>>
  readonly inFlight: number
  /** Those of keys never seen that wait in line. */
  readonly waiting: number
}

type LookUpOutcome = 'found' | 'unknown' | 'revoked' | 'failed' | 'overloaded'

/** A look-up under way, and the one that begins when it ends. */
interface LookUp {
  readonly startedAt: number
  readonly result: Promise<KnownKey>
  next: Promise<KnownKey> | undefined
}

export interface AuthenticatorOptions {
  readonly upstream: Upstream
  /** Connections of their own, so that a flood of unknown keys does not stand in the way. */
  readonly strangersUpstream: Upstream
}

export class Authenticator {
  readonly #upstream: Upstream
  readonly #strangersUpstream: Upstream
  readonly #strangersLane = createLane(STRANGERS_IN_FLIGHT_MAX, STRANGERS_WAITING_MAX)
  readonly #known = new LRUCache<string, KnownKey>({ max: KEYS_REMEMBERED_MAX })
  readonly #refused = new LRUCache<string, 'unknown' | 'revoked'>({
    max: REFUSED_REMEMBERED_MAX,
    ttl: REFUSED_REMEMBER_MS,
  })
  readonly #lookUps = new Map<string, LookUp>()
  readonly #outcomes = { found: 0, unknown: 0, revoked: 0, failed: 0, overloaded: 0 }
  #hits = 0
  #misses = 0
  #refusals = 0
  /** Look-ups under way for which no call waits. */
  #refreshes = 0
  /** By `performance.now()`. */
  #refreshFrom = 0

  constructor({ upstream, strangersUpstream }: AuthenticatorOptions) {
    this.#upstream = upstream
    this.#strangersUpstream = strangersUpstream
  }

  /**
   * The bearer credential. Throws `Problem` 401 with a challenge where there is none,
   * where it cannot be a key, or where it is remembered as refused: all without a look-up.
   */
  readCredential(authorization: string | undefined): Credential {
    if (authorization === undefined) throw missingKey()
    const isBearer = authorization.slice(0, SCHEME.length).toLowerCase() === SCHEME
    const secret = authorization.slice(SCHEME.length)
    if (!isBearer || secret.length !== API_KEY_LENGTH) throw malformedKey()
    const digest = digestApiKey(secret)
    const remembered = this.#known.get(digest)
    if (remembered !== undefined) return { digest, remembered }
    if (parseApiKey(secret) === undefined) throw malformedKey()
    const verdict = this.#refused.get(digest)
    if (verdict !== undefined) {
      this.#refusals++
      throw refusal(verdict)
    }
    return { digest, remembered }
  }

  /** The key, remembered or looked up. Throws 401 where it is unknown or revoked, 503 undecided. */
  identify({ digest, remembered }: Credential): KnownKey | Promise<KnownKey> {
    const now = performance.now()
    const age = now - (remembered?.lookedUpAt ?? Number.NEGATIVE_INFINITY)
    if (remembered !== undefined && age < REMEMBER_MS) {
      this.#hits++
      if (age > REFRESH_FROM_MS && age > refreshAge(digest)) this.#refresh(digest, now)
      return remembered
    }
    this.#misses++
    return this.#lookUps.get(digest)?.result ?? this.#lookUp(digest)
  }

  /** The same by a look-up that began after `since` (`performance.now()`), shared by all who wait. */
  confirm(digest: string, since: number): Promise<KnownKey> {
    const remembered = this.#known.get(digest)
    if (remembered !== undefined && remembered.lookedUpAt >= since) {
      return Promise.resolve(remembered)
    }
    const running = this.#lookUps.get(digest)
    if (running === undefined) return this.#lookUp(digest)
    if (running.startedAt >= since) return running.result
    const again = () => this.#lookUp(digest)
    running.next ??= running.result.then(again, again)
    return running.next
  }

  counts(): AuthenticatorCounts {
    const { waiting } = this.#strangersLane
    return {
      hits: this.#hits,
      misses: this.#misses,
      refusals: this.#refusals,
      lookUps: this.#outcomes,
      known: this.#known.size,
      refused: this.#refused.size,
      inFlight: this.#lookUps.size - waiting.length,
      waiting: waiting.length,
    }
  }

  /** What comes of it is remembered, and told to the next call. */
  #refresh(digest: string, now: number): void {
    const isFull = this.#refreshes >= REFRESHES_IN_FLIGHT_MAX
    if (isFull || now < this.#refreshFrom || this.#lookUps.has(digest)) return
    this.#refreshes++
    const end = () => void this.#refreshes--
    this.#lookUp(digest).then(end, end)
  }

  #lookUp(digest: string): Promise<KnownKey> {
    const startedAt = performance.now()
    const lookUp = this.#known.has(digest)
      ? lookUpKey(this.#upstream, digest)
      : this.#strangersLane.run(() => lookUpKey(this.#strangersUpstream, digest))
    const result = lookUp
      .then(
        (found) => this.#remember(digest, found),
        (error) => this.#lose(error),
      )
      .finally(() => this.#lookUps.delete(digest))
    this.#lookUps.set(digest, { startedAt, result, next: undefined })
    return result
  }

  #remember(digest: string, found: LookUpResult): KnownKey {
    this.#outcomes[typeof found === 'string' ? found : 'found']++
    if (typeof found === 'string') {
      this.#known.delete(digest)
      this.#refused.set(digest, found)
      throw refusal(found)
    }
    const key = withTextOf(this.#known.get(digest), found)
    this.#known.set(digest, key)
    return key
  }

  #lose(error: unknown): never {
    if (error instanceof LaneFull) this.#outcomes.overloaded++
    else {
      this.#outcomes.failed++
      this.#refreshFrom = performance.now() + REFRESH_AGAIN_MS
    }
    throw error
  }
}

/** Between `REFRESH_FROM_MS` and `REMEMBER_MS`: the digest says where. */
function refreshAge(digest: string): number {
  const share = Buffer.from(digest.slice(0, 3), 'base64url').readUInt16BE() / 2 ** 16
  return REFRESH_FROM_MS + share * (REMEMBER_MS - REFRESH_FROM_MS)
}

/** The account of a key holds its id for longer: the text is kept once. */
function withTextOf(before: KnownKey | undefined, found: KnownKey): KnownKey {
  return before?.keyId === found.keyId ? { ...found, keyId: before.keyId } : found
}

class LaneFull extends Problem {
  constructor() {
    super('service_unavailable', 'Too many new keys at once. Try again shortly.', {
      headers: { 'retry-after': '1' },
    })
  }
}

/** At most `inFlightMax` at once and `waitingMax` in line; beyond that 503. */
function createLane(inFlightMax: number, waitingMax: number) {
  let inFlight = 0
  const waiting: (() => void)[] = []

  async function run<T>(work: () => Promise<T>): Promise<T> {
    if (inFlight >= inFlightMax) {
      if (waiting.length >= waitingMax) throw new LaneFull()
      await new Promise<void>((resolve) => waiting.push(resolve))
    } else {
      inFlight++
    }
    try {
      return await work()
    } finally {
      // The place passes to the next in line, or falls free.
      const next = waiting.shift()
      if (next === undefined) inFlight--
      else next()
    }
  }

  return { run, waiting }
}

const CHALLENGE = 'Bearer realm="api"'

/** RFC 6750, section 3.1: no `error` where no credential came. */
function missingKey(): Problem {
  return new Problem(
    'missing_api_key',
    'Send the API key in the header Authorization: Bearer <API_KEY>.',
    { headers: { 'www-authenticate': CHALLENGE } },
  )
}

export function malformedKey(): Problem {
  return new Problem(
    'malformed_authorization',
    'The Authorization header is not "Bearer" and one API key. Copy the key again, whole.',
    { headers: { 'www-authenticate': `${CHALLENGE}, error="invalid_token"` } },
  )
}

function refusal(verdict: 'unknown' | 'revoked'): Problem {
  const headers = { 'www-authenticate': `${CHALLENGE}, error="invalid_token"` }
  return verdict === 'revoked'
    ? new Problem('revoked_api_key', 'This API key was revoked. Issue a new one in Settings.', {
        headers,
      })
    : new Problem('invalid_api_key', 'This API key does not exist.', { headers })
}

/** RFC 6750, section 3.1, with the scope that would do. */
export function insufficientScopeChallenge(scope: string): string {
  return `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`
}
