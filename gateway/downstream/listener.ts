/**
 * The public listener. It makes a call of each request head and writes the response of each call, also
 * the responses to bytes that are no request.
 */
import cluster from 'node:cluster'
import { createServer, type ListenOptions, type Server, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from 'node:tls'
import { createId } from '../../shared/contract/id.ts'
import type { Problem } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'
import { createRepeatedLog, type RepeatedLog } from '../../shared/process/repeated-log.ts'
import type { Budget } from '../budget/budget.ts'
import type { Client } from '../budget/clients.ts'
import { Call } from '../call/call.ts'
import type { Http1Error } from '../http1/errors.ts'
import { fieldValue } from '../http1/fields.ts'
import { renderChunkSize } from '../http1/message-writer.ts'
import { clientRequestId, type RequestHead, validateRequestHead } from '../http1/request-head.ts'
import type { RawRequestHead } from '../http1/request-reader.ts'
import type { TlsFiles } from './certificate.ts'
import { clientAddress, clientNetwork } from './client-address.ts'
import { Connection, type ConnectionHost } from './connection.ts'
import { endpointOf, Handshake } from './handshake.ts'
import { assertFree, close, isUnsupported, listenOn } from './listening-socket.ts'
import {
  asProblem,
  lengthHeader,
  problemResponse,
  type Response,
  type ResponseContext,
  renderHead,
} from './response.ts'

/**
 * Connections that may wait to be accepted (the kernel's `somaxconn` may be less). Beyond it the kernel
 * drops packets: clients try again after a second, or believe that they are connected.
 */
const BACKLOG = 4096
/**
 * Sockets that listen on the port, over which the kernel spreads connections. libuv accepts one connection
 * of each in a turn of the event loop: with a single one, new connections starve under overload.
 */
const LISTENING_SOCKETS = 16
/** Recorded for a call whose client closed its connection; nothing is sent. */
const CLIENT_GONE = 499
/** While draining: how long a client has to begin a last call on an open connection, and to end it. */
const DRAIN_GRACE_MS = 3_000
/** How often deadlines are checked. */
const CHECK_INTERVAL_MS = 250
/** Well within the time that a drain may take. */
const HANDSHAKE_TIMEOUT_MS = 5_000
const TLS_VERSION_MIN = 'TLSv1.2'
/** A connection that is closed in one direction is still read, see `LINGER_MS` in `connection.ts`. */
const SOCKET_OPTIONS = { allowHalfOpen: true, noDelay: true }

export interface ListenerOptions {
  readonly baseUrl: string
  /** From the first byte of a request to its last. */
  readonly requestTimeoutMs: number
  /** For a client to receive a response. */
  readonly responseTimeoutMs: number
  /** The least rate of a body, in bytes a second. */
  readonly bodyRateMin: number
  /** From this age on, more or less a tenth, a connection is closed with its next response. */
  readonly connectionAgeMs: number
  readonly budget: Budget
  /** How many proxies in front add to `X-Forwarded-For`. */
  readonly trustedProxies: number
  readonly log: Logger
  /** Undefined: plain HTTP, for a balancer in front that terminates TLS. */
  readonly tls: TlsFiles | undefined
  /** Whether calls record the timings of their steps, for traces. */
  readonly recordsSteps: boolean
  /** Called if the head of a call is rejected; `fields`: names in lower case and values alternate. */
  onInvalidHead(call: Call, fields: readonly string[]): void
  /** Handles a valid request. Throws `Problem` to reject it. */
  serve(head: RequestHead, call: Call): Promise<Response> | Response
  /** Headers that every response carries; `call` is undefined if the bytes did not become a call. */
  commonHeaders(call: Call | undefined, status: number): readonly string[]
  /** Called when the response of a call is about to be written. */
  onResponse(call: Call, status: number): void
  /** Called when the response is flushed to the client, or cannot be. */
  onSettled(call: Call, status: number): void
  /** Called for bytes that were rejected before they became a call. */
  onRejectedBytes(requestId: string, address: string, problem: Problem): void
}

export class Listener {
  readonly #options: ListenerOptions
  readonly #log: Logger
  readonly #faults: RepeatedLog
  readonly #connections = new Set<Connection>()
  readonly #acceptors: Server[] = []
  /** Undefined: plain HTTP. It does not listen: the acceptors pass their connections to it. */
  readonly #tls: TlsServer | undefined
  /** By the other end of the connection. */
  readonly #handshakes = new Map<string, Handshake>()
  readonly #checking: NodeJS.Timeout
  readonly #host: ConnectionHost
  #draining = false

  constructor(options: ListenerOptions) {
    const { requestTimeoutMs, responseTimeoutMs, bodyRateMin, connectionAgeMs } = options
    const { budget, log, tls } = options
    this.#options = options
    this.#log = log
    this.#faults = createRepeatedLog(log)
    this.#host = {
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
    }
    this.#tls = tls && this.#createTlsServer(tls)
    this.#checking = setInterval(() => {
      const now = performance.now()
      for (const connection of this.#connections) connection.checkTime(now)
    }, CHECK_INTERVAL_MS)
  }

  /** Resolves with the port. */
  async listen(port: number, host: string): Promise<number> {
    // Sockets that share a port do not notice that another process has it. Workers share it on purpose:
    // if one is killed, the connections that wait for it are reset; if the parent accepted, they would hang.
    if (port !== 0 && cluster.isPrimary) await assertFree(port, host)
    const at = { host, backlog: BACKLOG, reusePort: true }
    let shared: number
    try {
      shared = await this.#open({ ...at, port })
    } catch (error) {
      if (!isUnsupported(error) || cluster.isWorker) throw error
      return this.#open({ ...at, port, reusePort: false })
    }
    while (this.#acceptors.length < LISTENING_SOCKETS) await this.#open({ ...at, port: shared })
    return shared
  }

  async #open(options: ListenOptions): Promise<number> {
    // `readAccepted` wants paused sockets; TLS reads its own.
    const pauseOnConnect = this.#tls === undefined
    const acceptor = createServer({ ...SOCKET_OPTIONS, pauseOnConnect }, (socket) => {
      this.#accept(socket)
    })
    const port = await listenOn(acceptor, options)
    acceptor.on('error', (err) => this.#log.error({ err }, 'cannot accept a connection'))
    this.#acceptors.push(acceptor)
    return port
  }

  /** For new connections; open ones keep their certificate. */
  renewTls(tls: TlsFiles): void {
    this.#tls?.setSecureContext({ ...tls, minVersion: TLS_VERSION_MIN })
  }

  /** Accepts no more connections; resolves when every accepted call has its response. */
  async drain(): Promise<void> {
    this.#draining = true
    const closed = Promise.all(this.#acceptors.map(close))
    // A call may be on its way on an idle connection, so that none is closed at once. Each response says
    // `Connection: close`.
    const closing = setInterval(() => {
      const by = performance.now() + DRAIN_GRACE_MS
      for (const connection of this.#connections) connection.closeBy(by)
    }, DRAIN_GRACE_MS)
    await closed
    clearInterval(closing)
    clearInterval(this.#checking)
  }

  #accept(socket: Socket): void {
    const { budget, trustedProxies } = this.#options
    // Node does not know it any more once the connection is closed.
    const address = socket.remoteAddress ?? ''
    const peer = budget.clientOf(clientNetwork(address), trustedProxies === 0)
    if (this.#tls === undefined) {
      const connection = new Connection(socket, { address, peer }, this.#host)
      if (budget.open(connection)) this.#follow(connection, socket)
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

  /** The handshake of a connection has ended. */
  #secure(socket: TLSSocket): void {
    const endpoint = endpointOf(socket)
    const handshake = this.#handshakes.get(endpoint)
    this.#handshakes.delete(endpoint)
    // The client has closed the connection meanwhile.
    if (handshake === undefined) return void socket.destroy()
    const { address, peer } = handshake
    const connection = new Connection(socket, { address, peer }, this.#host)
    this.#options.budget.replace(handshake, connection)
    this.#follow(connection, socket)
  }

  #follow(connection: Connection, socket: Socket): void {
    this.#connections.add(connection)
    socket.on('close', () => {
      this.#connections.delete(connection)
      this.#options.budget.close(connection)
    })
  }

  #createTlsServer(tls: TlsFiles): TlsServer {
    const server = createTlsServer(
      {
        ...SOCKET_OPTIONS,
        ...tls,
        minVersion: TLS_VERSION_MIN,
        ALPNProtocols: ['http/1.1'],
        handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      },
      (socket) => this.#secure(socket),
    )
    return server.on('tlsClientError', (_: Error, socket: Socket) => socket.destroy())
  }

  #clientOf({ record: { address, head } }: Call, peer: Client): Client {
    const { budget, trustedProxies } = this.#options
    if (trustedProxies === 0 || head === undefined) return peer
    return budget.clientOf(
      clientNetwork(clientAddress(address, head.headers, trustedProxies)),
      true,
    )
  }

  #serve(connection: Connection, raw: RawRequestHead, arrivedAt: number): Call {
    const { recordsSteps } = this.#options
    const requestId = clientRequestId(raw.fields) ?? createId('req')
    const call = new Call({ connection, method: raw.method, requestId, arrivedAt, recordsSteps })
    void this.#handle(call, connection, raw)
    return call
  }

  /** Resolves when the response is flushed to the client. */
  async #handle(call: Call, connection: Connection, raw: RawRequestHead): Promise<void> {
    let closes = true
    try {
      let response: Response
      try {
        call.record.head = validateRequestHead(raw)
        response = await this.#options.serve(call.record.head, call)
      } catch (error) {
        // The call was aborted: no client is left to respond to.
        if (!connection.isOpen) return this.#options.onSettled(call, CLIENT_GONE)
        if (call.record.head === undefined) this.#options.onInvalidHead(call, raw.fields)
        response = this.#responseTo(error, call)
      }
      closes = this.#isLast(call, connection, response)
      this.#options.onResponse(call, response.status)
      // Awaited even if it was flushed at once: the call must not end before its connection knows of it.
      await this.#send(call, connection, response, closes)
      this.#options.onSettled(call, response.status)
    } catch (error) {
      this.#log.error({ requestId: call.requestId, err: error }, 'response failed')
      connection.destroy()
    } finally {
      connection.end(closes)
    }
  }

  #responseTo(error: unknown, call: Call): Response {
    const problem = asProblem(error)
    call.record.code = problem.code
    if (problem.status >= 500) this.#logFault(call, problem)
    return problemResponse(problem, this.#options.baseUrl, call.requestId)
  }

  /** Whether the connection closes after this response, since the next request could not be trusted. */
  #isLast(
    { record: { head }, sentContinue }: Call,
    connection: Connection,
    { body }: Response,
  ): boolean {
    if (head === undefined || head.closes) return true
    // For HTTP/1.0 the end of the connection is the end of a body without a length.
    if (head.version === '1.0' && body !== undefined && !Buffer.isBuffer(body)) return true
    // Without a 100 the client may send its body or not.
    if (head.expectsContinue && !sentContinue) return true
    if (!connection.skipBody(head.framing) || connection.isReadAheadLost) return true
    const { hasEnded, isOld, isReadEmpty } = connection
    return (this.#draining || hasEnded || isOld) && isReadEmpty
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
      this.#log.warn({ requestId, err: error }, 'response broke off')
    }
    record.sentBytes = connection.bytesWritten - before
  }

  /** Renders the response to bytes that did not become a request. */
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
    this.#faults.error(kind, { requestId, code, err: cause }, message)
  }
}
