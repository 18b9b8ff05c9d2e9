/** Kysely over SQLite: over one connection, and over readers. */
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type SelectModifierNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { setDirectConnection } from '../prepared.ts'

/** Statements run one after the other, each begun when the one before has ended. */
export function kyselyOnConnection<T>(connection: DatabaseConnection): Kysely<T> {
  return kyselyOn(connection, false)
}

/** Statements need not wait for each other. */
export function kyselyOnReaders<T>(readers: DatabaseConnection): Kysely<T> {
  return kyselyOn(readers, true)
}

function kyselyOn<T>(connection: DatabaseConnection, multipleConnections: boolean): Kysely<T> {
  const db = new Kysely<T>({
    dialect: {
      createDriver: () => new SingleConnection(connection),
      createAdapter: () => new Adapter(multipleConnections),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new QueryCompiler(),
    },
  })
  setDirectConnection(db, connection)
  return db
}

class Adapter extends SqliteAdapter {
  readonly #multipleConnections: boolean

  constructor(multipleConnections: boolean) {
    super()
    this.#multipleConnections = multipleConnections
  }

  override get supportsMultipleConnections(): boolean {
    return this.#multipleConnections
  }

  /** SQLite's schema is transactional; Kysely's own adapter is more careful than it must be. */
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

const ROW_LOCKS = new Set<string | undefined>([
  'ForUpdate',
  'ForNoKeyUpdate',
  'ForShare',
  'ForKeyShare',
  'NoWait',
  'SkipLocked',
])

class QueryCompiler extends SqliteQueryCompiler {
  /** By number: readers put something else in their place. */
  protected override getCurrentParameterPlaceholder(): string {
    return `?${this.numParameters}`
  }

  /** There is one writer: what a transaction reads, nobody changes meanwhile. Rows need no locks. */
  protected override visitSelectModifier(node: SelectModifierNode): void {
    if (!ROW_LOCKS.has(node.modifier)) super.visitSelectModifier(node)
  }
}

/** The transactions are those of migrations; others are the write queue's affair. */
class SingleConnection implements Driver {
  readonly #connection: DatabaseConnection

  constructor(connection: DatabaseConnection) {
    this.#connection = connection
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection
  }

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('commit'))
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('rollback'))
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {}
}
