/** The interface through which the rest of the gateway uses backends. `backend-set.ts` implements it. */
import type { Agent } from 'node:http'
import type { BackendAddress } from './addresses.ts'
import type { HealthState } from './backend-health.ts'
import type { InternalResponse } from './internal-request.ts'
import type { BackendPool } from './pool.ts'

export interface ConnectionPools {
  /** For calls of the API. */
  readonly calls: BackendPool
  /** Separate from `calls`, so that internal requests do not wait for calls. */
  readonly internal: BackendPool
  /** For look-ups of unknown keys. */
  readonly unknownKeys: BackendPool
}

export interface Backend {
  readonly url: string
  readonly address: BackendAddress
  readonly pools: ConnectionPools
  /** For pages. */
  readonly agent: Agent
  /** The number of requests that wait for a connection or whose response is not complete. */
  inFlight: number
}

export interface InternalRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Sent as JSON; undefined if there is no body. */
  readonly body: unknown
  readonly pool: 'internal' | 'unknownKeys'
}

export interface Backends {
  readonly size: number
  /**
   * Counts the connections for calls, of all backends to which the next call may be sent. `free` is the number of those
   * that no call uses or awaits. Both numbers include connections that are not open yet.
   */
  connections(): { readonly size: number; readonly free: number }
  /** Sets the function that is called when a connection for calls may have become free. */
  onFree(listener: () => void): void
  /**
   * The maximum number of pages that are loaded at the same time, from all backends together. Each backend's `agent`
   * has as many connections, so a page never waits for a connection.
   */
  readonly concurrentPagesMax: number
  /**
   * Returns the backend for the next request; `excluded` only if there is no other. Throws `Problem` 503 if no backend
   * is known.
   */
  choose(excluded?: Backend): Backend
  /** Records whether a request to the backend failed: with a 5xx, a missed deadline, or a lost response. */
  recordResult(backend: Backend, result: { readonly isFailed: boolean }): void
  /** How often each backend was ejected (see `backend-health.ts`), by URL. */
  readonly ejections: ReadonlyMap<string, number>
  markUnreachable(backend: Backend): void
  /**
   * Sends a small signed JSON request, which must be idempotent, because it may be sent several times:
   *
   * - If no connection can be opened, the next backend is tried, until all were tried.
   * - If an attempt fails before the deadline of the request, the request is sent once more if there is another
   *   backend.
   * - If the first backend does not respond to a readiness probe, and another backend is in good condition (see
   *   `penaltyOf` in `backend-set.ts`), the request is sent to another backend.
   * - If the first backend has not responded to the request for 2 seconds, and then responds to a readiness probe, the
   *   connection of the request is probably dead. The request is sent again, to another backend if there is one.
   */
  request(request: InternalRequest): Promise<InternalResponse>
  /** `starting`: no backend has been ready yet. `unreachable`: a backend was ready before, but none is now. */
  state(): 'ready' | 'starting' | 'unreachable'
  statuses(): readonly BackendStatus[]
  close(): void
}

export interface BackendStatus extends Backend {
  readonly ready: boolean
  readonly health: HealthState
  /** Why the backend is not ready, for operators. */
  readonly reason: string | undefined
}
