/** Kysely over SQLite connections: over the writer's alone, and over a pool of readers. */
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
import type { SqliteConnection } from './sqlite-connection.ts'

/** Statements run one after the other, each begun when the one before has ended. */
export function kyselyOnConnection<T>(connection: DatabaseConnection): Kysely<T> {
  return kyselyOn(new SingleConnection(connection), false)
}

/** `assertUsable` is called before each read. */
export function kyselyOnReaders<T>(
  readers: readonly SqliteConnection[],
  assertUsable: () => void,
): Kysely<T> {
  return kyselyOn(new ReaderPool(readers, assertUsable), true)
}

function kyselyOn<T>(driver: Driver, multipleConnections: boolean): Kysely<T> {
  return new Kysely<T>({
    dialect: {
      createDriver: () => driver,
      createAdapter: () => new Adapter(multipleConnections),
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new QueryCompiler(),
    },
  })
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

/** There is one writer: what a transaction reads, nobody changes meanwhile. Rows need no locks. */
class QueryCompiler extends SqliteQueryCompiler {
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

class ReaderPool implements Driver {
  readonly #free: DatabaseConnection[]
  readonly #waiting: ((connection: DatabaseConnection) => void)[] = []
  readonly #assertUsable: () => void

  constructor(readers: readonly SqliteConnection[], assertUsable: () => void) {
    this.#free = [...readers]
    this.#assertUsable = assertUsable
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    this.#assertUsable()
    return this.#free.pop() ?? new Promise((resolve) => this.#waiting.push(resolve))
  }

  async releaseConnection(connection: DatabaseConnection): Promise<void> {
    const next = this.#waiting.shift()
    if (next === undefined) this.#free.push(connection)
    else next(connection)
  }

  async beginTransaction(): Promise<void> {
    throw new Error('Readers begin no transaction')
  }

  async commitTransaction(): Promise<void> {}

  async rollbackTransaction(): Promise<void> {}

  async destroy(): Promise<void> {}
}
