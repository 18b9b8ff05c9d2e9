import { setTimeout as delay } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import type pg from 'pg'
import type { MigrationProgress } from '../migrating/progress.ts'
import type { MigrationTarget } from '../migrating/target.ts'
import { type PrepareOptions, prepareSchema } from '../migrations.ts'
import { query } from './connection.ts'
import { connectFailureOf, endsConnection, errorKindOf } from './errors.ts'
import { collateTextColumns, kyselyOnConnection } from './kysely.ts'
import {
  addColumn,
  type BuildOptions,
  buildIndex,
  replaceCheck,
  replaceCheckWithoutBlocking,
} from './schema-changes.ts'
import { openSeparateSession } from './sessions.ts'

const VERSION_MIN = 14

/**
 * The key of the migrations' advisory lock: any number that no other program uses. Older versions of this
 * program use the same number.
 */
const MIGRATION_LOCK = 7_215_308_113

const LOCK_POLL_MS = 200

/** How often a waiting process reports that it waits. */
const LOCK_NOTE_MS = 30_000

/**
 * How long a statement in a transaction of the migration may wait for a lock. Other statements on the same table queue
 * behind it meanwhile. The timeout is shorter than PostgreSQL's deadlock_timeout (1 s by default), so that a deadlock
 * never aborts a payment: the transaction of the migration fails first, and is retried.
 */
const LOCK_TIMEOUT_MS = 300

/**
 * While another transaction blocks the work, the pause before the next attempt doubles up to this value. A random
 * factor between 0.5 and 1.5 is then applied.
 */
const RETRY_PAUSE_MS_MAX = 5000

/**
 * Applies the pending migrations, and returns their names. If migrations are pending but `options.mayMigrate` is false,
 * applies none and throws. `name` is the `application_name` of the connection.
 */
export async function migrateServer(
  url: string,
  name: string,
  options: PrepareOptions,
): Promise<readonly string[]> {
  const client = await openSeparateSession(url, name).catch((error: unknown) => {
    throw new Error(`The database cannot be reached: ${connectFailureOf(error)}`, { cause: error })
  })
  let connectionError: Error | undefined
  client.on('error', (error) => {
    connectionError ??= error
  })
  try {
    await checkServer(client)
    const connect = () => openSeparateSession(url, name)
    const target = createTarget(client, { progress: options.progress, connect })
    const migrated = await prepareSchema(target, options).catch((error: unknown) => {
      const lost = connectionError ?? (endsConnection(error) ? error : undefined)
      if (lost === undefined) throw error
      throw new Error(
        'The connection to the database was lost during the migration. Start again: the migration continues where it stopped.',
        { cause: lost },
      )
    })
    // PostgreSQL's query planner has no statistics on new indexes and backfilled columns yet.
    if (migrated.length > 0) await client.query('analyze')
    return migrated
  } finally {
    await client.end()
  }
}

/** Only the migration may use `client`, because the advisory lock belongs to this connection. */
function createTarget(client: pg.ClientBase, options: BuildOptions): MigrationTarget {
  const { progress } = options
  const db = kyselyOnConnection<unknown>({
    executeQuery: (compiled) => query(client, compiled),
    streamQuery() {
      throw new Error('Migrations do not stream')
    },
  }).withPlugin(collateTextColumns)
  const transaction: MigrationTarget['transaction'] = (work) =>
    retryWhileLocked(progress, () => transact(db, work))
  return {
    db,
    transaction,
    async hasTable(table) {
      const { rows } = await sql<{ known: boolean }>`
        select to_regclass(${table}) is not null as known
      `.execute(db)
      return rows[0]?.known === true
    },
    runWithoutBlocking: (step) =>
      retryWhileLocked(progress, () => {
        switch (step.kind) {
          case 'index':
            return buildIndex(db, step, options)
          case 'column':
            return addColumn(db, step, transaction)
          case 'check':
            return replaceCheckWithoutBlocking(db, step, transaction)
        }
      }),
    replaceCheck,
    async exclusively(work) {
      await lock(client, progress)
      try {
        return await work()
      } finally {
        // An error is ignored: if the connection is lost, PostgreSQL has already released the lock.
        await client.query('select pg_advisory_unlock($1)', [MIGRATION_LOCK]).catch(() => {})
      }
    },
  }
}

async function transact<T>(
  db: Kysely<unknown>,
  work: (tx: Kysely<unknown>) => Promise<T>,
): Promise<T> {
  await sql`begin`.execute(db)
  try {
    await sql.raw(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`).execute(db)
    const value = await work(db)
    await sql`commit`.execute(db)
    return value
  } catch (error) {
    await sql`rollback`.execute(db).catch(() => {})
    throw error
  }
}

/**
 * Retries work that was aborted because of a lock of another transaction or a deadlock. The migration gives way, so
 * that it hardly delays calls.
 */
async function retryWhileLocked<T>(
  progress: MigrationProgress,
  work: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work()
    } catch (error) {
      const kind = errorKindOf(error)
      if (kind !== 'locked' && kind !== 'conflict') throw error
      // The first failure is not reported, because most locks are brief.
      if (attempt > 1)
        progress.note('The migration waits for a lock that another transaction holds.')
      // Random, so that the retries do not coincide with a lock that recurs at regular intervals.
      await delay(Math.min(RETRY_PAUSE_MS_MAX, 50 * 2 ** attempt) * (0.5 + Math.random()))
    }
  }
}

/**
 * Polls the lock, because a statement that waits for it would keep a snapshot. In the process that has the lock,
 * `create index concurrently` would wait forever for the end of this snapshot.
 */
async function lock(client: pg.ClientBase, progress: MigrationProgress): Promise<void> {
  let notedAt: number | undefined
  for (;;) {
    const { rows } = await client.query<{ locked: boolean }>(
      'select pg_try_advisory_lock($1) as locked',
      [MIGRATION_LOCK],
    )
    if (rows[0]?.locked) return
    if (notedAt === undefined || performance.now() - notedAt > LOCK_NOTE_MS) {
      progress.note('Another process migrates this database; waiting for the end of its migration.')
      notedAt = performance.now()
    }
    await delay(LOCK_POLL_MS)
  }
}

async function checkServer(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<
    Record<'version' | 'encoding' | 'synchronous_commit', string>
  >(
    `select current_setting('server_version_num') as version,
      current_setting('server_encoding') as encoding,
      current_setting('synchronous_commit') as synchronous_commit`,
  )
  const { version = '', encoding = '', synchronous_commit = '' } = rows[0] ?? {}
  if (Number(version) < VERSION_MIN * 10_000) {
    throw new Error(`PostgreSQL ${VERSION_MIN} or later is required`)
  }
  if (encoding !== 'UTF8')
    throw new Error(`The database must have the encoding UTF8, not ${encoding}`)
  if (synchronous_commit === 'off') {
    throw new Error(
      'synchronous_commit is off: a crash of PostgreSQL could lose acknowledged writes. Set it to on.',
    )
  }
}
