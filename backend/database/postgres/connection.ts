import assert from 'node:assert'
import { CompiledQuery, type DatabaseConnection, type QueryResult } from 'kysely'
import type pg from 'pg'
import { ConstraintViolation } from '../constraint-violation.ts'
import { isPrepared } from '../prepared.ts'
import { LockTimeout, unavailable } from '../unavailable.ts'
import { constraintViolation, type ErrorKind, errorKindOf } from './errors.ts'
import { connectionError } from './sessions.ts'
import { encodeValue, type Statement, sendTogether } from './statement-batch.ts'
import type { StatementNames } from './statement-names.ts'

/** Sends a statement immediately and alone, for migrations and snapshots. */
export async function query<R>(
  client: pg.ClientBase,
  { sql: text, parameters }: Pick<CompiledQuery, 'sql' | 'parameters'>,
): Promise<QueryResult<R>> {
  const { command, rowCount, rows } = await client.query({ text, values: [...parameters] })
  return WRITE_COMMANDS.has(command) ? { numAffectedRows: BigInt(rowCount ?? 0), rows } : { rows }
}

/** The commands that the server reports in the results of writes. */
const WRITE_COMMANDS = new Set(['INSERT', 'UPDATE', 'DELETE'])

/** The kinds of the nodes by which Kysely represents writes. */
const WRITE_NODES = new Set(['InsertQueryNode', 'UpdateQueryNode', 'DeleteQueryNode'])

const BEGIN = CompiledQuery.raw('begin isolation level read committed')
const COMMIT = CompiledQuery.raw('commit')
/** `statement` is the name of the savepoint. */
const SAVEPOINT = CompiledQuery.raw('savepoint statement')
const RELEASE = CompiledQuery.raw('release savepoint statement')
const UNDO = CompiledQuery.raw('rollback to savepoint statement')

/** A statement that was added to the transaction, and whose result has not arrived yet. */
interface Pending {
  readonly statement: Statement
  /** Whether a savepoint precedes the statement, so that a violation does not abort the transaction. */
  readonly isUndoable: boolean
  readonly awaited?: {
    resolve(result: QueryResult<never>): void
    reject(error: unknown): void
  }
}

/**
 * The connection of one transaction. A statement is not sent immediately, but at the next tick (`process.nextTick`),
 * together with all statements that were added until then. The server runs them in the order of the calls of
 * `executeQuery`.
 *
 * A prepared write (see prepared.ts) that returns no rows is not awaited: it is sent together with the next awaited
 * statement, or with the COMMIT. If such a write fails, the next awaited statement throws the error of the write, or
 * `commit` returns false.
 *
 * In PostgreSQL, a failed statement aborts the whole transaction. A write that is not prepared therefore has a
 * savepoint, so that code can catch its constraint violation.
 */
export class TransactionConnection implements DatabaseConnection {
  readonly #client: pg.ClientBase
  readonly #names: StatementNames
  #unsent: Pending[] = []
  #isSendScheduled = false
  #hasSent = false
  /**
   * Resolves when a write with a savepoint has succeeded, or has failed and was undone if possible. The next statement
   * is added only then.
   */
  #undoableWrite: Promise<unknown> | undefined
  #hasSavepoint = false
  #hasEnded = false
  #isAborted = false
  #unawaitedError: unknown
  #fatalError: TransactionConnection['fatalError']
  constructor(client: pg.ClientBase, names: StatementNames) {
    this.#client = client
    this.#names = names
  }

  /** The error of the server or of the connection that made the transaction fail, if any: see `ErrorKind`. */
  get fatalError(): { readonly kind: ErrorKind; readonly error: Error } | undefined {
    const error = connectionError(this.#client)
    return error === undefined ? this.#fatalError : { kind: 'connection_lost', error }
  }

  /** The first error of a statement that was not awaited. */
  get unawaitedError(): unknown {
    return this.#unawaitedError
  }

  /** Whether the transaction has ended, so that the connection can be used for another one. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** `lockMsMax` replaces the session's `lock_timeout` for this transaction. */
  begin({ lockMsMax }: { readonly lockMsMax?: number } = {}): void {
    this.#add(BEGIN)
    if (lockMsMax !== undefined)
      this.#add(CompiledQuery.raw(`set local lock_timeout = ${lockMsMax}`))
  }

  /** Returns false if `unawaitedError` prevented the commit. Throws if the COMMIT failed or the connection was lost. */
  async commit(): Promise<boolean> {
    await this.#undoableWrite
    const commit = this.#add(COMMIT)
    const { failed, error, last } = await this.#send()
    if (failed === undefined) {
      this.#hasEnded = true
      // The server responds to the COMMIT of an aborted transaction with ROLLBACK.
      if (last === 'COMMIT') return true
      this.#assertUnawaitedError()
      return false
    }
    if (failed === commit) throw error
    // After a failed statement, the server skips the COMMIT. If instead the connection was lost, the COMMIT may
    // have succeeded. In this case, the rollback fails too.
    await this.#rollback()
    if (!this.#hasEnded) throw error
    this.#assertUnawaitedError()
    return false
  }

  /**
   * Rolls back. Unsent statements are dropped. If one of them is awaited, however, all are sent first, so that each
   * awaited statement gets its result. If the rollback fails, `hasEnded` remains false: the connection is lost, so the
   * server rolls back by itself.
   */
  async rollback(): Promise<void> {
    await this.#undoableWrite
    if (this.#unsent.some(({ awaited }) => awaited !== undefined)) await this.#send()
    this.#unsent = []
    if (this.#hasEnded || this.fatalError?.kind === 'connection_lost') return
    if (this.#hasSent) await this.#rollback()
    else this.#hasEnded = true
  }

  async executeQuery<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    while (this.#undoableWrite !== undefined) await this.#undoableWrite
    if (!isWrite(compiled)) return this.#run(compiled)
    if (!isPrepared(compiled)) return this.#runUndoable(compiled)
    if (returnsRows(compiled)) return this.#run(compiled)
    this.#add(compiled)
    return { rows: [] }
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface requires a generator; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Lists are read in pages, not streamed')
  }

  #add(compiled: CompiledQuery, more: Partial<Pending> = {}): Pending {
    const { sql: text, parameters } = compiled
    const statement = {
      text,
      values: parameters.map(encodeValue),
      name: isPrepared(compiled) ? this.#names.nameOf(text) : undefined,
      returnsRows: !isWrite(compiled) || returnsRows(compiled),
    }
    const pending = { statement, isUndoable: false, ...more }
    this.#unsent.push(pending)
    return pending
  }

  #run<R>(compiled: CompiledQuery, isUndoable = false): Promise<QueryResult<R>> {
    const { promise, resolve, reject } = Promise.withResolvers<QueryResult<R>>()
    this.#add(compiled, { isUndoable, awaited: { resolve, reject } })
    this.#sendAtNextTick()
    return promise
  }

  #sendAtNextTick(): void {
    if (this.#isSendScheduled) return
    this.#isSendScheduled = true
    process.nextTick(() => {
      this.#isSendScheduled = false
      void this.#send()
    })
  }

  /** Returns the statement that failed and its error, or the command of the last statement. */
  async #send(): Promise<{ failed?: Pending; error?: unknown; last?: string | undefined }> {
    const sent = this.#unsent
    this.#unsent = []
    if (sent.length === 0) return {}
    this.#hasSent = true
    const statements = sent.map(({ statement }) => statement)
    const { results, error } = await sendTogether(this.#client, statements)
    for (const [at, { command, rowCount, rows, conversionError }] of results.entries()) {
      const { awaited } = sent[at] ?? {}
      if (conversionError !== undefined) awaited?.reject(conversionError)
      else if (!WRITE_COMMANDS.has(command)) awaited?.resolve({ rows: rows as never[] })
      else awaited?.resolve({ numAffectedRows: BigInt(rowCount), rows: rows as never[] })
    }
    const failed = sent[results.length]
    if (failed === undefined) return { last: results.at(-1)?.command }
    const translated = constraintViolation(error) ?? this.#translate(error, failed)
    if (!failed.isUndoable || !(translated instanceof ConstraintViolation)) this.#isAborted = true
    if (failed.awaited === undefined) this.#unawaitedError ??= translated
    for (const { awaited } of sent.slice(results.length)) {
      awaited?.reject(this.#unawaitedError ?? translated)
    }
    return { failed, error }
  }

  /**
   * Asserts that `unawaitedError` explains why nothing was committed. Otherwise, the failed statement was awaited, and
   * the code of the transaction ignored its error, which is a bug.
   */
  #assertUnawaitedError(): void {
    const message = 'The error of a statement was ignored; nothing was committed'
    assert(this.#unawaitedError !== undefined, message)
  }

  async #rollback(): Promise<void> {
    await this.#client.query('rollback').then(
      () => {
        this.#hasEnded = true
      },
      () => {},
    )
  }

  #runUndoable<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    // The previous savepoint is released, so that savepoints do not accumulate.
    if (this.#hasSavepoint) this.#add(RELEASE)
    this.#hasSavepoint = true
    this.#add(SAVEPOINT)
    const result = this.#run<R>(compiled, true).catch((error: unknown) => this.#undo(error))
    const settled = result.then(
      () => {},
      () => {},
    )
    this.#undoableWrite = settled.then(() => {
      this.#undoableWrite = undefined
    })
    return result
  }

  /** Throws the error. If it is a violation that did not abort the transaction, first undoes the statement. */
  async #undo(error: unknown): Promise<never> {
    if (error instanceof ConstraintViolation && !this.#isAborted) await this.#run(UNDO)
    throw error
  }

  #translate(error: unknown, { statement }: Pending): unknown {
    const isRenamed = this.#names.replaceUnusableName(error, statement.text, statement.name)
    // If the statement has a new name now, the transaction may succeed when it runs again.
    const kind = isRenamed ? 'conflict' : errorKindOf(error)
    if (kind === undefined || !(error instanceof Error)) return error
    this.#fatalError ??= { kind, error }
    return kind === 'locked' ? new LockTimeout(error) : unavailable(error)
  }
}

function isWrite({ query }: CompiledQuery): boolean {
  return WRITE_NODES.has(query.kind)
}

function returnsRows({ query }: CompiledQuery): boolean {
  return 'returning' in query && query.returning !== undefined
}
