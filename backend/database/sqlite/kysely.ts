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

/** Statements run one after another. */
export function kyselyOnConnection<T>(connection: DatabaseConnection): Kysely<T> {
  return kyselyOn(connection, CONNECTION_ADAPTER)
}

/** `pool` runs statements concurrently. */
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
  /** Parameters are numbered, so that readers.ts and write-batches.ts can replace the placeholders. */
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
