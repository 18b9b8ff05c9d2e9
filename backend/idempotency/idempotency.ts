/**
 * A write with an Idempotency-Key is performed once. The table `idempotency_keys` has a row for the key, with the
 * stored response. As long as this row is kept, every retry gets the same body, byte for byte, unless an erasure has
 * since removed personal data from it. The row is committed together with the write, so that after a crash both exist
 * or neither. Only a successful write stores the row: after a rejection, the Idempotency-Key can be used again.
 *
 * The table's primary key decides every race: only one of several concurrent writes can insert the row. The map of
 * calls in progress only avoids useless work: concurrent retries wait for the result of the first call.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { Database, Reader, Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import type { IdempotencyRow } from '../database/tables.ts'
import { together } from '../database/together.ts'
import { LockTimeout } from '../database/unavailable.ts'

export interface Attempt {
  readonly accountId: string
  /** The operation's id in the contract. */
  readonly operation: string
  readonly key: string
  /** A digest of the operation and the body. A retry has the same fingerprint. */
  readonly fingerprint: string
}

export interface Recorded {
  readonly resourceId: string
  readonly body: string
}

export interface Outcome extends Recorded {
  readonly replayed: boolean
}

export interface Write {
  /** Prepares the work, or throws a `Problem` if the body is invalid. Called only if there is nothing to replay. */
  prepare(): (tx: Transaction) => Promise<Recorded>
  /**
   * Finds what an earlier write with the key created, even if the row of the key has expired. Called after a
   * rejection, because the earlier write may have caused it.
   */
  recall(read: Reader): Promise<Recorded | undefined>
  /**
   * Finds the only debtor whose records the write changes; undefined if there may be several. The id becomes `debtorId`
   * of the `TransactionScope`.
   */
  findDebtorId?(read: Reader): Promise<string | undefined>
  /** The member of the problem `idempotency_key_reused` that contains the id of what the first call created. */
  readonly originalIdMember: string
}

export interface Idempotency {
  /**
   * Performs the write, or returns the outcome of the first write with this key. Throws `idempotency_key_reused` and
   * `idempotency_in_progress`.
   */
  once(attempt: Attempt, write: Write): Promise<Outcome>
}

export interface IdempotencyOptions {
  readonly database: Database
  readonly clock: () => Date
  /**
   * How long a retry waits for the first call: longer than a write takes on a busy disk, and shorter than the
   * timeouts of clients.
   */
  readonly waitMsMax?: number
}

export function createIdempotency({
  database,
  clock,
  waitMsMax = 2000,
}: IdempotencyOptions): Idempotency {
  const running = new Map<string, Promise<unknown>>()

  async function once(attempt: Attempt, write: Write): Promise<Outcome> {
    const attemptKey = JSON.stringify([attempt.accountId, attempt.operation, attempt.key])
    let timeout: ReturnType<typeof startTimeout> | undefined
    try {
      // Several calls may wait. The first call that resumes becomes the call in progress, for which the others
      // wait.
      for (
        let other = running.get(attemptKey);
        other !== undefined;
        other = running.get(attemptKey)
      ) {
        timeout ??= startTimeout(waitMsMax)
        if ((await Promise.race([other, timeout.end])) === 'elapsed') throw inProgress()
      }
    } finally {
      timeout?.stop()
    }
    const outcome = replayOrPerform(database, clock, attempt, write)
    // Waiting calls read the result from the database.
    const end = () => void running.delete(attemptKey)
    running.set(attemptKey, outcome.then(end, end))
    return outcome
  }

  return { once }
}

function startTimeout(waitMsMax: number): { end: Promise<'elapsed'>; stop(): void } {
  const { promise, resolve } = Promise.withResolvers<'elapsed'>()
  const timer = setTimeout(() => resolve('elapsed'), waitMsMax)
  return { end: promise, stop: () => clearTimeout(timer) }
}

async function replayOrPerform(
  database: Database,
  clock: () => Date,
  attempt: Attempt,
  write: Write,
): Promise<Outcome> {
  const [earlier, debtorId] = await Promise.all([
    findRecorded(database.read, attempt, write),
    write.findDebtorId?.(database.read),
  ])
  if (earlier !== undefined) return earlier
  try {
    return await performAndStoreKey(database, attempt, debtorId, write.prepare(), clock())
  } catch (error) {
    const isKeyTaken = error instanceof ConstraintViolation && isAboutKey(error)
    if (!isKeyTaken && !mayBeCausedByEarlierWrite(error)) throw error
    const committed =
      (await findRecorded(database.read, attempt, write)) ??
      (await recallEarlier(database.read, write))
    if (committed !== undefined) return committed
    // A write that has taken the key, but cannot be found, counts as running: the client then sends the call again.
    throw isKeyTaken ? inProgress() : error
  }
}

async function findRecorded(
  read: Reader,
  { accountId, operation, key, fingerprint }: Attempt,
  { originalIdMember }: Write,
): Promise<Outcome | undefined> {
  const [row] = await readRow(read, { accountId, operation, key })
  if (row === undefined) return undefined
  if (row.fingerprint !== fingerprint) throw keyReused({ [originalIdMember]: row.resource_id })
  return { resourceId: row.resource_id, body: row.body, replayed: true }
}

async function recallEarlier(read: Reader, write: Write): Promise<Outcome | undefined> {
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

async function performAndStoreKey(
  database: Database,
  attempt: Attempt,
  debtorId: string | undefined,
  work: ReturnType<Write['prepare']>,
  now: Date,
): Promise<Outcome> {
  const { accountId } = attempt
  const performAndStore = async (tx: Transaction): Promise<Outcome> => {
    // The lock and the first statements of the work are sent together, in one round trip. With SQLite, where
    // `isConcurrent` is false, no lock is needed: in the only backend process, a call waits for an earlier call with
    // the same key (`running`).
    const locking = database.isConcurrent ? lockKey(tx, attempt) : undefined
    const [, recorded] = await together([locking, work(tx)])
    await insertRow(tx, rowOf(attempt, recorded, now))
    return { ...recorded, replayed: false }
  }
  return await database.transaction(performAndStore, { accountId, debtorId })
}

/**
 * Makes concurrent retries at other backends wait for the key rather than for the records that the first call is
 * changing. A retry that waits too long is thus rejected with `idempotency_in_progress`, which tells the client that
 * the first call is still running.
 */
async function lockKey(tx: Transaction, { accountId, operation, key }: Attempt): Promise<void> {
  try {
    await lockText(tx, { text: JSON.stringify([accountId, operation, key]) })
  } catch (error) {
    throw error instanceof LockTimeout ? inProgress() : error
  }
}

/**
 * PostgreSQL releases the lock when the transaction ends. If different texts have the same hash, their calls only wait
 * for each other.
 */
const lockText = prepared((tx: Transaction, { text }: { readonly text: string }) =>
  tx.selectNoFrom(({ fn, val, lit }) =>
    fn('pg_advisory_xact_lock', [fn('hashtextextended', [val(text), lit(0)])]).as('locked'),
  ),
)

function rowOf(
  { accountId, operation, key, fingerprint }: Attempt,
  { resourceId, body }: Recorded,
  now: Date,
): IdempotencyRow {
  return {
    account_id: accountId,
    operation,
    key,
    fingerprint,
    resource_id: resourceId,
    body,
    created_at: now.toISOString(),
  }
}

const insertRow = prepared((tx: Transaction, row: IdempotencyRow) =>
  tx.insertInto('idempotency_keys').values(row),
)

/** The table `payments` also stores idempotency keys, and keeps them longer than the table `idempotency_keys`. */
function isAboutKey({ columns }: ConstraintViolation): boolean {
  return columns.includes('idempotency_keys.key') || columns.includes('payments.idempotency_key')
}

/**
 * An earlier write with the same key may have caused a rejection, e.g. because both have the same `external_id`, but
 * cannot cause a 5xx.
 */
function mayBeCausedByEarlierWrite(error: unknown): boolean {
  return error instanceof Problem && error.status < 500
}

/** `members` identify the resource that the first request with the key created. */
export function keyReused(members: Readonly<Record<string, unknown>>): Problem {
  return new Problem(
    'idempotency_key_reused',
    'This Idempotency-Key was used with another body. To repeat that call, send the same body again; to create another object, use another key.',
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
