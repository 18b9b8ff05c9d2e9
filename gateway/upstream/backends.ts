/** The interface through which the rest of the gateway uses backends. `backend-set.ts` implements it. */
import type { Agent } from 'node:http'
import type { BackendAddress } from './addresses.ts'
import type { HealthState } from './backend-health.ts'
import type { InternalResponse } from './internal-request.ts'
import type { BackendPool } from './pool.ts'

export interface ConnectionPools {
  readonly calls: BackendPool
  /** Separate connections for internal requests, so that these do not wait for calls. */
  readonly internal: BackendPool
  /** Connections for look-ups of unknown keys. */
  readonly unknownKeys: BackendPool
}

export interface Backend {
  /** The URL of the backend's address. */
  readonly url: string
  readonly address: BackendAddress
  readonly pools: ConnectionPools
  /** The connections for pages. */
  readonly agent: Agent
  /** The number of requests that wait for a connection or whose response is not complete. */
  inFlight: number
}

export interface InternalRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** The body, which is sent as JSON. */
  readonly body: unknown
  readonly pool: 'internal' | 'unknownKeys'
}

export interface Backends {
  /** The number of backends that are known at present. */
  readonly size: number
  /**
   * Returns how many connections for calls the backends have together to which the next call may be sent (`size`),
   * and how many of these are neither used nor awaited by a call (`free`). Both include connections that are not yet
   * open.
   */
  connections(): { readonly size: number; readonly free: number }
  /** Sets the function that is called when a connection for calls may have become free. */
  onFree(listener: () => void): void
  /** The maximum number of pages that are loaded at the same time. Each backend has this many connections for pages. */
  readonly concurrentPagesMax: number
  /**
   * Returns the backend to send the next request to. Returns `excluded` only if there is no other. Throws
   * `Problem` 503 if no backend is known.
   */
  choose(excluded?: Backend): Backend
  /** Records whether a request to the backend failed: with a 5xx, a missed deadline, or a lost response. */
  recordResult(backend: Backend, result: { readonly isFailed: boolean }): void
  /** The number of times that each backend was ejected (see `backend-health.ts`), by URL. */
  readonly ejections: ReadonlyMap<string, number>
  /** Records that a backend refused a connection. */
  markUnreachable(backend: Backend): void
  /**
   * Sends a small signed JSON request, which must be idempotent: if it fails before its deadline and there are
   * other backends, it is sent once more, to another backend. It is sent a further time if its backend misses a
   * readiness probe while another backend is ready, or responds to a probe that began after the request, but not to the
   * request.
   */
  request(request: InternalRequest): Promise<InternalResponse>
  /** `starting`: no backend has been ready yet. `unreachable`: a backend was ready before, but none is now. */
  state(): 'ready' | 'starting' | 'unreachable'
  /** The status of each backend, for operators. */
  statuses(): readonly BackendStatus[]
  close(): void
}

export interface BackendStatus extends Backend {
  readonly ready: boolean
  readonly health: HealthState
  /** The reason why the backend is not ready, for operators. */
  readonly reason: string | undefined
}
