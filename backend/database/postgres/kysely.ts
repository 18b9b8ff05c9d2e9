/** Kysely over PostgreSQL connections: over one alone, and over a pool of readers. */
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type KyselyPlugin,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RootOperationNode,
} from 'kysely'
import { setDirectConnection } from '../prepared.ts'

/** One, however many connections: what is prepared for one serves all. */
const ADAPTER = new PostgresAdapter()

/** Every statement goes over this connection. */
export function kyselyOnConnection<T>(connection: DatabaseConnection): Kysely<T> {
  const db = new Kysely<T>({
    dialect: {
      createDriver: () => new SingleConnection(connection),
      createAdapter: () => ADAPTER,
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })
  setDirectConnection(db, connection)
  return db
}

/** The transactions are those of migrations; others are begun and ended around Kysely. */
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
    await connection.executeQuery(CompiledQuery.raw('begin'))
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

/**
 * Text of the tables that migrations make is ordered by code point, as SQLite does, whatever the
 * locale of the database: lists then have the same order, and prefixes are found by comparison.
 */
export const textByCodePoint: KyselyPlugin = {
  transformQuery({ node }): RootOperationNode {
    if (node.kind !== 'RawNode') return node
    return { ...node, sqlFragments: node.sqlFragments.map(collate) }
  },
  async transformResult({ result }) {
    return result
  },
}

function collate(statement: string): string {
  if (!/^\s*(?:create|alter) table /i.test(statement)) return statement
  return statement.replace(/(^\s+\w+|\badd column \w+) text\b/gim, '$1 text collate "C"')
}
