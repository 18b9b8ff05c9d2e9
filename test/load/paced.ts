/**
 * Calls that begin when they are due, whatever the responses do, and how long each took from then on: a
 * subject that stalls is charged for every call that waited meanwhile, so nothing is omitted in step with it
 * (coordinated omission).
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { quantile } from './report.ts'

/** How long to sleep between two looks at clock and sockets: what the figures are blurred by. */
const NAP_MS = 0.05
const LENGTH = /\r\ncontent-length: (\d+)/i
const CLOCK = new Int32Array(new SharedArrayBuffer(4))
/** What is waited for after the last call was due. */
const END_MS_MAX = 5_000

export interface Request<Tag> {
  readonly bytes: Buffer
  /** What the caller wants to know of it when its response has come. */
  readonly tag: Tag
}

export interface Finished<Tag> {
  readonly tag: Tag
  /** 0: the connection was closed before the response was whole, or nothing came. */
  readonly status: number
  /** `performance.now()`. */
  readonly dueAt: number
  readonly ms: number
}

export interface Paced<Tag> {
  /** Calls a second. Infinite: each connection calls again at once. */
  readonly rate: number
  readonly seconds: number
  readonly connections: number
  /** Local addresses to call from, in turn: each is a client of its own. */
  readonly addresses?: readonly string[]
  next(): Request<Tag>
  onFinished(call: Finished<Tag>): void
}

/** What the generator itself adds to the figures, in ms at p99. */
export interface Lateness {
  /** From the moment at which a call was due until it was sent. */
  readonly sentMs: number
  /** For how long a response may have waited to be read: the generator's own turns of the event loop. */
  readonly readMs: number
}

export async function callAtPace<Tag>(url: string, paced: Paced<Tag>): Promise<Lateness> {
  const { rate, seconds, connections, addresses = [], next, onFinished } = paced
  const { hostname, port } = new URL(url)
  const idle: Line<Tag>[] = []
  const lateness: number[] = []
  const onEnd = (line: Line<Tag>, status: number) => {
    const { tag, dueAt } = line
    line.tag = undefined
    if (tag !== undefined) onFinished({ tag, status, dueAt, ms: performance.now() - dueAt })
    idle.push(line)
  }
  const lines = await Promise.all(
    Array.from({ length: connections }, async (_, n) => {
      const localAddress = addresses[n % addresses.length]
      const line = new Line<Tag>(
        { port: Number(port), host: hostname, ...(localAddress && { localAddress }) },
        onEnd,
      )
      await line.open()
      return line
    }),
  )
  idle.push(...lines)

  const begin = performance.now()
  const end = begin + seconds * 1000
  const intervalMs = 1000 / rate
  let dueAt = begin
  /** When the last call found every line busy. Those due before are late through the subject. */
  let crowdedAt = Number.NEGATIVE_INFINITY
  const isOver = () => dueAt >= end && idle.length === lines.length
  const turns: number[] = []
  let turnedAt = begin
  while (!isOver() && performance.now() < end + END_MS_MAX) {
    const now = performance.now()
    turns.push(now - turnedAt)
    turnedAt = now
    // Infinite pace: due is whatever finds a line.
    if (intervalMs === 0) dueAt = now
    for (; dueAt <= now && dueAt < end; dueAt += intervalMs) {
      const line = idle.shift()
      if (line === undefined) {
        crowdedAt = now
        break
      }
      line.send(next(), dueAt)
      if (dueAt > crowdedAt) lateness.push(performance.now() - dueAt)
    }
    await new Promise((resolve) => setImmediate(resolve))
    Atomics.wait(CLOCK, 0, 0, NAP_MS)
  }
  for (const line of lines) line.close()
  return { sentMs: quantile(lateness, 0.99), readMs: quantileByTime(turns, 0.99) }
}

/** The duration that a turn has, or falls short of, at this share of all moments: responses arrive mostly in long ones. */
function quantileByTime(turns: readonly number[], share: number): number {
  const sorted = turns.toSorted((a, b) => a - b)
  let rest = share * sorted.reduce((sum, ms) => sum + ms, 0)
  for (const ms of sorted) {
    rest -= ms
    if (rest <= 0) return ms
  }
  return Number.NaN
}

/** What all lines read into, one at a time: the generator shall cost its core as little as can be. */
const BUFFER = Buffer.alloc(64 * 1024)

/** A connection with one call at a time, opened again when it was closed. */
class Line<Tag> {
  readonly #to: { readonly port: number; readonly host: string; readonly localAddress?: string }
  readonly #onEnd: (line: Line<Tag>, status: number) => void
  #socket: Socket | undefined
  #status = 0
  /** Bytes of the response still to come; 0 before its head, which comes in one part. */
  #missing = 0
  #isClosed = false
  /** When the call in progress was due. */
  dueAt = 0
  /** Of the call in progress. */
  tag: Tag | undefined

  constructor(
    to: { readonly port: number; readonly host: string; readonly localAddress?: string },
    onEnd: (line: Line<Tag>, status: number) => void,
  ) {
    this.#to = to
    this.#onEnd = onEnd
  }

  open(): Promise<unknown> {
    const callback = (length: number) => this.#read(length)
    const socket = connect({ ...this.#to, noDelay: true, onread: { buffer: BUFFER, callback } })
    this.#socket = socket
    this.#missing = 0
    socket.on('error', () => {})
    socket.on('close', () => {
      if (this.#socket !== socket) return
      this.#socket = undefined
      if (this.tag !== undefined && !this.#isClosed) this.#onEnd(this, 0)
    })
    return once(socket, 'connect')
  }

  send({ bytes, tag }: Request<Tag>, dueAt: number): void {
    this.dueAt = dueAt
    this.tag = tag
    if (this.#socket === undefined) this.open().catch(() => {})
    this.#socket?.write(bytes)
  }

  /** A call in progress is finished with status 0. */
  close(): void {
    if (this.tag !== undefined) this.#onEnd(this, 0)
    this.#isClosed = true
    this.#socket?.destroy()
  }

  #read(length: number): boolean {
    if (this.#missing === 0) {
      const end = BUFFER.indexOf('\r\n\r\n', 0, 'latin1')
      const head = BUFFER.toString('latin1', 0, end)
      this.#status = Number(head.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length))
      this.#missing = end + 4 + Number(LENGTH.exec(head)?.[1])
    }
    this.#missing -= length
    if (this.#missing === 0) this.#onEnd(this, this.#status)
    return true
  }
}
