/** Access to tables whose names are known only at run time, for code that treats many tables alike. */
import type { Kysely } from 'kysely'
import type { Reader, Transaction } from './tables.ts'

type AnyTables = Kysely<Record<string, Record<string, unknown>>>

/** The caller must pass valid names of tables and columns. */
export function readAnyTable(read: Reader): Pick<AnyTables, 'selectFrom'> {
  return read as unknown as AnyTables
}

export function writeAnyTable(tx: Transaction): Pick<AnyTables, 'updateTable' | 'deleteFrom'> {
  return tx as unknown as AnyTables
}
