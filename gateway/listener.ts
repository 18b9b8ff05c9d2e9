/**
 * The public socket: from bytes to a checked head, and from a reply back to bytes. Everything that
 * is answered leaves through here, refusals of the parser too.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { pipeline, type Readable } from 'node:stream'
import { createId } from '../shared/id.ts'
import type { Logger } from '../shared/log.ts'
import { Problem } from '../shared/problem.ts'
import type { Allowance } from './accounting.ts'
import {
  type Answer,
  asProblem,
  contextHeaders,
  problemAnswer,
  renderAnswer,
  sendAnswer,
} from './answer.ts'
import { type Connection, createConnection, type Exchange } from './connection.ts'
import { PARSED_BYTES_MAX } from './raw-heads.ts'
import {
  checkHead,
  clientRequestId,
  type Head,
  headersTooLarge,
  methodUnknown,
  TARGET_BYTES_MAX,
  targetTooLong,
} from './request-check.ts'

/** From the first byte of a request to the end of its head, at most. */
const HEAD_TIMEOUT_MS = 10_000
/** How long an idle connection is kept. Balancers in front should keep theirs for less. */
const KEEP_ALIVE_MS = 65_000
/** A socket on which nothing moves although an answer is due: a reader that stalls. */
const STALLED_MS = 30_000
/**
 * Connections that wait to be accepted, at most (the kernel allows fewer where `somaxconn` is less).
 * Of a crowd beyond it, good clients among them, the kernel drops what it cannot note: they try again
 * after a second, or believe themselves connected.
 */
const BACKLOG = 4096
/** What slow readers may leave with us, all together, of answers that are sent. */
const UNTAKEN_BYTES_MAX = 64 * 1024 * 1024
/** In the log, for a call whose client went away; nothing is sent. */
const CLIENT_GONE = 499
/** While draining: how long clients get to send a last call on connections they hold. */
const DRAIN_GRACE_MS = 3_000

/** One request under way. */
export interface Call extends Exchange {
  readonly res: ServerResponse
  readonly requestId: string
  /** What is known to stand behind the head; undefined where its first line reads otherwise. */
  readonly bytesBehind: number | undefined
  /** `performance.now()` when the head had arrived. */
  readonly arrivedAt: number
  /** Whether `100 Continue` was sent. */
  saidContinue: boolean
  /** Set once the key is authenticated and the call spent. */
  allowance: Allowance | undefined
  /** For the log: who called what. */
  keyId: string | undefined
  /** The answer is the backend's. */
  forwarded: boolean
}

/** An answer whose body may still be arriving. */
export type Reply = Omit<Answer, 'body'> & { readonly body: Answer['body'] | Readable }

export interface ListenerOptions {
  readonly baseUrl: string
  /** From the first byte of a request to its last. */
  readonly requestTimeoutMs: number
  /** For a client to take an answer. */
  readonly answerTimeoutMs: number
  readonly log: Logger
  /** Handles a checked request. A refusal is a thrown `Problem`. */
  serve(head: Head, call: Call): Promise<Reply>
  /** Told of every call that was answered. */
  onAnswered(call: Call, status: number): void
}

export class Listener {
  readonly #baseUrl: string
  readonly #log: Logger
  readonly #serve: ListenerOptions['serve']
  readonly #onAnswered: ListenerOptions['onAnswered']
  readonly #answerTimeoutMs: number
  readonly #connections = new Map<Socket, Connection>()
  readonly #server: Server
  #draining = false

  #untakenBytes = 0

  constructor(options: ListenerOptions) {
    const { baseUrl, requestTimeoutMs, answerTimeoutMs, log, serve, onAnswered } = options
    this.#baseUrl = baseUrl
    this.#log = log
    this.#serve = serve
    this.#onAnswered = onAnswered
    this.#answerTimeoutMs = answerTimeoutMs
    this.#server = createHttpServer(requestTimeoutMs)
    this.#server.on('connection', (socket: Socket) => {
      this.#connections.set(socket, createConnection(socket))
      socket.on('close', () => this.#connections.delete(socket))
    })
    const onRequest = (req: IncomingMessage, res: ServerResponse) => void this.#handle(req, res)
    for (const event of ['request', 'checkContinue', 'checkExpectation']) {
      this.#server.on(event, onRequest)
    }
    this.#server.on('clientError', (error: ParserError, socket) => {
      this.#refuseBytes(error, socket as Socket)
    })
    this.#server.on('connect', (_, socket) => {
      this.#refuseBytes(methodUnknown('CONNECT'), socket as Socket)
    })
  }

  /** Resolves with the port. */
  listen(port: number, host: string): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, host, BACKLOG, () => {
        // A TCP server that listens has an address of this form.
        resolve((this.#server.address() as AddressInfo).port)
      })
    })
  }

  /** Accepts no more connections; resolves when every accepted call is answered. */
  async drain(): Promise<void> {
    this.#draining = true
    const closed = new Promise<void>((resolve) => {
      // Not `Server.close` of node:http, which drops idle connections at once: on one of them a call
      // may be on its way. Each is answered with `Connection: close`.
      NetServer.prototype.close.call(this.#server, () => resolve())
    })
    const grace = setTimeout(() => this.#server.closeIdleConnections(), DRAIN_GRACE_MS)
    await closed
    clearTimeout(grace)
    this.#server.closeAllConnections()
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const connection = this.#connections.get(req.socket)
    if (connection === undefined) return
    const call: Call = {
      req,
      res,
      abort: new AbortController(),
      requestId: clientRequestId(req.rawHeaders) ?? createId('req'),
      bytesBehind: connection.takeHead(requestLine(req)),
      arrivedAt: performance.now(),
      saidContinue: false,
      allowance: undefined,
      keyId: undefined,
      forwarded: false,
    }
    const turn = connection.begin(call)
    if (turn !== true && !(await turn)) return
    try {
      await this.#answer(call, connection)
    } catch (error) {
      this.#log.error({ requestId: call.requestId, err: error }, 'answer failed')
      req.socket.destroy()
    } finally {
      connection.end(call)
    }
  }

  async #answer(call: Call, connection: Connection): Promise<void> {
    let reply: Reply
    let head: Head | undefined
    try {
      head = checkHead(call.req, call.bytesBehind)
      reply = await this.#serve(head, call)
    } catch (error) {
      // Nobody is there to be answered, and nothing is wrong with us.
      if (call.req.socket.destroyed) return this.#logAccess(call, CLIENT_GONE)
      const problem = asProblem(error)
      reply = problemAnswer(problem, this.#baseUrl, call.requestId)
      if (problem.status === 401) call.allowance = undefined
      if (problem.status >= 500) this.#logFault(call, problem)
    }
    if (this.#draining) connection.readNoMore()
    const close = connection.isLast(call) || mustClose(call, head)
    if (close) connection.closeAfter(call)
    this.#onAnswered(call, reply.status)
    await this.#send(call, reply, close)
    this.#logAccess(call, reply.status)
  }

  /** Resolves when the client has taken the answer: what is pipelined behind it waits for that. */
  #send(call: Call, { status, headers, body }: Reply, close: boolean): Promise<void> | void {
    const { res } = call
    if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) {
      sendAnswer(res, { status, headers, body }, call, close)
      const untaken = call.req.socket.writableLength
      return untaken === 0 ? undefined : this.#untilTaken(call, untaken)
    }
    const closing = close ? ['connection', 'close'] : []
    res.writeHead(status, [...headers, ...contextHeaders(call), ...closing])
    // Where the body breaks off, `pipeline` destroys the socket: the answer never looks whole.
    pipeline(body, res, (error) => {
      if (error) this.#log.warn({ requestId: call.requestId, err: error }, 'answer broke off')
    })
    return this.#untilTaken(call, 0)
  }

  async #untilTaken({ req, res, requestId }: Call, bytes: number): Promise<void> {
    if (this.#untakenBytes + bytes > UNTAKEN_BYTES_MAX) req.socket.destroy()
    this.#untakenBytes += bytes
    const deadline = setTimeout(() => {
      this.#log.warn({ requestId }, 'the client does not take its answer')
      req.socket.destroy()
    }, this.#answerTimeoutMs)
    if (!res.closed && !req.socket.destroyed) await ended(res, req.socket)
    clearTimeout(deadline)
    this.#untakenBytes -= bytes
  }

  /** Refuses what never became a request: by the parser's error, or by our own refusal. */
  #refuseBytes(reason: ParserError | Problem, socket: Socket): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined || !socket.writable) return void socket.destroy()
    // Bytes behind a request that said `Connection: close`: they are nobody's.
    if (!(reason instanceof Problem) && reason.code === 'HPE_CLOSED_CONNECTION') {
      connection.readNoMore()
      return
    }
    const problem =
      reason instanceof Problem ? reason : parserProblem(reason, connection.lineLength())
    connection.fail(problem, () => {
      const context = { requestId: createId('req'), allowance: undefined }
      this.#log.info({ requestId: context.requestId, status: problem.status }, problem.message)
      return renderAnswer(problemAnswer(problem, this.#baseUrl, context.requestId), context)
    })
  }

  #logFault({ requestId }: Call, problem: Problem): void {
    this.#log.error({ requestId, code: problem.code, err: problem.cause }, problem.message)
  }

  #logAccess({ req, requestId, arrivedAt, keyId }: Call, status: number): void {
    const path = req.url?.split('?', 1)[0]
    const ms = Math.round((performance.now() - arrivedAt) * 100) / 100
    this.#log.info({ requestId, method: req.method, path, status, ms, keyId }, 'call')
  }
}

function createHttpServer(requestTimeoutMs: number): Server {
  const server = createServer({
    // Ours to check and to answer; Node's own answer would lack our headers.
    requireHostHeader: false,
    insecureHTTPParser: false,
    maxHeaderSize: PARSED_BYTES_MAX,
    headersTimeout: Math.min(HEAD_TIMEOUT_MS, requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // The default looks for overdue requests every 30 s only.
    connectionsCheckingInterval: 1_000,
    noDelay: true,
  })
  // The default drops headers beyond 2,000 silently; ours are counted by `checkHead`.
  server.maxHeadersCount = 0
  server.timeout = STALLED_MS
  // See `HALF_CLOSED_MS`. An old property that the types do not know.
  Object.assign(server, { httpAllowHalfOpen: true })
  return server
}

/**
 * After a refused head the next bytes cannot be trusted. What is left of a body that nobody will read
 * is not worth the connection, and where no 100 was sent nobody knows whether the body will come.
 * Behind an upgrade that is ignored the parser has dropped bytes.
 */
function mustClose({ req, saidContinue, bytesBehind }: Call, head: Head | undefined): boolean {
  if (head === undefined || !req.complete) return true
  if (head.expectsContinue && !saidContinue) return true
  return head.offersUpgrade && bytesBehind !== 0
}

/** Resolves when the answer is handed over, or its connection ends before. */
function ended(res: ServerResponse, socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      res.off('close', settle)
      socket.off('close', settle)
      resolve()
    }
    res.on('close', settle)
    socket.on('close', settle)
  })
}

/** The one way to write the first line of a head that was parsed so. */
function requestLine({ method, url, httpVersion }: IncomingMessage): string {
  return `${method} ${url} HTTP/${httpVersion}\r\n`
}

interface ParserError extends NodeJS.ErrnoException {
  /** The bytes just read, and how many of them the parser took. */
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

function parserProblem(error: ParserError, lineLength: number): Problem {
  const { rawPacket = Buffer.alloc(0), bytesParsed = 0 } = error
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return lineLength > TARGET_BYTES_MAX ? targetTooLong() : headersTooLarge()
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem('request_timeout', 'The request took too long to arrive.')
    case 'HPE_INVALID_METHOD': {
      // A request line all the same, of a method that the parser has not heard of.
      const from = rawPacket.lastIndexOf('\n', bytesParsed) + 1
      const line = rawPacket.toString('latin1', from, from + TARGET_BYTES_MAX)
      const method = /^([A-Za-z-]{1,40}) \/\S* HTTP\/1\.[01]\r?\n/.exec(line)?.[1]
      return method === undefined ? notHttp(error) : methodUnknown(method)
    }
    default:
      return notHttp(error)
  }
}

function notHttp(cause: Error): Problem {
  return new Problem('bad_request', 'This is not a well-formed HTTP/1.1 request.', { cause })
}
