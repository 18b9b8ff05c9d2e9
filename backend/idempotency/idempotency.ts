/**
 * A write with an Idempotency-Key happens once, and every repeat gets the first one's answer, byte
 * for byte. The key's row and all that the write does are committed together, so that after any
 * crash either both are there or neither. Only success binds a key: a refusal rolls its row back.
 * Nor is anything refused for what the key itself did: before that it is looked for once more.
 *
 * The unique row decides every race. The map of running calls only spares repeats that arrive while
 * the first one runs from doing its work in vain, and lets them wait for its answer.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { Database, Reader, Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import type { IdempotencyRow } from '../database/tables.ts'
import { LockTimeout } from '../database/unavailable.ts'

export interface Attempt {
  readonly accountId: string
  /** The operation's id in the contract. */
  readonly operation: string
  readonly key: string
  /** Of operation and body; a repeat has the same. */
  readonly fingerprint: string
}

export interface Recorded {
  readonly resourceId: string
  /** The answer's body. */
  readonly body: string
}

export interface Outcome extends Recorded {
  readonly replayed: boolean
}

export interface Write {
  /** Does the work; called only if there is nothing to replay, or throws the refusal of the body. */
  prepare(): (tx: Transaction) => Promise<Recorded>
  /**
   * What the key did where its row is gone after the retention time, if that can be known. Asked
   * where the work was refused: if it did anything, the work cannot have succeeded.
   */
  recall(read: Reader): Promise<Recorded | undefined>
  /** The problem's member that names the first one's resource where the key comes with another body. */
  readonly originalMember: string
}

export interface Idempotency {
  /** Throws `idempotency_key_reused` and `idempotency_in_progress`. */
  once(attempt: Attempt, write: Write): Promise<Outcome>
}

export interface IdempotencyOptions {
  readonly database: Database
  readonly clock: () => Date
  /** How long a repeat waits for the first call: long enough for a loaded disk, not for a client. */
  readonly waitMsMax?: number
}

export function createIdempotency({
  database,
  clock,
  waitMsMax = 2000,
}: IdempotencyOptions): Idempotency {
  const running = new Map<string, Promise<unknown>>()

  async function once(attempt: Attempt, write: Write): Promise<Outcome> {
    const name = JSON.stringify([attempt.accountId, attempt.operation, attempt.key])
    let patience: ReturnType<typeof startPatience> | undefined
    try {
      // Many may wait: the one that resumes first runs, the others then find it here.
      for (let other = running.get(name); other !== undefined; other = running.get(name)) {
        patience ??= startPatience(waitMsMax)
        if ((await Promise.race([other, patience.end])) === 'over') throw inProgress()
      }
    } finally {
      patience?.stop()
    }
    const outcome = replayOrRecord(database, clock, attempt, write)
    // Who waits learns that it ended, and what it was from the database.
    const end = () => void running.delete(name)
    running.set(name, outcome.then(end, end))
    return outcome
  }

  return { once }
}

function startPatience(waitMsMax: number): { end: Promise<'over'>; stop(): void } {
  const { promise, resolve } = Promise.withResolvers<'over'>()
  const timer = setTimeout(() => resolve('over'), waitMsMax)
  return { end: promise, stop: () => clearTimeout(timer) }
}

async function replayOrRecord(
  database: Database,
  clock: () => Date,
  attempt: Attempt,
  write: Write,
): Promise<Outcome> {
  const earlier = await findRecorded(database.read, attempt, write)
  if (earlier !== undefined) return earlier
  try {
    const work = write.prepare()
    const record = database.isConcurrent ? claimAndRecord : recordLast
    return await database.transaction((tx) => record(tx, attempt, clock().toISOString(), work))
  } catch (error) {
    // The call that has inserted the key's row is still running, at another backend.
    if (error instanceof LockTimeout && error.table === 'idempotency_keys') throw inProgress()
    const isTaken = error instanceof ConstraintViolation && isAboutKey(error)
    if (!isTaken && !isRefusal(error)) throw error
    const committed =
      (await findRecorded(database.read, attempt, write)) ??
      (await recallDone(database.read, write))
    if (committed !== undefined) return committed
    throw isTaken ? inProgress() : error
  }
}

async function findRecorded(
  read: Reader,
  { accountId, operation, key, fingerprint }: Attempt,
  { originalMember }: Write,
): Promise<Outcome | undefined> {
  const [row] = await readRow(read, { accountId, operation, key })
  if (row === undefined) return undefined
  if (row.fingerprint !== fingerprint) throw keyReused({ [originalMember]: row.resource_id })
  return { resourceId: row.resource_id, body: row.body, replayed: true }
}

async function recallDone(read: Reader, write: Write): Promise<Outcome | undefined> {
  const recalled = await write.recall(read)
  return recalled && { ...recalled, replayed: true }
}

type KeyOfRow = Pick<Attempt, 'accountId' | 'operation' | 'key'>

const readRow = prepared((read: Reader, { accountId, operation, key }: KeyOfRow) =>
  read
    .selectFrom('idempotency_keys')
    .select(['fingerprint', 'resource_id', 'body'])
    .where('account_id', '=', accountId)
    .where('operation', '=', operation)
    .where('key', '=', key),
)

type Work = ReturnType<Write['prepare']>

/**
 * Where one transaction runs at a time nobody can come between: the row is written once, when it is
 * whole.
 */
async function recordLast(
  tx: Transaction,
  attempt: Attempt,
  createdAt: string,
  work: Work,
): Promise<Outcome> {
  const recorded = await work(tx)
  await insertRow(tx, rowOf(attempt, recorded, createdAt))
  return { ...recorded, replayed: false }
}

/**
 * The row comes first, so that where writers run side by side a repeat waits here for the first one,
 * and does not judge the body by what the first one is about to change.
 */
async function claimAndRecord(
  tx: Transaction,
  attempt: Attempt,
  createdAt: string,
  work: Work,
): Promise<Outcome> {
  const claim = rowOf(attempt, { resourceId: '', body: '' }, createdAt)
  await insertRow(tx, claim)
  const recorded = await work(tx)
  const { accountId, operation, key } = attempt
  await completeRow(tx, { accountId, operation, key, ...recorded })
  return { ...recorded, replayed: false }
}

function rowOf(
  { accountId, operation, key, fingerprint }: Attempt,
  { resourceId, body }: Recorded,
  createdAt: string,
): IdempotencyRow {
  return {
    account_id: accountId,
    operation,
    key,
    fingerprint,
    resource_id: resourceId,
    body,
    created_at: createdAt,
  }
}

const insertRow = prepared((tx: Transaction, row: IdempotencyRow) =>
  tx.insertInto('idempotency_keys').values(row),
)

const completeRow = prepared(
  (tx: Transaction, { accountId, operation, key, resourceId, body }: KeyOfRow & Recorded) =>
    tx
      .updateTable('idempotency_keys')
      .set({ resource_id: resourceId, body })
      .where('account_id', '=', accountId)
      .where('operation', '=', operation)
      .where('key', '=', key),
)

function isAboutKey({ columns }: ConstraintViolation): boolean {
  return columns.includes('idempotency_keys.key') || columns.includes('payments.idempotency_key')
}

/** Its reason may be what the key itself did before. */
function isRefusal(error: unknown): boolean {
  return error instanceof Problem && error.status < 500
}

/** `members` name the resource that the key created. */
export function keyReused(members: Readonly<Record<string, unknown>>): Problem {
  return new Problem(
    'idempotency_key_reused',
    'This Idempotency-Key was used with another body. Send that body again, or use a new key.',
    { members },
  )
}

function inProgress(): Problem {
  return new Problem(
    'idempotency_in_progress',
    'A call with this Idempotency-Key is still running. Send it again in a second.',
    { headers: { 'retry-after': '1' } },
  )
}
