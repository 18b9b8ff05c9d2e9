/**
 * The backends: a pool of connections each, and the choice between them. The least busy one takes
 * the next request; one that is not ready, or refused a connection a moment ago, is passed over while
 * others answer.
 */
import { isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { SIGNATURE_HEADER, signRequest } from '../../shared/contract/principal.ts'
import type { Logger } from '../../shared/process/log.ts'
import { type BackendAddress, type BackendAddresses, noBackendKnown } from './addresses.ts'
import { askPool, type OwnAnswer, TooSlow } from './internal-request.ts'
import { BackendPool } from './pool.ts'

const CONNECT_TIMEOUT_MS = 1_000
/** Shorter than the backend keeps an idle connection, so that it is we who close. */
const KEEP_ALIVE_MS = 4_000
/** For how long a backend that refused a connection is passed over. */
const PASS_OVER_MS = 500
const PROBE_INTERVAL_MS = 1_000
const PROBE_TIMEOUT_MS = 900

export interface UpstreamOptions {
  readonly addresses: BackendAddresses
  readonly gatewaySecrets: readonly string[]
  /** Connections to each backend. */
  readonly connections: number
  /** Until the head of an answer, and between two parts of its body. */
  readonly timeoutMs: number
  readonly log: Logger
}

export interface Backend {
  /** As its address has it. */
  readonly url: string
  readonly address: BackendAddress
  /** For calls. */
  readonly pool: BackendPool
  /** For requests of the gateway's own, which do not wait behind calls. */
  readonly ownPool: BackendPool
  /** Requests that wait for a connection, for an answer, or for its end. */
  inFlight: number
}

export interface Upstream {
  /** How many backends there are at present. */
  readonly size: number
  /**
   * The backend to send the next request to. `not`: one that just failed; it is chosen again only
   * where it is the only one. Throws `Problem` 503 where none is known.
   */
  choose(not?: Backend): Backend
  /** Tells that a backend refused or lost a connection. */
  markUnreachable(backend: Backend): void
  /**
   * Sends a small signed JSON request of the gateway's own, and answers status and text. Backends that
   * refuse are passed over; what is lost is sent once more, to another: it may be done twice.
   */
  ask(method: 'GET' | 'POST', path: string, body?: unknown): Promise<OwnAnswer>
  /** `starting`: no backend has been seen ready yet. */
  state(): 'ready' | 'starting' | 'unreachable'
  /** For operators. */
  backends(): readonly BackendStatus[]
  close(): Promise<void>
}

export interface BackendStatus extends Backend {
  readonly ready: boolean
  /** Why it is not ready, for people. */
  readonly reason: string | undefined
}

interface Tracked extends Backend {
  /** `performance.now()` until when it is passed over. */
  passOverUntil: number
  ready: boolean
  reason: string | undefined
}

export class BackendPools implements Upstream {
  readonly #addresses: BackendAddresses
  #backends: readonly Tracked[] = []
  readonly #secrets: readonly string[]
  readonly #connections: number
  readonly #timeoutMs: number
  readonly #log: Logger
  readonly #probing: NodeJS.Timeout
  #seenReady = false

  constructor({ addresses, gatewaySecrets, connections, timeoutMs, log }: UpstreamOptions) {
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
    const now = performance.now()
    const cost = ({ url, inFlight, ready, passOverUntil }: Tracked) => {
      const isLast = (passOverUntil > now ? 1e7 : 0) + (url === not?.url ? 1e9 : 0)
      return inFlight + (ready ? 0 : 1e5) + isLast
    }
    const [first, ...others] = this.#backends
    if (first === undefined) throw noBackendKnown()
    return others.reduce((best, backend) => (cost(backend) < cost(best) ? backend : best), first)
  }

  markUnreachable(unreachable: Backend): void {
    const backend = this.#backends.find(({ url }) => url === unreachable.url)
    if (backend !== undefined) backend.passOverUntil = performance.now() + PASS_OVER_MS
    this.#addresses.suspect()
  }

  async ask(method: 'GET' | 'POST', path: string, body?: unknown): Promise<OwnAnswer> {
    let backend = this.choose()
    let isRepeat = false
    for (let refusals = 0; ; ) {
      try {
        return await this.#askOne(backend, method, path, body, this.#timeoutMs)
      } catch (error) {
        if (error instanceof TooSlow) throw error
        if (wasNeverConnected(error)) {
          // To pass it over is no repeat: nobody was asked yet.
          this.markUnreachable(backend)
          if (++refusals >= this.size) throw error
        } else {
          if (isRepeat) throw error
          isRepeat = true
        }
        const other = this.choose(backend)
        if (other === backend) throw error
        backend = other
      }
    }
  }

  state(): ReturnType<Upstream['state']> {
    if (this.#backends.some(({ ready }) => ready)) return 'ready'
    return this.#seenReady ? 'unreachable' : 'starting'
  }

  backends(): readonly BackendStatus[] {
    return this.#backends
  }

  async close(): Promise<void> {
    clearInterval(this.#probing)
    for (const { pool, ownPool } of this.#backends) {
      pool.destroy()
      ownPool.destroy()
    }
  }

  async #askOne(
    backend: Backend,
    method: 'GET' | 'POST',
    path: string,
    body: unknown,
    timeoutMs: number,
  ): Promise<OwnAnswer> {
    const text = body === undefined ? '' : JSON.stringify(body)
    const signature = signRequest({ method, path, body: text }, Date.now(), this.#secrets)
    const headers = [SIGNATURE_HEADER, signature, 'content-type', 'application/json']
    const request = { method, target: path, headers, body: Buffer.from(text) }
    backend.inFlight++
    try {
      return await askPool(backend.ownPool, request, timeoutMs)
    } finally {
      backend.inFlight--
    }
  }

  /** A new one takes calls once it is seen ready; of one that is gone, calls under way are finished. */
  #followAddresses(): void {
    const before = new Map(this.#backends.map((backend) => [backend.url, backend]))
    this.#backends = this.#addresses.current().map((address) => {
      const known = before.get(address.url)
      if (known !== undefined && before.delete(address.url)) return known
      const pools = connect(address, this.#connections)
      const { url } = address
      const state = { passOverUntil: 0, ready: false, reason: 'not asked yet' }
      const backend: Tracked = { url, address, ...pools, inFlight: 0, ...state }
      void this.#probe(backend)
      return backend
    })
    for (const { pool, ownPool } of before.values()) {
      pool.close()
      ownPool.close()
    }
  }

  #probeAll(): void {
    for (const backend of this.#backends) void this.#probe(backend)
  }

  async #probe(backend: Tracked): Promise<void> {
    const { url, ready: before } = backend
    try {
      const path = '/internal/ready'
      const { status } = await this.#askOne(backend, 'GET', path, undefined, PROBE_TIMEOUT_MS)
      backend.ready = status === 200
      backend.reason = reasonOf(status)
      if (status === 404) this.#log.error({ backend: url }, 'backend does not know GATEWAY_SECRET')
    } catch (error) {
      backend.ready = false
      backend.reason = error instanceof Error ? error.message || error.name : String(error)
    }
    this.#seenReady ||= backend.ready
    if (backend.ready) backend.passOverUntil = 0
    if (before !== backend.ready) this.#log.info({ backend: url, ready: backend.ready }, 'backend')
  }
}

function reasonOf(status: number): string | undefined {
  if (status === 200) return undefined
  return status === 404 ? 'it does not know GATEWAY_SECRET' : `it answers ${status}`
}

function connect(
  { origin, ip, socketPath }: BackendAddress,
  connections: number,
): Pick<Backend, 'pool' | 'ownPool'> {
  // The name stays for `Host` and the certificate; connections go to this address of it.
  const lookup: LookupFunction | undefined =
    ip === undefined
      ? undefined
      : (_name, { all }, done) => {
          const family = isIP(ip)
          if (all) done(null, [{ address: ip, family }])
          else done(null, ip, family)
        }
  const connecting = {
    timeout: CONNECT_TIMEOUT_MS,
    allowH2: false,
    ...(lookup === undefined ? {} : { lookup }),
    ...(socketPath === undefined ? {} : { socketPath }),
  } as buildConnector.BuildOptions
  const createPool = () =>
    new BackendPool({
      createConnect: (onread) => buildConnector({ ...connecting, onread }),
      origin,
      size: connections,
      keepAliveMs: KEEP_ALIVE_MS,
    })
  return { pool: createPool(), ownPool: createPool() }
}

/** Whether a request failed before a connection stood: nothing of it was sent. */
export function wasNeverConnected(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return (
    code === 'ECONNREFUSED' ||
    code === 'ENOTFOUND' ||
    code === 'EAI_AGAIN' ||
    code === 'ENETUNREACH' ||
    code === 'EHOSTUNREACH' ||
    code === 'ENOENT' ||
    code === 'EACCES' ||
    code === 'UND_ERR_CONNECT_TIMEOUT'
  )
}
