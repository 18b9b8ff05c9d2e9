/**
 * The breakers before Redis, one for each part of it. The first missed answer of a part opens its own,
 * so that calls do not wait one by one; a rehearsal of a spend, which needs all that a spend needs,
 * closes it.
 */
import type { Logger } from '../../shared/process/log.ts'
import type { AccountingState } from './limiter.ts'
import { reasonOf } from './reasons.ts'
import { isRefusal, type RedisStore } from './store.ts'

const PROBE_INTERVAL_MS = 250
const PROBE_EXPIRES_MS = 1_000
const NOT_YET = 'no connection yet'
/** While connections are being made for the first time, a probe that fails tells nothing. */
const PROBES_SILENT = 4

interface Outage {
  /** The count that is tried: one of the part. */
  readonly name: string
  reason: string
  /** Reasons that were logged, each once. */
  readonly told: Set<string>
}

export class RedisOutages {
  readonly #store: RedisStore
  readonly #log: Logger
  readonly #onOutage: 'local' | 'deny'
  readonly #open = new Map<string, Outage>()
  /** Script calls without an answer, by part. */
  readonly #waiting = new Map<string, Waiting>()
  readonly #probing: NodeJS.Timeout
  #probesFailed = 0
  /** How many there were, for operators. */
  count = 0
  /** Until Redis was seen for the first time. */
  #start: Outage | undefined = { name: probeName(''), reason: NOT_YET, told: new Set() }

  constructor(store: RedisStore, onOutage: 'local' | 'deny', log: Logger) {
    this.#store = store
    this.#onOutage = onOutage
    this.#log = log
    this.#probing = setInterval(() => this.#probeAll(), PROBE_INTERVAL_MS)
    store.onFault((error, part) => {
      this.#note(part, error)
      if (part !== undefined) this.begin(part, '', error)
    })
    store.onReady(() => this.#probeAll())
  }

  /** Whether the part cannot be asked at present. */
  isAway(part: string): boolean {
    return this.#start !== undefined || this.#open.has(part)
  }

  /** Settles as `result` does, or rejects with the error that opens the breaker of the part before. */
  unlessAway<T>(part: string, result: Promise<T>): Promise<T> {
    const waiting = this.#waiting.get(part) ?? new Waiting()
    this.#waiting.set(part, waiting)
    return new Promise((resolve, reject) => {
      const place = waiting.add(reject)
      result.then(
        (value) => {
          waiting.delete(place)
          resolve(value)
        },
        (error) => {
          waiting.delete(place)
          reject(error)
        },
      )
    })
  }

  /** `tag`: of a count of the part. */
  begin(part: string, tag: string, error: unknown): void {
    if (this.isAway(part)) return
    const reason = reasonOf(error)
    this.count++
    this.#open.set(part, { name: probeName(tag), reason, told: new Set([reason]) })
    this.#log.error({ part, reason, onOutage: this.#onOutage }, 'redis is away: limit not shared')
    this.#waiting.get(part)?.rejectAll(error)
    this.#store.renew(part, error)
  }

  state(): AccountingState {
    if (this.#start !== undefined) return 'starting'
    return this.#open.size > 0 ? 'degraded' : 'exact'
  }

  /** Why it is not exact, for operators. */
  reason(): string | undefined {
    if (this.#start !== undefined) return this.#start.reason
    const reasons = new Set(this.#open.values().map(({ reason }) => reason))
    return reasons.size > 0 ? [...reasons].join('; ') : undefined
  }

  close(): void {
    clearInterval(this.#probing)
  }

  #note(part: string | undefined, error: unknown): void {
    const outage = this.#start ?? this.#open.get(part ?? '')
    if (outage === undefined) return
    outage.reason = reasonOf(error)
    if (outage.told.has(outage.reason)) return
    outage.told.add(outage.reason)
    this.#log.error({ part, reason: outage.reason }, 'redis cannot be used')
  }

  #probeAll(): void {
    if (this.#start !== undefined) void this.#probe(this.#start, undefined)
    for (const [part, outage] of this.#open) void this.#probe(outage, part)
  }

  async #probe(outage: Outage, part: string | undefined): Promise<void> {
    const { name } = outage
    try {
      // A spend of one call where none is allowed: it uses every command and counts nothing.
      await this.#store.spend([name], [PROBE_EXPIRES_MS, '0 1 0 0 0'])
      this.#end(part)
    } catch (error) {
      const isNews = outage.reason === NOT_YET && ++this.#probesFailed > PROBES_SILENT
      // Why there is no connection the connection itself tells better.
      if (isRefusal(error) || isNews) this.#note(part, error)
      this.#log.debug({ part, reason: reasonOf(error) }, 'redis is still away')
      if (part !== undefined) this.#store.renew(part, error)
    }
  }

  #end(part: string | undefined): void {
    const isNews = part === undefined ? this.#start !== undefined : this.#open.delete(part)
    if (!isNews) return
    this.#start = undefined
    this.#log.info({ part }, 'redis is there: the rate limit is shared by all gateways')
  }
}

type Reject = (error: unknown) => void

/**
 * In an array of places, and not as listeners of a signal. Those hang together, each on the one before
 * it: once one was old enough for V8's old generation, all that came after it were kept alive, with
 * their calls, until that was collected.
 */
class Waiting {
  readonly #places: (Reject | undefined)[] = []
  readonly #free: number[] = []

  /** Its place. */
  add(reject: Reject): number {
    const place = this.#free.pop() ?? this.#places.length
    this.#places[place] = reject
    return place
  }

  delete(place: number): void {
    this.#places[place] = undefined
    this.#free.push(place)
  }

  /** Each leaves its place when it has settled. */
  rejectAll(error: unknown): void {
    for (const reject of this.#places) reject?.(error)
  }
}

function probeName(tag: string): string {
  return `rate-limit-probe:{${tag}}`
}
