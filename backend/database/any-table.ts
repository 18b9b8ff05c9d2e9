/**
 * Access to tables whose names are known only at run time. The compiler does not check the names of these tables and
 * their columns.
 */
import type { Kysely } from 'kysely'
import type { Reader, Transaction } from './tables.ts'

type AnyTables = Kysely<Record<string, Record<string, unknown>>>

export function readAnyTable(read: Reader): Pick<AnyTables, 'selectFrom'> {
  return read as unknown as AnyTables
}

export function writeAnyTable(tx: Transaction): Pick<AnyTables, 'updateTable' | 'deleteFrom'> {
  return tx as unknown as AnyTables
}
