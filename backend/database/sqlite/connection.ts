/** A SQLite connection for Kysely. It hides sqlite3's callbacks and SQLite's error codes. */
import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely'
import { LRUCache } from 'lru-cache'
import sqlite3 from 'sqlite3'
import { ConstraintViolation } from '../constraint-violation.ts'
import { outcomeUnknown, unavailable } from '../unavailable.ts'

/**
 * The maximum number of cached prepared statements. Lists need many, because the text of their queries varies with the
 * filters.
 */
const STATEMENTS_MAX = 250

/** How long SQLite itself waits for the lock of another process (the CLI). */
const BUSY_TIMEOUT_MS = 5000

/** A write touches a page of every index of its tables. SQLite's default of 2 MB is too small. */
const WRITER_CACHE_KIB = 16_384

/** SQLite 3.51.3 fixed a race between checkpoint and reset of the WAL that could lose a commit. */
const VERSION_MIN = [3, 51, 3] as const

/**
 * Errors of the environment: disk, memory, another process. Such an error may have ended the whole
 * transaction, and the same request may succeed later.
 */
const ENVIRONMENTAL = new Set<number>([
  sqlite3.BUSY,
  sqlite3.LOCKED,
  sqlite3.NOMEM,
  sqlite3.READONLY,
  sqlite3.INTERRUPT,
  sqlite3.IOERR,
  sqlite3.CORRUPT,
  sqlite3.FULL,
  sqlite3.CANTOPEN,
  sqlite3.PROTOCOL,
  sqlite3.NOTADB,
])

export class SqliteConnection implements DatabaseConnection {
  readonly #handle: sqlite3.Database
  readonly #statements = new LRUCache<string, sqlite3.Statement>({
    max: STATEMENTS_MAX,
    dispose: (statement) => statement.finalize(),
  })
  #fault: Error | undefined

  private constructor(handle: sqlite3.Database) {
    this.#handle = handle
  }

  /** The file must exist. */
  static async open(path: string, use: 'read' | 'write'): Promise<SqliteConnection> {
    const handle = await openHandle(path)
    const connection = new SqliteConnection(handle)
    try {
      // The timeout comes first, because switching to WAL takes a lock.
      await connection.exec(`pragma busy_timeout = ${BUSY_TIMEOUT_MS}`)
      await connection.exec('pragma journal_mode = wal')
      // FULL: acknowledged data has reached the disk, not only the system's cache.
      await connection.exec('pragma synchronous = full')
      await connection.exec('pragma foreign_keys = on; pragma trusted_schema = off')
      // Deleted and replaced data is also erased from the file.
      await connection.exec('pragma secure_delete = on')
      // Data for undoing a savepoint stays in memory: the disk of the temporary directory may be full.
      await connection.exec('pragma temp_store = memory')
      // `wal_autocheckpoint` keeps its default. With four times as many pages between two checkpoints, a checkpoint
      // delayed payments by 400 ms.
      if (use === 'read') await connection.exec('pragma query_only = on')
      else await connection.exec(`pragma cache_size = -${WRITER_CACHE_KIB}`)
      await connection.#assertVersion()
    } catch (error) {
      await connection.close()
      throw error
    }
    return connection
  }

  /** The last error of the environment, if any: see `ENVIRONMENTAL`. */
  get fault(): Error | undefined {
    return this.#fault
  }

  /** Runs one or more statements that take no parameters, such as `begin` or a pragma. Rows are not returned. */
  exec(sql: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#handle.exec(sql, (error) => (error ? reject(this.#translate(error)) : resolve()))
    })
  }

  /**
   * Runs `sql`, then commits. If the disk fails during the commit, throws 504: the write-ahead log may already contain
   * the transaction, and SQLite would then recover it after a restart.
   */
  async commit(sql: string): Promise<void> {
    try {
      await this.exec(`${sql}; commit`)
    } catch (error) {
      throw codeOf(this.#fault) === sqlite3.IOERR ? outcomeUnknown(this.#fault) : error
    }
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const statement = await this.#prepare(query.sql)
    return new Promise((resolve, reject) => {
      if (returnsRows(query)) {
        // `get` is not used, because it would stop at the first row and keep its snapshot open.
        statement.all<R>(query.parameters, (error, rows) =>
          error ? reject(this.#translate(error)) : resolve({ rows }),
        )
        return
      }
      const connection = this
      statement.run(query.parameters, function (error) {
        if (error) reject(connection.#translate(error))
        else resolve({ numAffectedRows: BigInt(this.changes), rows: [] })
      })
    })
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface requires a generator; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Lists are read in pages, not streamed')
  }

  close(): Promise<void> {
    this.#statements.clear()
    return new Promise((resolve, reject) => {
      this.#handle.close((error) => (error ? reject(error) : resolve()))
    })
  }

  async #prepare(sql: string): Promise<sqlite3.Statement> {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = await new Promise<sqlite3.Statement>((resolve, reject) => {
      const prepared = this.#handle.prepare(sql, (error) =>
        error ? reject(this.#translate(error)) : resolve(prepared),
      )
    })
    this.#statements.set(sql, statement)
    return statement
  }

  async #assertVersion(): Promise<void> {
    const version = await new Promise<string>((resolve, reject) => {
      this.#handle.all<{ version: string }>('select sqlite_version() as version', (error, rows) =>
        error ? reject(error) : resolve(rows[0]?.version ?? ''),
      )
    })
    const parts = version.split('.').map(Number)
    const at = VERSION_MIN.findIndex((least, index) => parts[index] !== least)
    if (at >= 0 && (parts[at] ?? 0) < (VERSION_MIN[at] ?? 0)) {
      throw new Error(`SQLite ${version} is too old: ${VERSION_MIN.join('.')} or later is required`)
    }
  }

  #translate(error: Error): Error {
    const code = codeOf(error)
    if (code === sqlite3.CONSTRAINT) return constraintViolation(error) ?? error
    if (typeof code !== 'number' || !ENVIRONMENTAL.has(code)) return error
    this.#fault = error
    return unavailable(error)
  }
}

/** Whether a statement of a `SqliteConnection` was rejected with this error because the disk is full. */
export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && codeOf(causeOf(error)) === sqlite3.FULL
}

function causeOf({ cause }: Error): Error | undefined {
  return cause instanceof Error ? cause : undefined
}

function codeOf(error: Error | undefined): unknown {
  return error !== undefined && 'errno' in error ? error.errno : undefined
}

function openHandle(path: string): Promise<sqlite3.Database> {
  return new Promise((resolve, reject) => {
    const handle = new sqlite3.Database(path, sqlite3.OPEN_READWRITE, (error) =>
      error
        ? reject(new Error(`Cannot open ${path}: ${error.message}`, { cause: error }))
        : resolve(handle),
    )
  })
}

/** Whether the statement may return rows. */
function returnsRows({ query }: CompiledQuery): boolean {
  return (
    query.kind === 'SelectQueryNode' ||
    query.kind === 'RawNode' ||
    ('returning' in query && query.returning !== undefined)
  )
}

/** SQLite reports the columns only in the error's message. */
function constraintViolation(error: Error): ConstraintViolation | undefined {
  const [, kind, rest = ''] =
    /(UNIQUE|FOREIGN KEY|CHECK) constraint failed(?:: (.*))?$/.exec(error.message) ?? []
  switch (kind) {
    case 'UNIQUE':
      return new ConstraintViolation('unique', rest.split(', '), error)
    case 'FOREIGN KEY':
      return new ConstraintViolation('foreign_key', [], error)
    case 'CHECK':
      return new ConstraintViolation('check', [], error)
    default:
      return undefined
  }
}
