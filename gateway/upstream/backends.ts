/** The backends as the rest of the gateway uses them. `backend-set.ts` implements this and chooses between them. */
import type { Agent } from 'node:http'
import type { BackendAddress } from './addresses.ts'
import type { InternalResponse } from './internal-request.ts'
import type { HealthState } from './outliers.ts'
import type { BackendPool } from './pool.ts'

export interface ConnectionPools {
  readonly calls: BackendPool
  /** Connections for internal requests, which therefore do not wait for calls. */
  readonly internal: BackendPool
  readonly unknownKeys: BackendPool
}

export interface Backend {
  /** The URL of its address. */
  readonly url: string
  readonly address: BackendAddress
  readonly pools: ConnectionPools
  /** The connections for pages. */
  readonly agent: Agent
  /** The number of requests that wait for a connection, for a response, or for its end. */
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
  /** How many backends are known at present. */
  readonly size: number
  /**
   * The number of connections for calls to the backends that the next call may be sent to, and the number
   * of those that no call uses or waits for. Both include connections that are not yet open.
   */
  connections(): { readonly size: number; readonly free: number }
  /** Sets the function that is called when such a connection has become free. */
  onFree(listener: () => void): void
  /** Pages that may be loaded at once: each backend can have a connection for each of them. */
  readonly pagesMax: number
  /**
   * Returns the backend to send the next request to, and `not` only if it is the only one. Throws
   * `Problem` 503 if no backend is known.
   */
  choose(not?: Backend): Backend
  /** Records whether a request to the backend failed: with a 5xx, a missed deadline, or a lost response. */
  noteResult(backend: Backend, isFailed: boolean): void
  /** The number of times that each backend was ejected (see `outliers.ts`), by URL. */
  readonly ejections: ReadonlyMap<string, number>
  /** Records that a backend refused a connection. */
  markUnreachable(backend: Backend): void
  /**
   * Sends a small signed JSON request. If it is lost, it is sent once more, to another backend: it must be
   * idempotent.
   */
  request(request: InternalRequest): Promise<InternalResponse>
  /** `starting`: no backend has been seen ready yet. */
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
