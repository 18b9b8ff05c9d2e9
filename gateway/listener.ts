/**
 * The public socket: from bytes to a checked head, and from a reply back to bytes. Everything that
 * is answered leaves through here, refusals of the parser too.
 */
import cluster from 'node:cluster'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import { pipeline, type Readable } from 'node:stream'
import { createId } from '../shared/id.ts'
import type { Logger } from '../shared/log.ts'
import { Problem } from '../shared/problem.ts'
import { createRepeatedLog, type RepeatedLog } from '../shared/repeated-log.ts'
import type { Allowance } from './accounting.ts'
import {
  type Answer,
  asProblem,
  contextHeaders,
  problemAnswer,
  renderAnswer,
  sendAnswer,
} from './answer.ts'
import { type CallStory, createStory } from './call-story.ts'
import { type Connection, createConnection, type Exchange } from './connection.ts'
import { createHttpServer, type HttpServer, renewTls, type TlsFiles } from './http-server.ts'
import { type ParserError, parserProblem } from './parser-problem.ts'
import { checkHead, clientRequestId, type Head, methodUnknown } from './request-check.ts'

/**
 * Connections that wait to be accepted, at most (the kernel allows fewer where `somaxconn` is less).
 * Of a crowd beyond it, good clients among them, the kernel drops what it cannot note: they try again
 * after a second, or believe themselves connected.
 */
const BACKLOG = 4096
/** What slow readers may leave with us, all together, of answers that are sent. */
const UNTAKEN_BYTES_MAX = 64 * 1024 * 1024
/** For operators, of a call whose client went away; nothing is sent. */
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
  /** The answer is the backend's. */
  forwarded: boolean
  readonly story: CallStory
}

/** An answer whose body may still be arriving. */
export type Reply = Omit<Answer, 'body'> & { readonly body: Answer['body'] | Readable }

type StreamedReply = Omit<Answer, 'body'> & { readonly body: Readable }

export interface ListenerOptions {
  readonly baseUrl: string
  /** From the first byte of a request to its last. */
  readonly requestTimeoutMs: number
  /** For a client to take an answer. */
  readonly answerTimeoutMs: number
  readonly log: Logger
  /** Undefined: plain HTTP, for a balancer in front that speaks TLS with clients. */
  readonly tls: TlsFiles | undefined
  /** Whether calls note their steps, for traces. */
  readonly notesSteps: boolean
  /** Handles a checked request. A refusal is a thrown `Problem`. */
  serve(head: Head, call: Call): Promise<Reply>
  /** Told of every call as its answer is made. */
  onAnswered(call: Call, status: number): void
  /** Told of every call once its answer is taken, or will not be. */
  onSettled(call: Call, status: number): void
  /** Told of what never became a call. */
  onRefusedBytes(requestId: string, address: string, problem: Problem): void
}

export class Listener {
  readonly #options: ListenerOptions
  readonly #log: Logger
  readonly #faults: RepeatedLog
  readonly #connections = new Map<Socket, Connection>()
  readonly #server: HttpServer
  #draining = false
  #untakenBytes = 0

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#log = options.log
    this.#faults = createRepeatedLog(options.log)
    this.#server = createHttpServer(options.requestTimeoutMs, options.tls)
    this.#server.on(
      options.tls === undefined ? 'connection' : 'secureConnection',
      (socket: Socket) => {
        this.#connections.set(socket, createConnection(socket))
        socket.on('close', () => this.#connections.delete(socket))
      },
    )
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
      // Workers listen on one port each for itself: the system spreads connections over them, and what
      // waits for one that was killed is reset. Handed on by their parent it would hang.
      const reusePort = cluster.isWorker
      this.#server.listen({ port, host, backlog: BACKLOG, reusePort }, () => {
        // A TCP server that listens has an address of this form.
        resolve((this.#server.address() as AddressInfo).port)
      })
    })
  }

  /** Connections of clients that are open. */
  get connections(): number {
    return this.#connections.size
  }

  /** For connections to come; those that are open keep what they have. */
  renewTls(tls: TlsFiles): void {
    renewTls(this.#server, tls)
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
      forwarded: false,
      story: createStory(connection.address, this.#options.notesSteps),
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
      call.story.head = head
      reply = await this.#options.serve(head, call)
    } catch (error) {
      // Nobody is there to be answered, and nothing is wrong with us.
      if (call.req.socket.destroyed) return this.#options.onSettled(call, CLIENT_GONE)
      const problem = asProblem(error)
      call.story.code = problem.code
      reply = problemAnswer(problem, this.#options.baseUrl, call.requestId)
      if (problem.status === 401) call.allowance = undefined
      if (problem.status >= 500) this.#logFault(call, problem)
    }
    if (this.#draining) connection.readNoMore()
    const close = connection.isLast(call) || mustClose(call, head)
    if (close) connection.closeAfter(call)
    this.#options.onAnswered(call, reply.status)
    await this.#send(call, reply, close)
    this.#options.onSettled(call, reply.status)
  }

  /** Resolves when the client has taken the answer: what is pipelined behind it waits for that. */
  #send(call: Call, { status, headers, body }: Reply, close: boolean): Promise<void> | void {
    const { res } = call
    if (body === undefined || typeof body === 'string' || Buffer.isBuffer(body)) {
      call.story.sentBytes = sendAnswer(res, { status, headers, body }, call, close)
      const untaken = call.req.socket.writableLength
      return untaken === 0 ? undefined : this.#untilTaken(call, untaken)
    }
    return this.#stream(call, { status, headers, body }, close)
  }

  async #stream(call: Call, { status, headers, body }: StreamedReply, close: boolean) {
    const { req, res, story } = call
    const before = req.socket.bytesWritten
    const closing = close ? ['connection', 'close'] : []
    res.writeHead(status, [...headers, ...contextHeaders(call), ...closing])
    // Where the body breaks off, `pipeline` destroys the socket: the answer never looks whole.
    pipeline(body, res, (error) => {
      if (error) this.#log.warn({ requestId: call.requestId, err: error }, 'answer broke off')
    })
    await this.#untilTaken(call, 0)
    story.sentBytes = req.socket.bytesWritten - before
  }

  async #untilTaken({ req, res, requestId }: Call, bytes: number): Promise<void> {
    if (this.#untakenBytes + bytes > UNTAKEN_BYTES_MAX) req.socket.destroy()
    this.#untakenBytes += bytes
    const deadline = setTimeout(() => {
      this.#log.warn({ requestId }, 'the client does not take its answer')
      req.socket.destroy()
    }, this.#options.answerTimeoutMs)
    if (!res.closed && !req.socket.destroyed) await ended(res, req.socket)
    clearTimeout(deadline)
    this.#untakenBytes -= bytes
  }

  /** Refuses what never became a request: by the parser's error, or by our own refusal. */
  #refuseBytes(reason: ParserError | Problem, socket: Socket): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined) return void socket.destroy()
    // Answered and closing: what still comes is dropped, and the parser fails on all of it. Destroyed
    // now, the client might see a reset in place of the answer.
    if (!socket.writable) return
    // Bytes behind a request that said `Connection: close`: they are nobody's.
    if (!(reason instanceof Problem) && reason.code === 'HPE_CLOSED_CONNECTION') {
      connection.readNoMore()
      return
    }
    const problem =
      reason instanceof Problem ? reason : parserProblem(reason, connection.lineLength())
    connection.fail(problem, () => {
      const context = { requestId: createId('req'), allowance: undefined }
      this.#options.onRefusedBytes(context.requestId, connection.address, problem)
      return renderAnswer(problemAnswer(problem, this.#options.baseUrl, context.requestId), context)
    })
  }

  #logFault({ requestId }: Call, problem: Problem): void {
    const { code, cause, message } = problem
    const kind = `${message} ${cause instanceof Error ? cause.name : ''}`
    this.#faults.error(kind, { requestId, code, err: cause }, message)
  }
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
