/** Connections to one backend: those that are free, those to come, and the requests that wait for one. */
import type { OnReadOpts, Socket } from 'node:net'
import { readInto } from '../http1/read-buffer.ts'
import { type AnswerReader, BackendConnection, type BackendRequest } from './connection.ts'

/** Between two looks at what has taken too long, or was idle for too long. */
const CHECK_INTERVAL_MS = 100
/** What a backend says of how long it keeps one is taken with so much reserve. */
const KEEP_ALIVE_RESERVE_MS = 1_000

/** Connects to an origin, which is given in its parts. */
export type Connect = (
  origin: Pick<URL, 'protocol' | 'hostname' | 'host' | 'port'>,
  done: (...result: [error: null, socket: Socket] | [error: Error, socket: null]) => void,
) => void

export interface BackendPoolOptions {
  /** What makes connections; bytes that come are given to `onread`, as `node:net` means it. */
  createConnect(onread: OnReadOpts): Connect
  readonly origin: string
  /** Connections at once, at most. */
  readonly size: number
  /** How long one may be idle. */
  readonly keepAliveMs: number
}

interface Idle {
  readonly connection: BackendConnection
  readonly until: number
}

interface Waiting {
  readonly request: BackendRequest
  readonly reader: AnswerReader
}

export class BackendPool {
  readonly #options: BackendPoolOptions
  readonly #url: URL
  readonly #connectTo: Connect
  readonly #connections = new Set<BackendConnection>()
  readonly #bySocket = new WeakMap<Socket, BackendConnection>()
  /** The one that was used last is used first. */
  #idle: Idle[] = []
  #waiting: Waiting[] = []
  #freed: BackendConnection[] = []
  #connecting = 0
  #isClosed = false
  readonly #checking: NodeJS.Timeout

  constructor(options: BackendPoolOptions) {
    this.#options = options
    this.#url = new URL(options.origin)
    const bySocket = this.#bySocket
    const onread = readInto((socket, bytes) => bySocket.get(socket)?.read(bytes))
    this.#connectTo = options.createConnect(onread)
    this.#checking = setInterval(() => this.#checkTime(), CHECK_INTERVAL_MS).unref()
  }

  get stats(): { readonly connected: number; readonly free: number } {
    return { connected: this.#connections.size, free: this.#idle.length }
  }

  send(request: BackendRequest, reader: AnswerReader): void {
    this.#waiting.push({ request, reader })
    this.#serveWaiting()
  }

  /** No more requests; those under way are finished. */
  close(): void {
    this.#isClosed = true
    for (const { connection } of this.#idle) connection.abort(new Error('closed'))
  }

  /** The same, at once. */
  destroy(): void {
    this.close()
    clearInterval(this.#checking)
    for (const connection of this.#connections) connection.abort(new Error('closed'))
    for (const { reader } of this.#waiting.splice(0)) reader.onError(new Error('closed'))
  }

  #takeIdle(): BackendConnection | undefined {
    for (let idle = this.#idle.pop(); idle !== undefined; idle = this.#idle.pop()) {
      if (idle.connection.isOpen) return idle.connection
    }
    return undefined
  }

  #serveWaiting(): void {
    while (this.#waiting.length > 0) {
      const idle = this.#takeIdle()
      if (idle === undefined) break
      const next = this.#waiting.shift()
      if (next?.reader.onSend(idle)) idle.send(next.request, next.reader)
      else this.#free(idle)
    }
    const wanted = Math.min(
      this.#waiting.length - this.#connecting,
      this.#options.size - this.#connections.size - this.#connecting,
    )
    for (let more = 0; more < wanted; more++) this.#connect()
  }

  #connect(): void {
    const { protocol, hostname, port, host } = this.#url
    this.#connecting++
    const defaultPort = protocol === 'https:' ? '443' : '80'
    this.#connectTo({ protocol, hostname, host, port: port || defaultPort }, (error, socket) => {
      this.#connecting--
      if (error === null) this.#adopt(socket)
      else this.#waiting.shift()?.reader.onError(error)
      this.#serveWaiting()
    })
  }

  #adopt(socket: Socket): void {
    const connection = new BackendConnection({
      socket,
      host: this.#url.host,
      onFree: () => this.#freeSoon(connection),
      onClose: () => {
        this.#connections.delete(connection)
        this.#serveWaiting()
      },
    })
    this.#connections.add(connection)
    this.#bySocket.set(socket, connection)
    this.#free(connection)
  }

  /**
   * Not in the same turn: a backend that closes behind its answer, although it did not say so, is seen
   * to have closed before another request is lost there.
   */
  #freeSoon(connection: BackendConnection): void {
    this.#freed.push(connection)
    if (this.#freed.length > 1) return
    setImmediate(() => {
      for (const freed of this.#freed.splice(0)) this.#free(freed)
      this.#serveWaiting()
    })
  }

  #free(connection: BackendConnection): void {
    const { keepAliveMs } = this.#options
    const ms = Math.min(keepAliveMs, connection.keepAliveMs - KEEP_ALIVE_RESERVE_MS)
    if (this.#isClosed || ms <= 0) connection.abort(new Error('not kept'))
    else this.#idle.push({ connection, until: performance.now() + ms })
  }

  #checkTime(): void {
    const now = performance.now()
    // One look at all: a timer for each request costs more than the rest of its bookkeeping, and a set
    // of those under way would keep the dead alive (V8's tables point at those that replaced them).
    for (const connection of this.#connections) connection.checkTime(now)
    this.#waiting = this.#waiting.filter(({ reader }) => reader.checkTime(now))
    if (this.#isClosed && this.#connections.size + this.#waiting.length === 0) {
      clearInterval(this.#checking)
    }
    const overdue = this.#idle.filter(({ until }) => until <= now)
    if (overdue.length === 0) return
    this.#idle = this.#idle.filter(({ until }) => until > now)
    for (const { connection } of overdue) connection.abort(new Error('idle'))
  }
}
