/**
 * Readers of one SQLite file. The round trip to SQLite's thread takes several times as long as a small read, and the
 * transfer of each returned value takes almost as long as a small read. Rows are therefore returned as one JSON text of
 * arrays (with the names of the columns, the JSON would be twice as long). Reads with the same SQL text that wait at
 * the same time are sent as one statement. This statement receives the parameters of all reads as JSON. If the
 * reads are pages of lists, the statement instead contains one subquery for each different page.
 */
import assert from 'node:assert'
import { CompiledQuery, type DatabaseConnection, type QueryResult } from 'kysely'
import { LRUCache } from 'lru-cache'
import { compileRow, countCombinable, distinctReads } from '../combined-reads.ts'
import type { SqliteConnection } from './connection.ts'

const READS_MAX = 16

/** Pages of lists are expensive, so only a few different pages are combined in one statement. */
const DISTINCT_PAGES_MAX = 4

/** The maximum number of cached statements. There are many: the text of a list's query varies with its filters. */
const STATEMENTS_MAX = 500

/**
 * The maximum time for which the write queue pauses reads. A usual group of transactions ends sooner; a long
 * transaction must not block reads for longer.
 */
const PAUSE_MS_MAX = 60

type ReaderConnection = Pick<SqliteConnection, 'executeQuery' | 'close'>

interface Read {
  readonly parameters: readonly unknown[]
  resolve(result: QueryResult<never>): void
  reject(error: unknown): void
}

interface Group {
  /**
   * Whether the query has a limit, as pages of lists have. With parameters from the common JSON, SQLite would scan the
   * whole account, so each page has parameters of its own.
   */
  readonly isPage: boolean
  readonly reads: Read[]
}

interface Statement {
  readonly sql: string
  /**
   * Returns the row with these values, which are in the order of the columns. For the type `never`, see `compileRow`.
   */
  readonly toRow: (values: unknown[], index: number) => never
}

interface SqliteReadersOptions {
  /** Called before each read. Throws inside a transaction, which must not read through these connections. */
  readonly assertUsable?: () => void
  /**
   * The maximum number of reads in one statement, which bounds how long each of them waits for the others; 16 by
   * default.
   */
  readonly readsMax?: number
}

/** Each read sees everything that was committed before the read was requested. */
export class SqliteReaders implements DatabaseConnection {
  readonly #all: readonly ReaderConnection[]
  readonly #free: ReaderConnection[]
  readonly #assertUsable: () => void
  readonly #readsMax: number
  /** Waiting groups by query text, the longest waiting first. */
  readonly #waiting = new Map<string, Group>()
  readonly #statements = new LRUCache<string, Statement>({ max: STATEMENTS_MAX })
  #isSendScheduled = false
  #pauseTimer: NodeJS.Timeout | undefined

  constructor(
    connections: readonly ReaderConnection[],
    { assertUsable = () => {}, readsMax = READS_MAX }: SqliteReadersOptions,
  ) {
    this.#all = connections
    this.#free = [...connections]
    this.#assertUsable = assertUsable
    this.#readsMax = readsMax
  }

  async executeQuery<R>({ sql, parameters, query }: CompiledQuery): Promise<QueryResult<R>> {
    assert(query.kind === 'SelectQueryNode', 'Outside of a transaction, only SELECT is possible')
    this.#assertUsable()
    return new Promise((resolve, reject) => {
      const isPage = 'limit' in query && query.limit !== undefined
      const group = this.#waiting.get(sql) ?? { isPage, reads: [] }
      group.reads.push({ parameters, resolve, reject })
      this.#waiting.set(sql, group)
      this.#scheduleSend()
    })
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface requires a generator; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Lists are read in pages, not streamed')
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((connection) => connection.close()))
  }

  /** Starts no reads until `resume` is called or `PAUSE_MS_MAX` have passed. */
  pause(): void {
    this.#pauseTimer ??= setTimeout(() => this.resume(), PAUSE_MS_MAX)
  }

  resume(): void {
    clearTimeout(this.#pauseTimer)
    this.#pauseTimer = undefined
    this.#scheduleSend()
  }

  get #isPaused(): boolean {
    return this.#pauseTimer !== undefined
  }

  #scheduleSend(): void {
    if (this.#isSendScheduled || this.#free.length === 0 || this.#waiting.size === 0) return
    if (this.#isPaused) return
    this.#isSendScheduled = true
    setImmediate(() => {
      this.#isSendScheduled = false
      this.#send()
    })
  }

  #send(): void {
    if (this.#isPaused) return
    // If a group is added to the map again, the loop visits it again, after the other groups.
    for (const [sql, group] of this.#waiting) {
      const reader = this.#free.pop()
      if (reader === undefined) return
      const { isPage, reads } = group
      const limits = { distinctMax: DISTINCT_PAGES_MAX, readsMax: this.#readsMax }
      const next = reads.splice(0, isPage ? countCombinable(reads, limits) : this.#readsMax)
      this.#waiting.delete(sql)
      if (reads.length > 0) this.#waiting.set(sql, group)
      void this.#run(reader, sql, isPage, next).then(() => {
        this.#free.push(reader)
        this.#scheduleSend()
      })
    }
  }

  async #run(
    reader: ReaderConnection,
    sql: string,
    isPage: boolean,
    reads: readonly Read[],
  ): Promise<void> {
    try {
      const found = await this.#query(reader, sql, isPage, reads)
      for (const [index, read] of reads.entries()) read.resolve({ rows: found[index] ?? [] })
    } catch (error) {
      const [first, ...others] = reads
      if (others.length === 0) first?.reject(error)
      // A single read may have caused the error, so each runs alone and gets its own result.
      else for (const read of reads) await this.#run(reader, sql, isPage, [read])
    }
  }

  /** Returns the rows of each read, in the order of the reads. */
  async #query(reader: ReaderConnection, sql: string, isPage: boolean, reads: readonly Read[]) {
    const { distinct, distinctIndexes } = distinctReads(reads.map(({ parameters }) => parameters))
    const [first = []] = distinct
    // The statement is reused for reads with the same `variant`. A statement for pages contains a subquery for each
    // page, so its variant is the number of pages. Any other statement takes one list of parameters (1) or several (2).
    const variant = isPage ? distinct.length : Math.min(distinct.length, 2)
    const { sql: text, toRow } =
      this.#statements.get(cacheKey(sql, variant)) ??
      (await this.#makeStatement(reader, sql, isPage, variant, first))
    const parameters = isPage || variant === 1 ? distinct.flat() : [JSON.stringify(distinct)]
    const { rows } = await reader.executeQuery<Record<string, string>>(
      CompiledQuery.raw(text, parameters),
    )
    const texts = isPage ? Object.values(rows[0] ?? {}) : rows.map(({ found = '[]' }) => found)
    // Each caller gets rows of its own, which it may change.
    return distinctIndexes.map((index) => {
      const found: unknown[][] = JSON.parse(texts[index] ?? '[]')
      return found.map(toRow)
    })
  }

  /** Makes the statement that returns the rows as JSON. For `variant`, see `#query`. */
  async #makeStatement(
    reader: ReaderConnection,
    sql: string,
    isPage: boolean,
    variant: number,
    parameters: readonly unknown[],
  ): Promise<Statement> {
    const columns = await columnsOf(reader, sql, parameters)
    const values = columns.map((name) => `"${name}"`)
    const jsonOf = (query: string) =>
      `select json_group_array(json_array(${values})) as found from (${query})`
    const withParameters = (parameterOf: (n: number) => string) =>
      jsonOf(sql.replace(/\?(\d+)/g, (_, n) => parameterOf(Number(n))))
    let text = jsonOf(sql)
    if (isPage) {
      const pages = Array.from({ length: variant }, (_, page) =>
        withParameters((n) => `?${page * parameters.length + n}`),
      )
      text = `select ${pages.map((page, at) => `(${page}) as page_${at}`)}`
    } else if (variant > 1) {
      const together = withParameters((n) => `(params.value ->> ${n - 1})`)
      text = `select (${together}) as found from json_each(?) as params`
    }
    const statement = { sql: text, toRow: compileRow<unknown[]>(columns, (at) => `values[${at}]`) }
    this.#statements.set(cacheKey(sql, variant), statement)
    return statement
  }
}

function cacheKey(sql: string, variant: number): string {
  return `${variant} ${sql}`
}

/**
 * Returns the names of the columns, which are the keys of a returned row. The query may return no rows, so it is joined
 * to a constant row.
 */
async function columnsOf(
  reader: ReaderConnection,
  sql: string,
  parameters: readonly unknown[],
): Promise<string[]> {
  const text = `select found.* from (select 1) left join (${sql}) as found limit 1`
  const { rows } = await reader.executeQuery<object>(CompiledQuery.raw(text, [...parameters]))
  return Object.keys(rows[0] ?? {})
}
