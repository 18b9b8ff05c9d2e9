import {
  type DatabaseConnection,
  type Kysely,
  type KyselyPlugin,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RootOperationNode,
} from 'kysely'
import { kyselyOver } from '../single-connection.ts'

/** Shared by all connections, because `prepared.ts` caches compiled statements by adapter. */
const ADAPTER = new PostgresAdapter()

/** Sends every statement over this connection. */
export function kyselyOnConnection<T>(connection: DatabaseConnection): Kysely<T> {
  return kyselyOver(connection, {
    createAdapter: () => ADAPTER,
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  })
}

/**
 * Makes PostgreSQL compare texts by code point, as SQLite does, in all columns that migrations create. Lists then have
 * the same order on both databases, and prefixes can be found by comparison.
 */
export const collateTextColumns: KyselyPlugin = {
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
  // A column begins a line of `create table`, or follows `add column`.
  return statement.replace(
    /(^\s+\w+|\badd column (?:if not exists )?\w+) text\b/gim,
    '$1 text collate "C"',
  )
}
