/** Kysely over SQLite: over a single connection, and over readers. */
import {
  type DatabaseConnection,
  type Driver,
  Kysely,
  type SelectModifierNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { setDirectConnection } from '../prepared.ts'

const NO_TRANSACTION = 'Transactions are not begun through Kysely'

/** Statements run one after the other, each started when the previous one has ended. */
export function kyselyOnConnection<T>(connection: DatabaseConnection): Kysely<T> {
  return kyselyOn(connection, false)
}

/** Statements run concurrently. */
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
  /** Parameters are numbered, because readers replace them. */
  protected override getCurrentParameterPlaceholder(): string {
    return `?${this.numParameters}`
  }

  /**
   * Row locks are omitted: there is one writer, so no other transaction changes the rows that a transaction
   * has read.
   */
  protected override visitSelectModifier(node: SelectModifierNode): void {
    if (!ROW_LOCKS.has(node.modifier)) super.visitSelectModifier(node)
  }
}

/** Transactions are started and ended outside of Kysely. */
class SingleConnection implements Driver {
  readonly #connection: DatabaseConnection

  constructor(connection: DatabaseConnection) {
    this.#connection = connection
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection
  }

  async beginTransaction(): Promise<void> {
    throw new Error(NO_TRANSACTION)
  }

  async commitTransaction(): Promise<void> {
    throw new Error(NO_TRANSACTION)
  }

  async rollbackTransaction(): Promise<void> {
    throw new Error(NO_TRANSACTION)
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {}
}
