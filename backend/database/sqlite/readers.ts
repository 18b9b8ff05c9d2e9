/**
 * Readers of one SQLite file. The round trip to SQLite's thread costs several times as much as a small
 * read, and so does each value of its rows. Rows are therefore returned as one JSON text, and reads of one
 * turn with the same text are sent as one statement: either it takes the parameters of all reads as JSON
 * and runs the query once per read, or it consists of several pages.
 */
import assert from 'node:assert'
import { CompiledQuery, type DatabaseConnection, type QueryResult } from 'kysely'
import { LRUCache } from 'lru-cache'
import { countSharing, distinctReads } from '../equal-reads.ts'
import type { SqliteConnection } from './connection.ts'

/**
 * Reads in one statement, which bounds how long the first waits for the last, and how long others wait for
 * a reader.
 */
const GROUP_MAX = 16

/** Each of the different pages of lists in one statement is expensive. */
const PAGES = { distinctMax: 4, readsMax: GROUP_MAX }

/**
 * Compiled forms, cached by query text. Without lists there are fewer; the text of a list varies with its
 * filters.
 */
const FORMS_MAX = 500

/**
 * A usual group of transactions ends before this time. After it, reads continue, so a long transaction does
 * not block them.
 */
const PAUSE_MS_MAX = 60

interface Read {
  readonly parameters: readonly unknown[]
  resolve(result: QueryResult<never>): void
  reject(error: unknown): void
}

/** Reads of the same text that wait for a reader. */
interface Group {
  /**
   * Whether the read is a page of a list. If a query takes its parameters from another query, SQLite
   * chooses another plan and would scan the whole account for a page: each page therefore has parameters of
   * its own.
   */
  readonly isPage: boolean
  readonly reads: Read[]
}

/** Each read sees what was committed when it started, which is never before it was requested. */
export class SqliteReaders implements DatabaseConnection {
  readonly #all: readonly SqliteConnection[]
  readonly #free: SqliteConnection[]
  readonly #assertUsable: () => void
  /** Waiting groups by query text, the longest waiting first. */
  readonly #waiting = new Map<string, Group>()
  readonly #forms = new LRUCache<string, string>({ max: FORMS_MAX })
  #isTurnEnding = false
  #pauseEnds: NodeJS.Timeout | undefined

  /** `assertUsable` is called before each read. */
  constructor(connections: readonly SqliteConnection[], assertUsable: () => void) {
    this.#all = connections
    this.#free = [...connections]
    this.#assertUsable = assertUsable
  }

  async executeQuery<R>({ sql, parameters, query }: CompiledQuery): Promise<QueryResult<R>> {
    assert(query.kind === 'SelectQueryNode', 'Readers read')
    this.#assertUsable()
    return new Promise((resolve, reject) => {
      const isPage = 'limit' in query && query.limit !== undefined
      const group = this.#waiting.get(sql) ?? { isPage, reads: [] }
      group.reads.push({ parameters, resolve, reject })
      this.#waiting.set(sql, group)
      this.#beginAfterTurn()
    })
  }

  // biome-ignore lint/correctness/useYield: Kysely's interface asks for it; nothing here streams.
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('Lists are read in pages, not streamed')
  }

  async close(): Promise<void> {
    await Promise.all(this.#all.map((connection) => connection.close()))
  }

  /** Starts no reads until `resume` is called, but for `PAUSE_MS_MAX` at most. */
  pause(): void {
    this.#pauseEnds ??= setTimeout(() => this.resume(), PAUSE_MS_MAX)
  }

  resume(): void {
    clearTimeout(this.#pauseEnds)
    this.#pauseEnds = undefined
    this.#beginAfterTurn()
  }

  get #isPaused(): boolean {
    return this.#pauseEnds !== undefined
  }

  #beginAfterTurn(): void {
    if (this.#isTurnEnding || this.#free.length === 0 || this.#waiting.size === 0) return
    if (this.#isPaused) return
    this.#isTurnEnding = true
    setImmediate(() => {
      this.#isTurnEnding = false
      this.#begin()
    })
  }

  #begin(): void {
    if (this.#isPaused) return
    // A group that is added again is visited again, after the others.
    for (const [sql, group] of this.#waiting) {
      const reader = this.#free.pop()
      if (reader === undefined) return
      const { isPage, reads } = group
      const next = reads.splice(0, isPage ? countSharing(reads, PAGES) : GROUP_MAX)
      this.#waiting.delete(sql)
      if (reads.length > 0) this.#waiting.set(sql, group)
      void this.#run(reader, sql, isPage, next).then(() => {
        this.#free.push(reader)
        this.#beginAfterTurn()
      })
    }
  }

  async #run(
    reader: SqliteConnection,
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
  async #query(reader: SqliteConnection, sql: string, isPage: boolean, reads: readonly Read[]) {
    const { distinct: lists, placeOf } = distinctReads(reads.map(({ parameters }) => parameters))
    const [own = []] = lists
    const count = isPage ? lists.length : Math.min(lists.length, 2)
    const form =
      this.#forms.get(formName(sql, count)) ??
      (await this.#makeForm(reader, sql, isPage, count, own))
    const parameters = isPage || count === 1 ? lists.flat() : [JSON.stringify(lists)]
    const { rows } = await reader.executeQuery<Record<string, string>>(
      CompiledQuery.raw(form, parameters),
    )
    const texts = isPage ? Object.values(rows[0] ?? {}) : rows.map(({ found = '[]' }) => found)
    // Each reader gets rows of its own.
    return placeOf.map((place): never[] => JSON.parse(texts[place] ?? '[]'))
  }

  /** `count` is the number of pages; for other reads, 2 means any number above one. */
  async #makeForm(
    reader: SqliteConnection,
    sql: string,
    isPage: boolean,
    count: number,
    parameters: readonly unknown[],
  ): Promise<string> {
    const columns = await columnsOf(reader, sql, parameters)
    const members = columns.map((name) => `'${name}', "${name}"`)
    const rowsOf = (query: string) =>
      `select json_group_array(json_object(${members})) as found from (${query})`
    const numbered = (numberOf: (n: number) => string) =>
      rowsOf(sql.replace(/\?(\d+)/g, (_, n) => numberOf(Number(n))))
    let form = rowsOf(sql)
    if (isPage) {
      const pages = Array.from({ length: count }, (_, page) =>
        numbered((n) => `?${page * parameters.length + n}`),
      )
      form = `select ${pages.map((page, at) => `(${page}) as page_${at}`)}`
    } else if (count > 1) {
      const together = numbered((n) => `(call.value ->> ${n - 1})`)
      form = `select (${together}) as found from json_each(?) as call`
    }
    this.#forms.set(formName(sql, count), form)
    return form
  }
}

function formName(sql: string, count: number): string {
  return `${count} ${sql}`
}

/** Returns the columns even if the query finds nothing, by joining it to a row. */
async function columnsOf(
  reader: SqliteConnection,
  sql: string,
  parameters: readonly unknown[],
): Promise<string[]> {
  const text = `select found.* from (select 1) left join (${sql}) as found limit 1`
  const { rows } = await reader.executeQuery<object>(CompiledQuery.raw(text, [...parameters]))
  return Object.keys(rows[0] ?? {})
}
