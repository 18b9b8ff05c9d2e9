/** Brings a PostgreSQL database to the form that this program needs. */
import type pg from 'pg'
import type { DatabaseOptions } from '../database.ts'
import { migrate, migrateIfEmpty } from '../migrations.ts'
import { connectAlone, query } from './connection.ts'
import { kyselyOnConnection, textByCodePoint } from './kysely.ts'

/** 14 is the oldest that is supported. */
const VERSION_MIN = 14

/** Of the advisory lock that migrations hold: any number that nobody else uses. */
const MIGRATION_LOCK = 7_215_308_112

/** Backends that start together migrate one after the other: all but the first find nothing to do. */
export async function migrateServer(
  url: string,
  name: string,
  user: DatabaseOptions['user'],
): Promise<readonly string[]> {
  const client = await connectAlone(url, name).catch((error: unknown) => {
    throw new Error(
      `The database cannot be reached: ${error instanceof Error ? error.message : error}`,
      { cause: error },
    )
  })
  try {
    await checkServer(client)
    await client.query('select pg_advisory_lock($1)', [MIGRATION_LOCK])
    const db = kyselyOnConnection<unknown>({
      executeQuery: (compiled) => query(client, compiled),
      streamQuery() {
        throw new Error('Migrations do not stream')
      },
    }).withPlugin(textByCodePoint)
    const migrated = await (user === 'operator' ? migrateIfEmpty(db) : migrate(db))
    // Indexes that were just made, and tables that were filled, are unknown to the planner until then.
    if (migrated.length > 0) await client.query('analyze')
    return migrated
  } finally {
    await client.end()
  }
}

async function checkServer(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<Record<'version' | 'encoding' | 'flush', string>>(
    `select current_setting('server_version_num') as version,
      current_setting('server_encoding') as encoding,
      current_setting('synchronous_commit') as flush`,
  )
  const { version = '', encoding = '', flush = '' } = rows[0] ?? {}
  if (Number(version) < VERSION_MIN * 10_000) {
    throw new Error(`PostgreSQL ${VERSION_MIN} or later is needed`)
  }
  if (encoding !== 'UTF8') throw new Error(`The database must be in UTF8, not ${encoding}`)
  if (flush === 'off') {
    throw new Error('synchronous_commit is off: what the service acknowledged could be lost')
  }
}
