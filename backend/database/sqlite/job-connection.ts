/**
 * The connection of one job of the write queue. A prepared write that returns no rows waits until a statement
 * may depend on it or the job ends, and then runs together with the others that wait (write-batches.ts): the
 * trip to SQLite's thread and back takes longer than most writes. If a write fails, the statement that caused
 * it to run throws its error, and the job fails.
 *
 * The savepoint that undoes a job is not begun before its first write, and not at all if all its writes are
 * one statement at its end, which undoes itself.
 */
import { type CompiledQuery, type DatabaseConnection, type QueryResult, TableNode } from 'kysely'
import { isPrepared } from '../prepared.ts'
import type { SqliteConnection } from './connection.ts'
import type { WriteBatches } from './write-batches.ts'

/** Triggers write to this table (migration 21), so that no statement's text names it. */
const TRIGGERED = 'ledger_changes'

export interface JobConnectionOptions {
  readonly writer: SqliteConnection
  readonly batches: WriteBatches
  /** Begins what undoes the job, before its first write. */
  readonly beginUndo: () => Promise<void>
}

export class JobConnection implements DatabaseConnection {
  readonly #writer: SqliteConnection
  readonly #batches: WriteBatches
  readonly #beginUndo: JobConnectionOptions['beginUndo']
  #waiting: CompiledQuery[] = []
  /** Resolves when the writes that no longer wait have run. */
  #flushed: Promise<void> = Promise.resolve()
  #failure: { readonly error: unknown } | undefined
  #undo: Promise<void> | undefined

  constructor({ writer, batches, beginUndo }: JobConnectionOptions) {
    this.#writer = writer
    this.#batches = batches
    this.#beginUndo = beginUndo
  }

  /** Whether the job has begun to write, so that it must be undone if it fails. */
  get hasWritten(): boolean {
    return this.#undo !== undefined
  }

  async executeQuery<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    if (mayWait(compiled)) {
      this.#waiting.push(compiled)
      return { rows: [] }
    }
    if (this.#waiting.some((write) => !isIndependent(compiled, write))) this.#flush()
    await this.#flushed
    if (this.#failure !== undefined) throw this.#failure.error
    if (compiled.query.kind !== 'SelectQueryNode') await this.#beginWriting()
    return await this.#writer.executeQuery(compiled)
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface asks for it; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Writes are not streamed')
  }

  /** Runs the writes that still wait. Throws the error of the first write that failed. */
  async end(): Promise<void> {
    await this.#flushed
    if (this.#failure !== undefined) throw this.#failure.error
    const statements = this.#batches.combine(this.#waiting)
    if (statements.length > 1) await this.#beginWriting()
    for (const statement of statements) await this.#writer.executeQuery(statement)
  }

  #flush(): void {
    const writes = this.#waiting.splice(0)
    this.#flushed = this.#flushed
      .then(async () => {
        if (this.#failure !== undefined) return
        await this.#beginWriting()
        for (const write of this.#batches.combine(writes)) await this.#writer.executeQuery(write)
      })
      .catch((error: unknown) => {
        this.#failure ??= { error }
      })
  }

  #beginWriting(): Promise<void> {
    this.#undo ??= this.#beginUndo()
    return this.#undo
  }
}

function mayWait(compiled: CompiledQuery): boolean {
  return isPrepared(compiled) && tableOf(compiled) !== undefined && !returnsRows(compiled)
}

function returnsRows({ query }: CompiledQuery): boolean {
  return 'returning' in query && query.returning !== undefined
}

/** Whether the statement reads only tables to which the write does not write. */
function isIndependent({ query, sql }: CompiledQuery, write: CompiledQuery): boolean {
  const table = tableOf(write)
  if (query.kind !== 'SelectQueryNode' || table === undefined) return false
  return !sql.includes(table) && !sql.includes(TRIGGERED)
}

/** The table of an insert or an update. */
function tableOf({ query }: CompiledQuery): string | undefined {
  if (query.kind === 'InsertQueryNode') return query.into?.table.identifier.name
  const table = query.kind === 'UpdateQueryNode' ? query.table : undefined
  return table !== undefined && TableNode.is(table) ? table.table.identifier.name : undefined
}
