/** Measures the latency of calls at a fixed rate, however slow the responses are. */
import { callAtPace } from '../paced.ts'
import { quantile } from '../report.ts'

const CONNECTIONS = 128

export interface OpenLoop {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly p999Ms: number
  /** The p99 of each second, so that a second in which the machine stalled does not affect the others. */
  readonly p99OfSecondsMs: readonly number[]
  /** The p99 of the delay with which the load generator itself sent calls. The other figures include this delay. */
  readonly lateP99Ms: number
  readonly calls: number
  /** The number of calls that were rejected or had no response, without the calls of the warm-up. */
  readonly failed: number
}

export interface Pace {
  readonly rate: number
  /** The duration, a whole number. */
  readonly seconds: number
  /** The duration of the warm-up at the same rate, which is not measured. */
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
  let index = Math.floor(Math.random() * requests.length)
  const { sentMs: lateP99Ms } = await callAtPace(url, {
    rate,
    seconds: warmUpSeconds + seconds,
    connections: CONNECTIONS,
    next() {
      countFrom ??= performance.now() + warmUpSeconds * 1000
      index = (index + 1) % requests.length
      return { bytes: requests[index] ?? Buffer.alloc(0), tag: true }
    },
    onFinished({ status, dueAt, ms }) {
      const ofSecond = ofSeconds[Math.floor((dueAt - (countFrom ?? 0)) / 1000)]
      if (ofSecond === undefined) return
      if (status !== 200) failed++
      ofSecond.push(ms)
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
