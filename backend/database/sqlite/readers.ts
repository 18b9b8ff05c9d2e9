/**
 * Readers of one SQLite file. The way to SQLite's thread and back costs several times what a small
 * read does there, and so does each value of its rows. So rows come back as one JSON text, and reads
 * of one turn that ask the same with other parameters go together: one statement takes the
 * parameters of all, as JSON too, and runs the query once for each.
 */
import assert from 'node:assert'
import { CompiledQuery, type DatabaseConnection, type QueryResult } from 'kysely'
import { LRUCache } from 'lru-cache'
import type { SqliteConnection } from './connection.ts'

/** Asked together: bounds how long the first waits for the last, and others for a reader. */
const GROUP_MAX = 16

/** Forms remembered, by text. The service has fewer; lists vary with their filters. */
const FORMS_MAX = 500

interface Read {
  readonly parameters: readonly unknown[]
  resolve(result: QueryResult<never>): void
  reject(error: unknown): void
}

/** Reads of the same text that wait for a reader. */
interface Group {
  /**
   * SQLite plans a query that takes its parameters from another differently: pages, which must not be
   * found by walking the account, are asked for one by one.
   */
  readonly together: boolean
  readonly reads: Read[]
}

/** Shows what was committed when a read began, which is after it was asked for. */
export class SqliteReaders implements DatabaseConnection {
  readonly #all: readonly SqliteConnection[]
  readonly #free: SqliteConnection[]
  readonly #assertUsable: () => void
  /** By text, those that have waited longest first. */
  readonly #waiting = new Map<string, Group>()
  readonly #forms = new LRUCache<string, string>({ max: FORMS_MAX })
  #isTurnEnding = false

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
      const together = !('limit' in query)
      const group = this.#waiting.get(sql) ?? { together, reads: [] }
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

  #beginAfterTurn(): void {
    if (this.#isTurnEnding || this.#free.length === 0 || this.#waiting.size === 0) return
    this.#isTurnEnding = true
    setImmediate(() => {
      this.#isTurnEnding = false
      this.#begin()
    })
  }

  #begin(): void {
    // A group that is put back is met again, after the others.
    for (const [sql, group] of this.#waiting) {
      const reader = this.#free.pop()
      if (reader === undefined) return
      const { together, reads } = group
      const taken = reads.splice(0, together ? GROUP_MAX : 1)
      this.#waiting.delete(sql)
      if (reads.length > 0) this.#waiting.set(sql, group)
      void this.#run(reader, sql, taken).then(() => {
        this.#free.push(reader)
        this.#beginAfterTurn()
      })
    }
  }

  async #run(reader: SqliteConnection, sql: string, reads: readonly Read[]): Promise<void> {
    try {
      const found = await this.#ask(reader, sql, reads)
      for (const [place, read] of reads.entries()) read.resolve({ rows: found[place] ?? [] })
    } catch (error) {
      const [first, ...others] = reads
      if (others.length === 0) first?.reject(error)
      // It may be the fault of one: alone, each gets its own answer.
      else for (const read of reads) await this.#run(reader, sql, [read])
    }
  }

  /** The rows of each, in their order. */
  async #ask(reader: SqliteConnection, sql: string, reads: readonly Read[]) {
    const lists = reads.map(({ parameters }) => parameters)
    const [own = []] = lists
    const together = reads.length > 1
    const form =
      this.#forms.get(formName(sql, together)) ?? (await this.#makeForm(reader, sql, together, own))
    const parameters = together ? [JSON.stringify(lists)] : [...own]
    const { rows } = await reader.executeQuery<{ found: string }>(
      CompiledQuery.raw(form, parameters),
    )
    return rows.map(({ found }): never[] => JSON.parse(found))
  }

  async #makeForm(
    reader: SqliteConnection,
    sql: string,
    together: boolean,
    parameters: readonly unknown[],
  ): Promise<string> {
    const columns = await columnsOf(reader, sql, parameters)
    const members = columns.map((name) => `'${name}', "${name}"`)
    const once = together ? sql.replace(/\?(\d+)/g, (_, n) => `(call.value ->> ${n - 1})`) : sql
    const rows = `select json_group_array(json_object(${members})) as found from (${once})`
    const form = together ? `select (${rows}) as found from json_each(?) as call` : rows
    this.#forms.set(formName(sql, together), form)
    return form
  }
}

function formName(sql: string, together: boolean): string {
  return together ? `together ${sql}` : sql
}

/** Also where nothing is found: then a row of nulls stands for it. */
async function columnsOf(
  reader: SqliteConnection,
  sql: string,
  parameters: readonly unknown[],
): Promise<string[]> {
  const text = `select found.* from (select 1) left join (${sql}) as found limit 1`
  const { rows } = await reader.executeQuery<object>(CompiledQuery.raw(text, [...parameters]))
  return Object.keys(rows[0] ?? {})
}
