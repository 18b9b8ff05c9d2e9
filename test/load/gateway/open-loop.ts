/** Calls at a fixed rate, whatever the responses do. */
import { callAtPace } from '../paced.ts'
import { quantile } from '../report.ts'

const CONNECTIONS = 128

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
  { rate, seconds, warmUpSeconds }: Pace,
): Promise<OpenLoop> {
  const ofSeconds: number[][] = Array.from({ length: seconds }, () => [])
  let failed = 0
  let countFrom: number | undefined
  let place = Math.floor(Math.random() * requests.length)
  const lateP99Ms = await callAtPace(url, {
    rate,
    seconds: warmUpSeconds + seconds,
    connections: CONNECTIONS,
    next() {
      countFrom ??= performance.now() + warmUpSeconds * 1000
      place = (place + 1) % requests.length
      return { bytes: requests[place] ?? Buffer.alloc(0), tag: true }
    },
    onFinished({ status, dueAt, ms }) {
      if (status !== 200) failed++
      ofSeconds[Math.floor((dueAt - (countFrom ?? 0)) / 1000)]?.push(ms)
    },
  })
  const latencies = ofSeconds.flat()
  return {
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    p999Ms: quantile(latencies, 0.999),
    p99OfSecondsMs: ofSeconds.map((ofSecond) => quantile(ofSecond, 0.99)),
    lateP99Ms,
    calls: latencies.length,
    failed,
  }
}
