/**
 * Calls at a fixed rate, whatever the answers do, and how long each took from the instant it was
 * meant to begin: a subject that stalls is charged for every call that waited meanwhile, so nothing
 * is omitted in step with it (coordinated omission).
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { quantile } from '../report.ts'

const CONNECTIONS = 128
/** How long to sleep between two looks at clock and sockets: what the figures are blurred by. */
const NAP_MS = 0.05
const LENGTH = /\r\ncontent-length: (\d+)/i
const CLOCK = new Int32Array(new SharedArrayBuffer(4))
/** What is waited for after the last call was due. */
const END_MS_MAX = 5_000

export interface OpenLoop {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  /** The p99 of each second by itself: one in which the machine stalled says nothing of the others. */
  readonly p99OfSecondsMs: readonly number[]
  /** How late the generator itself began a call, at p99: the other figures hold it too. */
  readonly lateP99Ms: number
  readonly calls: number
  /** Refused, or not answered at all. */
  readonly failed: number
}

export interface Pace {
  readonly rate: number
  /** A whole number. */
  readonly seconds: number
  /** Not counted, at the same rate. */
  readonly warmUpSeconds: number
}

export async function runOpenLoop(
  url: string,
  requests: readonly Buffer[],
  pace: Pace,
): Promise<OpenLoop> {
  const begin = performance.now()
  const countFrom = begin + pace.warmUpSeconds * 1000
  const end = countFrom + pace.seconds * 1000
  const ofSeconds: number[][] = Array.from({ length: pace.seconds }, () => [])
  const lateness: number[] = []
  let failed = 0
  const { hostname, port } = new URL(url)
  const idle: Line[] = []
  const lines = await Promise.all(
    Array.from({ length: CONNECTIONS }, () =>
      openLine(Number(port), hostname, (line, status) => {
        if (status !== 200) failed++
        const second = Math.floor((line.dueAt - countFrom) / 1000)
        ofSeconds[second]?.push(performance.now() - line.dueAt)
        idle.push(line)
      }),
    ),
  )
  idle.push(...lines)

  const intervalMs = 1000 / pace.rate
  let dueAt = begin
  /** When the last call found every line busy. Those due before are late through the subject. */
  let crowdedAt = Number.NEGATIVE_INFINITY
  let place = Math.floor(Math.random() * requests.length)
  const isOver = () => dueAt >= end && idle.length === lines.length
  while (!isOver() && performance.now() < end + END_MS_MAX) {
    const now = performance.now()
    for (; dueAt <= now && dueAt < end; dueAt += intervalMs) {
      const line = idle.shift()
      if (line === undefined) {
        crowdedAt = now
        break
      }
      line.dueAt = dueAt
      place = (place + 1) % requests.length
      line.socket.write(requests[place] ?? '')
      if (dueAt > Math.max(countFrom, crowdedAt)) lateness.push(performance.now() - dueAt)
    }
    await new Promise((resolve) => setImmediate(resolve))
    Atomics.wait(CLOCK, 0, 0, NAP_MS)
  }
  failed += lines.length - idle.length
  for (const { socket } of lines) socket.destroy()
  const latencies = ofSeconds.flat()
  return {
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    p999Ms: quantile(latencies, 0.999),
    p99OfSecondsMs: ofSeconds.map((ofSecond) => quantile(ofSecond, 0.99)),
    lateP99Ms: quantile(lateness, 0.99),
    calls: latencies.length,
    failed,
  }
}

/** A connection with one call at a time. */
interface Line {
  readonly socket: Socket
  /** When the call under way was meant to begin. */
  dueAt: number
}

/** What all lines read into, one at a time: the generator shall cost its core as little as can be. */
const BUFFER = Buffer.alloc(64 * 1024)

async function openLine(
  port: number,
  host: string,
  onResponse: (line: Line, status: number) => void,
): Promise<Line> {
  let status = 0
  /** Bytes of the answer still to come; 0 before its head, which comes in one part. */
  let missing = 0
  const callback = (length: number) => {
    if (missing === 0) {
      const end = BUFFER.indexOf('\r\n\r\n', 0, 'latin1')
      const head = BUFFER.toString('latin1', 0, end)
      status = Number(head.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length))
      missing = end + 4 + Number(LENGTH.exec(head)?.[1])
    }
    missing -= length
    if (missing === 0) onResponse(line, status)
    return true
  }
  const socket = connect({ port, host, noDelay: true, onread: { buffer: BUFFER, callback } })
  const line: Line = { socket, dueAt: 0 }
  await once(socket, 'connect')
  return line
}
