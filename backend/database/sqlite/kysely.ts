/** Kysely over SQLite: over a single connection, and over a pool. */
import {
  type DatabaseConnection,
  type Kysely,
  type SelectModifierNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { kyselyOver } from '../single-connection.ts'

class PoolAdapter extends SqliteAdapter {
  /** With the default, false, Kysely would run one statement at a time. */
  override get supportsMultipleConnections(): boolean {
    return true
  }
}

/** One adapter for all connections, and one for all pools: `prepared.ts` caches compiled statements by adapter. */
const CONNECTION_ADAPTER = new SqliteAdapter()
const POOL_ADAPTER = new PoolAdapter()

/** Statements run one after the other, each started when the previous one has ended. */
export function kyselyOnConnection<T>(connection: DatabaseConnection): Kysely<T> {
  return kyselyOn(connection, CONNECTION_ADAPTER)
}

/** `pool` presents several connections as one; it runs statements concurrently. */
export function kyselyOnPool<T>(pool: DatabaseConnection): Kysely<T> {
  return kyselyOn(pool, POOL_ADAPTER)
}

function kyselyOn<T>(connection: DatabaseConnection, adapter: SqliteAdapter): Kysely<T> {
  return kyselyOver(connection, {
    createAdapter: () => adapter,
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new QueryCompiler(),
  })
}

const ROW_LOCKS = new Set<string | undefined>([
  'ForUpdate',
  'ForNoKeyUpdate',
  'ForShare',
  'ForKeyShare',
  'NoWait',
  'SkipLocked',
])

class QueryCompiler extends SqliteQueryCompiler {
  /**
   * Parameters are numbered, so that the modules that combine statements can find and replace the placeholders
   * (readers.ts, write-batches.ts).
   */
  protected override getCurrentParameterPlaceholder(): string {
    return `?${this.numParameters}`
  }

  /**
   * Row locks are omitted: there is one writer, so no other transaction changes the rows that a transaction
   * has read.
   */
  protected override visitSelectModifier(node: SelectModifierNode): void {
    if (!ROW_LOCKS.has(node.modifier)) super.visitSelectModifier(node)
  }
}
