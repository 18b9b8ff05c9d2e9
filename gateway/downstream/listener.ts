/**
 * The public socket: from a head to a call, and from a reply back to bytes. Everything that is
 * answered leaves through here, refusals of what is no request too.
 */
import cluster from 'node:cluster'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls'
import { createId } from '../../shared/contract/id.ts'
import type { Problem } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'
import { createRepeatedLog, type RepeatedLog } from '../../shared/process/repeated-log.ts'
import { readAccepted } from '../http1/read-buffer.ts'
import { checkHead, clientRequestId, type Head, type RawHead } from '../http1/request-head.ts'
import { Call } from '../pipeline/call.ts'
import { headerOf } from '../pipeline/translate.ts'
import type { Bodies } from './body.ts'
import { Connection, type ConnectionHost } from './connection.ts'
import { asProblem, lengthHeader, problemAnswer, type Reply, renderHead } from './response.ts'

/**
 * Connections that wait to be accepted, at most (the kernel allows fewer where `somaxconn` is less).
 * Of a crowd beyond it, good clients among them, the kernel drops what it cannot note: they try again
 * after a second, or believe themselves connected.
 */
const BACKLOG = 4096
/** For operators, of a call whose client went away; nothing is sent. */
const CLIENT_GONE = 499
/** While draining: how long clients get to begin a last call on connections they hold, and to end it. */
const DRAIN_GRACE_MS = 3_000
/** Between two looks at what takes too long. */
const CHECK_INTERVAL_MS = 250
/** For a client to agree on keys with us; well within the time that a drain may take. */
const HANDSHAKE_TIMEOUT_MS = 5_000
const TLS_VERSION_MIN = 'TLSv1.2'

/** In PEM form: the certificate with its chain, and its key. */
export interface TlsFiles {
  readonly cert: string
  readonly key: string
}

export interface ListenerOptions {
  readonly baseUrl: string
  /** From the first byte of a request to its last. */
  readonly requestTimeoutMs: number
  /** For a client to take an answer. */
  readonly answerTimeoutMs: number
  readonly bodies: Bodies
  readonly log: Logger
  /** Undefined: plain HTTP, for a balancer in front that speaks TLS with clients. */
  readonly tls: TlsFiles | undefined
  /** Whether calls note their steps, for traces. */
  readonly notesSteps: boolean
  /** Handles a checked request. A refusal is a thrown `Problem`. */
  serve(head: Head, call: Call): Promise<Reply> | Reply
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
  readonly #connections = new Set<Connection>()
  readonly #server: Server & Partial<Pick<TlsServer, 'setSecureContext'>>
  readonly #host: ConnectionHost
  #draining = false

  constructor(options: ListenerOptions) {
    const { requestTimeoutMs, answerTimeoutMs, bodies, log, tls } = options
    this.#options = options
    this.#log = log
    this.#faults = createRepeatedLog(log)
    this.#host = {
      requestTimeoutMs,
      answerTimeoutMs,
      bodies,
      untakenBytes: 0,
      serve: (connection, head, arrivedAt) => this.#serve(connection, head, arrivedAt),
      refuse: (connection, problem) => this.#refuse(connection, problem),
      onUntaken: (call) =>
        log.warn({ requestId: call?.requestId }, 'the client does not take its answer'),
    }
    this.#server = this.#createServer(tls)
  }

  /** Resolves with the port. */
  listen(port: number, host: string): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      // Workers listen on one port each for itself: the system spreads connections over them, and what
      // waits for one that was killed is reset. Handed on by their parent it would hang.
      const reusePort = cluster.isWorker
      this.#server.listen({ port, host, backlog: BACKLOG, reusePort }, () => {
        this.#server.off('error', reject)
        this.#server.on('error', (err) => this.#log.error({ err }, 'a connection is not accepted'))
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
    this.#server.setSecureContext?.({ ...tls, minVersion: TLS_VERSION_MIN })
  }

  /** Accepts no more connections; resolves when every accepted call is answered. */
  async drain(): Promise<void> {
    this.#draining = true
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
    })
    // Not idle ones at once: on one of them a call may be on its way. Each is answered with
    // `Connection: close`.
    const hurrying = setInterval(() => {
      const by = performance.now() + DRAIN_GRACE_MS
      for (const connection of this.#connections) connection.hurry(by)
    }, DRAIN_GRACE_MS)
    await closed
    clearInterval(hurrying)
  }

  #createServer(tls: TlsFiles | undefined): Server {
    // What is closed in one direction may still be read, see `LINGER_MS`.
    const options = { allowHalfOpen: true, noDelay: true }
    const onConnection = (accepted: Socket) => {
      const socket = readAccepted(accepted, (bytes) => connection.read(bytes))
      const connection = new Connection(socket, this.#host)
      this.#connections.add(connection)
      socket.on('close', () => this.#connections.delete(connection))
    }
    const checking = setInterval(() => {
      const now = performance.now()
      for (const connection of this.#connections) connection.checkTime(now)
    }, CHECK_INTERVAL_MS)
    const server =
      tls === undefined
        ? createServer({ ...options, pauseOnConnect: true }, onConnection)
        : createTlsServer(
            {
              ...options,
              ...tls,
              minVersion: TLS_VERSION_MIN,
              ALPNProtocols: ['http/1.1'],
              handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
            },
            onConnection,
          )
    server.on('tlsClientError', (_: Error, socket: Socket) => socket.destroy())
    return server.on('close', () => clearInterval(checking))
  }

  #serve(connection: Connection, raw: RawHead, arrivedAt: number): Call {
    const { notesSteps } = this.#options
    const requestId = clientRequestId(raw.fields) ?? createId('req')
    const call = new Call({ connection, method: raw.method, requestId, arrivedAt, notesSteps })
    void this.#handle(call, raw)
    return call
  }

  /** Resolves when the client has taken the answer. */
  async #handle(call: Call, raw: RawHead): Promise<void> {
    let closes = true
    try {
      let reply: Reply
      try {
        call.story.head = checkHead(raw)
        reply = await this.#options.serve(call.story.head, call)
      } catch (error) {
        // Nobody is there to be answered, and nothing is wrong with us.
        if (!call.connection.isOpen) return this.#options.onSettled(call, CLIENT_GONE)
        reply = this.#replyToError(call, error)
      }
      closes = this.#isLast(call, reply)
      this.#options.onAnswered(call, reply.status)
      // Also where the client has taken it at once: the call must not end before its connection has it.
      await this.#send(call, reply, closes)
      this.#options.onSettled(call, reply.status)
    } catch (error) {
      this.#log.error({ requestId: call.requestId, err: error }, 'answer failed')
      call.connection.destroy()
    } finally {
      call.connection.end(closes)
    }
  }

  #replyToError(call: Call, error: unknown): Reply {
    const problem = asProblem(error)
    call.story.code = problem.code
    if (problem.status === 401) call.allowance = undefined
    if (problem.status >= 500) this.#logFault(call, problem)
    return problemAnswer(problem, this.#options.baseUrl, call.requestId)
  }

  /**
   * After a refused head the next bytes cannot be trusted. What is left of a body that nobody will read
   * is not worth the connection, and where no 100 was sent nobody knows whether the body will come.
   */
  #isLast({ connection, story: { head }, saidContinue }: Call, { body }: Reply): boolean {
    if (head === undefined || head.closes) return true
    // To HTTP/1.0 the end of the connection is the end of what has no length.
    if (head.version === '1.0' && body !== undefined && !Buffer.isBuffer(body)) return true
    if (head.expectsContinue && !saidContinue) return true
    if (!connection.skipBody(head.framing)) return true
    return (this.#draining || connection.hasEnded) && connection.isReadEmpty
  }

  #send(call: Call, reply: Reply, closes: boolean): Promise<void> | undefined {
    const { connection, story, method, requestId, allowance } = call
    const { status, body } = reply
    const context = { requestId, allowance, closes }
    const isHead = method === 'HEAD'
    if (body !== undefined && !Buffer.isBuffer(body)) {
      return this.#stream(call, { ...reply, body }, context)
    }
    const headers = [...reply.headers, ...lengthHeader(body)]
    story.sentBytes = body === undefined || isHead ? 0 : body.length
    return connection.write(renderHead({ status, headers }, context), isHead ? undefined : body)
  }

  async #stream(
    { connection, story, method, requestId }: Call,
    { status, headers, body }: Omit<Reply, 'body'> & { readonly body: Readable },
    context: Parameters<typeof renderHead>[1],
  ): Promise<void> {
    const hasBody = method !== 'HEAD' && status !== 204 && status !== 304
    const isOfLength = headerOf(headers, 'content-length') !== undefined
    const isChunked = hasBody && !isOfLength && story.head?.version !== '1.0'
    const coding = isChunked ? ['transfer-encoding', 'chunked'] : []
    const before = connection.bytesWritten
    try {
      await connection.write(renderHead({ status, headers: [...headers, ...coding] }, context))
      let lineEnd = ''
      for await (const part of body as AsyncIterable<Buffer>) {
        if (!connection.isOpen) break
        if (!hasBody || part.length === 0) continue
        await connection.write(isChunked ? `${lineEnd}${part.length.toString(16)}\r\n` : '', part)
        lineEnd = '\r\n'
      }
      if (isChunked) await connection.write(`${lineEnd}0\r\n\r\n`)
    } catch (error) {
      connection.cutOff()
      this.#log.warn({ requestId, err: error }, 'answer broke off')
    }
    story.sentBytes = connection.bytesWritten - before
  }

  /** Answers what never became a request. */
  #refuse({ address }: Connection, problem: Problem): string {
    const context = { requestId: createId('req'), allowance: undefined, closes: true }
    this.#options.onRefusedBytes(context.requestId, address, problem)
    const answer = problemAnswer(problem, this.#options.baseUrl, context.requestId)
    const headers = [...answer.headers, ...lengthHeader(answer.body)]
    return renderHead({ ...answer, headers }, context) + answer.body?.toString('latin1')
  }

  #logFault({ requestId }: Call, problem: Problem): void {
    const { code, cause, message } = problem
    const kind = `${message} ${cause instanceof Error ? cause.name : ''}`
    this.#faults.error(kind, { requestId, code, err: cause }, message)
  }
}
