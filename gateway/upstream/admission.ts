/**
 * Sheds calls that could not be sent to a backend in time, before they are counted. Each key is a flow;
 * flows are served in turn, so that a key with few calls is admitted while the flood of another is shed.
 */
import { Problem } from '../../shared/contract/problem.ts'

/** So few waiting calls are never shed: backends of which nothing is known yet, or slow ones. */
const WAITING_MIN = 64
/** Calls ahead of an admitted one at most, which bounds the memory of the queue. */
const WAITING_MAX = 1_000
/** Calls that get a connection in a millisecond, until that is measured. */
const RATE_AT_START = 1
/** The rate is measured over at least this long. */
const MEASURED_MS = 100
/** The weight of a measurement that is below the rate; above it the rate follows at once. */
const LOWER_SHARE = 0.3
/** Flows without waiting calls are deleted when there are so many flows. */
const FLOWS_KEPT = 10_000

/** The calls of one key that wait: for the rate limiter, or for a connection to a backend. */
export class Flow {
  readonly #admission: Admission
  #waiting = 0

  constructor(admission: Admission) {
    this.#admission = admission
  }

  get waiting(): number {
    return this.#waiting
  }

  enter(): void {
    this.#admission.noteWaiting(1, this.#waiting++ === 0 ? 1 : 0)
  }

  leave(): void {
    this.#admission.noteWaiting(-1, --this.#waiting === 0 ? -1 : 0)
  }

  /** Leaves since a connection was found. */
  start(): void {
    this.leave()
    this.#admission.noteStart()
  }
}

export interface AdmissionOptions {
  /** The longest time that a call is expected to wait for a connection. */
  readonly waitMs: number
  /** Connections that carry no call at present. */
  free(): number
}

export class Admission {
  readonly #waitMs: number
  readonly #free: () => number
  readonly #flows = new Map<string, Flow>()
  #waiting = 0
  #waitingFlows = 0
  #rate = RATE_AT_START
  /** Calls that got a connection since `#measuredFrom`; undefined while no call is delayed. */
  #started = 0
  #measuredFrom: number | undefined
  /** Since the start, for operators. */
  shed = 0

  constructor({ waitMs, free }: AdmissionOptions) {
    this.#waitMs = waitMs
    this.#free = free
  }

  get waiting(): number {
    return this.#waiting
  }

  /** Returns the flow of the key, which the call has entered. Throws `Problem` 503 to shed the call. */
  admit(keyId: string): Flow {
    const flow = this.#flows.get(keyId) ?? this.#add(keyId)
    if (this.#waiting < WAITING_MIN) this.#measuredFrom = undefined
    else if (!this.#isInTime(flow)) {
      this.shed++
      throw shedCall()
    }
    flow.enter()
    return flow
  }

  noteWaiting(calls: number, flows: number): void {
    this.#waiting += calls
    this.#waitingFlows += flows
  }

  noteStart(): void {
    this.#started++
  }

  #isInTime(flow: Flow): boolean {
    this.#measureRate(performance.now())
    // Every flow that waits is served once before this one is served again.
    const turns = (flow.waiting + 1) * this.#waitingFlows
    const ahead = Math.min(this.#waiting, turns) - this.#free()
    if (ahead < WAITING_MIN) return true
    return ahead < WAITING_MAX && ahead < this.#rate * this.#waitMs
  }

  #measureRate(now: number): void {
    this.#measuredFrom ??= this.#beginMeasuring(now)
    const ms = now - this.#measuredFrom
    if (ms < MEASURED_MS) return
    const measured = this.#started / ms
    this.#rate += (measured > this.#rate ? 1 : LOWER_SHARE) * (measured - this.#rate)
    this.#measuredFrom = this.#beginMeasuring(now)
  }

  #beginMeasuring(now: number): number {
    this.#started = 0
    return now
  }

  #add(keyId: string): Flow {
    if (this.#flows.size >= FLOWS_KEPT) {
      for (const [other, { waiting }] of this.#flows) if (waiting === 0) this.#flows.delete(other)
    }
    const flow = new Flow(this)
    this.#flows.set(keyId, flow)
    return flow
  }
}

function shedCall(): Problem {
  return new Problem(
    'service_unavailable',
    'Too many requests at once. Nothing was done or counted. Try again in a second.',
    { headers: { 'retry-after': '1' } },
  )
}
