/**
 * A client's connection. Requests are handled one after another, and each gets one response. Bytes that
 * follow the last request of the connection are ignored.
 */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { Problem } from '../../shared/contract/problem.ts'
import { releaseBuffer } from '../../shared/process/buffers.ts'
import type { Budget, BudgetedConnection } from '../budget/budget.ts'
import type { Client } from '../budget/clients.ts'
import type { ConnectionMemory } from '../budget/memory.ts'
import type { Body, BodyLimits, Call, CallConnection } from '../call/call.ts'
import type { BodyFraming } from '../http1/body-decoder.ts'
import { Http1Error, malformed } from '../http1/errors.ts'
import { CONTINUE } from '../http1/message-writer.ts'
import { type RawRequestHead, RequestReader } from '../http1/request-reader.ts'
import { readAccepted } from './accepted-socket.ts'
import { BodyReceiver } from './body-receiver.ts'
import { KEEP_ALIVE_MS } from './response.ts'
import { ResponseWriter } from './response-writer.ts'

/**
 * The longest time from the first byte of a request (for the first request, from the opening of the connection) to the
 * end of its head.
 */
const HEAD_TIMEOUT_MS = 10_000
/**
 * A closing connection reads and drops bytes for at most this long. If it were closed immediately, a client that is
 * still sending would see a reset instead of the response.
 */
const LINGER_MS = 2_000
/**
 * A client that has closed its half of the connection may still read the response, or may be gone. If no response is
 * being sent to it after this time, the connection is closed.
 */
const HALF_CLOSED_MS = 1_000
/** If more bytes than this arrive after the request in progress, reading pauses until its response is sent. */
const READ_AHEAD_BYTES_MAX = 64 * 1024

export interface ConnectionContext {
  /** The longest time from the first byte of a request to its last. */
  readonly requestTimeoutMs: number
  /** See `ResponseWriterOptions.timeoutMs`. */
  readonly responseTimeoutMs: number
  /** The minimum average rate of a body, in bytes per second. */
  readonly bodyRateMin: number
  /** The age, varied by up to a tenth, from which a connection is old (see `isOld`). */
  readonly connectionAgeMs: number
  readonly budget: Budget
  /** Returns the client of a call. Behind a proxy, `peer` is the proxy. */
  clientOf(call: Call, peer: Client): Client
  /** See `CallServer.serve`. */
  serve(connection: Connection, head: RawRequestHead, arrivedAt: number): Call
  /** See `CallServer.reject`. */
  reject(connection: Connection, error: Http1Error | Problem): string
  /** Called when the client did not receive its response in time and is disconnected. */
  onResponseTimeout(call: Call | undefined): void
  /** Called when an unexpected error has occurred. The connection is then closed. */
  onUnexpectedError(error: unknown): void
}

export interface ConnectionOptions {
  /**
   * The address of the client, or of the proxy in front of the gateway. It is empty if the client closed the
   * connection before it was accepted.
   */
  readonly address: string
  readonly peer: Client
}

export class Connection implements CallConnection, BudgetedConnection {
  readonly isHandshake = false
  readonly peer: Client
  readonly memory: ConnectionMemory
  /** Empty if the client closed the connection before it was accepted. */
  readonly address: string
  readonly #socket: Socket
  readonly #context: ConnectionContext
  readonly #requests = new RequestReader()
  #call: Call | undefined
  readonly #body: BodyReceiver
  readonly #writer: ResponseWriter
  /** The client of the call in progress; undefined until the call uses memory. */
  #client: Client | undefined
  #wasLastKeyCached = false
  /** Whether bytes after the request in progress were dropped: the connection must then close. */
  #isReadAheadDropped = false
  readonly #openedAt = performance.now()
  /**
   * The later of two times (`performance.now()`): when the previous call ended (or the connection was opened), and when
   * the first byte of the current request arrived.
   */
  #requestBegunAt = this.#openedAt
  /**
   * Whether a byte has arrived after the previous request. Empty lines before a request count, because a client could
   * otherwise postpone its deadline with them.
   */
  #hasRequestBegun = false
  /**
   * The time (`performance.now()`) by which the next head must have arrived. After this time, an incomplete head is
   * rejected, an idle connection is closed, and a closing connection is destroyed.
   */
  #deadline: number
  /** The time (`performance.now()`) from which a drain waits for no further request of the client. */
  #drainBy = Number.POSITIVE_INFINITY
  #halfClosedDeadline = Number.POSITIVE_INFINITY
  /** Whether no complete head has arrived yet. */
  #isFresh = true
  readonly #oldFrom: number
  #isOld = false
  /** Whether the client has closed its half of the connection. */
  #isHalfClosed = false
  /** Whether the connection is being closed or is closed. */
  #isClosing = false

  constructor(accepted: Socket, { address, peer }: ConnectionOptions, context: ConnectionContext) {
    this.#context = context
    this.address = address
    this.peer = peer
    this.memory = context.budget.createConnectionMemory(peer)
    this.#socket = readAccepted(accepted, (bytes) => this.#guard(() => this.#read(bytes)))
    const onBytesChanged = () => this.#updateMemory()
    this.#body = new BodyReceiver(context.bodyRateMin, onBytesChanged)
    this.#writer = new ResponseWriter(this.#socket, {
      timeoutMs: context.responseTimeoutMs,
      onBytesChanged,
      onMemoryUsedUp: () => this.reset(),
    })
    this.#deadline = this.#requestBegunAt + this.#headTimeoutMs
    // Without the random part, connections that were opened at the same time would be closed at the same time.
    this.#oldFrom = this.#openedAt + context.connectionAgeMs * (0.9 + 0.2 * Math.random())
    this.#socket.on('end', () => this.#guard(() => this.#handleHalfClose()))
    // Without a listener, an error would end the process. The `close` event that follows is handled.
    this.#socket.on('error', () => {})
    this.#socket.on('close', () => this.#handleClose())
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  /** Whether no call is in progress and no byte of a request has arrived. */
  get isIdle(): boolean {
    return this.#call === undefined && this.#requests.isEmpty
  }

  /** Whether no bytes that follow the request in progress are buffered; true if they were dropped. */
  get isReadAheadEmpty(): boolean {
    return this.#requests.isEmpty
  }

  /** Whether the connection is so old that a response closes it, unless the next request has already arrived. */
  get isOld(): boolean {
    return this.#isOld
  }

  /** Whether a drain no longer waits for requests. A response then closes the connection, even if more have arrived. */
  get isDrainOverdue(): boolean {
    return performance.now() > this.#drainBy
  }

  get isReadAheadDropped(): boolean {
    return this.#isReadAheadDropped
  }

  get isHalfClosed(): boolean {
    return this.#isHalfClosed
  }

  get wasLastKeyCached(): boolean {
    return this.#wasLastKeyCached
  }

  get hasServed(): boolean {
    return !this.#isFresh
  }

  get isServing(): boolean {
    return this.#call !== undefined
  }

  /**
   * If a call has its complete body and no part of its response waits to be flushed, the call needs the body: only the
   * bytes after the body can be evicted.
   */
  get evictableBytes(): number {
    const isAllEvictable =
      this.#call === undefined || this.#body.isPending || this.#writer.isFlushing
    return isAllEvictable ? this.memory.bytes : this.#requests.length
  }

  get usesMemorySince(): number {
    return this.#writer.bufferedAt ?? this.#requestBegunAt
  }

  evict(): void {
    if (this.#body.isPending) this.#body.evict()
    else if (this.#call !== undefined && !this.#writer.isFlushing) this.#dropReadAhead()
    else {
      // The memory is released here, because the `close` event comes too late for the caller.
      releaseBuffer(this.#requests.clear())
      this.#body.end()
      this.#writer.releaseBytes()
      this.#updateMemory()
      this.reset()
    }
  }

  get bytesWritten(): number {
    return this.#socket.bytesWritten
  }

  /** Confines an unexpected error to this connection. Otherwise, it would end the process. */
  #guard(work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#context.onUnexpectedError(error)
      this.destroy()
    }
  }

  #read(bytes: Buffer): void {
    if (this.#isClosing) return
    if (this.#call === undefined) {
      this.#requests.push(bytes)
      const now = performance.now()
      if (!this.#hasRequestBegun) this.#requestBegunAt = now
      this.#hasRequestBegun = true
      this.#beginCall(now)
    } else if (this.#body.isPending) {
      this.#readBody(bytes)
    } else if (!this.#body.isAbandoned) {
      // After an abandoned body, bytes are dropped, because it is unknown where the next request begins.
      this.#requests.push(bytes)
      if (this.#isReadAheadDropped || !this.#updateMemory()) this.#dropReadAhead()
      else if (this.#requests.length > READ_AHEAD_BYTES_MAX) this.#socket.pause()
    }
  }

  readBody(
    call: Call,
    framing: BodyFraming,
    limits: BodyLimits,
    sendContinue: boolean,
  ): Promise<Body> {
    // This method may be called before `serve` has returned the call.
    this.#call = call
    const deadline = this.#requestBegunAt + this.#context.requestTimeoutMs
    const body = this.#body.receive(call, framing, limits, deadline)
    if (!this.#body.isPending) return body
    if (sendContinue) this.#socket.write(CONTINUE, 'latin1')
    this.#readBody(this.#requests.takeAll())
    if (this.#isHalfClosed) this.#body.fail(malformed())
    else if (this.#body.isPending && this.#socket.isPaused()) this.#socket.resume()
    return body
  }

  /** See `ResponseWriter.write`. */
  write(head: string, body?: Buffer): Promise<void> | undefined {
    return this.#writer.write(head, body)
  }

  /** See `BodyReceiver.skip`. */
  skipBody(framing: BodyFraming | undefined): boolean {
    return this.#body.skip(framing, this.#requests)
  }

  /** Ends the call in progress. `closes` is true if it was the last call of the connection. */
  end(closes: boolean): void {
    this.#wasLastKeyCached = this.#call?.isKeyKnown ?? false
    this.#call = undefined
    this.#client = undefined
    this.#body.end()
    this.#writer.end()
    if (closes || this.#isReadAheadDropped) this.#closeSoon()
    // After the connection has begun to close, further requests are ignored.
    if (this.#isClosing || !this.isOpen) return void this.#updateMemory()
    const now = performance.now()
    this.#requestBegunAt = now
    this.#hasRequestBegun = !this.#requests.isEmpty
    this.#beginCall(now)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /**
   * Resets the connection, so that the client detects an incomplete response. If the connection were closed normally,
   * an HTTP/1.0 response without a length would look complete. With TLS, the client notices that the session was not
   * closed.
   */
  reset(): void {
    if (this.#socket instanceof TLSSocket) this.#socket.destroy()
    else this.#socket.resetAndDestroy()
  }

  /**
   * Drains the connection: closes it if it is idle. Otherwise, the client can send the rest of its request until `by`
   * (`performance.now()`).
   */
  closeBy(by: number): void {
    this.#drainBy = Math.min(this.#drainBy, by)
    this.#body.endBy(by)
    if (this.isIdle) this.#closeSoon()
    else if (this.#call === undefined) this.#deadline = Math.min(this.#deadline, this.#drainBy)
  }

  /** Closes the connection or aborts the call if a deadline has passed. Updates `isOld`. */
  checkDeadlines(now: number): void {
    this.#isOld = now > this.#oldFrom
    // `ResponseWriter.isLate` limits the time for a response to a half-closed connection.
    if (now > this.#halfClosedDeadline && !this.#writer.isWriting) this.destroy()
    else if (this.#writer.isLate(now)) {
      this.#context.onResponseTimeout(this.#call)
      this.reset()
    } else if (now > this.#deadline || this.#body.isLate(now)) this.#expire()
  }

  /**
   * Begins the next call if its head has arrived; rejects a malformed head. If the head is incomplete, waits for the
   * rest until the deadline, or closes the connection if the client has closed its half.
   */
  #beginCall(now: number): void {
    let head: RawRequestHead | undefined
    try {
      head = this.#requests.readHead()
    } catch (error) {
      if (!(error instanceof Http1Error)) throw error
      this.#reject(error)
      return
    }
    if (head !== undefined) {
      this.#isFresh = false
      this.#deadline = Number.POSITIVE_INFINITY
      this.#call = this.#context.serve(this, head, now)
      if (!this.#updateMemory()) this.#dropReadAhead()
    } else if (this.#isHalfClosed) {
      if (this.#requests.isEmpty) this.#closeSoon()
      else this.#reject(malformed())
    } else {
      const isKeptAlive = !this.#isFresh && this.#requests.isEmpty
      const from = this.#isFresh ? this.#openedAt : this.#requestBegunAt
      const timeoutMs = isKeptAlive ? KEEP_ALIVE_MS : this.#headTimeoutMs
      this.#deadline = Math.min(from + timeoutMs, this.#drainBy)
      if (!this.#updateMemory()) this.evict()
      else if (this.#socket.isPaused()) this.#socket.resume()
    }
  }

  get #headTimeoutMs(): number {
    return Math.min(HEAD_TIMEOUT_MS, this.#context.requestTimeoutMs)
  }

  #readBody(bytes: Buffer): void {
    const rest = this.#body.read(bytes)
    if (rest === undefined || rest.length === 0) return
    this.#requests.push(rest)
    if (!this.#updateMemory()) this.#dropReadAhead()
  }

  #handleHalfClose(): void {
    this.#isHalfClosed = true
    this.#halfClosedDeadline = performance.now() + HALF_CLOSED_MS
    if (this.#isClosing) return
    if (this.#call === undefined) this.#beginCall(performance.now())
    else if (this.#body.isPending) this.#call.abort.abort(malformed())
  }

  #expire(): void {
    const tooSlow = new Problem('request_timeout', 'The request took too long to arrive.')
    if (this.#isClosing) this.destroy()
    else if (this.#call !== undefined) this.#call.abort.abort(tooSlow)
    else if (this.#isFresh || !this.#requests.isEmpty) this.#reject(tooSlow)
    else this.#closeSoon()
  }

  #reject(error: Http1Error | Problem): void {
    this.#socket.write(this.#context.reject(this, error), 'latin1')
    this.#closeSoon()
  }

  /** Counts the buffered bytes against the budget. Returns false if there is no memory for the additional bytes. */
  #updateMemory(): boolean {
    const bytes = this.#requests.length + this.#body.bytes + this.#writer.bytes
    if (bytes === this.memory.bytes) return true
    this.#requests.compact()
    const call = this.#call
    if (call === undefined) return this.memory.set(bytes, this.#wasLastKeyCached, this.peer)
    // The budget deletes a client that has no connections and uses no memory, so `#client` may be outdated.
    if (this.#client === undefined || this.memory.bytes === 0) {
      this.#client = this.#context.clientOf(call, this.peer)
    }
    return this.memory.set(bytes, call.isKeyKnown, this.#client)
  }

  /** Drops the bytes after the request in progress. The response to this request then closes the connection. */
  #dropReadAhead(): void {
    this.#isReadAheadDropped = true
    releaseBuffer(this.#requests.clear())
    this.#updateMemory()
  }

  /** Closes the gateway's half of the connection. See `LINGER_MS`. */
  #closeSoon(): void {
    this.#isClosing = true
    releaseBuffer(this.#requests.clear())
    this.#updateMemory()
    this.#socket.end()
    this.#socket.resume()
    this.#deadline = performance.now() + LINGER_MS
  }

  #handleClose(): void {
    this.#isClosing = true
    releaseBuffer(this.#requests.clear())
    this.#updateMemory()
    this.#writer.close()
    this.#call?.abort.abort(new Error('the client closed its connection'))
  }
}
