/** For code that must do something in different ways on SQLite and on PostgreSQL. */
import { PostgresAdapter } from 'kysely'
import type { Reader, Transaction } from './tables.ts'

export function isPostgres(db: Pick<Reader | Transaction, 'getExecutor'>): boolean {
  return db.getExecutor().adapter instanceof PostgresAdapter
}
