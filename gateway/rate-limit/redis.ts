/**
 * The account shared by all gateways, in Redis. Calls that arrive in the same turn of the event loop
 * are spent by one script call; each still gets its own number, exactly.
 *
 * A call whose answer from Redis is missed counts as spent and is never sent again. The first miss
 * opens the breaker, so that calls do not wait one by one; a probe closes it. In between calls are
 * counted here, on top of the last numbers known (`local`), or refused (`deny`).
 */

import { Problem } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'
import type { RedisAddress } from './address.ts'
import { RedisOutages } from './breaker.ts'
import {
  type Accounting,
  type AccountingCounts,
  type AccountingState,
  type Allowance,
  isOverLimit,
  type KeyWindow,
  WINDOW_MS,
} from './limiter.ts'
import { spendIn } from './local.ts'
import { connectRedis, isRefusal, type RedisStore, type RedisTls } from './store.ts'
import { createLocalWindows, type LocalWindows, type Window } from './windows.ts'

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
  /** Of its count in Redis. */
  readonly name: string
  readonly part: string
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
    const name = `rate-limit:{${keyId}}`
    const part = this.#store.partOf(name)
    if (this.#outages.isAway(part)) {
      return this.#spendWithoutStore(keyId, limit, 'unreported')
    }
    return new Promise((resolve) => {
      const batch = this.#turn.get(keyId)
      if (batch?.limit === limit) return batch.waiting.push(resolve)
      // A limit that changed within one turn is spent by a script call of its own.
      if (batch !== undefined) this.#flush()
      if (this.#turn.size === 0) setImmediate(() => this.#flush())
      this.#turn.set(keyId, { keyId, name, part, limit, waiting: [resolve] })
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
    const byPart = Map.groupBy(this.#turn.values(), ({ part }) => part)
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
    const windows = batches.map(({ keyId }) => this.#windows.find(keyId))
    const report = windows.map((window) => window?.unreported ?? 0)
    try {
      const names = batches.map(({ name }) => name)
      const spent = this.#store.spend(names, scriptValues(batches, windows))
      const from = performance.now()
      this.#applyReply(batches, await this.#outages.unlessAway(part, spent))
      this.#durations?.observe((performance.now() - from) / 1000)
    } catch (error) {
      this.#outages.begin(part, batches[0]?.keyId ?? '', error)
      // What Redis refused it has not done, so it is still to be told of it.
      const fate = isRefusal(error) ? 'unreported' : 'lost'
      batches.forEach(({ keyId, limit, waiting }, index) => {
        const window = windows[index]
        if (fate === 'unreported' && window !== undefined) window.unreported += report[index] ?? 0
        for (const resolve of waiting) resolve(this.#spendWithoutStore(keyId, limit, fate))
      })
    }
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

/** What the script is told, and no longer remembered as to be told. */
function scriptValues(
  batches: readonly Batch[],
  windows: readonly (Window | undefined)[],
): (string | number)[] {
  const values: (string | number)[] = [WINDOW_MS]
  batches.forEach(({ limit, waiting }, index) => {
    const window = windows[index]
    const { used = 0, endsAt = 0, unreported = 0 } = window ?? {}
    values.push(`${limit} ${waiting.length} ${used} ${endsAt} ${unreported}`)
    // Reported once, whether or not the answer arrives: `used` carries it for good.
    if (window !== undefined) window.unreported = 0
  })
  return values
}

function parseReply(reply: unknown, length: number): number[] {
  if (!Array.isArray(reply) || reply.length !== length || !reply.every(Number.isSafeInteger)) {
    throw new Error('redis: the answer to spend.lua has not the expected form')
  }
  return reply
}
