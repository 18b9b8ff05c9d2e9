/** PostgreSQL connections for Kysely. */
import assert from 'node:assert'
import { CompiledQuery, type DatabaseConnection, type QueryResult } from 'kysely'
import type pg from 'pg'
import { isPrepared } from '../prepared.ts'
import { LockTimeout, unavailable } from '../unavailable.ts'
import { constraintViolation, type Trouble, troubleOf } from './errors.ts'
import { connectionError } from './sessions.ts'
import type { StatementNames } from './statement-names.ts'

/** Runs a statement, which the server keeps prepared if it has a name. */
export async function query<R>(
  client: pg.ClientBase,
  { sql: text, parameters }: Pick<CompiledQuery, 'sql' | 'parameters'>,
  name?: string,
): Promise<QueryResult<R>> {
  const config = { text, values: [...parameters] }
  const { command, rowCount, rows } = await client.query(
    name === undefined ? config : { ...config, name },
  )
  return ROW_WRITES.has(command) ? { numAffectedRows: BigInt(rowCount ?? 0), rows } : { rows }
}

const ROW_WRITES = new Set(['INSERT', 'UPDATE', 'DELETE'])

const WRITE_NODES = new Set(['InsertQueryNode', 'UpdateQueryNode', 'DeleteQueryNode'])

const SAVEPOINT = 'savepoint statement'

/**
 * The connection of one transaction. Statements are sent as soon as they are executed, and the server runs
 * them in that order.
 *
 * The connection does not wait for a prepared write that returns no rows. If such a write fails, the next
 * awaited statement throws its error, or `commit` returns false. In PostgreSQL, a failed statement ends the
 * whole transaction. Other writes therefore have a savepoint, so that a constraint violation undoes only
 * the write itself. A prepared write has no savepoint.
 */
export class TransactionConnection implements DatabaseConnection {
  readonly #client: pg.ClientBase
  readonly #names: StatementNames
  /** A write with a savepoint: the next statement is sent only once its result is known. */
  #undoable: Promise<unknown> | undefined
  #hasSavepoint = false
  #hasEnded = false
  /** Resolves when the last statement that is not awaited has ended, and therefore all of them. */
  #sentAhead: Promise<void> = Promise.resolve()
  #failure: unknown
  #trouble: TransactionConnection['trouble']

  constructor(client: pg.ClientBase, names: StatementNames) {
    this.#client = client
    this.#names = names
  }

  /** The error, if any, that no savepoint can undo. */
  get trouble(): { readonly kind: Trouble; readonly error: Error } | undefined {
    const broken = connectionError(this.#client)
    return broken === undefined ? this.#trouble : { kind: 'lost', error: broken }
  }

  /** The first error of a statement that was not awaited. */
  get failure(): unknown {
    return this.#failure
  }

  /** Whether the transaction has ended properly, so that the connection can serve another. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  begin(): void {
    this.#sendAhead(CompiledQuery.raw('begin isolation level read committed'))
  }

  /** Commits. Returns false if `failure` prevented the commit. */
  async commit(): Promise<boolean> {
    await this.#undoable
    const { command } = await this.#client.query('commit')
    this.#hasEnded = true
    await this.#sentAhead
    if (command !== 'COMMIT' && this.#failure !== undefined) return false
    assert(command === 'COMMIT', 'A statement failed, which was ignored: nothing was committed')
    return true
  }

  /**
   * Rolls back after all earlier statements. If this fails, the connection is lost, and with it the
   * transaction.
   */
  async rollback(): Promise<void> {
    await this.#undoable
    if (this.#hasEnded || this.trouble?.kind === 'lost') return
    await this.#client.query('rollback').then(
      () => {
        this.#hasEnded = true
      },
      () => {},
    )
  }

  async executeQuery<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    while (this.#undoable !== undefined) await this.#undoable
    if (!WRITE_NODES.has(compiled.query.kind)) return this.#run(compiled)
    if (!isPrepared(compiled)) return this.#runUndoable(compiled)
    if ('returning' in compiled.query && compiled.query.returning) return this.#run(compiled)
    this.#sendAhead(compiled)
    return { rows: [] }
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface asks for it; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Lists are read in pages, not streamed')
  }

  #sendAhead(compiled: CompiledQuery): void {
    const name = this.#nameOf(compiled)
    this.#sentAhead = query(this.#client, compiled, name).then(
      () => {},
      (error: unknown) => {
        this.#failure ??= constraintViolation(error) ?? this.#translate(error, compiled, name)
      },
    )
  }

  async #run<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    const name = this.#nameOf(compiled)
    try {
      return await query<R>(this.#client, compiled, name)
    } catch (error) {
      await this.#sentAhead
      throw this.#failure ?? constraintViolation(error) ?? this.#translate(error, compiled, name)
    }
  }

  #nameOf(compiled: CompiledQuery): string | undefined {
    return isPrepared(compiled) ? this.#names.nameOf(compiled.sql) : undefined
  }

  #runUndoable<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    const savepoint = this.#client.query(this.#nextSavepoint())
    const result = Promise.allSettled([savepoint, query<R>(this.#client, compiled)]).then(
      ([, outcome]) =>
        outcome.status === 'fulfilled' ? outcome.value : this.#undo(outcome.reason, compiled),
    )
    const isKnown = result.then(
      () => {},
      () => {},
    )
    this.#undoable = isKnown.then(() => {
      this.#undoable = undefined
    })
    return result
  }

  /** Throws the violation after undoing the statement; otherwise the error that ended the transaction. */
  async #undo(error: unknown, compiled: CompiledQuery): Promise<never> {
    await this.#sentAhead
    const violation = this.#failure === undefined ? constraintViolation(error) : undefined
    if (violation === undefined) throw this.#failure ?? this.#translate(error, compiled)
    await this.#client.query(`rollback to ${SAVEPOINT}`).catch((reason: unknown) => {
      throw this.#translate(reason)
    })
    throw violation
  }

  /** Releases the previous savepoint, so that savepoints do not accumulate. */
  #nextSavepoint(): string {
    if (this.#hasSavepoint) return `release ${SAVEPOINT}; ${SAVEPOINT}`
    this.#hasSavepoint = true
    return SAVEPOINT
  }

  #translate(error: unknown, compiled?: CompiledQuery, name?: string): unknown {
    const isStale = compiled !== undefined && this.#names.renewAfter(error, compiled.sql, name)
    const kind = isStale ? 'conflict' : troubleOf(error)
    if (kind === undefined || !(error instanceof Error)) return error
    this.#trouble ??= { kind, error }
    return kind === 'locked' ? new LockTimeout(error, tableOf(compiled)) : unavailable(error)
  }
}

/** The table of an insert. */
function tableOf(compiled: CompiledQuery | undefined): string | undefined {
  return compiled?.query.kind === 'InsertQueryNode'
    ? compiled.query.into?.table.identifier.name
    : undefined
}
