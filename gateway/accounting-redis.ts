/**
 * The account shared by all gateways, in Redis. Calls that arrive in the same turn of the event loop
 * are spent by one script call; each still gets its own number, exactly.
 *
 * A call whose answer from Redis is missed counts as spent and is never sent again. The first miss
 * opens the breaker, so that calls do not wait one by one; a probe closes it. In between calls are
 * counted here, on top of the last numbers known (`local`), or refused (`deny`).
 */
import type { Logger } from '../shared/log.ts'
import { Problem } from '../shared/problem.ts'
import {
  type Accounting,
  type AccountingCounts,
  type AccountingState,
  type Allowance,
  isOverLimit,
  type KeyWindow,
  WINDOW_MS,
} from './accounting.ts'
import { spendIn } from './accounting-local.ts'
import { createLocalWindows, type LocalWindows } from './local-windows.ts'
import type { RedisAddress } from './redis-address.ts'
import { RedisOutages } from './redis-outages.ts'
import { connectRedis, isRefusal, type RedisStore, type RedisTls } from './redis-store.ts'

export interface RedisAccountingOptions {
  readonly address: RedisAddress
  readonly tls: RedisTls
  readonly onOutage: 'local' | 'deny'
  readonly log: Logger
  /** Told how long each script call took that Redis answered. */
  readonly durations?: { observe(seconds: number): void }
}

/** The calls of one key that wait for the end of the turn. */
interface Batch {
  readonly keyId: string
  readonly limit: number
  readonly waiting: ((allowance: Allowance | Promise<Allowance>) => void)[]
}

export class RedisAccounting implements Accounting {
  readonly #store: RedisStore
  readonly #outages: RedisOutages
  readonly #onOutage: 'local' | 'deny'
  readonly #windows: LocalWindows
  readonly #durations: RedisAccountingOptions['durations']
  #localAdmissions = 0
  /** What to add to our clock to have the store's. */
  #clockOffsetMs = 0
  #turn = new Map<string, Batch>()

  constructor({ address, tls, onOutage, log, durations }: RedisAccountingOptions) {
    this.#durations = durations
    this.#store = connectRedis({ address, tls })
    this.#outages = new RedisOutages(this.#store, onOutage, log)
    this.#onOutage = onOutage
    this.#windows = createLocalWindows(() => this.#storeNow())
  }

  spend(keyId: string, limit: number): Promise<Allowance> {
    if (this.#outages.isAway(this.#store.partOf(nameOf(keyId)))) {
      return this.#spendWithoutStore(keyId, limit, 'unreported')
    }
    return new Promise((resolve) => {
      const batch = this.#turn.get(keyId)
      if (batch?.limit === limit) return batch.waiting.push(resolve)
      // A limit that changed within one turn is spent by a script call of its own.
      if (batch !== undefined) this.#flush()
      if (this.#turn.size === 0) setImmediate(() => this.#flush())
      this.#turn.set(keyId, { keyId, limit, waiting: [resolve] })
    })
  }

  takeChanged(max: number): readonly KeyWindow[] {
    return this.#windows.takeChanged(max)
  }

  state(): AccountingState {
    return this.#outages.state()
  }

  outage(): string | undefined {
    return this.#outages.reason()
  }

  get counts(): AccountingCounts {
    return { outages: this.#outages.count, localAdmissions: this.#localAdmissions }
  }

  async close(): Promise<void> {
    this.#outages.close()
    this.#windows.close()
    this.#store.close()
  }

  #storeNow(): number {
    return Date.now() + this.#clockOffsetMs
  }

  /** `lost`: Redis may have counted the call, so it is known here but not reported again. */
  async #spendWithoutStore(
    keyId: string,
    limit: number,
    fate: 'unreported' | 'lost',
  ): Promise<Allowance> {
    if (this.#onOutage === 'deny') {
      throw new Problem('service_unavailable', 'The rate limit cannot be checked at present.', {
        headers: { 'retry-after': '1' },
      })
    }
    const window = this.#windows.open(keyId, limit)
    const allowance = spendIn(window, this.#storeNow(), true)
    if (isOverLimit(allowance)) return allowance
    this.#localAdmissions++
    if (fate === 'unreported') window.unreported++
    return allowance
  }

  #flush(): void {
    const byPart = Map.groupBy(this.#turn.values(), ({ keyId }) => {
      return this.#store.partOf(nameOf(keyId))
    })
    this.#turn = new Map()
    const { countsPerCallMax: size } = this.#store
    for (const [part, batches] of byPart) {
      for (let at = 0; at < batches.length; at += size) {
        void this.#spendBatches(part, batches.slice(at, at + size))
      }
    }
  }

  /** Settles every call of the batches, whatever happens. */
  async #spendBatches(part: string, batches: readonly Batch[]): Promise<void> {
    const report = batches.map(({ keyId }) => this.#windows.find(keyId)?.unreported ?? 0)
    try {
      const names = batches.map(({ keyId }) => nameOf(keyId))
      const spent = this.#store.spend(names, this.#scriptValues(batches))
      const from = performance.now()
      this.#applyReply(batches, await this.#outages.unlessAway(part, spent))
      this.#durations?.observe((performance.now() - from) / 1000)
    } catch (error) {
      this.#outages.begin(part, batches[0]?.keyId ?? '', error)
      // What Redis refused it has not done, so it is still to be told of it.
      const fate = isRefusal(error) ? 'unreported' : 'lost'
      batches.forEach(({ keyId, limit, waiting }, index) => {
        const window = this.#windows.find(keyId)
        if (fate === 'unreported' && window !== undefined) window.unreported += report[index] ?? 0
        for (const resolve of waiting) resolve(this.#spendWithoutStore(keyId, limit, fate))
      })
    }
  }

  #scriptValues(batches: readonly Batch[]): (string | number)[] {
    const values: (string | number)[] = [WINDOW_MS]
    for (const { keyId, limit, waiting } of batches) {
      const window = this.#windows.find(keyId)
      const { used = 0, endsAt = 0, unreported = 0 } = window ?? {}
      values.push(`${limit} ${waiting.length} ${used} ${endsAt} ${unreported}`)
      // Reported once, whether or not the answer arrives: `used` carries it for good.
      if (window !== undefined) window.unreported = 0
    }
    return values
  }

  #applyReply(batches: readonly Batch[], reply: unknown): void {
    const numbers = parseReply(reply, 1 + 2 * batches.length)
    const [now = 0] = numbers
    this.#clockOffsetMs = now - Date.now()
    batches.forEach(({ keyId, limit, waiting }, index) => {
      const before = numbers[1 + 2 * index] ?? 0
      const windowEndsAt = numbers[2 + 2 * index] ?? 0
      const admitted = Math.min(waiting.length, Math.max(0, limit - before))
      this.#windows.set(keyId, before + admitted, limit, windowEndsAt)
      const windowEndsInMs = windowEndsAt - now
      waiting.forEach((resolve, place) => {
        const used = before + place + 1
        resolve({ limit, used, windowEndsAt, windowEndsInMs, degraded: false })
      })
    })
  }
}

function nameOf(keyId: string): string {
  return `rate-limit:{${keyId}}`
}

function parseReply(reply: unknown, length: number): number[] {
  if (!Array.isArray(reply) || reply.length !== length || !reply.every(Number.isSafeInteger)) {
    throw new Error('redis: the answer to spend.lua has not the expected form')
  }
  return reply
}
