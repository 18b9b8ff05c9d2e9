/**
 * Starts calls when they are due, whatever the responses, and measures each from that time. If the subject stalls, the
 * waiting time of every call that was due meanwhile counts, so the figures have no coordinated omission.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { quantile } from './report.ts'

/** The pause between two checks of clock and sockets. It limits the precision of the figures. */
const PAUSE_MS = 0.05
const LENGTH = /\r\ncontent-length: (\d+)/i
const NEVER_NOTIFIED = new Int32Array(new SharedArrayBuffer(4))
/** How long to wait for responses after the last call was due. */
const END_MS_MAX = 5_000

export interface Request<Tag> {
  readonly bytes: Buffer
  /** A value that is passed to `onFinished` with the response. */
  readonly tag: Tag
}

export interface Finished<Tag> {
  readonly tag: Tag
  /** The status; 0 if there was no complete response. */
  readonly status: number
  /** When the call was due, by `performance.now()`. */
  readonly dueAt: number
  readonly ms: number
}

export interface Paced<Tag> {
  /** Calls per second. If it is infinite, each connection makes its next call as soon as the last one has ended. */
  readonly rate: number
  readonly seconds: number
  readonly connections: number
  /** The local addresses of the connections, which are used in turn. The gateway sees each as a client of its own. */
  readonly addresses?: readonly string[]
  next(): Request<Tag>
  onFinished(call: Finished<Tag>): void
}

/** The delay that the load generator itself adds to the figures: the p99 in milliseconds. */
export interface Lateness {
  /** The time from when a call was due until it was sent. */
  readonly sentMs: number
  /** The time that a response may wait to be read: the duration of a turn of the event loop. */
  readonly readMs: number
}

export async function callAtPace<Tag>(url: string, paced: Paced<Tag>): Promise<Lateness> {
  const { rate, seconds, connections, addresses = [], next, onFinished } = paced
  const { hostname, port } = new URL(url)
  const idle: Connection<Tag>[] = []
  const lateness: number[] = []
  const onEnd = (connection: Connection<Tag>, status: number) => {
    const { tag, dueAt } = connection
    connection.tag = undefined
    if (tag !== undefined) onFinished({ tag, status, dueAt, ms: performance.now() - dueAt })
    idle.push(connection)
  }
  const opened = await Promise.all(
    Array.from({ length: connections }, async (_, n) => {
      const localAddress = addresses[n % addresses.length]
      const connection = new Connection<Tag>(
        { port: Number(port), host: hostname, ...(localAddress && { localAddress }) },
        onEnd,
      )
      await connection.open()
      return connection
    }),
  )
  idle.push(...opened)

  const begin = performance.now()
  const end = begin + seconds * 1000
  const intervalMs = 1000 / rate
  let dueAt = begin
  /** When a call last found every connection busy. Calls that were due earlier are late because of the subject. */
  let allBusyAt = Number.NEGATIVE_INFINITY
  const isOver = () => dueAt >= end && idle.length === opened.length
  const turns: number[] = []
  let turnedAt = begin
  while (!isOver() && performance.now() < end + END_MS_MAX) {
    const now = performance.now()
    turns.push(now - turnedAt)
    turnedAt = now
    // At an infinite rate, a call is due whenever a connection is idle.
    if (intervalMs === 0) dueAt = now
    for (; dueAt <= now && dueAt < end; dueAt += intervalMs) {
      const connection = idle.shift()
      if (connection === undefined) {
        allBusyAt = now
        break
      }
      connection.send(next(), dueAt)
      if (dueAt > allBusyAt) lateness.push(performance.now() - dueAt)
    }
    await new Promise((resolve) => setImmediate(resolve))
    Atomics.wait(NEVER_NOTIFIED, 0, 0, PAUSE_MS)
  }
  for (const connection of opened) connection.close()
  return { sentMs: quantile(lateness, 0.99), readMs: quantileByTime(turns, 0.99) }
}

/**
 * Returns the quantile of the durations of turns, each weighted by its duration, because most responses arrive in long
 * turns.
 */
function quantileByTime(turns: readonly number[], share: number): number {
  const sorted = turns.toSorted((a, b) => a - b)
  let rest = share * sorted.reduce((sum, ms) => sum + ms, 0)
  for (const ms of sorted) {
    rest -= ms
    if (rest <= 0) return ms
  }
  return Number.NaN
}

/** The buffer into which all connections read, one at a time. One shared buffer costs the generator the least time. */
const BUFFER = Buffer.alloc(64 * 1024)

/** A connection with one call at a time. If it was closed, the next call opens it again. */
class Connection<Tag> {
  readonly #to: { readonly port: number; readonly host: string; readonly localAddress?: string }
  readonly #onEnd: (connection: Connection<Tag>, status: number) => void
  #socket: Socket | undefined
  #status = 0
  /** The number of bytes of the response that are missing; 0 before its head, which arrives in one piece. */
  #missing = 0
  #isClosed = false
  /** When the call in progress was due. */
  dueAt = 0
  /** The tag of the call in progress. */
  tag: Tag | undefined

  constructor(
    to: { readonly port: number; readonly host: string; readonly localAddress?: string },
    onEnd: (connection: Connection<Tag>, status: number) => void,
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

  /** Closes the connection. A call in progress ends with the status 0. */
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
