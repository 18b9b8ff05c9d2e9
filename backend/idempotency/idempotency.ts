/**
 * A write with an Idempotency-Key happens once, and every repeat gets the first one's answer, byte
 * for byte. The key's row and all that the write does are committed together, so that after any
 * crash either both are there or neither. Only success binds a key: a refusal rolls its row back.
 *
 * The unique row decides every race. The map of running calls only spares repeats that arrive while
 * the first one runs from doing its work in vain, and lets them wait for its answer.
 */
import { Problem } from '../../shared/problem.ts'
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
  /** What the key did where its row is gone after the retention time, if that can be known. */
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
    const patience = startPatience(waitMsMax)
    try {
      // Many may wait: the one that resumes first runs, the others then find it here.
      for (let other = running.get(name); other !== undefined; other = running.get(name)) {
        if ((await Promise.race([other, patience.end])) === 'over') throw inProgress()
      }
      const outcome = replayOrRecord(database, clock, attempt, write)
      // Who waits learns that it ended, and what it was from the database.
      const end = outcome.then(ignore, ignore).finally(() => running.delete(name))
      running.set(name, end)
      return await outcome
    } finally {
      patience.stop()
    }
  }

  return { once }
}

function startPatience(waitMsMax: number): { end: Promise<'over'>; stop(): void } {
  const { promise, resolve } = Promise.withResolvers<'over'>()
  const timer = setTimeout(() => resolve('over'), waitMsMax)
  return { end: promise, stop: () => clearTimeout(timer) }
}

function ignore(): void {}

async function replayOrRecord(
  database: Database,
  clock: () => Date,
  attempt: Attempt,
  write: Write,
): Promise<Outcome> {
  const earlier = await findEarlier(database.read, attempt, write)
  if (earlier !== undefined) return earlier
  const work = write.prepare()
  try {
    return await database.transaction((tx) => record(tx, attempt, clock().toISOString(), work))
  } catch (error) {
    if (!(error instanceof ConstraintViolation && isAboutKey(error))) throw error
    // Another process committed the same key in between.
    const committed = await findEarlier(database.read, attempt, write)
    if (committed === undefined) throw inProgress()
    return committed
  }
}

async function findEarlier(
  read: Reader,
  attempt: Attempt,
  write: Write,
): Promise<Outcome | undefined> {
  const { accountId, operation, key } = attempt
  // Both are asked in one turn: nearly always there is neither.
  const recalling = write.recall(read)
  recalling.catch(ignore)
  const [row] = await readRow(read, { accountId, operation, key })
  if (row === undefined) {
    const recalled = await recalling
    return recalled && { ...recalled, replayed: true }
  }
  if (row.fingerprint !== attempt.fingerprint) {
    throw keyReused({ [write.originalMember]: row.resource_id })
  }
  return { resourceId: row.resource_id, body: row.body, replayed: true }
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

async function record(
  tx: Transaction,
  { accountId, operation, key, fingerprint }: Attempt,
  createdAt: string,
  work: (tx: Transaction) => Promise<Recorded>,
): Promise<Outcome> {
  // The row comes first, so that where writers run side by side a repeat waits here for the first
  // one, and does not judge the body by what the first one is about to change.
  const row = { account_id: accountId, operation, key, fingerprint, resource_id: '', body: '' }
  await insertRow(tx, { ...row, created_at: createdAt }).catch((error: unknown) => {
    throw error instanceof LockTimeout ? inProgress() : error
  })
  const { resourceId, body } = await work(tx)
  await completeRow(tx, { accountId, operation, key, resourceId, body })
  return { resourceId, body, replayed: false }
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
