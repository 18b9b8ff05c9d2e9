/**
 * Hands due messages over to the mail server, without a lock during network calls. Any number of backends
 * may run a worker.
 *
 * While the mail server is unavailable, one message at a time tests it. The others wait: neither the server
 * nor the recipients then receive a burst.
 */

import type { Logger } from '../../../shared/process/log.ts'
import { POLL_MS, startListeningWorker, type Worker } from '../../background/worker.ts'
import type { Database } from '../../database/database.ts'
import type { HandOff, Mailer } from '../../mail/mail.ts'
import { REMINDERS_DUE } from '../../messages/lifecycle.ts'
import { type GateDeps, type HandOver, openGate } from './gate.ts'
import { recordHandOff } from './hand-off.ts'
import { REMINDERS } from './leases.ts'

/** A mail server that needs 100 ms for a message accepts 40 a second. */
const IN_FLIGHT_MAX = 4

/** Messages in one round. Each that is postponed or suppressed costs a transaction. */
const DUE_MAX = 64

const AFTER_ERROR_MS = 5000
const AFTER_FAULT_MS = 10 * 60_000

/** Between two tests of an unavailable mail server. */
const UNAVAILABLE_RETRY_MS = 10_000

/** A server that rejects this many recipients in a row is treated as unavailable. */
const DENIED_MAX = 3

export interface SendDeps extends GateDeps {
  readonly database: Database
  readonly mailer: Mailer
  readonly clock: () => Date
  readonly log: Logger
}

export interface SendWorkerDeps extends SendDeps {
  /**
   * Whether no other worker uses this database: leases found at the start then belong to a process that was
   * killed.
   */
  readonly isOnly: boolean
  readonly pollMs?: number
  readonly unavailableMs?: number
}

export function startSendWorker(deps: SendWorkerDeps): Worker {
  const {
    database,
    clock,
    log,
    isOnly,
    pollMs = POLL_MS,
    unavailableMs = UNAVAILABLE_RETRY_MS,
  } = deps
  let unavailableUntil: number | undefined
  return startListeningWorker({
    name: 'sending reminders',
    database,
    topic: REMINDERS_DUE,
    everyMs: pollMs,
    afterErrorMs: AFTER_ERROR_MS,
    log,
    async prepare() {
      if (isOnly) await database.transaction((tx) => REMINDERS.reclaim(tx, clock(), () => true))
    },
    async round(signal) {
      const waitMs = Math.ceil((unavailableUntil ?? 0) - performance.now())
      // An announcement must not make the worker test an unavailable server more often.
      if (waitMs > 0) return waitMs
      const atOnce = unavailableUntil === undefined ? IN_FLIGHT_MAX : 1
      const { isUnavailable, isFull } = await sendRound(deps, atOnce, { signal })
      unavailableUntil = isUnavailable ? performance.now() + unavailableMs : undefined
      if (isUnavailable) return unavailableMs
      if (isFull) return 0
      const now = clock()
      const next = await REMINDERS.findNextRun(database.read, now, pollMs)
      return next && next.getTime() - now.getTime()
    },
  })
}

export interface Round {
  /** The mail server accepted nothing. */
  readonly isUnavailable: boolean
  /** More messages may be due. */
  readonly isFull: boolean
}

export interface RoundOptions {
  /** Undefined: all accounts. */
  readonly accountId?: string | undefined
  /** Ends the round after the hand-overs in progress. */
  readonly signal?: AbortSignal
}

/** Sends a batch of due messages. It ends early if the mail server is unavailable. */
export async function sendRound(
  deps: SendDeps,
  atOnce: number,
  { accountId, signal }: RoundOptions = {},
): Promise<Round> {
  const ids = await REMINDERS.findDue(deps.database.read, deps.clock(), {
    limit: DUE_MAX,
    ...(accountId !== undefined && { where: { account_id: accountId } }),
  })
  const queue = ids.values()
  let isUnavailable = false
  let denied = 0
  async function takeTurns(): Promise<void> {
    for (const id of queue) {
      if (signal?.aborted || isUnavailable) return
      const handOff = await sendOne(deps, id)
      if (handOff?.outcome === 'accepted') denied = 0
      if (handOff?.outcome !== 'abandoned') continue
      if (handOff.isDenied) denied++
      if (!handOff.isDenied || denied >= DENIED_MAX) isUnavailable = true
    }
  }
  await Promise.all(Array.from({ length: atOnce }, takeTurns))
  return { isUnavailable, isFull: ids.length === DUE_MAX }
}

async function sendOne(deps: SendDeps, id: string): Promise<HandOff | undefined> {
  const { database, mailer, clock, log } = deps
  let handOver: HandOver | undefined
  try {
    handOver = await database.transaction((tx) => openGate(tx, deps, id, clock()))
    if (handOver === undefined) return undefined
    const left = handOver
    const handOff = await mailer.send(left.mail, { startBefore: left.startBefore })
    const isMarked = await database.transaction((tx) => recordHandOff(tx, left, handOff, clock()))
    if (!isMarked) log.warn({ message: id }, 'a reminder was handed over after its lease')
    if (handOff.outcome !== 'accepted') log.info({ message: id, ...handOff }, 'reminder not sent')
    return handOff
  } catch (error) {
    // Nothing is lost: before the gate's commit the message is still due, and after it its lease expires.
    log.error({ err: error, message: id, handed_over: handOver !== undefined }, 'reminder failed')
    if (handOver === undefined) await postponeFailed(deps, id).catch(() => {})
    return undefined
  }
}

/**
 * A message that fails at the gate because of a bug is retried later, so that it does not block the others.
 */
async function postponeFailed({ database, clock }: SendDeps, id: string): Promise<void> {
  const later = new Date(clock().getTime() + AFTER_FAULT_MS).toISOString()
  await database.transaction((tx) =>
    tx
      .updateTable('reminders')
      .set({ run_at: later })
      .where('message_id', '=', id)
      .where('run_at', '<=', clock().toISOString())
      .execute(),
  )
}
