/** Tables that are named at run time alone, for what treats many of them alike. */
import type { Kysely } from 'kysely'
import type { Reader, Transaction } from './tables.ts'

type AnyTables = Kysely<Record<string, Record<string, unknown>>>

/** The names of tables and columns are the caller's to know. */
export function readAnyTable(read: Reader): Pick<AnyTables, 'selectFrom'> {
  return read as unknown as AnyTables
}

export function writeAnyTable(tx: Transaction): Pick<AnyTables, 'updateTable' | 'deleteFrom'> {
  return tx as unknown as AnyTables
}
