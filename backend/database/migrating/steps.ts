/**
 * The steps of a migration. Processes of the previous version serve calls meanwhile, so each step blocks writers only
 * for a moment. On SQLite, however, an `index` or a `column` blocks them until the whole table is read. The kinds of
 * steps:
 *
 * - `transaction`: short statements, all or none. A statement that reads a whole table does not belong here.
 * - `column`: adds a column with a check. PostgreSQL validates the check without blocking writers.
 * - `check`: replaces a check of a table. PostgreSQL validates the new check in the same way.
 * - `index`: builds an index, on PostgreSQL without blocking writers.
 * - `backfill`: fills a column of existing rows in batches, each in a transaction of its own.
 */
import assert from 'node:assert'
import { type Kysely, sql } from 'kysely'

export interface Migration {
  readonly steps: readonly Step[]
  /**
   * Only for a migration that removes columns or tables: the name of an earlier migration, the marker (see "Remove" in
   * CONTRIBUTING.md). Programs that contain the marker do not use these columns or tables. After the removal has begun,
   * a program without the marker refuses to start.
   */
  readonly requires?: string
}

export type Step = TransactionStep | ColumnStep | CheckStep | IndexStep | BackfillStep

export interface TransactionStep {
  readonly kind: 'transaction'
  /**
   * The statements that `run` executes. A test checks that none of them blocks writers for long. Empty if the
   * statements of `run` are not fixed.
   */
  readonly statements: readonly string[]
  readonly run: (tx: Kysely<unknown>) => Promise<void>
}

export interface ColumnStep {
  readonly kind: 'column'
  readonly table: string
  readonly column: string
  readonly type: string
  readonly check: string
}

export interface CheckStep {
  readonly kind: 'check'
  readonly table: string
  readonly name: string
  /** The condition that the step replaces, exactly as the migration that created it spells it. */
  readonly from: string
  readonly to: string
}

export interface IndexStep {
  readonly kind: 'index'
  readonly name: string
  readonly isUnique: boolean
  /** The statement after the index's name: `on <table> (<columns>) where <condition>`. */
  readonly definition: string
}

export interface BackfillStep {
  readonly kind: 'backfill'
  readonly table: string
  /** The columns of the primary key, in order. */
  readonly key: readonly string[]
  readonly set: string
  readonly where: string
}

/** Each statement must be quick, however large the tables are. */
export function transaction(...statements: readonly string[]): TransactionStep {
  return {
    kind: 'transaction',
    statements,
    async run(tx) {
      for (const statement of statements) await sql.raw(statement).execute(tx)
    },
  }
}

/** Adds a column with a check. */
export function column(table: string, name: string, type: string, condition: string): ColumnStep {
  return { kind: 'column', table, column: name, type, check: condition }
}

/**
 * Replaces the check `from` of a table by `to`. Rows that satisfy `from` must satisfy `to`, including those
 * that processes of the previous version write.
 */
export function check(replacement: Omit<CheckStep, 'kind'>): CheckStep {
  return { kind: 'check', ...replacement }
}

/** Parses `create [unique] index <name> on <table> (<columns>) [where <condition>]`. */
export function index(statement: string): IndexStep {
  const [, unique, name, definition] =
    /^create (unique )?index (\w+) (on .*)$/s.exec(statement.trim()) ?? []
  assert(name !== undefined && definition !== undefined, `Not an index: ${statement}`)
  return { kind: 'index', name, isUnique: unique !== undefined, definition }
}

/**
 * Runs `update <table> set <set> where <where>`, in batches in the order of the primary key. Running the update again
 * must not change its result. The update misses rows that a process of the previous version inserts with a key before
 * the current batch. Therefore, the column's default must be correct for such rows, or the code that reads the
 * column must also accept rows without the new value.
 */
export function backfill(
  work: Omit<BackfillStep, 'kind' | 'key'> & Partial<Pick<BackfillStep, 'key'>>,
): BackfillStep {
  return { kind: 'backfill', key: ['id'], ...work }
}

/** With `concurrently`, PostgreSQL does not block writers. */
export function indexStatement(step: IndexStep, mode?: 'concurrently'): string {
  const words = ['create', ...(step.isUnique ? ['unique'] : []), 'index', ...(mode ? [mode] : [])]
  return [...words, step.name, step.definition].join(' ')
}

/** Returns the statement for SQLite, and for an empty database. */
export function columnStatement({
  table,
  column: name,
  type,
  check: condition,
}: ColumnStep): string {
  return `alter table ${table} add column ${name} ${type} check (${condition})`
}

export function backfillStatement({ table, set, where }: BackfillStep): string {
  return `update ${table} set ${set} where (${where})`
}
