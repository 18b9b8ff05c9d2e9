/**
 * The public listener. It creates a call for each request head, and writes the response to each call. It also
 * writes the responses to bytes that are not a valid request.
 */
import cluster from 'node:cluster'
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from 'node:tls'
import { clientNetwork } from '../../shared/contract/client-network.ts'
import { createId } from '../../shared/contract/id.ts'
import type { Problem } from '../../shared/contract/problem.ts'
import { type CollapsingLog, createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import type { Logger } from '../../shared/process/log.ts'
import type { Budget } from '../budget/budget.ts'
import type { Client } from '../budget/clients.ts'
import { Call } from '../call/call.ts'
import type { Http1Error } from '../http1/errors.ts'
import { fieldValue } from '../http1/fields.ts'
import { renderChunkSize } from '../http1/message-writer.ts'
import { clientRequestId, type RequestHead, validateRequestHead } from '../http1/request-head.ts'
import type { RawRequestHead } from '../http1/request-reader.ts'
import type { TlsKeyPair } from './certificate.ts'
import { clientAddress } from './client-address.ts'
import { Connection, type ConnectionContext } from './connection.ts'
import { endpointOf, Handshake } from './handshake.ts'
import {
  assertPortFree,
  closeServer,
  isPortSharingUnsupported,
  listenOn,
} from './listening-socket.ts'
import {
  asProblem,
  lengthHeader,
  problemResponse,
  type Response,
  type ResponseContext,
  renderHead,
  type WholeResponse,
} from './response.ts'

/**
 * The number of connections that may wait at each listening socket to be accepted (the kernel's `somaxconn` may be
 * lower). Beyond it, the kernel drops the packets that open further connections: those clients retry after a second,
 * or assume that they are connected.
 */
const BACKLOG = 4096
/**
 * The number of sockets of this process that listen on the port. The kernel distributes connections among them. On
 * platforms where sockets cannot share a port, there is only one. libuv accepts one connection per socket in each turn
 * of the event loop: with a single socket, new connections would starve under overload.
 */
const LISTENING_SOCKETS = 16
/** The status that is recorded for a call whose client closed its connection. Nothing is sent. */
const CLIENT_GONE = 499
/**
 * When the gateway starts to drain, idle connections stay open for this long, so that each can carry one last
 * call. If part of a request has arrived by then, the rest must arrive within the same time again.
 */
const DRAIN_GRACE_MS = 3_000
/** How often deadlines are checked. */
const CHECK_INTERVAL_MS = 250
/** Half of the default of `DRAIN_TIMEOUT_MS`, since a drain waits for handshakes. */
const HANDSHAKE_TIMEOUT_MS = 5_000
const TLS_VERSION_MIN = 'TLSv1.2'
/**
 * With `allowHalfOpen`, a client that has closed its half of a connection can still receive a response, if it is ready
 * within `HALF_CLOSED_MS` (connection.ts).
 */
const SOCKET_OPTIONS = { allowHalfOpen: true, noDelay: true }

export interface ListenerOptions {
  readonly baseUrl: string
  /** The longest time from the first byte of a request to its last. */
  readonly requestTimeoutMs: number
  /** How long a client may take to receive a response, from when a part of the response is first buffered. */
  readonly responseTimeoutMs: number
  /** The minimum average rate of a body, in bytes per second. */
  readonly bodyRateMin: number
  /** The age, varied by up to a tenth, after which a connection is closed with its next response. */
  readonly connectionAgeMs: number
  readonly budget: Budget
  /** The number of trusted proxies that add to `X-Forwarded-For`. */
  readonly trustedProxies: number
  readonly log: Logger
  /**
   * If undefined, the listener speaks plain HTTP, for example behind a load balancer that terminates TLS.
   */
  readonly tls: TlsKeyPair | undefined
  /** Whether calls record the timings of their steps, for traces. */
  readonly recordsSteps: boolean
  /** Called if the head of a call is rejected. In `fields`, lower-case names alternate with values. */
  onInvalidHead(call: Call, fields: readonly string[]): void
  /** Handles a valid request. Throws `Problem` to reject it. */
  serve(head: RequestHead, call: Call): Promise<Response> | Response
  /** Returns the page that a person sees instead of the problem document; undefined for other clients. */
  problemPage?(problem: Problem, call: Call): WholeResponse | undefined
  /** Returns the headers that every response has. `call` is undefined if no call was created. */
  commonHeaders(call: Call | undefined, status: number): readonly string[]
  /** Called when the response to a call is about to be written. */
  onResponse(call: Call, status: number): void
  /** Called when the response is flushed to the client, or can no longer be sent. */
  onSettled(call: Call, status: number): void
  /** Called for bytes that were rejected because they are not a valid request. */
  onRejectedBytes(requestId: string, address: string, problem: Problem): void
}

export class Listener {
  readonly #options: ListenerOptions
  readonly #log: Logger
  readonly #collapsingLog: CollapsingLog
  readonly #connections = new Set<Connection>()
  readonly #acceptors: Server[] = []
  /**
   * Undefined for plain HTTP. The TLS server does not listen on the port; it receives the connections that
   * `#acceptors` accept.
   */
  readonly #tls: TlsServer | undefined
  /** Handshakes by the remote endpoint of the connection. */
  readonly #handshakes = new Map<string, Handshake>()
  readonly #deadlineTimer: NodeJS.Timeout
  readonly #connectionContext: ConnectionContext
  #isDraining = false

  constructor(options: ListenerOptions) {
    const { requestTimeoutMs, responseTimeoutMs, bodyRateMin, connectionAgeMs } = options
    const { budget, log, tls } = options
    this.#options = options
    this.#log = log
    this.#collapsingLog = createCollapsingLog(log)
    this.#connectionContext = {
      requestTimeoutMs,
      responseTimeoutMs,
      bodyRateMin,
      connectionAgeMs,
      budget,
      clientOf: (call, peer) => this.#clientOf(call, peer),
      serve: (connection, head, arrivedAt) => this.#serve(connection, head, arrivedAt),
      reject: (connection, error) => this.#reject(connection, error),
      onResponseTimeout: (call) =>
        log.warn({ requestId: call?.requestId }, 'the client did not receive its response in time'),
      onFault: (err) => this.#collapsingLog.error('connection', { err }, 'connection failed'),
    }
    this.#tls = tls && this.#createTlsServer(tls)
    this.#deadlineTimer = setInterval(() => {
      const now = performance.now()
      for (const connection of this.#connections) connection.checkDeadlines(now)
    }, CHECK_INTERVAL_MS)
  }

  /** Resolves with the port. */
  async listen(port: number, host: string): Promise<number> {
    // With `reusePort`, listening would succeed even if another gateway already listens on the port.
    if (port !== 0 && cluster.isPrimary) await assertPortFree(port, host)
    // Workers share the port instead of getting connections from their parent. If a worker is killed, the
    // connections that it has not accepted yet are therefore reset; otherwise they would hang.
    const options = { host, backlog: BACKLOG, reusePort: true }
    let boundPort: number
    try {
      boundPort = await this.#open({ ...options, port })
    } catch (error) {
      if (!isPortSharingUnsupported(error) || cluster.isWorker) throw error
      return this.#open({ ...options, port, reusePort: false })
    }
    while (this.#acceptors.length < LISTENING_SOCKETS) {
      await this.#open({ ...options, port: boundPort })
    }
    return boundPort
  }

  async #open(options: ListenOptions): Promise<number> {
    // `readAccepted` requires paused sockets. With TLS, the TLS server reads the accepted sockets.
    const pauseOnConnect = this.#tls === undefined
    const acceptor = createServer({ ...SOCKET_OPTIONS, pauseOnConnect }, (socket) => {
      this.#accept(socket)
    })
    const port = await listenOn(acceptor, options)
    acceptor.on('error', (err) => this.#log.error({ err }, 'cannot accept a connection'))
    this.#acceptors.push(acceptor)
    return port
  }

  /** Sets the certificate for new connections; open connections keep theirs. */
  renewTls(tls: TlsKeyPair): void {
    this.#tls?.setSecureContext({ ...tls, minVersion: TLS_VERSION_MIN })
  }

  /** Stops accepting connections. Resolves when every accepted connection is closed. */
  async drain(): Promise<void> {
    this.#isDraining = true
    const closed = Promise.all(this.#acceptors.map(closeServer))
    // Idle connections are not closed immediately, because a request may be on its way. From now on, responses
    // have `Connection: close`.
    const closing = setInterval(() => {
      const deadline = performance.now() + DRAIN_GRACE_MS
      for (const connection of this.#connections) connection.closeBy(deadline)
    }, DRAIN_GRACE_MS)
    await closed
    clearInterval(closing)
    clearInterval(this.#deadlineTimer)
  }

  #accept(socket: Socket): void {
    const { budget, trustedProxies } = this.#options
    // Once the connection is closed, Node no longer knows the address.
    const address = socket.remoteAddress ?? ''
    const peer = budget.clientOf(clientNetwork(address), { isLimited: trustedProxies === 0 })
    if (this.#tls === undefined) {
      const connection = new Connection(socket, { address, peer }, this.#connectionContext)
      if (budget.open(connection)) this.#track(connection, socket)
      else connection.destroy()
      return
    }
    const handshake = new Handshake(socket, address, peer, budget)
    if (!budget.open(handshake)) {
      handshake.destroy()
      return
    }
    const endpoint = endpointOf(socket)
    this.#handshakes.set(endpoint, handshake)
    socket.on('close', () => {
      this.#handshakes.delete(endpoint)
      budget.close(handshake)
    })
    this.#tls.emit('connection', socket)
  }

  /** Called when the handshake of a connection has succeeded. */
  #replaceHandshake(socket: TLSSocket): void {
    const endpoint = endpointOf(socket)
    const handshake = this.#handshakes.get(endpoint)
    this.#handshakes.delete(endpoint)
    // The client has closed the connection in the meantime.
    if (handshake === undefined) return void socket.destroy()
    const { address, peer } = handshake
    const connection = new Connection(socket, { address, peer }, this.#connectionContext)
    this.#options.budget.replace(handshake, connection)
    this.#track(connection, socket)
  }

  #track(connection: Connection, socket: Socket): void {
    this.#connections.add(connection)
    socket.on('close', () => {
      this.#connections.delete(connection)
      this.#options.budget.close(connection)
    })
  }

  #createTlsServer(tls: TlsKeyPair): TlsServer {
    const server = createTlsServer(
      {
        ...SOCKET_OPTIONS,
        ...tls,
        minVersion: TLS_VERSION_MIN,
        ALPNProtocols: ['http/1.1'],
        handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      },
      (socket) => this.#replaceHandshake(socket),
    )
    return server.on('tlsClientError', (_: Error, socket: Socket) => socket.destroy())
  }

  #clientOf({ record: { address, head } }: Call, peer: Client): Client {
    const { budget, trustedProxies } = this.#options
    if (trustedProxies === 0 || head === undefined) return peer
    const network = clientNetwork(clientAddress(address, head.headers, trustedProxies))
    return budget.clientOf(network, { isLimited: true })
  }

  #serve(connection: Connection, raw: RawRequestHead, arrivedAt: number): Call {
    const { recordsSteps } = this.#options
    const requestId = clientRequestId(raw.fields) ?? createId('req')
    const call = new Call({ connection, method: raw.method, requestId, arrivedAt, recordsSteps })
    void this.#handle(call, connection, raw)
    return call
  }

  /** Resolves when the response is flushed to the client, or can no longer be sent. */
  async #handle(call: Call, connection: Connection, raw: RawRequestHead): Promise<void> {
    let closes = true
    let status = CLIENT_GONE
    let response: Response | undefined
    try {
      try {
        call.record.head = validateRequestHead(raw)
        response = await this.#options.serve(call.record.head, call)
      } catch (error) {
        // The client has closed its connection, so there is no one to respond to.
        if (!connection.isOpen) return
        if (call.record.head === undefined) this.#options.onInvalidHead(call, raw.fields)
        response = this.#responseTo(error, call)
      }
      status = response.status
      closes = this.#isLast(call, connection, response)
      this.#options.onResponse(call, status)
      // `await` is needed even if the response was flushed immediately: the call must not end before
      // `Connection` has registered it.
      await this.#send(call, connection, response, closes)
    } catch (error) {
      this.#log.error({ requestId: call.requestId, err: error }, 'response failed')
      const problem = asProblem(error)
      call.record.code = problem.code
      status = problem.status
      // Without this, a streamed body would occupy its connection to the backend forever.
      if (response?.body instanceof Readable) response.body.destroy()
      connection.destroy()
    } finally {
      this.#settle(call, status)
      // Without this, all pipelined calls that get an immediate response, such as a 401, would be served in the same turn
      // of the event loop, and other clients would wait for seconds.
      if (!connection.isReadAheadEmpty) await setImmediate()
      connection.end(closes)
    }
  }

  #settle(call: Call, status: number): void {
    try {
      this.#options.onSettled(call, status)
    } catch (error) {
      this.#log.error({ requestId: call.requestId, err: error }, 'the call was not recorded')
    }
  }

  #responseTo(error: unknown, call: Call): Response {
    const problem = asProblem(error)
    call.record.code = problem.code
    if (problem.status >= 500) this.#logFault(call, problem)
    const page = this.#options.problemPage?.(problem, call)
    return page ?? problemResponse(problem, this.#options.baseUrl, call.requestId)
  }

  /**
   * Whether the connection closes after this response, e.g. because it is unknown where the next request
   * begins, or because the gateway is draining.
   */
  #isLast(
    { record: { head }, sentContinue }: Call,
    connection: Connection,
    { body }: Response,
  ): boolean {
    if (head === undefined || head.closes) return true
    // A streamed body may lack a length, and an HTTP/1.0 client then recognizes its end only by the closed connection.
    // Streams with a length do not need this, but are treated alike.
    if (head.version === '1.0' && body !== undefined && !Buffer.isBuffer(body)) return true
    // Without `100 Continue`, it is unknown whether the client sends its body.
    if (head.expectsContinue && !sentContinue) return true
    if (!connection.skipBody(head.framing) || connection.isReadAheadDropped) return true
    const { isHalfClosed, isOld, isReadAheadEmpty } = connection
    return (this.#isDraining || isHalfClosed || isOld) && isReadAheadEmpty
  }

  #send(
    call: Call,
    connection: Connection,
    response: Response,
    closes: boolean,
  ): Promise<void> | undefined {
    const { record, method, requestId } = call
    const { status, body } = response
    const commonHeaders = this.#options.commonHeaders(call, status)
    const context = { requestId, commonHeaders, closes }
    const isHead = method === 'HEAD'
    if (body !== undefined && !Buffer.isBuffer(body)) {
      return this.#stream(call, connection, { ...response, body }, context)
    }
    const headers = [...response.headers, ...lengthHeader(body)]
    record.sentBytes = body === undefined || isHead ? 0 : body.length
    return connection.write(renderHead({ status, headers }, context), isHead ? undefined : body)
  }

  async #stream(
    { record, method, requestId }: Call,
    connection: Connection,
    { status, headers, body }: Omit<Response, 'body'> & { readonly body: Readable },
    context: ResponseContext,
  ): Promise<void> {
    const hasBody = method !== 'HEAD' && status !== 204 && status !== 304
    const hasLength = fieldValue(headers, 'content-length') !== undefined
    const isChunked = hasBody && !hasLength && record.head?.version !== '1.0'
    const coding = isChunked ? ['transfer-encoding', 'chunked'] : []
    const before = connection.bytesWritten
    try {
      await connection.write(renderHead({ status, headers: [...headers, ...coding] }, context))
      let lineEnd = ''
      for await (const part of body as AsyncIterable<Buffer>) {
        if (!connection.isOpen) break
        if (!hasBody || part.length === 0) continue
        await connection.write(isChunked ? lineEnd + renderChunkSize(part.length) : '', part)
        lineEnd = '\r\n'
      }
      if (isChunked) await connection.write(`${lineEnd}${renderChunkSize(0)}\r\n`)
    } catch (error) {
      connection.reset()
      this.#log.warn({ requestId, err: error }, 'response was cut off')
    }
    record.sentBytes = connection.bytesWritten - before
  }

  /** Renders the response to bytes from which no call was created. */
  #reject({ address }: Connection, error: Http1Error | Problem): string {
    const problem = asProblem(error)
    const requestId = createId('req')
    this.#options.onRejectedBytes(requestId, address, problem)
    const response = problemResponse(problem, this.#options.baseUrl, requestId)
    const headers = [...response.headers, ...lengthHeader(response.body)]
    const commonHeaders = this.#options.commonHeaders(undefined, response.status)
    const context = { requestId, commonHeaders, closes: true }
    return renderHead({ ...response, headers }, context) + response.body?.toString('latin1')
  }

  #logFault({ requestId }: Call, problem: Problem): void {
    const { code, cause, message } = problem
    const kind = `${message} ${cause instanceof Error ? cause.name : ''}`
    this.#collapsingLog.error(kind, { requestId, code, err: cause }, message)
  }
}
