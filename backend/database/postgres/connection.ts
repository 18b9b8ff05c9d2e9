/** PostgreSQL connections as Kysely uses them. The only place, with the errors', that knows `pg`. */
import assert from 'node:assert'
import { CompiledQuery, type DatabaseConnection, type QueryResult } from 'kysely'
import pg from 'pg'
import type { Logger } from '../../../shared/process/log.ts'
import { isPrepared } from '../prepared.ts'
import { LockTimeout, unavailable } from '../unavailable.ts'
import { BadValue, constraintViolation, type Trouble, troubleOf } from './errors.ts'
import type { StatementNames } from './statement-names.ts'

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

/** Runs a statement, which the server keeps prepared where it has a name. */
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
 * A connection for the length of one transaction. Statements are sent as soon as they are executed,
 * and the server runs them in that order.
 *
 * A prepared write that returns no rows is not waited for: where it fails, the next statement that is
 * waited for throws its error, or `commit` returns false. PostgreSQL ends the whole transaction where
 * a statement fails; so that any other write that violates a constraint undoes itself alone, it has a
 * savepoint before it. A prepared write has none.
 */
export class TransactionConnection implements DatabaseConnection {
  readonly #client: pg.ClientBase
  readonly #names: StatementNames
  /** A write with a savepoint: nothing may be sent before it is known whether it is undone. */
  #undoable: Promise<unknown> | undefined
  #hasSavepoint = false
  #hasEnded = false
  /** Resolves when the last statement that is not waited for, and so all of them, has ended. */
  #sentAhead: Promise<void> = Promise.resolve()
  #failure: unknown
  #trouble: TransactionConnection['trouble']

  constructor(client: pg.ClientBase, names: StatementNames) {
    this.#client = client
    this.#names = names
  }

  /** What, if anything, went wrong that no savepoint undoes. */
  get trouble(): { readonly kind: Trouble; readonly error: Error } | undefined {
    const broken = BROKEN.get(this.#client)
    return broken === undefined ? this.#trouble : { kind: 'lost', error: broken }
  }

  /** The first error of a statement that was not waited for. */
  get failure(): unknown {
    return this.#failure
  }

  /** Whether the transaction has ended in order, so that the connection can serve another. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  begin(): void {
    this.#sendAhead(CompiledQuery.raw('begin isolation level read committed'))
  }

  /** False where `failure` kept everything from being committed. */
  async commit(): Promise<boolean> {
    await this.#undoable
    const { command } = await this.#client.query('commit')
    this.#hasEnded = true
    await this.#sentAhead
    if (command !== 'COMMIT' && this.#failure !== undefined) return false
    assert(command === 'COMMIT', 'A statement failed, which was ignored: nothing was committed')
    return true
  }

  /** After all statements before it. Where it fails the connection is lost, and so the transaction. */
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

  /** Throws the violation with the statement undone, else what became of the transaction. */
  async #undo(error: unknown, compiled: CompiledQuery): Promise<never> {
    await this.#sentAhead
    const violation = this.#failure === undefined ? constraintViolation(error) : undefined
    if (violation === undefined) throw this.#failure ?? this.#translate(error, compiled)
    await this.#client.query(`rollback to ${SAVEPOINT}`).catch((reason: unknown) => {
      throw this.#translate(reason)
    })
    throw violation
  }

  /** The one before is released, so that they do not pile up. */
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

/** The table that an insert adds to. */
function tableOf(compiled: CompiledQuery | undefined): string | undefined {
  return compiled?.query.kind === 'InsertQueryNode'
    ? compiled.query.into?.table.identifier.name
    : undefined
}
