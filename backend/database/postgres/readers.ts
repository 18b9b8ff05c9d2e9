/**
 * Reads outside of transactions. Prepared reads (see `prepared.ts`) that wait with the same SQL text are combined in
 * one statement, if all parameters are strings: this needs one round trip and one plan for up to `GROUP_MAX` reads.
 * Prepared statements share a few connections, each with several statements in progress. Any other statement, including
 * a page of a list, may be slow and would delay the statements behind it, so it has a connection to itself while it
 * runs.
 */
import assert from 'node:assert'
import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely'
import type pg from 'pg'
import { Problem } from '../../../shared/contract/problem.ts'
import { countCombinable, distinctReads } from '../combined-reads.ts'
import { isPrepared, isPreparedPage } from '../prepared.ts'
import { unavailable } from '../unavailable.ts'
import { errorKindOf } from './errors.ts'
import { JsonPageQueries, rowsOf } from './json-page-queries.ts'
import { ReaderConnection, type ReadResult, type ReadStatement } from './reader-connection.ts'
import type { SessionOptions } from './sessions.ts'
import { StatementNames } from './statement-names.ts'

/** The maximum number of reads in one statement. Each gets its rows only when the whole statement has run. */
const GROUP_MAX = 32

/**
 * Reads of pages are combined only if their parameters are equal: for different pages in one statement, the server
 * would need as much time as for separate statements.
 */
const PAGE_LIMITS = { distinctMax: 1, readsMax: GROUP_MAX }

/** The number of connections for prepared statements. With more, reads would only be sent in smaller groups. */
const QUICK_CONNECTIONS = 2

/**
 * A connection with this many statements in progress gets no more groups. With several statements, the server works
 * while a result is being read.
 */
const PIPELINE_MAX = 4

type Row = Record<string, unknown>

interface Read {
  readonly parameters: readonly unknown[]
  readonly waitingSince: number
  resolve(result: QueryResult<never>): void
  reject(error: unknown): void
}

/** `prepared` and `page`: made by `prepared` or `preparedPage` (prepared.ts). `single`: any other statement. */
type Kind = 'prepared' | 'page' | 'single'

interface Group {
  readonly sql: string
  readonly kind: Kind
  readonly reads: readonly Read[]
}

export interface ReadersOptions extends SessionOptions {
  /** The maximum number of connections, at least two. */
  readonly connectionsMax: number
  /** Called before each read. Throws inside a transaction, which must not read through these connections. */
  readonly assertUsable: () => void
}

/** Each read sees everything that was committed before the read was requested. */
export class PostgresReaders implements DatabaseConnection {
  readonly #options: ReadersOptions
  /** The connections for prepared statements. */
  readonly #quick: readonly ReaderConnection[]
  /** The connections for all other statements. */
  readonly #slow: readonly ReaderConnection[]
  readonly #names: StatementNames
  /**
   * The waiting reads by SQL text, in the order in which the texts get their turn; of each text, the oldest read first.
   */
  readonly #waiting = new Map<string, { readonly kind: Kind; readonly reads: Read[] }>()
  readonly #jsonPageQueries = new JsonPageQueries()
  #isSendScheduled = false
  #waitTimer: NodeJS.Timeout | undefined

  constructor(options: ReadersOptions) {
    this.#options = options
    this.#names = new StatementNames(options)
    const quick = Math.min(QUICK_CONNECTIONS, options.connectionsMax - 1)
    const open = (length: number) => Array.from({ length }, () => new ReaderConnection(options))
    this.#quick = open(quick)
    this.#slow = open(options.connectionsMax - quick)
  }

  get activity(): { readonly busy: number; readonly idle: number } {
    const open = [...this.#quick, ...this.#slow].filter(({ isConnected }) => isConnected)
    const busy = open.filter(({ inFlight }) => inFlight > 0).length
    return { busy, idle: open.length - busy }
  }

  async executeQuery<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    const { sql, parameters, query } = compiled
    assert(query.kind === 'SelectQueryNode', 'Outside of a transaction, only SELECT is possible')
    this.#options.assertUsable()
    return new Promise((resolve, reject) => {
      const group = this.#waiting.get(sql) ?? { kind: kindOf(compiled), reads: [] }
      group.reads.push({ parameters, waitingSince: performance.now(), resolve, reject })
      this.#waiting.set(sql, group)
      this.#scheduleSend()
      this.#limitWaiting(this.#options.waitMsMax)
    })
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface requires a generator; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Lists are read in pages, not streamed')
  }

  async close(): Promise<void> {
    clearTimeout(this.#waitTimer)
    await Promise.all([...this.#quick, ...this.#slow].map((connection) => connection.close()))
  }

  #scheduleSend(): void {
    if (this.#isSendScheduled || this.#waiting.size === 0) return
    this.#isSendScheduled = true
    setImmediate(() => {
      this.#isSendScheduled = false
      this.#send()
    })
  }

  #send(): void {
    const toSend = new Map<ReaderConnection, Group[]>()
    // If an SQL text is added to the map again, the loop visits it again, after the other texts.
    for (const [sql, { kind, reads }] of this.#waiting) {
      const connection = this.#connectionFor(kind, toSend)
      if (connection === undefined) continue
      const next = reads.splice(0, groupSize(kind, reads))
      this.#waiting.delete(sql)
      if (reads.length > 0) this.#waiting.set(sql, { kind, reads })
      const groups = toSend.get(connection) ?? []
      toSend.set(connection, groups)
      groups.push({ sql, kind, reads: next })
    }
    for (const [connection, groups] of toSend) {
      connection.inOneWrite(() => {
        for (const group of groups) {
          void this.#run(connection, group).then(() => this.#scheduleSend())
        }
      })
    }
  }

  /**
   * Returns the least busy connection, or undefined if all are at their limit. The groups in `toSend` count
   * as statements in progress.
   */
  #connectionFor(kind: Kind, toSend: ReadonlyMap<ReaderConnection, readonly Group[]>) {
    const connections = this.#usable(kind === 'prepared' ? this.#quick : this.#slow)
    const max = kind === 'prepared' ? PIPELINE_MAX : 1
    let least: ReaderConnection | undefined
    let leastLoad = max
    for (const connection of connections) {
      const load = connection.inFlight + (toSend.get(connection)?.length ?? 0)
      if (load < leastLoad) {
        least = connection
        leastLoad = load
      }
    }
    return least
  }

  /**
   * While the server rejects a connection because too many are open, reads use the other connections of the set. If all
   * of these are rejected, reads use any connection that is open, including those of the other set (`#quick` or
   * `#slow`).
   */
  #usable(connections: readonly ReaderConnection[]): readonly ReaderConnection[] {
    if (!connections.some(({ isRejected }) => isRejected)) return connections
    const accepted = connections.filter(({ isRejected }) => !isRejected)
    if (accepted.length > 0) return accepted
    const open = [...this.#quick, ...this.#slow].filter(({ isConnected }) => isConnected)
    return open.length > 0 ? open : connections
  }

  async #run(connection: ReaderConnection, group: Group, isRepeated = false): Promise<void> {
    const { reads } = group
    try {
      const rowsAt = await this.#query(connection, group)
      for (const [index, read] of reads.entries()) read.resolve({ rows: rowsAt(index) as never[] })
    } catch (error) {
      // The server accepts no further connections, but the group can wait for a connection that is open.
      if (connection.isRejected && this.#usable([connection])[0] !== connection) {
        return this.#putBack(group)
      }
      // A `Problem` means that no connection could be opened, which affects all reads of the group.
      const isProblem = error instanceof Problem
      const errorKind = isProblem ? undefined : errorKindOf(error)
      // Reads change nothing, so they can be sent again over a new connection.
      if (errorKind === 'connection_lost' && !isRepeated) return this.#run(connection, group, true)
      if (isProblem || errorKind === 'connection_lost' || reads.length === 1) {
        const reason = errorKind === undefined ? error : unavailable(error)
        for (const read of reads) read.reject(reason)
        return
      }
      // A single read may have caused the error, so each runs alone and gets its own result.
      await Promise.all(reads.map((read) => this.#run(connection, { ...group, reads: [read] })))
    }
  }

  #putBack({ sql, kind, reads }: Group): void {
    const added = this.#waiting.get(sql)?.reads ?? []
    // Groups with the same text may be put back in any order.
    const all = [...reads, ...added].sort((a, b) => a.waitingSince - b.waitingSince)
    this.#waiting.set(sql, { kind, reads: all })
    this.#limitWaiting(this.#options.waitMsMax)
  }

  /** Resolves to a function that returns the rows of a read by its index in the group. */
  async #query(connection: ReaderConnection, { sql, kind, reads }: Group) {
    const lists = reads.map(({ parameters }) => parameters)
    const [first = []] = lists
    // All reads of a group of pages have the same parameters, see `PAGE_LIMITS`.
    if (kind === 'page') return await this.#queryPage(connection, sql, first)
    // A combined statement takes the number of reads from the arrays of parameters, so it needs at least one parameter.
    if (reads.length > 1 && first.length > 0 && lists.every(isAllText)) {
      return await this.#queryTogether(connection, sql, lists)
    }
    const results = await Promise.all(
      lists.map(async (values) => {
        const { fields, rows } = await this.#runStatement(connection, {
          text: sql,
          isKept: kind === 'prepared',
          values,
        })
        return rows.map((row) => rowOf(fields, row, 0))
      }),
    )
    return (index: number) => results[index] ?? []
  }

  async #queryTogether(
    connection: ReaderConnection,
    sql: string,
    lists: readonly (readonly unknown[])[],
  ): Promise<(index: number) => Row[]> {
    const { distinct, distinctIndexes } = distinctReads(lists)
    const [first = []] = lists
    const columnsOfParameters = first.map((_, at) => distinct.map((list) => list[at]))
    const text = combinedStatement(sql, first.length)
    const { fields, rows } = await this.#runStatement(connection, {
      text,
      isKept: true,
      values: columnsOfParameters,
    })
    const byNumber = Map.groupBy(rows, ([number]) => number)
    return (index) =>
      (byNumber.get((distinctIndexes[index] ?? 0) + 1) ?? []).map((row) => rowOf(fields, row, 1))
  }

  /**
   * The first result of an SQL text shows its columns. Later pages with this text can then be read as JSON
   * (json-page-queries.ts).
   */
  async #queryPage(
    connection: ReaderConnection,
    sql: string,
    values: readonly unknown[],
  ): Promise<() => Row[]> {
    const statement = this.#jsonPageQueries.find(sql)
    const { fields, rows } = await this.#runStatement(connection, {
      text: statement?.text ?? sql,
      isKept: statement !== undefined,
      values,
    })
    if (statement === undefined) {
      this.#jsonPageQueries.add(sql, fields)
      return () => rows.map((row) => rowOf(fields, row, 0))
    }
    // Each caller gets rows of its own, which it may change.
    return () => rowsOf(statement, rows[0] ?? [])
  }

  /** `isKept`: whether the server keeps the statement prepared on the connection, under a name. */
  async #runStatement(
    connection: ReaderConnection,
    { text, isKept, values }: Pick<ReadStatement, 'text' | 'values'> & { readonly isKept: boolean },
  ): Promise<ReadResult> {
    const name = isKept ? this.#names.nameOf(text) : undefined
    try {
      return await connection.run({ text, name, values })
    } catch (error) {
      if (!this.#names.replaceUnusableName(error, text, name)) throw error
      return await connection.run({ text, name: this.#names.nameOf(text), values })
    }
  }

  /** After `afterMs`, rejects the reads that have waited too long; repeats this as long as any read waits. */
  #limitWaiting(afterMs: number): void {
    if (this.#waitTimer !== undefined || !this.#options.hasTimeLimits) return
    this.#waitTimer = setTimeout(() => {
      this.#waitTimer = undefined
      const since = performance.now() - this.#options.waitMsMax
      let oldest = Infinity
      for (const [sql, { kind, reads }] of this.#waiting) {
        const late = reads.filter(({ waitingSince }) => waitingSince <= since)
        for (const { reject } of late) reject(unavailable(new Error('No connection was free')))
        const left = reads.slice(late.length)
        oldest = Math.min(oldest, left[0]?.waitingSince ?? Infinity)
        if (left.length === 0) this.#waiting.delete(sql)
        else this.#waiting.set(sql, { kind, reads: left })
      }
      if (oldest < Infinity) this.#limitWaiting(Math.max(oldest - since, 1))
    }, afterMs)
    this.#waitTimer.unref()
  }
}

function groupSize(kind: Kind, reads: readonly Read[]): number {
  if (kind === 'prepared') return GROUP_MAX
  return kind === 'page' ? countCombinable(reads, PAGE_LIMITS) : 1
}

/**
 * Returns a statement that runs `sql` once per list of parameters. The first column of its rows is the number
 * of the list, from 1.
 */
function combinedStatement(sql: string, parameterCount: number): string {
  const numbers = Array.from({ length: parameterCount }, (_, at) => at + 1)
  const lists = numbers.map((n) => `$${n}::text[]`)
  const names = numbers.map((n) => `p${n}`)
  const query = sql.replace(/\$(\d+)/g, 'params.p$1')
  return `select params.n, found.* from unnest(${lists}) with ordinality as params(${names}, n) cross join lateral (${query}) as found`
}

/** A combined statement passes all parameters as text, which would change the meaning of numbers. */
function isAllText(parameters: readonly unknown[]): boolean {
  return parameters.every((parameter) => typeof parameter === 'string')
}

function rowOf(fields: readonly pg.FieldDef[], values: readonly unknown[], from: number): Row {
  const row: Row = {}
  for (let at = from; at < fields.length; at++) row[fields[at]?.name ?? ''] = values[at]
  return row
}

function kindOf(compiled: CompiledQuery): Kind {
  if (isPrepared(compiled)) return 'prepared'
  return isPreparedPage(compiled) ? 'page' : 'single'
}
