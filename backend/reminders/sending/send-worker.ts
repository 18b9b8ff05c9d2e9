/**
 * Hands due messages over to the mail server. The worker holds no database lock during a hand-over. Any number of
 * backends may run a worker.
 *
 * While the mail server is unavailable, the worker tries one message at a time. The other messages wait, so that the
 * server does not receive a burst when it is available again.
 */

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from '../../../shared/process/log.ts'
import { POLL_MS, startListeningWorker, type Worker } from '../../background/worker.ts'
import type { Database } from '../../database/database.ts'
import { isRetryable } from '../../database/unavailable.ts'
import { HAND_OVER_MS_MAX, type HandOverResult, type Mailer } from '../../mail/mail.ts'
import { REMINDER_TIMES_CHANGED } from '../../messages/lifecycle.ts'
import { recordHandOverResult } from './hand-over-result.ts'
import { REMINDER_LEASES } from './leases.ts'
import { type HandOver, runSendCheck, type SendCheckDeps } from './send-check.ts'

/** With this concurrency, a mail server that needs 100 ms for a message accepts 40 messages a second. */
const IN_FLIGHT_MAX = 4

/** The largest number of messages in one round. Each takes at least one transaction, even if it is not sent. */
const DUE_MAX = 64

/** The pause after a failed round. */
const AFTER_ERROR_MS = 5000

/**
 * A message whose send check fails, e.g. because of a bug, is retried after this time, so that it does not block the
 * others.
 */
const RETRY_FAILED_MS = 10 * 60_000

const UNAVAILABLE_RETRY_MS = 10_000

/** The pause before the result of a hand-over is recorded again, if the database was unavailable. */
const RECORD_AGAIN_MS = 1000

/** After the longest hand-over, its result can still be recorded for this time. The lease ends later. */
const RECORD_MS_MAX = 10_000

/**
 * If the server denies relaying for this many messages of a round, without accepting one in between, it is treated as
 * unavailable.
 */
const DENIED_MAX = 3

export interface SendDeps extends SendCheckDeps {
  readonly database: Database
  readonly mailer: Mailer
  readonly clock: () => Date
  readonly log: Logger
  readonly recordAgainMs?: number
}

export interface SendWorkerDeps extends SendDeps {
  /**
   * Whether no other backend uses the database. If so, leases that exist at the start belong to a process that was
   * killed, and their messages become due immediately.
   */
  readonly isOnlyBackend: boolean
  readonly pollMs?: number
  readonly unavailableRetryMs?: number
}

export function startSendWorker(deps: SendWorkerDeps): Worker {
  const {
    database,
    clock,
    log,
    isOnlyBackend,
    pollMs = POLL_MS,
    unavailableRetryMs = UNAVAILABLE_RETRY_MS,
  } = deps
  let unavailableUntil: number | undefined
  return startListeningWorker({
    name: 'sending reminders',
    database,
    topic: REMINDER_TIMES_CHANGED,
    everyMs: pollMs,
    afterErrorMs: AFTER_ERROR_MS,
    log,
    async prepare() {
      if (!isOnlyBackend) return
      const isOrphaned = () => true
      await database.transaction((tx) => REMINDER_LEASES.makeOrphansDue(tx, clock(), isOrphaned))
    },
    async round(signal) {
      const waitMs = Math.ceil((unavailableUntil ?? 0) - performance.now())
      // While the mail server is unavailable, a round that begins early, because reminders have changed, sends nothing.
      if (waitMs > 0) return waitMs
      const concurrency = unavailableUntil === undefined ? IN_FLIGHT_MAX : 1
      const { isUnavailable, mayHaveMoreDue } = await sendRound(deps, concurrency, { signal })
      unavailableUntil = isUnavailable ? performance.now() + unavailableRetryMs : undefined
      if (isUnavailable) return unavailableRetryMs
      if (mayHaveMoreDue) return 0
      const now = clock()
      // Undefined if no reminder becomes due within `pollMs`. The next round then begins after `pollMs`.
      const next = await REMINDER_LEASES.findNextRun(database.read, now, pollMs)
      return next && next.getTime() - now.getTime()
    },
  })
}

export interface RoundResult {
  /** Whether further hand-overs would probably fail, e.g. because the mail server is unavailable. */
  readonly isUnavailable: boolean
  readonly mayHaveMoreDue: boolean
}

export interface RoundOptions {
  /** If it is undefined, messages of all accounts are sent. */
  readonly accountId?: string | undefined
  /** When it aborts, the round ends after the hand-overs in progress. */
  readonly signal?: AbortSignal
}

/** Sends a batch of due messages. Ends early if the mail server is unavailable. */
export async function sendRound(
  deps: SendDeps,
  concurrency: number,
  { accountId, signal }: RoundOptions = {},
): Promise<RoundResult> {
  const ids = await REMINDER_LEASES.findDue(deps.database.read, deps.clock(), {
    limit: DUE_MAX,
    ...(accountId !== undefined && { where: { account_id: accountId } }),
  })
  // All concurrent senders take their messages from this iterator, so each message is sent by one of them.
  const queue = ids.values()
  let isUnavailable = false
  let denied = 0
  async function sendFromQueue(): Promise<void> {
    for (const id of queue) {
      if (signal?.aborted || isUnavailable) return
      const result = await sendOne(deps, id, signal)
      if (result?.outcome === 'accepted') denied = 0
      if (result?.outcome !== 'abandoned') continue
      // With `isDenied`, the server may relay mail to other recipients. Any other reason, e.g. that the server is
      // unavailable, probably affects every mail.
      if (result.isDenied) denied++
      if (!result.isDenied || denied >= DENIED_MAX) isUnavailable = true
    }
  }
  await Promise.all(Array.from({ length: concurrency }, sendFromQueue))
  return { isUnavailable, mayHaveMoreDue: ids.length === DUE_MAX }
}

async function sendOne(
  deps: SendDeps,
  id: string,
  signal: AbortSignal | undefined,
): Promise<HandOverResult | undefined> {
  const { database, mailer, clock, log } = deps
  let handOver: HandOver | undefined
  try {
    handOver = await database.transaction((tx) => runSendCheck(tx, deps, id, clock()))
    if (handOver === undefined) return undefined
    const toSend = handOver
    const result = await mailer.send(toSend.mail, { startBefore: toSend.startBefore })
    const isRecorded = await recordResult(deps, toSend, result, signal)
    if (!isRecorded)
      log.warn(
        { message: id },
        'the result of a hand-over was not recorded: the lease had expired, or a bounce arrived first',
      )
    return result
  } catch (error) {
    // The message is not lost: it is still due or, after the send check's commit, will be due when its lease expires.
    log.error(
      { err: error, message: id },
      handOver === undefined
        ? 'the send check of a reminder failed'
        : 'a reminder may have been sent, but the result was not recorded',
    )
    if (handOver === undefined) await postponeFailed(deps, id).catch(() => {})
    return undefined
  }
}

/**
 * Repeats the transaction while the database is unavailable: without a recorded result, the message would be sent again
 * at the end of the lease. A repetition is safe, because only the worker with the lease records a result. After
 * `signal` aborts, at most one more transaction begins.
 */
async function recordResult(
  { database, clock, recordAgainMs = RECORD_AGAIN_MS }: SendDeps,
  handOver: HandOver,
  result: HandOverResult,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const endsAt = handOver.startBefore.getTime() + HAND_OVER_MS_MAX + RECORD_MS_MAX
  for (let mayBeRecorded = false; ; mayBeRecorded = true) {
    try {
      const isRecorded = await database.transaction((tx) =>
        recordHandOverResult(tx, handOver, result, clock()),
      )
      // The outcome of an earlier commit may be unknown. If it succeeded, there was nothing left to record.
      return isRecorded || mayBeRecorded
    } catch (error) {
      if (!isRetryable(error) || signal?.aborted || clock().getTime() >= endsAt) throw error
    }
    // The delay rejects if `signal` aborts.
    await delay(recordAgainMs, undefined, { signal }).catch(() => {})
  }
}

async function postponeFailed({ database, clock }: SendDeps, id: string): Promise<void> {
  const later = new Date(clock().getTime() + RETRY_FAILED_MS).toISOString()
  // A message that is no longer due was rescheduled, or claimed by another backend, and must stay unchanged.
  await database.transaction((tx) =>
    tx
      .updateTable('reminders')
      .set({ run_at: later })
      .where('message_id', '=', id)
      .where('run_at', '<=', clock().toISOString())
      .execute(),
  )
}
