/**
 * A client's connection: requests are read from it one after another, each is begun when the one
 * before it is answered, each gets one answer; and once one is refused in a way that closes, nothing
 * behind it is acted on.
 */
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { Problem } from '../../shared/contract/problem.ts'
import { malformed } from '../http1/fields.ts'
import { createFraming } from '../http1/framing.ts'
import { RequestReader } from '../http1/head-reader.ts'
import type { BodyFraming, RawHead } from '../http1/request-head.ts'
import { writeMessage } from '../http1/write-message.ts'
import type { Call } from '../pipeline/call.ts'
import { type Bodies, type Body, BodyReader, isReadable, NO_BODY } from './body.ts'

/** From the first byte of a request to the end of its head, at most. */
const HEAD_TIMEOUT_MS = 10_000
/** How long an idle connection is kept. Balancers in front should keep theirs for less. */
export const KEEP_ALIVE_MS = 65_000
/**
 * How long a closing connection still reads and drops what the client sends. Closed at once, a
 * client that is still sending would see a reset instead of the answer.
 */
const LINGER_MS = 2_000
/**
 * A client that has closed its half may be gone, or still read: for this long the calls under way
 * may be answered, then they are given up.
 */
const HALF_CLOSED_MS = 1_000
/** A client that sends so much behind a call under way is not read on before its answer. */
const READ_AHEAD_BYTES_MAX = 64 * 1024
/** What slow readers may leave with us, all together, of answers that are sent. */
const UNTAKEN_BYTES_MAX = 64 * 1024 * 1024
/** Beyond it the others are not cut off too: over TLS every answer is untaken for a moment. */
const SMALL_BYTES_MAX = 16 * 1024

/** What connections share. */
export interface ConnectionHost {
  /** From the first byte of a request to its last. */
  readonly requestTimeoutMs: number
  /** For a client to take an answer. */
  readonly answerTimeoutMs: number
  readonly bodies: Bodies
  /** Bytes of answers that are sent and not taken. */
  untakenBytes: number
  /** Begins a call, which ends with `Connection.end`. */
  serve(connection: Connection, head: RawHead, arrivedAt: number): Call
  /** The answer to what never became a call. */
  refuse(connection: Connection, problem: Problem): string
  /** A client that does not take its answer is cut off. */
  onUntaken(call: Call | undefined): void
}

interface WaitingForBody {
  readonly reader: BodyReader
  settle(result: Body | Error): void
}

export class Connection {
  /** The client's, or of the proxy in front; '' where it was gone at once. */
  readonly address: string
  readonly #socket: Socket
  readonly #host: ConnectionHost
  readonly #requests = new RequestReader()
  #call: Call | undefined
  #body: WaitingForBody | undefined
  #isBodyRead = false
  /** It was begun and not read to its end: where the next request begins nobody knows. */
  #isBodyLost = false
  /** That it takes, until the call is answered. */
  #bodyBytes = 0
  /** Told when the client has taken all that was written, or is gone. */
  #onTaken: (() => void) | undefined
  /** Of a request that is begun; of the connection before the first. */
  #begunAt = performance.now()
  /** By `performance.now()`: of what is waited for at present, and of the connection. */
  #deadline: number
  #endsBy = Number.POSITIVE_INFINITY
  /** Of an answer that the client does not take at once, whole. */
  #answerBy: number | undefined
  #isFresh = true
  /** The client has closed its half. */
  #hasEnded = false
  /** The last answer is out; what still comes is dropped. */
  #isClosing = false

  constructor(socket: Socket, host: ConnectionHost) {
    this.#socket = socket
    this.#host = host
    // Asked for later it may be gone.
    this.address = socket.remoteAddress ?? ''
    this.#deadline = this.#begunAt + this.#headTimeoutMs
    socket.on('end', () => this.#readEnd())
    // What follows says all: the connection closes.
    socket.on('error', () => {})
    socket.on('close', () => this.#close())
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed
  }

  /** Nothing is under way, and no byte of a request has come. */
  get isIdle(): boolean {
    return this.#call === undefined && this.#requests.isEmpty
  }

  /** Nothing has come behind the call under way. */
  get isReadEmpty(): boolean {
    return this.#requests.isEmpty
  }

  /** The client has closed its half. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  get bytesWritten(): number {
    return this.#socket.bytesWritten
  }

  /** What the client sends. */
  read(bytes: Buffer): void {
    if (this.#isClosing) return
    const wasEmpty = this.#requests.isEmpty
    if (this.#call === undefined) {
      this.#requests.push(bytes)
      const now = performance.now()
      if (wasEmpty) this.#begunAt = now
      this.#begin(now)
    } else if (this.#body !== undefined) {
      this.#readBody(bytes)
    } else if (!this.#isBodyLost) {
      this.#requests.push(bytes)
      if (this.#requests.length > READ_AHEAD_BYTES_MAX) this.#socket.pause()
    }
  }

  /**
   * The body of the call under way, of at most so many bytes. Rejects with the reason for which the
   * call is aborted, and with a `Problem` where the body is malformed.
   */
  readBody(
    call: Call,
    framing: BodyFraming,
    bytesMax: number,
    sayContinue: boolean,
  ): Promise<Body> {
    return new Promise((resolve, reject) => {
      const reader = new BodyReader(framing, bytesMax, this.#host.bodies)
      const settle = (result: Body | Error) => {
        call.abort.listen(undefined)
        this.#deadline = Number.POSITIVE_INFINITY
        this.#body = undefined
        this.#isBodyRead = result instanceof Buffer
        this.#isBodyLost = !this.#isBodyRead
        if (!(result instanceof Error)) return resolve(result)
        reader.drop()
        reject(result)
      }
      this.#body = { reader, settle }
      if (!isReadable(framing, bytesMax)) return settle('tooLarge')
      if (sayContinue) this.#socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1')
      this.#deadline = this.#begunAt + this.#host.requestTimeoutMs
      if (call.abort.reason !== undefined) return settle(call.abort.reason)
      call.abort.listen({ abort: settle })
      this.#readBody(this.#requests.takeAll())
      if (this.#body === undefined) return
      if (this.#hasEnded) settle(malformed())
      else if (this.#socket.isPaused()) this.#socket.resume()
    })
  }

  /** Sends a part of an answer; where the client is slow, resolves when it has taken it or is gone. */
  write(head: string, body: Buffer = NO_BODY): Promise<void> | undefined {
    const socket = this.#socket
    writeMessage(socket, head, body)
    const untaken = socket.writableLength
    if (untaken === 0) return undefined
    // Told behind what is left, since most is taken at once: to be told each time costs all of them.
    socket.write('', () => this.#onTaken?.())
    return this.#untilTaken(untaken)
  }

  /**
   * Drops the body of the call under way where nobody has read it; whether all of it was there, so that
   * the next request is found behind it.
   */
  skipBody(framing: BodyFraming | undefined): boolean {
    if (framing === undefined || this.#isBodyRead) return true
    if (this.#isBodyLost) return false
    try {
      const rest = createFraming(framing).take(this.#requests.takeAll(), () => {})
      if (rest === undefined) return false
      this.#requests.push(rest)
      return true
    } catch {
      return false
    }
  }

  /** The answer is out. `closes`: it was the last. */
  end(closes: boolean): void {
    this.#call = undefined
    this.#isBodyRead = false
    this.#host.bodies.release(this.#bodyBytes)
    this.#bodyBytes = 0
    this.#answerBy = undefined
    if (closes) this.#closeSoon()
    // What a client sent that is gone now, or cut off, is not acted on.
    if (this.#isClosing || !this.isOpen) return
    const now = performance.now()
    if (!this.#requests.isEmpty) this.#begunAt = now
    this.#begin(now)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  /**
   * In the midst of an answer, which then never looks whole: to HTTP/1.0 one without a length ends with
   * its connection, unless that is reset. TLS says itself that its end is missing.
   */
  cutOff(): void {
    if (this.#socket instanceof TLSSocket) this.#socket.destroy()
    else this.#socket.resetAndDestroy()
  }

  /** While the gateway drains: an idle one closes, and a client is waited for until `by` at most. */
  hurry(by: number): void {
    if (this.isIdle) this.#closeSoon()
    else if (Number.isFinite(this.#deadline)) this.#deadline = Math.min(this.#deadline, by)
  }

  /** Acts on what has taken too long. */
  checkTime(now: number): void {
    // A client that takes its answer is there.
    if (now > this.#endsBy && this.#answerBy === undefined) this.destroy()
    else if (now > this.#deadline) this.#expire()
  }

  /** Begins the next call, as soon as its head is there. */
  #begin(now: number): void {
    let head: RawHead | undefined
    try {
      head = this.#requests.readHead()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      this.#refuse(error)
      return
    }
    if (head !== undefined) {
      this.#isFresh = false
      this.#deadline = Number.POSITIVE_INFINITY
      this.#call = this.#host.serve(this, head, now)
    } else if (this.#hasEnded) {
      if (this.#requests.isEmpty) this.#closeSoon()
      else this.#refuse(malformed())
    } else {
      const isWaited = this.#isFresh || !this.#requests.isEmpty
      this.#deadline = isWaited ? this.#begunAt + this.#headTimeoutMs : now + KEEP_ALIVE_MS
      if (this.#socket.isPaused()) this.#socket.resume()
    }
  }

  get #headTimeoutMs(): number {
    return Math.min(HEAD_TIMEOUT_MS, this.#host.requestTimeoutMs)
  }

  #readBody(bytes: Buffer): void {
    const body = this.#body
    if (body === undefined) return
    try {
      const taken = body.reader.take(bytes)
      if (taken === undefined) return
      this.#bodyBytes = taken.body === 'tooLarge' ? 0 : taken.body.length
      this.#requests.push(taken.rest)
      body.settle(taken.body)
    } catch (error) {
      body.settle(error instanceof Error ? error : new Error(String(error)))
    }
  }

  #readEnd(): void {
    this.#hasEnded = true
    this.#endsBy = performance.now() + HALF_CLOSED_MS
    if (this.#isClosing) return
    if (this.#call === undefined) this.#begin(performance.now())
    else if (this.#body !== undefined) this.#call.abort.abort(malformed())
  }

  #expire(): void {
    const tooSlow = new Problem('request_timeout', 'The request took too long to arrive.')
    if (this.#onTaken !== undefined) {
      this.#host.onUntaken(this.#call)
      this.cutOff()
    } else if (this.#isClosing) this.destroy()
    else if (this.#call !== undefined) this.#call.abort.abort(tooSlow)
    else if (this.#isFresh || !this.#requests.isEmpty) this.#refuse(tooSlow)
    else this.#closeSoon()
  }

  #refuse(problem: Problem): void {
    this.#socket.write(this.#host.refuse(this, problem), 'latin1')
    this.#closeSoon()
  }

  #closeSoon(): void {
    this.#isClosing = true
    this.#requests.takeAll()
    this.#socket.end()
    this.#socket.resume()
    this.#deadline = performance.now() + LINGER_MS
  }

  #close(): void {
    this.#isClosing = true
    this.#onTaken?.()
    this.#call?.abort.abort(new Error('the client went away'))
  }

  #untilTaken(bytes: number): Promise<void> {
    const host = this.#host
    if (bytes > SMALL_BYTES_MAX && host.untakenBytes + bytes > UNTAKEN_BYTES_MAX) this.cutOff()
    if (this.#socket.destroyed) return Promise.resolve()
    host.untakenBytes += bytes
    this.#answerBy ??= performance.now() + host.answerTimeoutMs
    this.#deadline = this.#answerBy
    return new Promise((resolve) => {
      this.#onTaken = () => {
        this.#onTaken = undefined
        host.untakenBytes -= bytes
        this.#deadline = Number.POSITIVE_INFINITY
        resolve()
      }
    })
  }
}
