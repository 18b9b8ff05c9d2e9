/**
 * The backends with their connection pools, and the choice between them: the least busy one gets the next
 * request, of equals each in turn. A backend that is not ready, or refused a connection a moment ago, is chosen last.
 */
import { SIGNATURE_HEADER, signRequest } from '../../shared/contract/principal.ts'
import type { Logger } from '../../shared/process/log.ts'
import { type BackendAddresses, noBackendKnown } from './addresses.ts'
import type {
  Backend,
  BackendStatus,
  Backends,
  ConnectionPools,
  InternalRequest,
} from './backends.ts'
import { connectPool } from './connect.ts'
import { sendWithFailover } from './failover.ts'
import { type InternalResponse, InternalTimeout, sendInternal } from './internal-request.ts'
import type { BackendPool } from './pool.ts'

/** How long a backend that refused a connection is chosen last. */
const PASS_OVER_MS = 500
const PROBE_INTERVAL_MS = 1_000
const PROBE_TIMEOUT_MS = 900
/** For look-ups of unknown keys, so that a flood of them does not delay look-ups of known keys. */
const UNKNOWN_KEY_CONNECTIONS = 8

export interface BackendSetOptions {
  readonly addresses: BackendAddresses
  readonly gatewaySecrets: readonly string[]
  /** Connections to each backend. */
  readonly connections: number
  /** For an internal request, whole. */
  readonly timeoutMs: number
  readonly log: Logger
}

interface Tracked extends Backend {
  /** `performance.now()` until which it is chosen last. */
  passOverUntil: number
  ready: boolean
  reason: string | undefined
}

export class BackendSet implements Backends {
  readonly #addresses: BackendAddresses
  #backends: readonly Tracked[] = []
  readonly #secrets: readonly string[]
  readonly #connections: number
  readonly #timeoutMs: number
  readonly #log: Logger
  readonly #probing: NodeJS.Timeout
  #seenReady = false
  /** Random, so that gateways that start together do not choose alike. */
  #turn = Math.floor(Math.random() * 1_000)

  constructor({ addresses, gatewaySecrets, connections, timeoutMs, log }: BackendSetOptions) {
    this.#addresses = addresses
    this.#connections = connections
    this.#timeoutMs = timeoutMs
    this.#secrets = gatewaySecrets
    this.#log = log
    this.#probing = setInterval(() => this.#probeAll(), PROBE_INTERVAL_MS)
    addresses.onChange(() => this.#followAddresses())
    this.#followAddresses()
  }

  get size(): number {
    return this.#backends.length
  }

  choose(not?: Backend): Tracked {
    const backends = this.#backends
    const [first] = backends
    if (first === undefined) throw noBackendKnown()
    if (backends.length === 1) return first
    const now = performance.now()
    // Of equals, each is chosen in turn: without this, a lightly loaded gateway uses only one of them.
    this.#turn = (this.#turn + 1) % backends.length
    let best = first
    let bestCost = Number.POSITIVE_INFINITY
    for (let step = 0; step < backends.length; step++) {
      const backend = backends[(this.#turn + step) % backends.length] ?? first
      const cost = costOf(backend, now) + (backend.url === not?.url ? 1e9 : 0)
      if (cost >= bestCost) continue
      best = backend
      bestCost = cost
    }
    return best
  }

  markUnreachable(unreachable: Backend): void {
    const backend = this.#backends.find(({ url }) => url === unreachable.url)
    if (backend !== undefined) backend.passOverUntil = performance.now() + PASS_OVER_MS
    this.#addresses.refresh()
  }

  request(request: InternalRequest): Promise<InternalResponse> {
    return sendWithFailover(
      this,
      (backend) => this.#send(backend, request, this.#timeoutMs),
      (error) => this.size > 1 && !(error instanceof InternalTimeout),
    )
  }

  state(): ReturnType<Backends['state']> {
    if (this.#backends.some(({ ready }) => ready)) return 'ready'
    return this.#seenReady ? 'unreachable' : 'starting'
  }

  statuses(): readonly BackendStatus[] {
    return this.#backends
  }

  close(): void {
    clearInterval(this.#probing)
    for (const { pools } of this.#backends) for (const pool of poolsOf(pools)) pool.destroy()
  }

  async #send(
    backend: Backend,
    { method, path, body, pool }: InternalRequest,
    timeoutMs: number,
  ): Promise<InternalResponse> {
    const text = body === undefined ? '' : JSON.stringify(body)
    const signature = signRequest({ method, path, body: text }, Date.now(), this.#secrets)
    const headers = [SIGNATURE_HEADER, signature, 'content-type', 'application/json']
    const request = { method, target: path, headers, body: Buffer.from(text) }
    backend.inFlight++
    try {
      return await sendInternal(backend.pools[pool], request, timeoutMs)
    } finally {
      backend.inFlight--
    }
  }

  /** A new backend gets calls once it is ready; calls in progress at a removed one are finished. */
  #followAddresses(): void {
    const before = new Map(this.#backends.map((backend) => [backend.url, backend]))
    this.#backends = this.#addresses.current().map((address) => {
      const known = before.get(address.url)
      if (known !== undefined && before.delete(address.url)) return known
      const { url } = address
      const pools = {
        calls: connectPool(address, this.#connections),
        internal: connectPool(address, this.#connections),
        unknownKeys: connectPool(address, UNKNOWN_KEY_CONNECTIONS),
      }
      const state = { passOverUntil: 0, ready: false, reason: 'not probed yet' }
      const backend: Tracked = { url, address, pools, inFlight: 0, ...state }
      void this.#probe(backend)
      return backend
    })
    for (const { pools } of before.values()) for (const pool of poolsOf(pools)) pool.close()
  }

  #probeAll(): void {
    for (const backend of this.#backends) void this.#probe(backend)
  }

  async #probe(backend: Tracked): Promise<void> {
    const { url, ready: before } = backend
    try {
      const { status } = await this.#send(backend, PROBE, PROBE_TIMEOUT_MS)
      backend.ready = status === 200
      backend.reason = reasonOf(status)
      if (status === 404)
        this.#log.error({ backend: url }, 'the backend does not accept GATEWAY_SECRET')
    } catch (error) {
      backend.ready = false
      backend.reason = error instanceof Error ? error.message || error.name : String(error)
    }
    this.#seenReady ||= backend.ready
    if (backend.ready) backend.passOverUntil = 0
    if (before !== backend.ready)
      this.#log.info({ backend: url, ready: backend.ready }, 'readiness of backend changed')
  }
}

const PROBE: InternalRequest = {
  method: 'GET',
  path: '/internal/ready',
  body: undefined,
  pool: 'internal',
}

function costOf({ inFlight, ready, passOverUntil }: Tracked, now: number): number {
  return inFlight + (ready ? 0 : 1e5) + (passOverUntil > now ? 1e7 : 0)
}

function reasonOf(status: number): string | undefined {
  if (status === 200) return undefined
  return status === 404 ? 'it does not accept GATEWAY_SECRET' : `it responds with ${status}`
}

function poolsOf({ calls, internal, unknownKeys }: ConnectionPools): readonly BackendPool[] {
  return [calls, internal, unknownKeys]
}
