/**
 * The circuit breakers for Redis, one for each partition (the single server, or one master of a cluster). The first
 * lost reply or error of a partition opens its breaker, so that not every call has to time out. A successful probe
 * closes the breaker. A probe runs the same script as a call, so that it fails for the same reasons.
 */
import type { Logger } from '../../shared/process/log.ts'
import type { RateLimiterState } from './limiter.ts'
import { OUTAGE_EFFECTS, outageReason } from './outage-reason.ts'
import { isErrorReply, RedisReplyLost, RedisTimeout } from './redis-errors.ts'
import type { RedisStore } from './redis-store.ts'
import { startStallTolerantTimeout } from './stall-tolerant-timeout.ts'

/**
 * How long a call waits for a reply of Redis, not counting stalls of this process. Only the first calls of an outage
 * wait this long.
 */
const REPLY_TIMEOUT_MS = 250
const PROBE_INTERVAL_MS = 250
const PROBE_COUNTER_TTL_MS = 1_000
const NOT_CONNECTED_YET = 'no connection yet'
/**
 * Until the first connection is open, this many failed probes, which take about a second, are not logged as errors. An
 * error reply to a probe is logged as an error immediately.
 */
const EXPECTED_FAILED_PROBES = 4

interface Outage {
  /** The name of the probe's counter, which is in the partition of the outage. */
  readonly counterName: string
  reason: string
  /** The reasons that were logged for this outage: each is logged once. */
  readonly logged: Set<string>
  isProbing: boolean
}

/** No partition has this name. It stands for the whole store until Redis was reached for the first time. */
const NO_PARTITION = ''

export class CircuitBreakers {
  readonly #store: RedisStore
  readonly #log: Logger
  readonly #onOutage: 'local' | 'deny'
  readonly #openBreakers = new Map<string, Outage>()
  readonly #pending = new Map<string, PendingScriptCalls>()
  readonly #probeTimer: NodeJS.Timeout
  #initialProbesFailed = 0
  /** How often a breaker has opened since the start. */
  outages = 0
  /** Undefined after Redis was reached for the first time. */
  #initialOutage: Outage | undefined = newOutage('', NOT_CONNECTED_YET)

  constructor(store: RedisStore, onOutage: 'local' | 'deny', log: Logger) {
    this.#store = store
    this.#onOutage = onOutage
    this.#log = log
    this.#probeTimer = setInterval(() => this.#probeAll(), PROBE_INTERVAL_MS)
    store.onConnectionError((error, partition) => {
      this.#logReason(partition, error)
      // Only a store with a single server reports a partition. Its probe needs no hash tag.
      if (partition !== undefined) this.open(partition, '', error)
    })
    store.onReady(() => this.#probeAll())
  }

  /** Whether calls must not be sent to the partition. */
  isOpen(partition: string): boolean {
    return this.#initialOutage !== undefined || this.#openBreakers.has(partition)
  }

  /**
   * Runs `consume.lua` once, with the names of counters as `KEYS` and the values as `ARGV`. Rejects with the error of
   * the store, with `RedisTimeout` if no reply arrives in time, or with `RedisReplyLost` if the partition's breaker
   * opens before the reply arrives, because another call timed out or the connection failed.
   */
  send(
    partition: string,
    names: readonly string[],
    values: readonly (string | number)[],
  ): Promise<unknown> {
    const pending = this.#pending.get(partition) ?? new PendingScriptCalls()
    this.#pending.set(partition, pending)
    return new Promise((resolve, reject) => {
      const index = pending.add(reject)
      const cancel = startStallTolerantTimeout(REPLY_TIMEOUT_MS, () => reject(noReply()))
      const settle = () => {
        cancel()
        pending.delete(index)
      }
      this.#store.consume(names, values).then(
        (reply) => {
          settle()
          resolve(reply)
        },
        (error) => {
          settle()
          reject(error)
        },
      )
    })
  }

  /** Opens the breaker of the partition. `tag` is the hash tag of a counter in the partition. */
  open(partition: string, tag: string, error: unknown): void {
    if (this.isOpen(partition)) return
    const reason = outageReason(error)
    this.outages++
    this.#openBreakers.set(partition, newOutage(tag, reason))
    this.#log.error(
      { partition, reason, onOutage: this.#onOutage },
      `redis is unavailable: ${OUTAGE_EFFECTS[this.#onOutage]}`,
    )
    // After an error reply, the other pending script calls still get their own replies, which say what they counted.
    // After any other error, their replies are lost. These script calls are rejected with `RedisReplyLost`, not with
    // `error`: it may say that the failed call was never sent, whereas the pending ones may have been executed.
    if (!isErrorReply(error)) this.#pending.get(partition)?.rejectAll(replyLost(error))
    this.#store.recover(partition, error)
  }

  state(): RateLimiterState {
    if (this.#initialOutage !== undefined) return 'starting'
    return this.#openBreakers.size > 0 ? 'degraded' : 'exact'
  }

  /** See `RateLimiter.outage`. */
  reason(): string | undefined {
    if (this.#initialOutage !== undefined) return this.#initialOutage.reason
    const reasons = new Set(this.#openBreakers.values().map(({ reason }) => reason))
    return reasons.size > 0 ? [...reasons].join('; ') : undefined
  }

  close(): void {
    clearInterval(this.#probeTimer)
  }

  #logReason(partition: string | undefined, error: unknown): void {
    // A fault without a partition (of a cluster's node or a sentinel) does not always affect calls, so it is logged
    // only until Redis is reached for the first time.
    const outage = this.#initialOutage ?? this.#openBreakers.get(partition ?? NO_PARTITION)
    if (outage === undefined) return
    outage.reason = outageReason(error)
    if (outage.logged.has(outage.reason)) return
    outage.logged.add(outage.reason)
    this.#log.error({ partition, reason: outage.reason }, 'redis cannot be used')
  }

  #probeAll(): void {
    if (this.#initialOutage !== undefined) void this.#probe(this.#initialOutage)
    for (const [partition, outage] of this.#openBreakers) void this.#probe(outage, partition)
  }

  /** Without a partition, `outage` is the initial outage. */
  async #probe(outage: Outage, partition?: string): Promise<void> {
    const { counterName } = outage
    // Without this check, the late error of one probe would close the connection over which the next probe succeeded.
    if (outage.isProbing) return
    outage.isProbing = true
    try {
      // With a limit of 0 (see `ARGV` in consume.lua), the script uses all its commands, but counts nothing.
      await this.send(partition ?? NO_PARTITION, [counterName], [PROBE_COUNTER_TTL_MS, '0 1 0 0 0'])
      this.#closeBreaker(partition)
    } catch (error) {
      const failsRepeatedly =
        outage.reason === NOT_CONNECTED_YET && ++this.#initialProbesFailed > EXPECTED_FAILED_PROBES
      // If no connection can be opened, `store.onConnectionError` has already logged the precise reason.
      if (isErrorReply(error) || failsRepeatedly) this.#logReason(partition, error)
      this.#log.debug({ partition, reason: outageReason(error) }, 'redis is still unavailable')
      if (partition !== undefined) this.#store.recover(partition, error)
    } finally {
      outage.isProbing = false
    }
  }

  #closeBreaker(partition: string | undefined): void {
    const wasOpen =
      partition === undefined
        ? this.#initialOutage !== undefined
        : this.#openBreakers.delete(partition)
    if (!wasOpen) return
    this.#initialOutage = undefined
    const isShared = this.#openBreakers.size === 0
    this.#log.info(
      { partition },
      isShared
        ? 'redis is available: the rate limit is shared by all gateways'
        : 'redis is available in this partition',
    )
  }
}

type Reject = (error: unknown) => void

/**
 * Script calls that wait for a reply, in an array whose indexes are reused. If each call listened to an `AbortSignal`
 * instead, the listeners would form a linked list: a listener in V8's old generation would keep all later listeners and
 * their calls alive.
 */
class PendingScriptCalls {
  readonly #rejects: (Reject | undefined)[] = []
  readonly #freeIndexes: number[] = []

  /** Returns the index with which the call is deleted. */
  add(reject: Reject): number {
    const index = this.#freeIndexes.pop() ?? this.#rejects.length
    this.#rejects[index] = reject
    return index
  }

  delete(index: number): void {
    this.#rejects[index] = undefined
    this.#freeIndexes.push(index)
  }

  /** Does not delete the calls: `send` deletes each of them when the store's promise for it has settled. */
  rejectAll(error: unknown): void {
    for (const reject of this.#rejects) reject?.(error)
  }
}

function noReply(): RedisTimeout {
  return new RedisTimeout(`Redis did not reply within ${REPLY_TIMEOUT_MS} ms`)
}

function replyLost(cause: unknown): RedisReplyLost {
  return new RedisReplyLost('Redis became unavailable before the reply arrived', { cause })
}

function newOutage(tag: string, reason: string): Outage {
  const logged = new Set(reason === NOT_CONNECTED_YET ? [] : [reason])
  return { counterName: `rate-limit-probe:{${tag}}`, reason, logged, isProbing: false }
}
