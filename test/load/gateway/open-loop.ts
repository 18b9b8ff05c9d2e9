/**
 * Calls at a fixed rate, whatever the answers do, and how long each took from the instant it was
 * meant to begin: a subject that stalls is charged for every call that waited meanwhile, so nothing
 * is omitted in step with it (coordinated omission).
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

const CONNECTIONS = 128
/** How long to sleep between two looks at clock and sockets: what the figures are blurred by. */
const NAP_MS = 0.05
const CLOCK = new Int32Array(new SharedArrayBuffer(4))

export interface OpenLoop {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  readonly calls: number
  readonly failed: number
}

export interface Pace {
  readonly rate: number
  readonly seconds: number
  /** Not counted, at the same rate. */
  readonly warmUpSeconds: number
}

interface Line {
  readonly socket: Socket
  /** When the call under way was meant to begin. */
  dueAt: number
  /** Bytes of the answer still missing; undefined before its head. */
  missing: number | undefined
  head: string
}

export async function askOpenLoop(
  url: string,
  requests: readonly Buffer[],
  pace: Pace,
): Promise<OpenLoop> {
  const idle: Line[] = []
  const latencies: number[] = []
  let failed = 0
  let counting = false

  function onData(line: Line, chunk: Buffer): void {
    if (line.missing === undefined) {
      line.head += chunk.toString('latin1')
      const end = line.head.indexOf('\r\n\r\n')
      if (end < 0) return
      if (!line.head.startsWith('HTTP/1.1 200 ')) failed++
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(line.head)?.[1] ?? Number.NaN)
      line.missing = length - (line.head.length - end - 4)
    } else {
      line.missing -= chunk.length
    }
    if (line.missing > 0) return
    if (counting) latencies.push(performance.now() - line.dueAt)
    line.missing = undefined
    line.head = ''
    idle.push(line)
  }

  const { hostname, port } = new URL(url)
  const lines = await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const socket = connect(Number(port), hostname)
      const line: Line = { socket, dueAt: 0, missing: undefined, head: '' }
      socket.setNoDelay(true).on('data', (chunk: Buffer) => onData(line, chunk))
      await once(socket, 'connect')
      return line
    }),
  )
  idle.push(...lines)

  const intervalMs = 1000 / pace.rate
  const begin = performance.now()
  const countFrom = begin + pace.warmUpSeconds * 1000
  const end = countFrom + pace.seconds * 1000
  let dueAt = begin
  let place = Math.floor(Math.random() * requests.length)
  const isOver = () => dueAt >= end && idle.length === lines.length
  while (!isOver() && performance.now() < end + 5_000) {
    const now = performance.now()
    counting ||= now >= countFrom
    for (; dueAt <= now && dueAt < end; dueAt += intervalMs) {
      const line = idle.shift()
      if (line === undefined) break
      line.dueAt = dueAt
      place = (place + 1) % requests.length
      line.socket.write(requests[place] ?? '')
    }
    await new Promise((resolve) => setImmediate(resolve))
    Atomics.wait(CLOCK, 0, 0, NAP_MS)
  }
  for (const { socket } of lines) socket.destroy()
  return summarise(latencies, failed)
}

function summarise(latencies: number[], failed: number): OpenLoop {
  latencies.sort((a, b) => a - b)
  const at = (share: number) =>
    latencies[Math.min(latencies.length - 1, Math.floor(share * latencies.length))] ?? Number.NaN
  return { p50Ms: at(0.5), p99Ms: at(0.99), p999Ms: at(0.999), calls: latencies.length, failed }
}
