/** A pool of connections to one backend, and the queue of requests that wait for a connection. */
import type { OnReadOpts, Socket } from 'node:net'
import { BackendConnection, type BackendRequest, type ResponseHandler } from './connection.ts'
import { readIntoSharedBuffer } from './shared-read-buffer.ts'

/** How often deadlines and idle times are checked. */
const CHECK_INTERVAL_MS = 100
/** Idle connections are closed this long before the backend closes them, so that no request is lost on them. */
const KEEP_ALIVE_RESERVE_MS = 1_000

export type Connect = (
  origin: Pick<URL, 'protocol' | 'hostname' | 'host' | 'port'>,
  done: (...result: [error: null, socket: Socket] | [error: Error, socket: null]) => void,
) => void

export interface PoolEvents {
  /**
   * Called when no request is queued and the pool has a connection for another request: an idle one (`hasIdle` is
   * true), or one that the pool is opening or may still open.
   */
  readonly onFree?: (hasIdle: boolean) => void
  /** Called when a response has ended and its connection cannot be reused, e.g. because the backend shuts down. */
  readonly onNotReusable: () => void
}

export interface BackendPoolOptions extends PoolEvents {
  /** Creates the function that opens connections. Their bytes are passed to `onread` (see `node:net`). */
  createConnect(onread: OnReadOpts): Connect
  readonly origin: string
  /** The maximum number of open connections. */
  readonly size: number
  readonly keepAliveMs: number
}

interface IdleConnection {
  readonly connection: BackendConnection
  /** `performance.now()` at which the connection is closed. */
  readonly until: number
}

interface QueuedRequest {
  readonly request: BackendRequest
  readonly handler: ResponseHandler
}

export class BackendPool {
  readonly #options: BackendPoolOptions
  readonly #url: URL
  readonly #connectTo: Connect
  readonly #connections = new Set<BackendConnection>()
  readonly #bySocket = new WeakMap<Socket, BackendConnection>()
  /** A stack: the most recently used connection is taken first. */
  #idle: IdleConnection[] = []
  #queue: QueuedRequest[] = []
  /** Connections that are released in the next turn of the event loop. */
  #toRelease: BackendConnection[] = []
  #connecting = 0
  #isClosed = false
  readonly #checkTimer: NodeJS.Timeout

  constructor(options: BackendPoolOptions) {
    this.#options = options
    this.#url = new URL(options.origin)
    const bySocket = this.#bySocket
    const onread = readIntoSharedBuffer((socket, bytes) => bySocket.get(socket)?.read(bytes))
    this.#connectTo = options.createConnect(onread)
    this.#checkTimer = setInterval(() => this.#checkDeadlines(), CHECK_INTERVAL_MS).unref()
  }

  get stats(): { readonly connected: number; readonly idle: number } {
    return { connected: this.#connections.size, idle: this.#idle.length }
  }

  /**
   * The number of connections that are idle, are being opened or could be opened, minus the number of queued requests.
   * It may be negative.
   */
  get free(): number {
    return this.#options.size - this.#connections.size + this.#idle.length - this.#queue.length
  }

  /** Sends the request, or queues it until a connection is free. */
  send(request: BackendRequest, handler: ResponseHandler): void {
    const idle = this.#queue.length === 0 ? this.#takeIdle() : undefined
    if (idle === undefined) {
      this.#queue.push({ request, handler })
      this.#serveQueue()
    } else if (handler.onSend(idle)) idle.send(request, handler)
    else this.#release(idle)
  }

  get queued(): number {
    return this.#queue.length
  }

  /** Rejects the queued requests, or only the first `max`. */
  rejectQueued(reason: Error, max = this.#queue.length): void {
    for (const { handler } of this.#queue.splice(0, max)) handler.onError(reason)
  }

  /**
   * Closes the pool when its queued requests and its requests in progress have ended. No further request may be sent.
   */
  close(): void {
    this.#isClosed = true
    this.closeIdle()
  }

  /** Closes the pool immediately: all its requests fail. */
  destroy(): void {
    this.close()
    clearInterval(this.#checkTimer)
    for (const connection of this.#connections) connection.abort(new Error('the pool is closed'))
    this.rejectQueued(new Error('the pool is closed'))
  }

  closeIdle(): void {
    for (const { connection } of this.#idle.splice(0))
      connection.abort(new Error('idle connections are closed'))
  }

  #takeIdle(): BackendConnection | undefined {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.connection.isOpen) return idle.connection
    }
    return undefined
  }

  #serveQueue(): void {
    while (this.#queue.length > 0) {
      const idle = this.#takeIdle()
      if (idle === undefined) break
      const next = this.#queue.shift()
      if (next?.handler.onSend(idle)) idle.send(next.request, next.handler)
      else this.#release(idle)
    }
    // If a connection is idle here, no request is queued, and a closed pool gets no further requests.
    if (this.#isClosed) this.closeIdle()
    if (this.#queue.length === 0 && this.free > 0) this.#options.onFree?.(this.#idle.length > 0)
    const toOpen = Math.min(
      this.#queue.length - this.#connecting,
      this.#options.size - this.#connections.size - this.#connecting,
    )
    for (let opened = 0; opened < toOpen; opened++) this.#connect()
  }

  #connect(): void {
    const { protocol, hostname, port, host } = this.#url
    this.#connecting++
    const defaultPort = protocol === 'https:' ? '443' : '80'
    this.#connectTo({ protocol, hostname, host, port: port || defaultPort }, (error, socket) => {
      this.#connecting--
      if (error === null) this.#add(socket)
      else this.#queue.shift()?.handler.onError(error)
      this.#serveQueue()
    })
  }

  #add(socket: Socket): void {
    const connection = new BackendConnection({
      socket,
      host: this.#url.host,
      onFree: () => this.#releaseSoon(connection),
      onNotReusable: this.#options.onNotReusable,
      onClose: () => {
        this.#connections.delete(connection)
        this.#serveQueue()
      },
    })
    this.#connections.add(connection)
    this.#bySocket.set(socket, connection)
    this.#release(connection)
  }

  /**
   * Releases the connection in the next turn of the event loop. If the backend closes the connection after its response
   * without announcing it, the pool detects this before another request is lost on the connection.
   */
  #releaseSoon(connection: BackendConnection): void {
    this.#toRelease.push(connection)
    if (this.#toRelease.length > 1) return
    setImmediate(() => {
      for (const connection of this.#toRelease.splice(0)) this.#release(connection)
      this.#serveQueue()
    })
  }

  #release(connection: BackendConnection): void {
    const { keepAliveMs } = this.#options
    const ms = Math.min(keepAliveMs, connection.keepAliveMs - KEEP_ALIVE_RESERVE_MS)
    if (ms <= 0) connection.abort(new Error('the backend does not keep the connection open'))
    else this.#idle.push({ connection, until: performance.now() + ms })
  }

  #checkDeadlines(): void {
    const now = performance.now()
    // A timer for each request would take more CPU time than all other bookkeeping. A `Set` of the requests in progress
    // would keep ended requests in memory: V8 sometimes replaces the hash table of a `Set`, and until the old table is
    // collected, it keeps all tables that replaced it alive.
    for (const connection of this.#connections) connection.abortIfLate(now)
    // Requests that are late are aborted. These requests, and those that were aborted before, leave the queue.
    this.#queue = this.#queue.filter(({ handler }) => handler.abortIfLate(now))
    if (this.#isClosed && this.#connections.size + this.#queue.length === 0) {
      clearInterval(this.#checkTimer)
    }
    const expired = this.#idle.filter(({ until }) => until <= now)
    if (expired.length === 0) return
    this.#idle = this.#idle.filter(({ until }) => until > now)
    for (const { connection } of expired)
      connection.abort(new Error('the connection was idle for too long'))
  }
}
