/**
 * The backends with their connection pools, and the choice between them. The next request is sent to the less busy of
 * two backends: the next backend in turn, and a random backend. If every gateway chose the least busy backend instead,
 * many gateways would choose the same backend at the same time.
 */
import { SIGNATURE_HEADER, signRequest } from '../../shared/contract/principal.ts'
import type { Logger } from '../../shared/process/log.ts'
import { type BackendAddresses, noBackendKnown } from './addresses.ts'
import { BackendHealth } from './backend-health.ts'
import type {
  Backend,
  BackendStatus,
  Backends,
  ConnectionPools,
  InternalRequest,
} from './backends.ts'
import { closeAgent, closeIdleConnections, connectPool, createAgent } from './connect.ts'
import { MovedToOtherBackend, sendWithFailover } from './failover.ts'
import {
  type InternalExchange,
  type InternalResponse,
  InternalTimeout,
  sendInternal,
} from './internal-request.ts'
import type { BackendPool } from './pool.ts'

/** A backend to which no connection could be opened is chosen last for this long. */
const AVOIDED_MS = 500
const PROBE_INTERVAL_MS = 1_000
const PROBE_TIMEOUT_MS = 900
/**
 * If a backend responds to a probe, but has not responded to an internal request for this long, the connection of that
 * request is assumed to be dead.
 */
const OVERDUE_MS = 2_000
/** Unknown keys are looked up over separate connections, so that many such look-ups do not delay other look-ups. */
const UNKNOWN_KEY_CONNECTIONS = 8
/** The connections for pages, as a share of those for calls. People load few pages at a time. */
const PAGE_CONNECTIONS_SHARE = 1 / 4

function poolSizes(connections: number) {
  return {
    calls: connections,
    internal: connections,
    unknownKeys: UNKNOWN_KEY_CONNECTIONS,
    pages: Math.ceil(connections * PAGE_CONNECTIONS_SHARE),
  }
}

/** Returns the maximum number of connections to each backend: for calls, internal requests, unknown keys and pages. */
export function connectionsPerBackend(connections: number): number {
  return Object.values(poolSizes(connections)).reduce((sum, size) => sum + size, 0)
}

export interface BackendSetOptions {
  readonly addresses: BackendAddresses
  readonly gatewaySecrets: readonly string[]
  /** The maximum number of connections for calls to each backend. */
  readonly connections: number
  /** The timeout of an internal request, including its repetitions and the body of its response. */
  readonly timeoutMs: number
  readonly log: Logger
}

interface TrackedBackend extends Backend {
  readonly passiveHealth: BackendHealth
  /** The internal requests in progress that may be repeated, and when they began (`performance.now()`). */
  readonly repeatableExchanges: Map<InternalExchange, number>
  /** `performance.now()` until which the backend is chosen last (see `AVOIDED_MS`). */
  avoidedUntil: number
  ready: boolean
  /** Why the backend is not ready; undefined if it is ready. */
  reason: string | undefined
}

export class BackendSet implements Backends {
  readonly #addresses: BackendAddresses
  #backends: readonly TrackedBackend[] = []
  readonly #secrets: readonly string[]
  readonly #poolSizes: ReturnType<typeof poolSizes>
  readonly #timeoutMs: number
  readonly #log: Logger
  readonly #probeTimer: NodeJS.Timeout
  readonly ejections = new Map<string, number>()
  #hasBeenReady = false
  #onFree: () => void = () => {}
  /** The first turn is random, so that gateways that start at the same time do not all begin with the same backend. */
  #turn = Math.floor(Math.random() * 1_000)

  constructor(options: BackendSetOptions) {
    const { addresses, gatewaySecrets, connections, timeoutMs, log } = options
    this.#addresses = addresses
    this.#poolSizes = poolSizes(connections)
    this.#timeoutMs = timeoutMs
    this.#secrets = gatewaySecrets
    this.#log = log
    this.#probeTimer = setInterval(() => this.#probeAll(), PROBE_INTERVAL_MS)
    addresses.onChange(() => this.#updateBackends())
    this.#updateBackends()
  }

  get size(): number {
    return this.#backends.length
  }

  get concurrentPagesMax(): number {
    return this.#poolSizes.pages
  }

  connections(): { readonly size: number; readonly free: number } {
    const backends = this.#backends.length === 1 ? this.#backends : this.#candidates(undefined)
    let free = 0
    // A backend's `pools.calls.free` is negative if more calls are queued than connections are free. Queued calls of
    // one backend use no connections of another, so they do not reduce the sum.
    for (const { pools } of backends) free += Math.max(0, pools.calls.free)
    return { size: this.#poolSizes.calls * backends.length, free }
  }

  onFree(listener: () => void): void {
    this.#onFree = listener
  }

  choose(excluded?: Backend): TrackedBackend {
    const [first] = this.#backends
    if (first === undefined) throw noBackendKnown()
    if (this.#backends.length === 1) return first
    const candidates = this.#candidates(excluded)
    const count = candidates.length
    // Equally busy backends are chosen in turn: otherwise, a lightly loaded gateway would use only one of them.
    this.#turn = (this.#turn + 1) % count
    const next = candidates[this.#turn] ?? first
    const step = 1 + Math.floor(Math.random() * (count - 1))
    const other = candidates[(this.#turn + step) % count] ?? next
    return other.inFlight < next.inFlight ? other : next
  }

  recordResult(backend: Backend, { isFailed }: { readonly isFailed: boolean }): void {
    const now = performance.now()
    const { url } = backend
    const tracked = this.#backends.find((candidate) => candidate.url === url)
    if (tracked === undefined) return
    if (!isFailed) {
      tracked.passiveHealth.recordSuccess(now)
      return
    }
    const peers = this.#backends
      .filter((other) => other !== tracked)
      .map(({ passiveHealth }) => passiveHealth)
    if (!tracked.passiveHealth.recordFailure(peers, now)) return
    this.ejections.set(url, (this.ejections.get(url) ?? 0) + 1)
    this.#log.warn({ backend: url }, 'backend ejected: it fails far more often than the others')
    this.#requeue(tracked)
  }

  markUnreachable(unreachable: Backend): void {
    const backend = this.#backends.find(({ url }) => url === unreachable.url)
    if (backend !== undefined) backend.avoidedUntil = performance.now() + AVOIDED_MS
    this.#addresses.refresh()
  }

  request(request: InternalRequest): Promise<InternalResponse> {
    const deadline = performance.now() + this.#timeoutMs
    let isFirst = true
    const mayRetry = (error: unknown) => this.size > 1 && !(error instanceof InternalTimeout)
    return sendWithFailover(
      this,
      async (backend) => {
        const exchange = this.#send(backend, request, deadline)
        // Only the first attempt can be aborted and moved to another backend (see `#repeatInternalRequests`).
        // Otherwise, slow backends might never get the time to respond.
        if (isFirst) backend.repeatableExchanges.set(exchange, performance.now())
        isFirst = false
        return exchange.response.finally(() => backend.repeatableExchanges.delete(exchange))
      },
      mayRetry,
    )
  }

  state(): ReturnType<Backends['state']> {
    if (this.#backends.some(({ ready }) => ready)) return 'ready'
    return this.#hasBeenReady ? 'unreachable' : 'starting'
  }

  statuses(): readonly BackendStatus[] {
    const now = performance.now()
    return this.#backends.map((backend) => ({
      ...backend,
      health: backend.passiveHealth.state(now),
    }))
  }

  close(): void {
    clearInterval(this.#probeTimer)
    for (const { pools, agent } of this.#backends) {
      agent.destroy()
      for (const pool of poolsOf(pools)) pool.destroy()
    }
  }

  #send(
    backend: TrackedBackend,
    { method, path, body, pool }: InternalRequest,
    deadline: number,
  ): InternalExchange {
    const text = body === undefined ? '' : JSON.stringify(body)
    const signature = signRequest({ method, path, body: text }, Date.now(), this.#secrets)
    const headers = [SIGNATURE_HEADER, signature, 'content-type', 'application/json']
    const request = { method, target: path, headers, body: Buffer.from(text) }
    backend.inFlight++
    const onEnd = () => void backend.inFlight--
    const exchange = sendInternal(backend.pools[pool], request, deadline)
    exchange.response.then(onEnd, onEnd)
    return exchange
  }

  /** Returns the backends with the lowest penalty. */
  #candidates(excluded: Backend | undefined): readonly TrackedBackend[] {
    const now = performance.now()
    let candidates: TrackedBackend[] = []
    let lowest = Number.POSITIVE_INFINITY
    for (const backend of this.#backends) {
      const penalty = backend.url === excluded?.url ? EXCLUDED_PENALTY : penaltyOf(backend, now)
      if (penalty < lowest) candidates = []
      if (penalty <= lowest) candidates.push(backend)
      lowest = Math.min(lowest, penalty)
    }
    return candidates
  }

  /** Moves the queued calls of this backend to other backends, if another backend has no penalty. */
  #requeue(backend: TrackedBackend): void {
    if (this.#hasAlternative(backend)) backend.pools.calls.rejectQueued(new MovedToOtherBackend())
  }

  /**
   * Repeats the internal requests that began at `until` or earlier, on another backend if there is one. Without this, a
   * call that waits for such a request, e.g. a key look-up, would fail after the timeout of the request.
   */
  #repeatInternalRequests(backend: TrackedBackend, until: number): void {
    const overdue = [...backend.repeatableExchanges].filter(([, beganAt]) => beganAt <= until)
    if (overdue.length === 0) return
    // Idle connections may be dead too.
    closeIdle(backend)
    for (const [exchange] of overdue) exchange.abort(new MovedToOtherBackend())
  }

  #hasAlternative(backend: TrackedBackend): boolean {
    const now = performance.now()
    return this.#backends.some((other) => other !== backend && penaltyOf(other, now) === 0)
  }

  /**
   * Moves one call from the backend with the longest queue to another backend: usually to `idleUrl`, which has an idle
   * connection.
   */
  #balance(idleUrl: string): void {
    let longest: TrackedBackend | undefined
    for (const backend of this.#backends) {
      const { queued } = backend.pools.calls
      if (queued > (longest?.pools.calls.queued ?? 0)) longest = backend
    }
    if (longest === undefined) return
    const idle = this.#backends.find(({ url }) => url === idleUrl)
    if (idle === undefined || idle === longest || penaltyOf(idle, performance.now()) > 0) return
    longest.pools.calls.rejectQueued(new MovedToOtherBackend(), 1)
  }

  /**
   * Adds a backend for each new address, and removes backends whose address is gone. The connections of a removed
   * backend are closed when its calls in progress have ended.
   */
  #updateBackends(): void {
    const sizes = this.#poolSizes
    const before = new Map(this.#backends.map((backend) => [backend.url, backend]))
    this.#backends = this.#addresses.current().map((address) => {
      const existing = before.get(address.url)
      if (existing !== undefined && before.delete(address.url)) return existing
      const { url } = address
      // If a connection cannot be reused after a response, the backend may be draining, and would soon close its idle
      // connections too.
      const onNotReusable = () => closeIdle(backend)
      const pools = {
        calls: connectPool(address, sizes.calls, {
          onNotReusable,
          onFree: (hasIdle) => {
            if (hasIdle) this.#balance(url)
            this.#onFree()
          },
        }),
        internal: connectPool(address, sizes.internal, { onNotReusable }),
        unknownKeys: connectPool(address, sizes.unknownKeys, { onNotReusable }),
      }
      const passiveHealth = new BackendHealth()
      const repeatableExchanges = new Map<InternalExchange, number>()
      const state = { passiveHealth, avoidedUntil: 0, ready: false, reason: 'not probed yet' }
      const agent = createAgent(address, sizes.pages)
      const backend: TrackedBackend = {
        url,
        address,
        pools,
        agent,
        repeatableExchanges,
        inFlight: 0,
        ...state,
      }
      void this.#probe(backend)
      return backend
    })
    // Only the backends whose address is gone are still in `before`.
    for (const { pools, agent } of before.values()) {
      closeAgent(agent)
      for (const pool of poolsOf(pools)) pool.close()
    }
  }

  #probeAll(): void {
    for (const backend of this.#backends) void this.#probe(backend)
  }

  async #probe(backend: TrackedBackend): Promise<void> {
    const { url, ready: wasReady } = backend
    try {
      const deadline = performance.now() + PROBE_TIMEOUT_MS
      const { status } = await this.#send(backend, PROBE, deadline).response
      this.#repeatInternalRequests(backend, performance.now() - OVERDUE_MS)
      backend.ready = status === 200
      backend.reason = reasonOf(status)
      if (status === 404)
        this.#log.error({ backend: url }, `the backend is not ready: ${SIGNATURE_REJECTED}`)
    } catch (error) {
      backend.ready = false
      backend.reason = error instanceof Error ? error.message || error.name : String(error)
      if (this.#hasAlternative(backend)) this.#repeatInternalRequests(backend, performance.now())
    }
    // Without this, a later request could be lost on an idle connection: a draining backend soon closes it, and
    // the connection to a backend that does not respond may be dead, e.g. after a restart of a firewall.
    if (!backend.ready) closeIdle(backend)
    this.#hasBeenReady ||= backend.ready
    if (backend.ready) backend.avoidedUntil = 0
    if (wasReady && !backend.ready) this.#requeue(backend)
    // Calls may now be sent to other backends than before, and these may have free connections.
    if (wasReady !== backend.ready) this.#onFree()
    if (wasReady !== backend.ready)
      this.#log.info({ backend: url, ready: backend.ready }, 'readiness of backend changed')
  }
}

const PROBE: InternalRequest = {
  method: 'GET',
  path: '/internal/ready',
  body: undefined,
  pool: 'internal',
}

const SIGNATURE_REJECTED =
  'it does not accept the GATEWAY_SECRET of this gateway, or the two clocks differ by more than a minute'

/** Higher than all penalties of `penaltyOf`, so that an excluded backend is chosen only if there is no other. */
const EXCLUDED_PENALTY = 4

/**
 * Returns 0 for a backend in good condition. The less likely a backend is to respond, the higher is its penalty. A
 * backend on trial has 0 only while it is idle, so that it gets one request at a time.
 */
function penaltyOf(
  { inFlight, ready, avoidedUntil, passiveHealth }: TrackedBackend,
  now: number,
): number {
  if (avoidedUntil > now) return 3
  if (!ready) return 2
  const health = passiveHealth.state(now)
  return health === 'ejected' || (health === 'on_trial' && inFlight > 0) ? 1 : 0
}

/** A backend responds with 404 to an internal request whose signature it rejects. */
function reasonOf(status: number): string | undefined {
  if (status === 200) return undefined
  return status === 404 ? SIGNATURE_REJECTED : `it responds with ${status}`
}

function closeIdle({ pools, agent }: Backend): void {
  for (const pool of poolsOf(pools)) pool.closeIdle()
  closeIdleConnections(agent)
}

function poolsOf({ calls, internal, unknownKeys }: ConnectionPools): readonly BackendPool[] {
  return [calls, internal, unknownKeys]
}
