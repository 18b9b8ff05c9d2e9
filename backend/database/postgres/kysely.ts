/** Kysely over PostgreSQL connections: over a single one, and over a pool of readers. */
import {
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

const NO_TRANSACTION = 'Transactions are not begun through Kysely'

/** One adapter for all connections, so that they share prepared statements. */
const ADAPTER = new PostgresAdapter()

/** Sends every statement over this connection. */
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

/**
 * Orders the text columns of migrated tables by code point, as SQLite does, whatever the database's locale:
 * lists then have the same order, and prefixes are found by comparison.
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
  return statement.replace(
    /(^\s+\w+|\badd column (?:if not exists )?\w+) text\b/gim,
    '$1 text collate "C"',
  )
}
