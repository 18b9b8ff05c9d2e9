/**
 * Admits calls to the backends before the rate limit counts them, so that calls that are shed (rejected with 503) do
 * not count. If no connection is free, a call waits in a queue in which accounts take turns, and the keys of each
 * account take turns: an account with few calls is admitted while the flood of another account is shed, even if the
 * flood uses many keys. A call is shed on arrival if it would wait too long, and later if it has waited too long.
 */
import { type Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { NestedFairQueue } from '../../shared/process/nested-fair-queue.ts'
import type { Abort } from '../call/abort.ts'

/**
 * A queue that has existed for longer than this is a sign of overload, not of a burst. (This is the interval of CoDel,
 * RFC 8289.)
 */
const BURST_MS = 100
/**
 * The maximum number of calls ahead of a queued call in a burst, or while admitted calls wait for Redis. It bounds the
 * memory of the queue.
 */
const BURST_MAX = 1_000
/**
 * A burst of few calls may last longer, and its calls may wait longer, because the backends may be slow, or their speed
 * may not be known yet.
 */
const SMALL_BURST_MS = 500
const SMALL_BURST_CALLS = 64
const SMALL_BURST_WAIT_MS = 1_000
/**
 * Under overload, a call is queued only if the number of calls ahead of it is below `WAITING_MIN`, or below this share
 * of the number of connections. With a quarter, it waits for about a quarter of the time that a response takes.
 */
const WAITING_PER_CONNECTION = 1 / 4
const WAITING_MIN = 16
/**
 * A call with fewer calls ahead of it than this, and fewer than there are connections, is never shed on arrival: it
 * waits for about one response. Without this, calls would be shed after a pause of the machine, since the measured rate
 * is then too low.
 */
const NEVER_SHED_MAX = 16
/**
 * When a queue begins, an earlier overload is over if no call was shed on arrival for this long. A queue that begins
 * sooner continues the overload: the previous queue became empty only because calls were shed.
 */
const CALM_MS = 500
/** A call that has waited for longer than this is shed: the backends have become slower than measured. */
const WAIT_MS_MAX = 5_000
/**
 * A connection is reserved for an admitted call for this long. A call that waits longer for Redis loses its reservation
 * to other calls, so that a slow Redis does not look like slow backends. At this interval, queued calls are also
 * admitted if reservations have expired, and shed if they have waited too long.
 */
const RESERVED_MS = 50
/** The assumed number of calls per millisecond that are admitted from the queue, until it is measured. */
const RATE_AT_START = 1
/** The minimum time over which the rate is measured. */
const MEASURED_MS = 100
/**
 * Measurements below the current rate have this weight, because they may be due to a short pause. A higher measurement
 * replaces the rate.
 */
const LOWER_RATE_WEIGHT = 0.3

/** Shared by all shed calls: creating a problem, with its stack, would take a fifth of the time for shedding a call. */
const SHED = temporarilyUnavailable(
  'Too many requests at once. Nothing was done or counted. Try again in a second.',
)

export interface AdmissionOptions {
  /** A call that is expected to wait longer than this is shed, unless few calls are ahead of it. */
  readonly waitMs: number
  /** See `Backends.connections`. */
  readonly connections: () => { readonly size: number; readonly free: number }
}

/** The key of a call, and the account of this key. */
export interface Caller {
  readonly accountId: string
  readonly keyId: string
}

interface WaitingCall {
  readonly since: number
  isWaiting: boolean
  admit(): void
  reject(reason: Error): void
}

export class Admission {
  readonly #waitMs: number
  readonly #connections: AdmissionOptions['connections']
  /** The groups are the accounts, and their flows are the keys. */
  readonly #queue = new NestedFairQueue<WaitingCall>()
  /**
   * The times of admission of the calls that are not released yet, oldest first. `release` removes the oldest time,
   * whichever call is released: calls are released in about the order in which they were admitted.
   */
  readonly #admittedAt: number[] = []
  /** The time from which the age of the queue is measured, see `BURST_MS`. */
  #queueBeganAt = Number.NEGATIVE_INFINITY
  /**
   * Whether a call was shed on arrival, except because of `BURST_MAX`, and the overload has not ended since (see
   * `CALM_MS`).
   */
  #isOverload = false
  /** When a call was last shed on arrival, except because of `BURST_MAX`. */
  #shedAt = Number.NEGATIVE_INFINITY
  #rate = RATE_AT_START
  /** The number of calls that were admitted from the queue since `#measuredFrom`. */
  #served = 0
  #measuredFrom = 0
  #checkTimer: NodeJS.Timeout | undefined
  /** Since the start, for metrics. */
  shedCalls = 0

  constructor({ waitMs, connections }: AdmissionOptions) {
    this.#waitMs = waitMs
    this.#connections = connections
  }

  get waitingCalls(): number {
    return this.#queue.length
  }

  /**
   * Admits, queues or sheds a call. Returns undefined if the call may be sent immediately; `Problem` 503 if
   * the call is shed immediately; otherwise a promise that resolves when the call may be sent, and rejects if the call
   * is shed or aborted. `release` must be called for each admitted call.
   */
  admit(caller: Caller, abort: Abort): Promise<void> | Problem | undefined {
    const now = performance.now()
    if (this.#queue.length === 0 && this.#hasRoom(now)) {
      this.#admittedAt.push(now)
      return undefined
    }
    if (this.#queue.length === 0) this.#beginQueue(now)
    // While admitted calls wait for Redis, the age of the queue and the rate say nothing about the backends, so both
    // are measured from the end of this wait.
    if (this.#unreserved(now) > 0) this.#restartMeasurement(now)
    else this.#measureRate(now)
    if (!this.#mayWait(caller, now)) {
      this.shedCalls++
      return SHED
    }
    return this.#wait(caller, abort, now)
  }

  /** Must be called when an admitted call has been sent, or will not be sent. */
  release(): void {
    this.#admittedAt.shift()
    this.serve()
  }

  /** Admits the queued calls for which connections have become free. */
  serve(): void {
    if (this.#queue.length > 0) this.#serveQueue(performance.now())
    if (this.#queue.length === 0 && this.#checkTimer !== undefined) this.#endQueue()
  }

  #serveQueue(now: number): void {
    while (this.#queue.length > 0 && this.#hasRoom(now)) {
      const call = this.#queue.shift()
      if (call?.isWaiting !== true) continue
      this.#served++
      this.#admittedAt.push(now)
      call.admit()
    }
  }

  #hasRoom(now: number): boolean {
    const { free } = this.#connections()
    const admitted = this.#admittedAt.length
    // The first comparison implies the second, and only saves the search in `#unreserved` for most calls.
    return free > admitted || free > admitted - this.#unreserved(now)
  }

  /** Returns the number of admitted calls that have lost their reservation. */
  #unreserved(now: number): number {
    const reserved = this.#admittedAt.findIndex((at) => at > now - RESERVED_MS)
    return reserved < 0 ? this.#admittedAt.length : reserved
  }

  /**
   * Whether a call that has arrived may be queued. If not, also records the overload, unless `BURST_MAX` is the only
   * reason.
   */
  #mayWait({ accountId, keyId }: Caller, now: number): boolean {
    const ahead = this.#queue.countAhead(accountId, keyId)
    const { size } = this.#connections()
    if (ahead === 0 || ahead < Math.min(NEVER_SHED_MAX, size)) return true
    const admittedCallsWaitForRedis = this.#unreserved(now) > 0
    const age = now - this.#queueBeganAt
    if (!this.#isOverload) {
      if (admittedCallsWaitForRedis) return ahead < BURST_MAX
      const isSmallBurst = age < SMALL_BURST_MS && ahead < SMALL_BURST_CALLS
      if (isSmallBurst && ahead < this.#rate * SMALL_BURST_WAIT_MS) return true
    }
    const wouldWaitTooLong = !admittedCallsWaitForRedis && ahead >= this.#rate * this.#waitMs
    if (!wouldWaitTooLong) {
      if (!this.#isOverload && age < BURST_MS) return ahead < BURST_MAX
      if (ahead < Math.max(WAITING_MIN, WAITING_PER_CONNECTION * size)) return true
    }
    this.#isOverload = true
    this.#shedAt = now
    return false
  }

  #wait({ accountId, keyId }: Caller, abort: Abort, since: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const call: WaitingCall = {
        since,
        isWaiting: true,
        admit() {
          call.isWaiting = false
          abort.stopListening()
          resolve()
        },
        reject(reason) {
          call.isWaiting = false
          abort.stopListening()
          reject(reason)
        },
      }
      if (abort.reason !== undefined) return reject(abort.reason)
      abort.listen({ abort: call.reject })
      this.#queue.push(accountId, keyId, call)
    })
  }

  #beginQueue(now: number): void {
    if (now - this.#shedAt > CALM_MS) {
      this.#queueBeganAt = now
      this.#isOverload = false
    }
    this.#measuredFrom = now
    this.#served = 0
    this.#checkTimer ??= setInterval(() => this.#checkWaitingTimes(), RESERVED_MS).unref()
  }

  #endQueue(): void {
    clearInterval(this.#checkTimer)
    this.#checkTimer = undefined
  }

  #checkWaitingTimes(): void {
    const now = performance.now()
    this.#queue.retain((call) => {
      if (call.isWaiting && now - call.since > WAIT_MS_MAX) {
        this.shedCalls++
        call.reject(SHED)
      }
      return call.isWaiting
    })
    this.serve()
  }

  #restartMeasurement(now: number): void {
    this.#queueBeganAt = now
    this.#measuredFrom = now
    this.#served = 0
  }

  #measureRate(now: number): void {
    const ms = now - this.#measuredFrom
    if (ms < MEASURED_MS) return
    const measured = this.#served / ms
    this.#rate += (measured > this.#rate ? 1 : LOWER_RATE_WEIGHT) * (measured - this.#rate)
    this.#measuredFrom = now
    this.#served = 0
  }
}
