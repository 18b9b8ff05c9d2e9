/**
 * The database connection of one job. A job is the work of one caller in a transaction that may also contain the jobs
 * of other callers (see writer.ts). An insert or update that was built with `prepared` (see prepared.ts) and returns no
 * rows is deferred until another statement may depend on it, or until the job ends. It then runs together with the
 * other deferred writes (write-batches.ts), because a round trip to SQLite's thread takes longer than most writes. If a
 * deferred write fails, the statement that caused the write to run throws the error of the write, and the job fails.
 *
 * Before its first write, a job calls `createSavepoint`, so that the job, and the jobs that run at the same time, can
 * be undone without undoing earlier jobs of the transaction. A job whose writes all run as one statement at its end
 * needs no savepoint, because a statement that fails has no effect.
 */
import { type CompiledQuery, type DatabaseConnection, type QueryResult, TableNode } from 'kysely'
import { isPrepared } from '../prepared.ts'
import type { WriteBatches } from './write-batches.ts'

/** Triggers of other tables write to this table (migration 21), so a read of it may depend on any write. */
const TABLE_WRITTEN_BY_TRIGGERS = 'ledger_changes'

export interface JobConnectionOptions {
  readonly writer: Pick<DatabaseConnection, 'executeQuery'>
  /** Runs the reads, within the same transaction. */
  readonly reader: Pick<DatabaseConnection, 'executeQuery'>
  readonly batches: WriteBatches
  /**
   * Makes sure that the job can be undone: the writer creates a savepoint unless the job is the only one in the
   * transaction. Called at most once, before the first write.
   */
  readonly createSavepoint: () => Promise<void>
}

export class JobConnection implements DatabaseConnection {
  readonly #writer: JobConnectionOptions['writer']
  readonly #reader: JobConnectionOptions['reader']
  readonly #batches: WriteBatches
  readonly #createSavepoint: JobConnectionOptions['createSavepoint']
  #deferred: CompiledQuery[] = []
  /** Resolves when the writes that are no longer deferred have run or failed. */
  #written: Promise<void> = Promise.resolve()
  /** Reads that have not ended. */
  readonly #reads = new Set<Promise<unknown>>()
  #failure: { readonly error: unknown } | undefined
  #savepoint: Promise<void> | undefined

  constructor({ writer, reader, batches, createSavepoint }: JobConnectionOptions) {
    this.#writer = writer
    this.#reader = reader
    this.#batches = batches
    this.#createSavepoint = createSavepoint
  }

  /** Whether the job has begun to write, so that it must be undone if it fails. */
  get hasWritten(): boolean {
    return this.#savepoint !== undefined
  }

  async executeQuery<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    if (canBeDeferred(compiled)) {
      this.#deferred.push(compiled)
      return { rows: [] }
    }
    if (this.#deferred.some((write) => !isIndependent(compiled, write))) this.#flush()
    return compiled.query.kind === 'SelectQueryNode' ? this.#read(compiled) : this.#write(compiled)
  }

  #read<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    const result = this.#written.then(() => {
      this.#assertNoFailure()
      return this.#reader.executeQuery<R>(compiled)
    })
    const end = () => void this.#reads.delete(ended)
    const ended = result.then(end, end)
    this.#reads.add(ended)
    return result
  }

  #write<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    const result = this.#afterEarlierStatements(async () => {
      this.#assertNoFailure()
      await this.#beginWriting()
      return await this.#writer.executeQuery<R>(compiled)
    })
    this.#written = result.then(
      () => {},
      () => {},
    )
    return result
  }

  /** Runs a write after the earlier statements: the reads among them must not see what it writes. */
  async #afterEarlierStatements<T>(write: () => Promise<T>): Promise<T> {
    await Promise.all([this.#written, ...this.#reads])
    return await write()
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface requires a generator; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('A job of the write queue cannot stream results')
  }

  /**
   * Called when the work of the job has ended. Returns the writes that are still deferred, combined if possible. Throws
   * if a write that was deferred has failed.
   */
  async takeDeferred(): Promise<readonly CompiledQuery[]> {
    await this.#written
    this.#assertNoFailure()
    return this.#batches.combine(this.#deferred.splice(0))
  }

  /** Runs the writes that `takeDeferred` returned. */
  async runDeferredWrites(statements: readonly CompiledQuery[]): Promise<void> {
    if (statements.length > 1) await this.#beginWriting()
    for (const statement of statements) await this.#writer.executeQuery(statement)
  }

  #flush(): void {
    const writes = this.#deferred.splice(0)
    this.#written = this.#afterEarlierStatements(async () => {
      if (this.#failure !== undefined) return
      await this.#beginWriting()
      for (const write of this.#batches.combine(writes)) await this.#writer.executeQuery(write)
    }).catch((error: unknown) => {
      this.#failure ??= { error }
    })
  }

  #assertNoFailure(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }

  #beginWriting(): Promise<void> {
    this.#savepoint ??= this.#createSavepoint()
    return this.#savepoint
  }
}

function canBeDeferred(compiled: CompiledQuery): boolean {
  return isPrepared(compiled) && tableOf(compiled) !== undefined && !returnsRows(compiled)
}

function returnsRows({ query }: CompiledQuery): boolean {
  return 'returning' in query && query.returning !== undefined
}

/** Whether the statement reads only tables to which the write does not write. */
function isIndependent({ query, sql }: CompiledQuery, write: CompiledQuery): boolean {
  const table = tableOf(write)
  if (query.kind !== 'SelectQueryNode' || table === undefined) return false
  return !sql.includes(table) && !sql.includes(TABLE_WRITTEN_BY_TRIGGERS)
}

/** Returns the table of an insert or an update; undefined for other statements. */
function tableOf({ query }: CompiledQuery): string | undefined {
  if (query.kind === 'InsertQueryNode') return query.into?.table.identifier.name
  const table = query.kind === 'UpdateQueryNode' ? query.table : undefined
  return table !== undefined && TableNode.is(table) ? table.table.identifier.name : undefined
}
