/**
 * Who calls. Only the backend knows keys; what it said is remembered here by digest, never by
 * secret. A remembered key may be used to forward, since the backend decides again on every call;
 * it may not be used to refuse: `confirm` comes first (the pipeline sees to that).
 */
import { LRUCache } from 'lru-cache'
import { digestApiKey, isApiKeyShaped, parseApiKey } from '../shared/api-key.ts'
import { PRINCIPAL_LIFETIME_MS } from '../shared/principal.ts'
import { Problem } from '../shared/problem.ts'
import { type KnownKey, type LookUpResult, lookUpKey } from './key-look-up.ts'
import type { Upstream } from './upstream.ts'

const SCHEME = 'bearer '
const KEYS_REMEMBERED_MAX = 100_000
/** Refreshed well before the backend would find the principal expired. */
const REMEMBER_MS = PRINCIPAL_LIFETIME_MS * 0.75
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

export interface Authenticator {
  /**
   * The bearer credential. Throws `Problem` 401 with a challenge where there is none,
   * where it cannot be a key, or where it is remembered as refused: all without a look-up.
   */
  readCredential(authorization: string | undefined): Credential
  /** The key, remembered or looked up. Throws 401 where it is unknown or revoked, 503 undecided. */
  identify(credential: Credential): KnownKey | Promise<KnownKey>
  /** The same by a look-up that began after `since` (`performance.now()`), shared by all who wait. */
  confirm(digest: string, since: number): Promise<KnownKey>
  counts(): AuthenticatorCounts
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

export function createAuthenticator(options: AuthenticatorOptions): Authenticator {
  const { upstream, strangersUpstream } = options
  const known = new LRUCache<string, KnownKey>({ max: KEYS_REMEMBERED_MAX })
  const refused = new LRUCache<string, 'unknown' | 'revoked'>({
    max: REFUSED_REMEMBERED_MAX,
    ttl: REFUSED_REMEMBER_MS,
  })
  const lookUps = new Map<string, LookUp>()
  const strangersLane = createLane(STRANGERS_IN_FLIGHT_MAX, STRANGERS_WAITING_MAX)
  const outcomes = { found: 0, unknown: 0, revoked: 0, failed: 0, overloaded: 0 }
  const tally = { hits: 0, misses: 0, refusals: 0, lookUps: outcomes }

  function readCredential(authorization: string | undefined): Credential {
    if (authorization === undefined) throw missingKey()
    const isBearer = authorization.slice(0, SCHEME.length).toLowerCase() === SCHEME
    const secret = authorization.slice(SCHEME.length)
    if (!isBearer || !isApiKeyShaped(secret)) throw malformedKey()
    const digest = digestApiKey(secret)
    const remembered = known.get(digest)
    if (remembered !== undefined) return { digest, remembered }
    if (parseApiKey(secret) === undefined) throw malformedKey()
    const verdict = refused.get(digest)
    if (verdict !== undefined) {
      tally.refusals++
      throw refusal(verdict)
    }
    return { digest, remembered }
  }

  function identify({ digest, remembered }: Credential): KnownKey | Promise<KnownKey> {
    const fresh = performance.now() - REMEMBER_MS
    if (remembered !== undefined && remembered.lookedUpAt > fresh) {
      tally.hits++
      return remembered
    }
    tally.misses++
    return lookUps.get(digest)?.result ?? startLookUp(digest)
  }

  function confirm(digest: string, since: number): Promise<KnownKey> {
    const remembered = known.get(digest)
    if (remembered !== undefined && remembered.lookedUpAt >= since) {
      return Promise.resolve(remembered)
    }
    const running = lookUps.get(digest)
    if (running === undefined) return startLookUp(digest)
    if (running.startedAt >= since) return running.result
    running.next ??= running.result.then(
      () => startLookUp(digest),
      () => startLookUp(digest),
    )
    return running.next
  }

  function startLookUp(digest: string): Promise<KnownKey> {
    const startedAt = performance.now()
    const lookUp = known.has(digest)
      ? lookUpKey(upstream, digest)
      : strangersLane.run(() => lookUpKey(strangersUpstream, digest))
    const result = lookUp.then(remember(digest), lose).finally(() => lookUps.delete(digest))
    lookUps.set(digest, { startedAt, result, next: undefined })
    return result
  }

  const lose = (error: unknown) => {
    outcomes[error instanceof LaneFull ? 'overloaded' : 'failed']++
    throw error
  }

  const remember = (digest: string) => (found: LookUpResult) => {
    outcomes[typeof found === 'string' ? found : 'found']++
    if (typeof found === 'string') {
      known.delete(digest)
      refused.set(digest, found)
      throw refusal(found)
    }
    const key = withTextOf(known.get(digest), found)
    known.set(digest, key)
    return key
  }

  const { waiting } = strangersLane
  const counts = () => ({
    ...tally,
    known: known.size,
    refused: refused.size,
    inFlight: lookUps.size - waiting.length,
    waiting: waiting.length,
  })
  return { readCredential, identify, confirm, counts }
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
