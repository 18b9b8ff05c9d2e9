/**
 * Hands over what is due, from inside the backend's process: the gate, the mail server, the mark; no
 * lock is held over the network. Any number of backends may run one.
 *
 * While the mail server is away one message at a time asks whether it is back; the others wait where
 * they are, so that neither the server nor the recipients see a burst.
 */
import type { Logger } from '../../../shared/process/log.ts'
import { startWorker, type Worker } from '../../background/worker.ts'
import type { Database } from '../../database/database.ts'
import type { HandOff, Mailer } from '../../mail/mail.ts'
import { type Departure, type GateDeps, openGate } from './gate.ts'
import { recordHandOff } from './hand-off.ts'
import { REMINDERS } from './leases.ts'

/** A mail server that takes 100 ms a message takes 40 a second. */
const IN_FLIGHT_MAX = 4

/** Looked at in one round: what is put off or suppressed costs a transaction each. */
const DUE_MAX = 64

const POLL_MS = 1000
const AFTER_ERROR_MS = 5000
const AFTER_FAULT_MS = 10 * 60_000

/** Between two questions to a mail server that is away. */
const AWAY_MS = 10_000

/** A server that denies so many recipients, and takes none between them, is as good as away. */
const DENIED_MAX = 3

export interface SendDeps extends GateDeps {
  readonly database: Database
  readonly mailer: Mailer
  readonly clock: () => Date
  readonly log: Logger
}

export interface SendWorkerDeps extends SendDeps {
  /** No other worker runs on this database, so leases found at the start are of the dead. */
  readonly isOnly: boolean
  readonly pollMs?: number
  readonly awayMs?: number
}

export function startSendWorker(deps: SendWorkerDeps): Worker {
  const { database, clock, log, isOnly, pollMs = POLL_MS, awayMs = AWAY_MS } = deps
  let isAway = false
  return startWorker({
    name: 'sending reminders',
    everyMs: pollMs,
    afterErrorMs: AFTER_ERROR_MS,
    log,
    async prepare() {
      if (isOnly) await database.transaction((tx) => REMINDERS.reclaim(tx, clock(), () => true))
    },
    async round(signal) {
      const round = await sendRound(deps, isAway ? 1 : IN_FLIGHT_MAX, { signal })
      isAway = round.isAway
      if (isAway) return awayMs
      return round.isFull ? 0 : undefined
    },
  })
}

export interface Round {
  /** The mail server took nothing. */
  readonly isAway: boolean
  /** There may be more that is due. */
  readonly isFull: boolean
}

export interface RoundOptions {
  /** Every account's unless given. */
  readonly accountId?: string | undefined
  /** Ends the round after the hand-overs under way. */
  readonly signal?: AbortSignal
}

/** Everything that is due, so many at once; ends early where the mail server is away. */
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
  let isAway = false
  let denied = 0
  async function takeTurns(): Promise<void> {
    for (const id of queue) {
      if (signal?.aborted || isAway) return
      const handOff = await sendOne(deps, id)
      if (handOff?.outcome === 'accepted') denied = 0
      if (handOff?.outcome !== 'abandoned') continue
      if (handOff.isDenied) denied++
      if (!handOff.isDenied || denied >= DENIED_MAX) isAway = true
    }
  }
  await Promise.all(Array.from({ length: atOnce }, takeTurns))
  return { isAway, isFull: ids.length === DUE_MAX }
}

async function sendOne(deps: SendDeps, id: string): Promise<HandOff | undefined> {
  const { database, mailer, clock, log } = deps
  let departure: Departure | undefined
  try {
    departure = await database.transaction((tx) => openGate(tx, deps, id, clock()))
    if (departure === undefined) return undefined
    const left = departure
    const handOff = await mailer.send(left.mail, { startBefore: left.startBefore })
    const isMarked = await database.transaction((tx) => recordHandOff(tx, left, handOff, clock()))
    if (!isMarked) log.warn({ message: id }, 'a reminder was handed over after its lease')
    if (handOff.outcome !== 'accepted') log.info({ message: id, ...handOff }, 'reminder not sent')
    return handOff
  } catch (error) {
    // Before the gate's commit it is due still, after it its lease runs out: nothing is lost.
    log.error({ err: error, message: id, departed: departure !== undefined }, 'reminder failed')
    if (departure === undefined) await postponeFailed(deps, id).catch(() => {})
    return undefined
  }
}

/** One that fails at the gate for a fault of ours must not keep the others from it. */
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
