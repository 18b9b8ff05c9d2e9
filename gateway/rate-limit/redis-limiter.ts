/**
 * The rate limiter that all gateways share, in Redis. Calls that arrive in the same turn of the event loop are counted
 * together: one script call counts the calls of up to `countersPerScriptCallMax` keys. Each call gets its own exact
 * count.
 *
 * Each Redis server that stores counters (a partition) has a circuit breaker. While it is open, `onOutage` decides
 * about the calls of the partition's keys: with `local`, the calls are counted in this process, starting from the last
 * known counts; with `deny`, they are rejected.
 */
import { temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { type CollapsingLog, createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import type { Logger } from '../../shared/process/log.ts'
import { CircuitBreakers } from './circuit-breaker.ts'
import {
  type Allowance,
  isOverLimit,
  type KeyWindow,
  type RateLimiter,
  type RateLimiterCounts,
  type RateLimiterState,
  WINDOW_MS,
} from './limiter.ts'
import { allowanceIn, consumeIn } from './local-limiter.ts'
import type { RedisAddress } from './redis-address.ts'
import { hasCountedNothing } from './redis-errors.ts'
import { connectRedis, type RedisStore, type RedisTls } from './redis-store.ts'
import { createSteadyClock } from './steady-clock.ts'
import { createLocalWindows, type LocalWindows, type Window } from './windows.ts'

export interface RedisRateLimiterOptions {
  readonly address: RedisAddress
  readonly tls: RedisTls
  readonly onOutage: 'local' | 'deny'
  readonly log: Logger
  /** Records the duration of each script call that succeeded. */
  readonly durations?: { observe(seconds: number): void }
}

/** The calls of one key, with the same limit, in one turn of the event loop. */
interface Batch {
  readonly keyId: string
  readonly counterName: string
  readonly partition: string
  readonly limit: number
  readonly resolvers: ((allowance: Allowance | Promise<Allowance>) => void)[]
}

export class RedisRateLimiter implements RateLimiter {
  readonly #store: RedisStore
  readonly #breakers: CircuitBreakers
  readonly #onOutage: 'local' | 'deny'
  readonly #windows: LocalWindows
  readonly #durations: RedisRateLimiterOptions['durations']
  readonly #collapsingLog: CollapsingLog
  #callsCountedLocally = 0
  #countersReplaced = 0
  readonly #clock = createSteadyClock()
  /** The time of the store's clock minus the time of `#clock`. */
  #clockOffsetMs = 0
  /** The batches of the current turn of the event loop, by key. */
  #batches = new Map<string, Batch>()

  constructor({ address, tls, onOutage, log, durations }: RedisRateLimiterOptions) {
    this.#durations = durations
    this.#store = connectRedis({ address, tls })
    this.#breakers = new CircuitBreakers(this.#store, onOutage, log)
    this.#collapsingLog = createCollapsingLog(log)
    this.#onOutage = onOutage
    this.#windows = createLocalWindows(() => this.#storeNow())
  }

  consume(keyId: string, limit: number): Promise<Allowance> {
    const counterName = counterNameOf(keyId)
    const partition = this.#store.partitionOf(counterName)
    if (this.#breakers.isOpen(partition)) {
      return this.#consumeWithoutStore(keyId, limit, 'unreported')
    }
    return new Promise((resolve) => {
      const batch = this.#batches.get(keyId)
      if (batch?.limit === limit) return batch.resolvers.push(resolve)
      // If the limit has changed within one turn, calls with the new limit need another script call.
      if (batch !== undefined) this.#flush()
      if (this.#batches.size === 0) setImmediate(() => this.#flush())
      this.#batches.set(keyId, { keyId, counterName, partition, limit, resolvers: [resolve] })
    })
  }

  peek(keyId: string, limit: number): Allowance {
    const degraded = this.#breakers.isOpen(this.#store.partitionOf(counterNameOf(keyId)))
    return allowanceIn(this.#windows.find(keyId), limit, this.#storeNow(), { degraded })
  }

  takeChanged(max: number): readonly KeyWindow[] {
    return this.#windows.takeChanged(max)
  }

  state(): RateLimiterState {
    return this.#breakers.state()
  }

  outage(): string | undefined {
    return this.#breakers.reason()
  }

  get counts(): RateLimiterCounts {
    return {
      outages: this.#breakers.outages,
      callsCountedLocally: this.#callsCountedLocally,
      countersReplaced: this.#countersReplaced,
    }
  }

  async close(): Promise<void> {
    this.#breakers.close()
    this.#windows.close()
    this.#store.close()
  }

  #storeNow(): number {
    return this.#clock.now() + this.#clockOffsetMs
  }

  /**
   * Counts a call in this process, or rejects it (`deny`). An `unreported` call is added to the counter in Redis with
   * the next call of the key. A `lost` call is not, because Redis may have counted it.
   */
  async #consumeWithoutStore(
    keyId: string,
    limit: number,
    outcome: 'unreported' | 'lost',
  ): Promise<Allowance> {
    if (this.#onOutage === 'deny') {
      throw temporarilyUnavailable(
        'The rate limit cannot be checked at present. Try again in a second.',
      )
    }
    const window = this.#windows.open(keyId, limit)
    const allowance = consumeIn(window, this.#storeNow(), { degraded: true })
    if (isOverLimit(allowance)) return allowance
    this.#callsCountedLocally++
    if (outcome === 'unreported') window.unreported++
    return allowance
  }

  #flush(): void {
    const byPartition = Map.groupBy(this.#batches.values(), ({ partition }) => partition)
    this.#batches = new Map()
    const { countersPerScriptCallMax: max } = this.#store
    for (const [partition, batches] of byPartition) {
      for (let index = 0; index < batches.length; index += max) {
        void this.#consumeBatches(partition, batches.slice(index, index + max))
      }
    }
  }

  /** Never rejects: every call of the batches is settled, even after an error. */
  async #consumeBatches(partition: string, batches: readonly Batch[]): Promise<void> {
    const windows = batches.map(({ keyId }) => this.#windows.find(keyId))
    // `scriptValues` resets `unreported` of the windows. If the script counts nothing, these numbers are added again.
    const reported = windows.map((window) => window?.unreported ?? 0)
    try {
      const names = batches.map(({ counterName }) => counterName)
      const values = scriptValues(batches, windows)
      const from = performance.now()
      this.#applyReply(batches, await this.#breakers.send(partition, names, values))
      this.#durations?.observe((performance.now() - from) / 1000)
    } catch (error) {
      // A probe uses a counter with this hash tag, so that it reaches the same partition.
      const hashTag = batches[0]?.keyId ?? ''
      this.#breakers.open(partition, hashTag, error)
      const outcome = hasCountedNothing(error) ? 'unreported' : 'lost'
      batches.forEach(({ keyId, limit, resolvers }, index) => {
        const window = windows[index]
        if (outcome === 'unreported' && window !== undefined)
          window.unreported += reported[index] ?? 0
        for (const resolve of resolvers) resolve(this.#consumeWithoutStore(keyId, limit, outcome))
      })
    }
  }

  #applyReply(batches: readonly Batch[], reply: unknown): void {
    const numbers = parseReply(reply, batches.length)
    const [now = 0] = numbers
    for (const position of numbers.slice(1 + 2 * batches.length))
      this.#recordReplaced(batches[position - 1])
    this.#clockOffsetMs = now - this.#clock.now()
    batches.forEach(({ keyId, limit, resolvers }, index) => {
      const before = numbers[1 + 2 * index] ?? 0
      const windowEndsAt = numbers[2 + 2 * index] ?? 0
      const admitted = Math.min(resolvers.length, Math.max(0, limit - before))
      this.#windows.set(keyId, before + admitted, limit, windowEndsAt)
      const windowEndsInMs = windowEndsAt - now
      resolvers.forEach((resolve, callIndex) => {
        const used = before + callIndex + 1
        resolve({ limit, used, windowEndsAt, windowEndsInMs, degraded: false })
      })
    })
  }

  #recordReplaced(batch: Batch | undefined): void {
    this.#countersReplaced++
    this.#collapsingLog.error(
      'unusable counter',
      { keyId: batch?.keyId, counter: batch?.counterName },
      'the counter of a key in Redis was unusable and was replaced by the last count that this gateway knows: find out which other program writes to the database of REDIS_URL',
    )
  }
}

function counterNameOf(keyId: string): string {
  return `rate-limit:{${keyId}}`
}

/** Returns the script's arguments. Marks the unreported calls of the windows as reported. */
function scriptValues(
  batches: readonly Batch[],
  windows: readonly (Window | undefined)[],
): (string | number)[] {
  const values: (string | number)[] = [WINDOW_MS]
  batches.forEach(({ limit, resolvers }, index) => {
    const window = windows[index]
    const { used = 0, endsAt = 0, unreported = 0 } = window ?? {}
    values.push(`${limit} ${resolvers.length} ${used} ${endsAt} ${unreported}`)
    // If the reply is lost, the unreported calls are not sent again. If Redis has not counted them, a later script call
    // corrects the counter: `used` includes them, and the script raises a lower count of the same window to `used`.
    if (window !== undefined) window.unreported = 0
  })
  return values
}

/** Checks the reply to a script call with `counters` counters; consume.lua describes the reply. */
function parseReply(reply: unknown, counters: number): number[] {
  if (!Array.isArray(reply) || reply.length <= 2 * counters || !reply.every(Number.isSafeInteger)) {
    throw new Error('the reply of Redis to consume.lua is malformed')
  }
  return reply
}
