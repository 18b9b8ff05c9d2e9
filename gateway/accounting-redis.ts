/**
 * The account shared by all gateways, in Redis. Calls that arrive in the same turn of the event loop
 * are spent by one script call; each still gets its own number, exactly.
 *
 * A call whose answer from Redis is missed counts as spent and is never sent again. The first miss
 * opens the breaker, so that calls do not wait one by one; a probe closes it. In between calls are
 * counted here, on top of the last numbers known (`local`), or refused (`deny`).
 */
import { readFileSync } from 'node:fs'
import { Redis, type Result } from 'ioredis'
import type { Logger } from '../shared/log.ts'
import { Problem } from '../shared/problem.ts'
import {
  type Accounting,
  type AccountingCounts,
  type AccountingState,
  type Allowance,
  isOverLimit,
  WINDOW_MS,
} from './accounting.ts'
import { spendIn } from './accounting-local.ts'
import { createLocalWindows, type LocalWindows } from './local-windows.ts'

/** Every call settles within this of a fault's onset, and the time of one turn. */
const COMMAND_TIMEOUT_MS = 250
const PROBE_INTERVAL_MS = 250
/** What ioredis says of a command without an answer; it gives no code. */
const TIMED_OUT = 'Command timed out'
/** Keys in one script call, so that none holds Redis for long (a few µs each). */
const KEYS_PER_SCRIPT_MAX = 256

declare module 'ioredis' {
  interface RedisCommander<Context> {
    spendCalls(
      numberOfKeys: number,
      ...keysAndArguments: (string | number)[]
    ): Result<unknown, Context>
  }
}

export interface RedisAccountingOptions {
  readonly url: string
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
  readonly #redis: Redis
  readonly #onOutage: 'local' | 'deny'
  readonly #log: Logger
  readonly #windows: LocalWindows
  readonly #probing: NodeJS.Timeout
  #state: AccountingState = 'starting'
  readonly #durations: RedisAccountingOptions['durations']
  #outages = 0
  #localAdmissions = 0
  /** What to add to our clock to have the store's. */
  #clockOffsetMs = 0
  #turn = new Map<string, Batch>()
  /** Of the script calls that Redis has not answered. Aborted all at once when the breaker opens. */
  #outage = new AbortController()

  constructor({ url, onOutage, log, durations }: RedisAccountingOptions) {
    this.#durations = durations
    this.#redis = connect(url)
    this.#onOutage = onOutage
    this.#log = log
    this.#windows = createLocalWindows(() => this.#storeNow())
    this.#probing = setInterval(() => void this.#probe(), PROBE_INTERVAL_MS)
    this.#redis.on('error', (error) => this.#openBreaker(error))
    this.#redis.once('ready', () => this.#closeBreaker())
    this.#redis.on('ready', () => void this.#probe())
  }

  spend(keyId: string, limit: number): Promise<Allowance> {
    if (this.#state !== 'exact') return this.#spendWithoutStore(keyId, limit, 'unreported')
    return new Promise((resolve) => {
      const batch = this.#turn.get(keyId)
      if (batch?.limit === limit) return batch.waiting.push(resolve)
      // A limit that changed within one turn is spent by a script call of its own.
      if (batch !== undefined) this.#flush()
      if (this.#turn.size === 0) setImmediate(() => this.#flush())
      this.#turn.set(keyId, { keyId, limit, waiting: [resolve] })
    })
  }

  state(): AccountingState {
    return this.#state
  }

  get counts(): AccountingCounts {
    return { outages: this.#outages, localAdmissions: this.#localAdmissions }
  }

  async close(): Promise<void> {
    clearInterval(this.#probing)
    this.#windows.close()
    this.#redis.disconnect()
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
    const window = this.#windows.open(keyId)
    const allowance = spendIn(window, limit, this.#storeNow(), true)
    if (isOverLimit(allowance)) return allowance
    this.#localAdmissions++
    if (fate === 'unreported') window.unreported++
    return allowance
  }

  #flush(): void {
    const batches = [...this.#turn.values()]
    this.#turn = new Map()
    for (let at = 0; at < batches.length; at += KEYS_PER_SCRIPT_MAX) {
      void this.#spendBatches(batches.slice(at, at + KEYS_PER_SCRIPT_MAX))
    }
  }

  /** Settles every call of the batches, whatever happens. */
  async #spendBatches(batches: readonly Batch[]): Promise<void> {
    try {
      const spent = this.#redis.spendCalls(batches.length, ...this.#scriptArguments(batches))
      const from = performance.now()
      this.#applyReply(batches, await unlessAborted(spent, this.#outage.signal))
      this.#durations?.observe((performance.now() - from) / 1000)
    } catch (error) {
      this.#openBreaker(error)
      for (const { keyId, limit, waiting } of batches) {
        for (const resolve of waiting) resolve(this.#spendWithoutStore(keyId, limit, 'lost'))
      }
    }
  }

  #scriptArguments(batches: readonly Batch[]): (string | number)[] {
    const keys: string[] = []
    const values: (string | number)[] = [WINDOW_MS]
    for (const { keyId, limit, waiting } of batches) {
      keys.push(`rate-limit:{${keyId}}`)
      const window = this.#windows.find(keyId)
      values.push(limit, waiting.length)
      values.push(window?.used ?? 0, window?.endsAt ?? 0, window?.unreported ?? 0)
      // Reported once, whether or not the answer arrives: `used` carries it for good.
      if (window !== undefined) window.unreported = 0
    }
    return [...keys, ...values]
  }

  #applyReply(batches: readonly Batch[], reply: unknown): void {
    const numbers = parseReply(reply, 1 + 2 * batches.length)
    const [now = 0] = numbers
    this.#clockOffsetMs = now - Date.now()
    batches.forEach(({ keyId, limit, waiting }, index) => {
      const before = numbers[1 + 2 * index] ?? 0
      const windowEndsAt = numbers[2 + 2 * index] ?? 0
      const admitted = Math.min(waiting.length, Math.max(0, limit - before))
      this.#windows.set(keyId, { used: before + admitted, endsAt: windowEndsAt, unreported: 0 })
      const windowEndsInMs = windowEndsAt - now
      waiting.forEach((resolve, place) => {
        const used = before + place + 1
        resolve({ limit, used, windowEndsAt, windowEndsInMs, degraded: false })
      })
    })
  }

  #openBreaker(error: unknown): void {
    if (this.#state !== 'exact') return
    this.#state = 'degraded'
    this.#outages++
    this.#log.error({ err: error, onOutage: this.#onOutage }, 'redis is away: limit not shared')
    this.#outage.abort(error)
    this.#renewConnection(error)
  }

  /**
   * An answer that was missed may come late or never. On a connection that lost one every later answer
   * would be taken for that of the command before it.
   */
  #renewConnection(error: unknown): void {
    if (error instanceof Error && error.message === TIMED_OUT) this.#redis.disconnect(true)
  }

  #closeBreaker(): void {
    if (this.#state === 'exact') return
    this.#state = 'exact'
    this.#outage = new AbortController()
    this.#log.info('redis is there: the rate limit is shared by all gateways')
  }

  /** A write, so that a replica or a full store does not pass for a healthy one. */
  async #probe(): Promise<void> {
    if (this.#state === 'exact') return
    try {
      await this.#redis.set('rate-limit-probe', '1', 'PX', 1000)
      this.#closeBreaker()
    } catch (error) {
      this.#log.debug({ err: error }, 'redis is still away')
      this.#renewConnection(error)
    }
  }
}

/**
 * Nothing is queued while the connection is away and nothing sent twice: a resent spend would count
 * a call double.
 */
function connect(url: string): Redis {
  return new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_TIMEOUT_MS,
    socketTimeout: 2 * COMMAND_TIMEOUT_MS,
    connectTimeout: COMMAND_TIMEOUT_MS,
    keepAlive: 1000,
    retryStrategy: (attempt) => Math.min(50 * attempt, 500) + Math.random() * 50,
    reconnectOnError: (error) => (/^READONLY/.test(error.message) ? 1 : false),
    enableAutoPipelining: false,
    scripts: {
      spendCalls: { lua: readFileSync(new URL('spend.lua', import.meta.url), 'utf8') },
    },
  })
}

function unlessAborted<T>(result: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    result.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}

function parseReply(reply: unknown, length: number): number[] {
  if (!Array.isArray(reply) || reply.length !== length || !reply.every(Number.isSafeInteger)) {
    throw new Error('redis: the answer to spend.lua has not the expected form')
  }
  return reply
}
