/**
 * The columns of a table, for prepared statements that read whole rows. Such a statement names each column:
 * PostgreSQL rejects a prepared `select *` once a migration has added a column. The columns are the members of an
 * object, because the compiler rejects an object in which one is missing.
 */
export function allColumns<Row>(columns: { readonly [Name in keyof Row]: true }) {
  return Object.keys(columns) as (keyof Row & string)[]
}
