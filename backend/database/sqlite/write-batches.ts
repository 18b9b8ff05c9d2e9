/**
 * Combines several prepared writes in one statement: an insert into a temporary view, whose trigger contains the
 * writes. SQLite then runs them in one round trip to its thread, without compiling them again. If one of them fails,
 * all are undone. If several jobs (writer.ts) insert into the same view, one statement contains the
 * inserts of all these jobs.
 *
 * A view is created between transactions, because a rollback would remove it. Writes that occur together for the first
 * time therefore run one by one.
 */
import { CompiledQuery } from 'kysely'
import type { SqliteConnection } from './connection.ts'

/** The maximum number of writes in a batch. A payment needs five, or about ten if an endpoint receives its events. */
const WRITES_MAX = 16

/** The maximum number of views on a connection. Payments need about ten. */
const VIEWS_MAX = 100

export class WriteBatches {
  readonly #writer: SqliteConnection
  /** The insert of each batch, by the SQL of its writes; undefined if no trigger can contain them. */
  readonly #inserts = new Map<string, string | undefined>()
  /** By the SQL of an insert of one row: the SQL that inserts any number of rows. Its only parameter is their JSON. */
  readonly #insertsOfRows = new Map<string, string>()
  /** Writes that have no view yet, by their SQL. */
  readonly #missing = new Map<string, readonly CompiledQuery[]>()

  constructor(writer: SqliteConnection) {
    this.#writer = writer
  }

  /** If there is a view for the writes, returns one statement that runs them all. Otherwise, returns the writes. */
  combine(writes: readonly CompiledQuery[]): readonly CompiledQuery[] {
    if (writes.length < 2 || writes.length > WRITES_MAX) return writes
    const joinedSql = writes.map(({ sql }) => sql).join(';\n')
    const insert = this.#inserts.get(joinedSql)
    if (insert !== undefined) {
      const parameters = writes.flatMap((write) => write.parameters)
      return [CompiledQuery.raw(insert, parameters)]
    }
    const isNew = !this.#inserts.has(joinedSql)
    if (isNew && this.#inserts.size + this.#missing.size < VIEWS_MAX)
      this.#missing.set(joinedSql, writes)
    return writes
  }

  /**
   * Combines the deferred writes of different jobs. Each of `statements` contains all writes that one job has deferred
   * until its end. The jobs cannot affect each other, so the order of the statements may change.
   */
  combineJobs(statements: readonly CompiledQuery[]): readonly CompiledQuery[] {
    const byText = Map.groupBy(statements, ({ sql }) => sql)
    return [...byText].flatMap(([text, ofText]) => {
      const insert = this.#insertsOfRows.get(text)
      if (insert === undefined || ofText.length < 2) return ofText
      const rows = ofText.map(({ parameters }) => parameters)
      return isExactInJson(rows) ? [CompiledQuery.raw(insert, [JSON.stringify(rows)])] : ofText
    })
  }

  /** Creates the views that were missing. No transaction may be open. */
  async createMissingViews(): Promise<void> {
    for (const [sql, writes] of this.#missing) {
      this.#missing.delete(sql)
      const name = `write_batch_${this.#inserts.size + 1}`
      const count = writes.reduce((sum, { parameters }) => sum + parameters.length, 0)
      const numbers = Array.from({ length: count }, (_, n) => n + 1)
      const columns = numbers.map((n) => `p${n}`)
      const insert = `insert into ${name} values (${numbers.map((n) => `?${n}`)})`
      try {
        await this.#writer.exec(`
          create temp view ${name} (${columns}) as select ${columns.map(() => 'null')};
          create temp trigger ${name}_inserted instead of insert on ${name} begin
            ${withColumns(writes)}
          end`)
        this.#inserts.set(sql, insert)
        // If the rows were not materialized, the JSON would be parsed once for each column.
        this.#insertsOfRows.set(
          insert,
          `with params as materialized (select value from json_each(?1))
            insert into ${name} select ${numbers.map((n) => `value ->> ${n - 1}`)} from params`,
        )
      } catch (error) {
        // After an error of the environment, e.g. a full disk, it is still unknown whether a trigger can contain the
        // writes.
        if (this.#writer.fault !== undefined) throw error
        // The error must not fail the next transactions, which did not cause it. Without a view, the writes run
        // one by one.
        this.#inserts.set(sql, undefined)
      }
    }
  }
}

/**
 * Whether SQLite reads the same values from the JSON of the rows as from parameters. An unpaired surrogate would become
 * another character.
 */
function isExactInJson(rows: readonly (readonly unknown[])[]): boolean {
  return rows.every((row) =>
    row.every(
      (value) =>
        value === null ||
        Number.isFinite(value) ||
        (typeof value === 'string' && value.isWellFormed()),
    ),
  )
}

/** Returns the SQL of the writes, with columns of the inserted row instead of parameters. */
function withColumns(writes: readonly CompiledQuery[]): string {
  let precedingParameters = 0
  return writes
    .map(({ sql, parameters }) => {
      const text = sql.replace(/\?(\d+)/g, (_, n) => `new.p${precedingParameters + Number(n)}`)
      precedingParameters += parameters.length
      return `${text};`
    })
    .join('\n')
}
