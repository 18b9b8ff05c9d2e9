/**
 * Delivers due events in the backend's process. A claimed delivery is sent immediately; none is queued in memory. An
 * account may use about half of the capacity that other accounts do not use. A receiver that hangs therefore delays
 * only events of its own account, unless receivers of about ten accounts hang at the same time.
 */
import type { Logger } from '../../shared/process/log.ts'
import { startWorker } from '../background/worker.ts'
import type { Database } from '../database/database.ts'
import { DELIVERIES_DUE } from '../events/events.ts'
import { type AttemptDeps, attemptDelivery } from './attempt.ts'
import {
  type ClaimedDelivery,
  DELIVERY_LEASES,
  type DueEndpoint,
  findDueEndpoints,
  readClaimed,
  releaseDelivery,
} from './deliveries.ts'
import { type Outcome, recordOutcomes } from './outcomes.ts'

/**
 * The maximum number of concurrent attempts of this process at one endpoint. It allows about 300 deliveries per second
 * if the receiver responds within 50 ms. While the endpoint fails, the limit is one.
 */
const PER_ENDPOINT_MAX = 16

/**
 * The maximum number of concurrent attempts of this process, which limits sockets and memory: a body can be about as
 * large as the largest API request (256 KiB).
 */
const IN_FLIGHT_MAX = 512

/** The maximum number of endpoints for which one round claims deliveries, because each needs a query. */
const ENDPOINTS_MAX = 100

/** The maximum number of outcomes that one transaction records: a payment may have to wait for this transaction. */
const RECORDED_MAX = 32

/**
 * The worker also polls, because the announcement of new deliveries (`DELIVERIES_DUE`) is lost if the process that
 * recorded them is killed.
 */
const POLL_MS = 5000

/**
 * The delay between an announcement and the round that it starts, so that events that are recorded together are
 * also claimed together.
 */
const BATCHING_DELAY_MS = 20

/** The pause after a failed round. */
const AFTER_ERROR_MS = 1000

/**
 * How long a drain waits for attempts in progress before it aborts them. An aborted attempt is not recorded, and
 * another process makes it again.
 */
const DRAIN_MS_MAX = 4000

export interface DeliveryWorkerDeps extends AttemptDeps {
  readonly database: Database
  readonly log: Logger
  /**
   * Whether this is the only worker that uses the database. If it is, leases that exist at the start belong to a
   * process that was killed, so the worker makes their deliveries due at once.
   */
  readonly isOnlyBackend: boolean
  /** Returns numbers from 0 to 1, for the jitter of the retry schedule. */
  readonly random?: () => number
  /** Called after each attempt, for metrics. */
  readonly onAttempt?: (attempt: Outcome) => void
  readonly pollMs?: number
  readonly drainMsMax?: number
}

export interface DeliveryWorker {
  /** Starts no more attempts. Finishes the attempts in progress, or aborts them and releases their leases. */
  drain(): Promise<void>
}

export function startDeliveryWorker(deps: DeliveryWorkerDeps): DeliveryWorker {
  const { database, clock, log, isOnlyBackend, pollMs = POLL_MS } = deps
  const deliverer = new Deliverer(deps, () => worker.wake())
  const worker = startWorker({
    name: 'delivering webhooks',
    everyMs: pollMs,
    afterErrorMs: AFTER_ERROR_MS,
    log,
    database,
    async prepare() {
      if (!isOnlyBackend) return
      const isOrphaned = () => true
      await database.transaction((tx) => DELIVERY_LEASES.makeOrphansDue(tx, clock(), isOrphaned))
    },
    round: () => deliverer.startDue(pollMs),
  })
  let waking: NodeJS.Timeout | undefined
  const stopListening = database.listen(DELIVERIES_DUE, () => {
    waking ??= setTimeout(() => {
      waking = undefined
      worker.wake()
    }, BATCHING_DELAY_MS)
  })
  return {
    async drain() {
      stopListening()
      clearTimeout(waking)
      await worker.stop()
      await deliverer.finish()
    },
  }
}

class Deliverer {
  readonly #deps: DeliveryWorkerDeps
  /** Starts another round. Called when there is capacity again, or when an attempt may be due at a new time. */
  readonly #wakeWorker: () => void
  /** The deliveries whose requests are in progress. */
  readonly #sending = new Set<ClaimedDelivery>()
  /** The attempts in progress, including those whose outcomes are being recorded. */
  readonly #attempts = new Set<Promise<void>>()
  /** The batch to which outcomes are added, until it is full or its transaction begins. */
  #batch: Batch | undefined
  /** Resolves when the last transaction so far has ended. */
  #lastTransaction: Promise<unknown> = Promise.resolve()

  constructor(deps: DeliveryWorkerDeps, wakeWorker: () => void) {
    this.#deps = deps
    this.#wakeWorker = wakeWorker
  }

  /** Finishes or aborts the attempts in progress. The caller must not start any more. */
  async finish(): Promise<void> {
    const { sender, drainMsMax = DRAIN_MS_MAX } = this.#deps
    const timer = setTimeout(() => sender.abortAll(), drainMsMax)
    await Promise.all(this.#attempts)
    clearTimeout(timer)
  }

  /**
   * Claims and starts due deliveries up to the limits. Resolves with the milliseconds until the next round, or with
   * undefined if the next round can wait for the poll interval.
   */
  async startDue(pollMs: number): Promise<number | undefined> {
    const { database, clock } = this.#deps
    const now = clock()
    const { ids, nextAt } = await this.#findWork(now, pollMs)
    if (ids.length === 0) return nextAt && Math.min(pollMs, nextAt.getTime() - now.getTime())
    const { lease, startBefore } = await database.transaction((tx) => {
      // The lease begins only now: the transaction may have waited for others.
      const claimedAt = clock()
      const change = { status: 'sending', updated_at: claimedAt.toISOString() } as const
      return DELIVERY_LEASES.claim(tx, ids, claimedAt, change)
    })
    const claimed = await readClaimed(database.read, ids, lease)
    for (const delivery of claimed) this.#start(delivery, startBefore)
    // Further deliveries may be due, so the next round follows immediately, unless other backends claimed all
    // deliveries of this round.
    return claimed.length > 0 ? 0 : undefined
  }

  /** Returns the ids of the deliveries to start now, and `nextAt` as in `DueEndpoints`. */
  async #findWork(now: Date, horizonMs: number) {
    const { read } = this.#deps.database
    const capacity = IN_FLIGHT_MAX - this.#attempts.size
    if (capacity <= 0) return { ids: [], nextAt: undefined }
    const busy = [...this.#countSending('endpoint_id')].filter(
      ([, count]) => count >= PER_ENDPOINT_MAX,
    )
    const { endpoints, nextAt } = await findDueEndpoints(read, {
      now,
      horizonMs,
      busy: busy.map(([id]) => id),
    })
    const idsByEndpoint = await Promise.all(
      this.#divideCapacity(capacity, endpoints).map(({ id, limit }) =>
        DELIVERY_LEASES.findDue(read, now, { limit, where: { endpoint_id: id } }),
      ),
    )
    return { ids: idsByEndpoint.flat().slice(0, capacity), nextAt }
  }

  /**
   * Divides the free capacity among the endpoints. `limit` is the number of attempts that may start; an endpoint for
   * which this number would be 0 is omitted.
   */
  #divideCapacity(
    capacity: number,
    endpoints: readonly DueEndpoint[],
  ): { id: string; limit: number }[] {
    const sendingByEndpoint = this.#countSending('endpoint_id')
    const sendingByAccount = this.#countSending('account_id')
    // If there is not enough capacity for all endpoints of this round, each endpoint receives an equal share.
    const count = Math.min(endpoints.length, ENDPOINTS_MAX)
    const share = Math.max(1, Math.floor(capacity / Math.max(1, count)))
    const limits: { id: string; limit: number }[] = []
    let free = capacity
    for (const { id, accountId, isFailing } of endpoints) {
      const freeOfEndpoint = (isFailing ? 1 : PER_ENDPOINT_MAX) - (sendingByEndpoint.get(id) ?? 0)
      // The attempts of the account, including those that start now, must not exceed the capacity that then remains
      // free. For an account without attempts in progress, half of the free capacity is rounded up, so that the account
      // can make an attempt even if there is capacity for only one.
      const used = sendingByAccount.get(accountId) ?? 0
      const freeOfAccount = used === 0 ? Math.ceil(free / 2) : Math.floor((free - used) / 2)
      const limit = Math.min(freeOfEndpoint, share, freeOfAccount)
      if (limit <= 0) continue
      limits.push({ id, limit })
      free -= limit
      sendingByAccount.set(accountId, used + limit)
      if (limits.length === ENDPOINTS_MAX) break
    }
    return limits
  }

  #countSending(column: 'endpoint_id' | 'account_id'): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { [column]: id } of this.#sending) counts.set(id, (counts.get(id) ?? 0) + 1)
    return counts
  }

  #start(delivery: ClaimedDelivery, startBefore: Date): void {
    const attempt = this.#deliver(delivery, startBefore).finally(() => {
      this.#attempts.delete(attempt)
      this.#wakeWorker()
    })
    this.#attempts.add(attempt)
  }

  /** Sends the request. Frees the capacity of the endpoint when the request ends, before the outcome is recorded. */
  async #send(delivery: ClaimedDelivery, startBefore: Date): Promise<Outcome> {
    this.#sending.add(delivery)
    try {
      return await attemptDelivery(delivery, startBefore, this.#deps)
    } finally {
      this.#sending.delete(delivery)
      this.#wakeWorker()
    }
  }

  /** Never rejects. If the outcome is not recorded, the delivery is claimed again when its lease has expired. */
  async #deliver(delivery: ClaimedDelivery, startBefore: Date): Promise<void> {
    const { database, clock, log } = this.#deps
    try {
      const outcome = await this.#send(delivery, startBefore)
      this.#deps.onAttempt?.(outcome)
      if (outcome.result.error === 'aborted') {
        await database.transaction((tx) => releaseDelivery(tx, delivery, clock()))
        return
      }
      await this.#record(outcome)
    } catch (error) {
      log.error({ err: error, delivery: delivery.id }, 'webhook delivery not sent or not recorded')
    }
  }

  /** Adds the outcome to a batch, and resolves when the batch has been recorded. */
  #record(outcome: Outcome): Promise<void> {
    if (this.#batch === undefined || this.#batch.outcomes.length === RECORDED_MAX) {
      const outcomes: Outcome[] = []
      const recorded = this.#lastTransaction.then(() => {
        if (this.#batch?.outcomes === outcomes) this.#batch = undefined
        return this.#recordBatch(outcomes)
      })
      this.#batch = { outcomes, recorded }
      this.#lastTransaction = recorded.catch(() => {})
    }
    this.#batch.outcomes.push(outcome)
    return this.#batch.recorded
  }

  async #recordBatch(outcomes: readonly Outcome[]): Promise<void> {
    const { database, log, random = Math.random } = this.#deps
    const recorded = await database.transaction((tx) => recordOutcomes(tx, outcomes, random))
    const late = outcomes.length - recorded
    if (late > 0) log.warn({ late }, 'webhook deliveries ended after their lease had expired')
  }
}

interface Batch {
  readonly outcomes: Outcome[]
  /** Resolves when the transaction has committed. */
  readonly recorded: Promise<void>
}
