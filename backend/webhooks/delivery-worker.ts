/**
 * Delivers what is due, from inside the backend's process. Everything claimed is being sent: nothing
 * waits in memory. Each endpoint has so many at once, and one that fails has one, so that receivers
 * that hang hold up their own events and nobody else's.
 */
import type { Logger } from '../../shared/process/log.ts'
import { startWorker } from '../background/worker.ts'
import type { Database } from '../database/database.ts'
import { type AttemptDeps, attemptDelivery } from './attempt.ts'
import { type ClaimedDelivery, DELIVERIES, findDueEndpoints, readClaimed } from './deliveries.ts'
import { type Outcome, recordOutcomes } from './outcomes.ts'

/** At one endpoint: enough for hundreds a second at a receiver that answers in 50 ms. */
const PER_ENDPOINT_MAX = 16

/** In all: bounds sockets and memory (a body is at most some 100 kB). */
const IN_FLIGHT_MAX = 512

/** One transaction records so many: a payment never waits for longer than that. */
const RECORDED_MAX = 32

/** How soon a new event is seen. */
const POLL_MS = 50
const AFTER_ERROR_MS = 1000

/** What draining waits for attempts under way before it cuts them off, unrecorded. */
const DRAIN_MS_MAX = 4000

export interface DeliveryWorkerDeps extends AttemptDeps {
  readonly database: Database
  readonly log: Logger
  /** No other worker runs on this database, so leases found at the start belong to a process that has ended. */
  readonly isOnly: boolean
  readonly random?: () => number
  /** Told of each attempt, for operators. */
  readonly onAttempt?: (attempt: Outcome) => void
  readonly pollMs?: number
  readonly drainMsMax?: number
}

export interface DeliveryWorker {
  /** Takes no more, finishes or gives back what is under way. */
  drain(): Promise<void>
}

export function startDeliveryWorker(deps: DeliveryWorkerDeps): DeliveryWorker {
  const { database, clock, log, isOnly, pollMs = POLL_MS } = deps
  const deliverer = new Deliverer(deps, () => worker.wake())
  const worker = startWorker({
    name: 'delivering webhooks',
    everyMs: pollMs,
    afterErrorMs: AFTER_ERROR_MS,
    log,
    async prepare() {
      if (!isOnly) return
      await database.transaction((tx) => DELIVERIES.reclaim(tx, clock(), () => true))
    },
    round: async () => ((await deliverer.startDue()) > 0 ? 0 : undefined),
  })
  return {
    async drain() {
      await worker.stop()
      await deliverer.finish()
    },
  }
}

class Deliverer {
  readonly #deps: DeliveryWorkerDeps
  /** Called when an attempt has ended, so that there is room for another. */
  readonly #onRoom: () => void
  /** How many are under way at each endpoint. */
  readonly #inFlight = new Map<string, number>()
  readonly #attempts = new Set<Promise<void>>()
  #outcomes: Outcome[] = []
  #recording: Promise<void> | undefined

  constructor(deps: DeliveryWorkerDeps, onRoom: () => void) {
    this.#deps = deps
    this.#onRoom = onRoom
  }

  /** Once no more are started. */
  async finish(): Promise<void> {
    const { sender, drainMsMax = DRAIN_MS_MAX } = this.#deps
    const patience = setTimeout(() => sender.cutOff(), drainMsMax)
    await Promise.all(this.#attempts)
    clearTimeout(patience)
    await this.#recording
  }

  /** Claims and starts what is due, as far as there is room; resolves with how many. */
  async startDue(): Promise<number> {
    const { database, clock } = this.#deps
    const now = clock()
    const ids = await this.#findWork(now)
    if (ids.length === 0) return 0
    const lease = await database.transaction((tx) =>
      DELIVERIES.claim(tx, ids, now, { status: 'sending', updated_at: now.toISOString() }),
    )
    const claimed = await readClaimed(database.read, ids, lease)
    for (const delivery of claimed) this.#start(delivery)
    return claimed.length
  }

  async #findWork(now: Date): Promise<string[]> {
    const { read } = this.#deps.database
    const room = IN_FLIGHT_MAX - this.#attempts.size
    const busy = [...this.#inFlight].filter(([, count]) => count >= PER_ENDPOINT_MAX)
    if (room <= 0) return []
    const endpoints = await findDueEndpoints(
      read,
      now,
      busy.map(([id]) => id),
    )
    // Where there is not room for all, each gets its share.
    const share = Math.max(1, Math.floor(room / Math.max(1, endpoints.length)))
    const found = await Promise.all(
      endpoints.map(({ id, isFailing }) => {
        const free = (isFailing ? 1 : PER_ENDPOINT_MAX) - (this.#inFlight.get(id) ?? 0)
        const limit = Math.min(free, share)
        return limit <= 0
          ? []
          : DELIVERIES.findDue(read, now, { limit, where: { endpoint_id: id } })
      }),
    )
    return found.flat().slice(0, room)
  }

  #start(delivery: ClaimedDelivery): void {
    const attempt = this.#deliver(delivery).finally(() => this.#attempts.delete(attempt))
    this.#attempts.add(attempt)
  }

  /** The endpoint has room again before the outcome is recorded. */
  async #send(delivery: ClaimedDelivery): Promise<Outcome> {
    const { endpoint_id: id } = delivery
    this.#inFlight.set(id, (this.#inFlight.get(id) ?? 0) + 1)
    try {
      return await attemptDelivery(delivery, this.#deps)
    } finally {
      const count = (this.#inFlight.get(id) ?? 1) - 1
      if (count === 0) this.#inFlight.delete(id)
      else this.#inFlight.set(id, count)
      this.#onRoom()
    }
  }

  /** Never rejects: what is not recorded is claimed again when its lease ends. */
  async #deliver(delivery: ClaimedDelivery): Promise<void> {
    const { database, clock, log } = this.#deps
    try {
      const outcome = await this.#send(delivery)
      this.#deps.onAttempt?.(outcome)
      if (outcome.result.error === 'cut_off') {
        await database.transaction((tx) =>
          DELIVERIES.finish(tx, delivery, clock(), { status: 'pending' }),
        )
        return
      }
      this.#outcomes.push(outcome)
      this.#recording ??= this.#record()
      await this.#recording
    } catch (error) {
      log.error({ err: error, delivery: delivery.id }, 'webhook delivery not recorded')
    }
  }

  /** Until there are no more: those that end meanwhile are recorded together. */
  async #record(): Promise<void> {
    const { database, log, random = Math.random } = this.#deps
    try {
      // Those that end in the same turn come along.
      await Promise.resolve()
      while (this.#outcomes.length > 0) {
        const outcomes = this.#outcomes.splice(0, RECORDED_MAX)
        const recorded = await database.transaction((tx) => recordOutcomes(tx, outcomes, random))
        const late = outcomes.length - recorded
        if (late > 0) log.warn({ late }, 'webhook deliveries ended after their lease')
      }
    } finally {
      this.#recording = undefined
    }
  }
}
