/** Lets one statement read a row and the rows that belong to it, so that it reads all of them at the same moment. */
import { type RawBuilder, sql } from 'kysely'
import { isPostgres } from '../database/engine.ts'
import type { Reader } from '../database/tables.ts'

/**
 * Returns an SQL expression for the rows of `query` as a JSON text: an array that contains an array for each row, with
 * the values of `columns`.
 */
export function jsonRows(
  reader: Reader,
  columns: readonly string[],
  query: RawBuilder<unknown>,
): RawBuilder<string> {
  const values = sql.join(columns.map((column) => sql.ref(`found.${column}`)))
  return isPostgres(reader)
    ? sql`(select coalesce(json_agg(json_build_array(${values})), '[]')::text from (${query}) as found)`
    : // `sqlite/readers.ts` reads each row as a JSON array. The concatenation makes this value an ordinary text;
      // otherwise, it would become an array inside the array.
      sql`((select json_group_array(json_array(${values})) from (${query}) as found) || '')`
}
