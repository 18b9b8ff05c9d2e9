/** Runs Kysely over one `DatabaseConnection`, which may also be a pool, such as `SqliteReaders`. */
import { type DatabaseConnection, type Dialect, type Driver, Kysely } from 'kysely'
import { setDirectConnection } from './prepared.ts'

const NO_TRANSACTION = 'Transactions are not begun through Kysely'

/** Sends every statement over `connection`: prepared statements directly, all others through Kysely. */
export function kyselyOver<T>(
  connection: DatabaseConnection,
  dialect: Omit<Dialect, 'createDriver'>,
): Kysely<T> {
  const db = new Kysely<T>({
    dialect: { ...dialect, createDriver: () => new SingleConnection(connection) },
  })
  setDirectConnection(db, connection)
  return db
}

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
