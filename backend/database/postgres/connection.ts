/** PostgreSQL connections as Kysely uses them. The only place, with the errors', that knows `pg`. */
import assert from 'node:assert'
import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely'
import pg from 'pg'
import type { Logger } from '../../../shared/process/log.ts'
import { LockTimeout, unavailable } from '../unavailable.ts'
import { BadValue, constraintViolation, type Trouble, troubleOf } from './errors.ts'

export interface SessionOptions {
  readonly url: string
  readonly log: Logger
  /** Shown to the database's operators. */
  readonly name: string
  /** How long to wait for a connection, free or new. */
  readonly waitMsMax: number
  readonly lockMsMax: number
  readonly readOnly: boolean
  /** Statements may take as long as they take. */
  readonly isPatient: boolean
}

export interface PoolOptions extends SessionOptions {
  readonly connectionsMax: number
}

/** No statement of the service takes so long; one that does is a fault, and ends before its caller's patience. */
const STATEMENT_MS_MAX = 8000

/** A server that stopped answering altogether. */
export const SILENCE_MS_MAX = STATEMENT_MS_MAX + 1000

/** Nothing inside a transaction waits for anything but the database. */
const IDLE_IN_TRANSACTION_MS_MAX = 10_000

export function createPool(options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    ...sessionConfig(options),
    max: options.connectionsMax,
    idleTimeoutMillis: 60_000,
    ...(options.isPatient ? {} : { query_timeout: SILENCE_MS_MAX }),
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS_MAX,
  })
  // Without listeners a server that restarts would end this process.
  pool.on('error', (error) => options.log.warn({ err: error }, 'idle database connection lost'))
  pool.on('connect', (client) => client.on('error', (error) => BROKEN.set(client, error)))
  return pool
}

/** What all sessions of the service have in common. */
export function sessionConfig(options: SessionOptions): pg.ClientConfig {
  return {
    connectionString: options.url,
    application_name: options.name,
    connectionTimeoutMillis: options.waitMsMax,
    keepAlive: true,
    lock_timeout: options.lockMsMax,
    ...(options.isPatient ? {} : { statement_timeout: STATEMENT_MS_MAX }),
    // Statements are sent without waiting for the results of those before them.
    pipeline: true,
    types: TYPES,
    ...(options.readOnly ? { options: '-c default_transaction_read_only=on' } : {}),
  }
}

/** Clients whose connection is known to have ended, while no statement was under way. */
const BROKEN = new WeakMap<pg.ClientBase, Error>()

/** A connection of its own, without limits of time: for migrations. */
export async function connectAlone(url: string, name: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: name,
    connectionTimeoutMillis: 10_000,
    types: TYPES,
  })
  client.on('error', () => {})
  await client.connect()
  return client
}

const INT8 = 20
const NUMERIC = 1700

/** Whole numbers as numbers: `pg` gives those that may be larger as text. */
const TYPES = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    return oid === INT8 || oid === NUMERIC ? parseWhole : pg.types.getTypeParser(oid, format)
  },
} as pg.CustomTypesConfig

function parseWhole(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value)) return value
  throw new BadValue(`${text} is no whole number that can be represented exactly`)
}

/** A statement that is not part of a transaction. Throws `unavailable`. */
export async function query<R>(
  client: pg.ClientBase,
  { sql, parameters }: Pick<CompiledQuery, 'sql' | 'parameters'>,
): Promise<QueryResult<R>> {
  const { command, rowCount, rows } = await client.query(sql, [...parameters])
  return ROW_WRITES.has(command) ? { numAffectedRows: BigInt(rowCount ?? 0), rows } : { rows }
}

const ROW_WRITES = new Set(['INSERT', 'UPDATE', 'DELETE'])

const WRITE_NODES = new Set(['InsertQueryNode', 'UpdateQueryNode', 'DeleteQueryNode'])

/**
 * A connection for the length of one transaction. PostgreSQL ends the whole transaction where a
 * statement fails; so that one that violates a constraint undoes itself alone, each write has a
 * savepoint before it.
 */
export class TransactionConnection implements DatabaseConnection {
  readonly #client: pg.ClientBase
  /** Statements run one after the other, also where their callers do not wait. */
  #last: Promise<unknown> = Promise.resolve()
  #hasSavepoint = false
  #hasEnded = false
  #trouble: TransactionConnection['trouble']

  constructor(client: pg.ClientBase) {
    this.#client = client
  }

  /** What, if anything, went wrong that no savepoint undoes. */
  get trouble(): { readonly kind: Trouble; readonly error: Error } | undefined {
    const broken = BROKEN.get(this.#client)
    return broken === undefined ? this.#trouble : { kind: 'lost', error: broken }
  }

  /** Whether the transaction has ended in order, so that the connection can serve another. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  begin(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#client.query('begin isolation level read committed')
    })
  }

  async commit(): Promise<void> {
    const { command } = await this.#inTurn(() => this.#client.query('commit'))
    this.#hasEnded = true
    assert(command === 'COMMIT', 'A statement failed, which was ignored: nothing was committed')
  }

  /** After all statements before it. Where it fails the connection is lost, and so the transaction. */
  async rollback(): Promise<void> {
    if (this.trouble?.kind === 'lost') return
    await this.#inTurn(() => this.#client.query('rollback')).then(
      () => {
        this.#hasEnded = true
      },
      () => {},
    )
  }

  executeQuery<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    return this.#inTurn(async () => {
      const isWrite = WRITE_NODES.has(compiled.query.kind)
      const savepoint = isWrite ? this.#client.query(this.#nextSavepoint()) : undefined
      const [, outcome] = await Promise.allSettled([savepoint, query<R>(this.#client, compiled)])
      if (outcome.status === 'fulfilled') return outcome.value
      const violation = constraintViolation(outcome.reason)
      if (violation === undefined || !isWrite) throw this.#translate(outcome.reason)
      await this.#client.query('rollback to savepoint statement').catch((error: unknown) => {
        throw this.#translate(error)
      })
      throw violation
    })
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface asks for it; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Lists are read in pages, not streamed')
  }

  #inTurn<T>(step: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(step)
    this.#last = turn.catch(() => {})
    return turn
  }

  /** The one before is let go, so that they do not pile up. */
  #nextSavepoint(): string {
    const text = 'savepoint statement'
    if (this.#hasSavepoint) return `release savepoint statement; ${text}`
    this.#hasSavepoint = true
    return text
  }

  #translate(error: unknown): unknown {
    const kind = troubleOf(error)
    if (kind === undefined || !(error instanceof Error)) return error
    this.#trouble ??= { kind, error }
    return kind === 'locked' ? new LockTimeout(error) : unavailable(error)
  }
}
