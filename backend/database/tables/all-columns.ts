/**
 * The columns of a table, for prepared statements that read whole rows: PostgreSQL rejects a prepared `select *` after
 * a migration has added a column. The parameter is an object, because the compiler rejects an object in which a column
 * is missing.
 */
export function allColumns<Row>(columns: { readonly [Name in keyof Row]: true }) {
  return Object.keys(columns) as (keyof Row & string)[]
}
