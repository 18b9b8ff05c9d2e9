/**
 * Admits calls to the backends before they are counted. If no connection is free, a call waits in a line in
 * which keys take turns: a key with few calls is admitted while the flood of another key is shed. A call
 * that would wait too long is shed immediately, and one that has waited too long is shed then. Calls that
 * are shed are not counted.
 */
import { Problem } from '../../shared/contract/problem.ts'
import type { Abort } from '../call/abort.ts'
import { FairQueue } from './fair-queue.ts'

/**
 * A line that is older than this is not a burst but overload: a long line then makes every call wait,
 * without more calls being served. (This is the interval of CoDel, RFC 8289.)
 */
const BURST_MS = 100
/** The maximum number of calls ahead of an admitted call in a burst, which bounds the memory of the line. */
const BURST_MAX = 1_000
/** A burst of few calls may last this long, because backends may be slow, or their speed not yet known. */
const FEW_MS = 500
const FEW_CALLS = 64
const FEW_WAIT_MS = 1_000
/**
 * The number of calls per connection that may wait under overload. They wait for a quarter of the time that
 * a response takes.
 */
const WAITING_PER_CONNECTION = 1 / 4
const WAITING_MIN = 16
/**
 * A line with fewer calls, and fewer than there are connections, is never shed: each waits for about one response. After
 * a pause of the machine, the measured rate is too low to judge by.
 */
const WAITING_ALWAYS = 16
/** A line that begins sooner than this after the previous one ended continues it. */
const CALM_MS = 500
/** A call that has waited for this long is shed: the backends have become slower than measured. */
const WAIT_MS_MAX = 5_000
/**
 * A connection is reserved for an admitted call for this long. A call that waits longer for Redis loses its
 * reservation to others: a slow Redis then does not look like slow backends. Reservations are also checked
 * at this interval.
 */
const RESERVED_MS = 50
/** The assumed number of calls that leave the line per millisecond, until it is measured. */
const RATE_AT_START = 1
/** The rate is measured over at least this long. */
const MEASURED_MS = 100
/**
 * The weight of a measurement that is lower than the current rate. A higher measurement replaces the rate.
 */
const LOWER_SHARE = 0.3

/**
 * All calls share one problem: creating it, with its stack, would take a fifth of the time for shedding a
 * call.
 */
const SHED = new Problem(
  'service_unavailable',
  'Too many requests at once. Nothing was done or counted. Try again in a second.',
  { headers: { 'retry-after': '1' } },
)

export interface AdmissionOptions {
  /** The longest time that a call is expected to wait. */
  readonly waitMs: number
  /** The connections for calls to the backends in use, and those of them that can take a call immediately. */
  readonly connections: () => { readonly size: number; readonly free: number }
}

interface WaitingCall {
  readonly since: number
  readonly abort: Abort
  isWaiting: boolean
  admit(): void
  refuse(reason: Error): void
}

export class Admission {
  readonly #waitMs: number
  readonly #connections: AdmissionOptions['connections']
  readonly #line = new FairQueue<WaitingCall>()
  /** The times at which the unsent admitted calls were admitted. They are released in about this order. */
  readonly #admittedAt: number[] = []
  /** The times at which the line began and ended. */
  #lineBeganAt = Number.NEGATIVE_INFINITY
  #lineEndedAt = Number.NEGATIVE_INFINITY
  /** Whether a call was shed because the line was too long. Ends with the line. */
  #isOverload = false
  #rate = RATE_AT_START
  /** The number of calls that have left the line since `#measuredFrom`. */
  #left = 0
  #measuredFrom = 0
  #checking: NodeJS.Timeout | undefined
  /** The number of calls that were shed since the start, for metrics. */
  shed = 0

  constructor({ waitMs, connections }: AdmissionOptions) {
    this.#waitMs = waitMs
    this.#connections = connections
  }

  get waiting(): number {
    return this.#line.length
  }

  /**
   * Admits a call of the key. Returns undefined if the call may be sent immediately; otherwise a promise
   * that resolves when it may, and rejects if it is shed or aborted. Throws `Problem` 503 if it is shed
   * immediately. An admitted call must be released.
   */
  admit(keyId: string, abort: Abort): Promise<void> | undefined {
    const now = performance.now()
    if (this.#line.length === 0 && this.#hasRoom(now)) {
      this.#admittedAt.push(now)
      return undefined
    }
    if (this.#line.length === 0) this.#beginLine(now)
    // Calls that wait for Redis tell nothing about the backends: line and rate are measured again from the
    // end of this wait.
    if (this.#unreserved(now) > 0) this.#measureFrom(now)
    else this.#measureRate(now)
    if (!this.#mayWait(keyId, now)) {
      this.shed++
      throw SHED
    }
    return this.#wait(keyId, abort, now)
  }

  /** Must be called when the admitted call uses its connection, or does not need it. */
  release(): void {
    this.#admittedAt.shift()
    this.serve()
  }

  /** Admits the calls for which connections have become free. */
  serve(): void {
    if (this.#line.length > 0) this.#serveLine(performance.now())
    if (this.#line.length === 0 && this.#checking !== undefined) this.#endLine()
  }

  #serveLine(now: number): void {
    while (this.#line.length > 0 && this.#hasRoom(now)) {
      const call = this.#line.shift()
      if (call?.isWaiting !== true) continue
      this.#left++
      this.#admittedAt.push(now)
      call.admit()
    }
  }

  #hasRoom(now: number): boolean {
    const { free } = this.#connections()
    const admitted = this.#admittedAt.length
    return free > admitted || free > admitted - this.#unreserved(now)
  }

  /** Returns the number of admitted calls for which no connection is reserved any more. */
  #unreserved(now: number): number {
    const reserved = this.#admittedAt.findIndex((at) => at > now - RESERVED_MS)
    return reserved < 0 ? this.#admittedAt.length : reserved
  }

  #mayWait(keyId: string, now: number): boolean {
    // Every waiting key is served once before this key is served again.
    const turns = (this.#line.lengthOf(keyId) + 1) * this.#line.flows
    const ahead = Math.min(this.#line.length, turns)
    const { size } = this.#connections()
    if (ahead === 0 || ahead < Math.min(WAITING_ALWAYS, size)) return true
    const waitsForRedis = this.#unreserved(now) > 0
    const age = now - this.#lineBeganAt
    if (!this.#isOverload) {
      if (waitsForRedis) return ahead < BURST_MAX
      const isFew = age < FEW_MS && ahead < FEW_CALLS
      if (isFew && ahead < this.#rate * FEW_WAIT_MS) return true
    }
    const wouldWaitTooLong = !waitsForRedis && ahead >= this.#rate * this.#waitMs
    if (!wouldWaitTooLong) {
      if (!this.#isOverload && age < BURST_MS) return ahead < BURST_MAX
      if (ahead < Math.max(WAITING_MIN, WAITING_PER_CONNECTION * size)) return true
    }
    this.#isOverload = true
    return false
  }

  #wait(keyId: string, abort: Abort, since: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const call: WaitingCall = {
        since,
        abort,
        isWaiting: true,
        admit() {
          call.isWaiting = false
          abort.listen(undefined)
          resolve()
        },
        refuse(reason) {
          call.isWaiting = false
          abort.listen(undefined)
          reject(reason)
        },
      }
      if (abort.reason !== undefined) return reject(abort.reason)
      abort.listen({ abort: call.refuse })
      this.#line.push(keyId, call)
    })
  }

  #beginLine(now: number): void {
    if (now - this.#lineEndedAt > CALM_MS) {
      this.#lineBeganAt = now
      this.#isOverload = false
    }
    this.#measuredFrom = now
    this.#left = 0
    this.#checking ??= setInterval(() => this.#checkTime(), RESERVED_MS).unref()
  }

  #endLine(): void {
    clearInterval(this.#checking)
    this.#checking = undefined
    this.#lineEndedAt = performance.now()
  }

  #checkTime(): void {
    const now = performance.now()
    this.#line.filter((call) => {
      if (call.isWaiting && now - call.since > WAIT_MS_MAX) {
        this.shed++
        call.refuse(SHED)
      }
      return call.isWaiting
    })
    this.serve()
  }

  #measureFrom(now: number): void {
    this.#lineBeganAt = now
    this.#measuredFrom = now
    this.#left = 0
  }

  #measureRate(now: number): void {
    const ms = now - this.#measuredFrom
    if (ms < MEASURED_MS) return
    const measured = this.#left / ms
    this.#rate += (measured > this.#rate ? 1 : LOWER_SHARE) * (measured - this.#rate)
    this.#measuredFrom = now
    this.#left = 0
  }
}
