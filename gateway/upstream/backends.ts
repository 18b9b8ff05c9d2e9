/** The backends as the rest of the gateway uses them. */
import type { Agent } from 'node:http'
import type { BackendAddress } from './addresses.ts'
import type { InternalResponse } from './internal-request.ts'
import type { HealthState } from './outliers.ts'
import type { BackendPool } from './pool.ts'

export interface ConnectionPools {
  readonly calls: BackendPool
  /** Internal requests, which do not wait behind calls. */
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
  /** Requests that wait for a connection, for a response, or for its end. */
  inFlight: number
}

export interface InternalRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Sent as JSON. */
  readonly body: unknown
  readonly pool: 'internal' | 'unknownKeys'
}

export interface Backends {
  /** How many backends are known at present. */
  readonly size: number
  /** Pages that may be loaded at once: each backend can have a connection for each of them. */
  readonly pagesMax: number
  /**
   * Returns the backend to send the next request to, and `not` only if it is the only one. Throws
   * `Problem` 503 if no backend is known.
   */
  choose(not?: Backend): Backend
  /** Notes whether a request to the backend failed: 5xx, no response in time, or a response that was lost. */
  noteResult(backend: Backend, isFailed: boolean): void
  /** How often each backend was ejected, see `outliers.ts`. By URL. */
  readonly ejections: ReadonlyMap<string, number>
  /** Notes that a backend refused a connection. */
  markUnreachable(backend: Backend): void
  /**
   * Sends a small signed JSON request. A lost one is sent once more, to another backend, so that the
   * request must be idempotent.
   */
  request(request: InternalRequest): Promise<InternalResponse>
  /** `starting`: no backend has been seen ready yet. */
  state(): 'ready' | 'starting' | 'unreachable'
  /** For operators. */
  statuses(): readonly BackendStatus[]
  close(): void
}

export interface BackendStatus extends Backend {
  readonly ready: boolean
  readonly health: HealthState
  /** Why it is not ready, for people. */
  readonly reason: string | undefined
}
