import { resolve } from 'node:path'
import { sql } from 'kysely'
import { createLogger } from '../../shared/process/log.ts'
import { type CopiedTable, copyDatabase } from '../database/copy.ts'
import {
  describeDatabase,
  isPostgres,
  type OpenDatabase,
  openDatabase,
  sqlitePath,
} from '../database/open.ts'
import { backUpSqlite } from '../database/sqlite/backup.ts'
import {
  type Command,
  type Context,
  defineCommand,
  type Output,
  renderTable,
  UsageError,
} from './command.ts'
import { createProgress } from './import/progress.ts'
import { createFile } from './new-file.ts'

export const databaseCommands: readonly Command[] = [
  defineCommand({
    name: 'migrate',
    summary:
      'Apply the pending migrations of this version to the database. A backend does the same when it starts.',
    arguments: [],
    options: {},
    async run(_values, context) {
      const migrated = await context.migrate()
      return {
        json: { migrated },
        text:
          migrated.length === 0
            ? 'No migration is pending.'
            : `Applied the migrations ${migrated.join(', ')}.`,
      }
    },
  }),
  defineCommand({
    name: 'database backup',
    summary:
      'Back up the SQLite database while the backend runs. The copy is a consistent snapshot, is verified, and contains no deleted data.',
    arguments: [],
    options: {
      to: {
        type: 'string',
        required: true,
        value: 'FILE',
        description:
          'The file to create. It must not exist yet. It appears only when the copy is complete and verified.',
      },
    },
    async run({ to }, context) {
      const url = context.databaseUrl()
      if (isPostgres(url)) {
        throw new Error(
          'This command backs up SQLite only. Back up PostgreSQL with its own tools, e.g. pg_dump --format=custom: see docs/operations.md.',
        )
      }
      const path = resolve(to)
      const bytes = await createFile(path, context.stderr, (incompletePath) =>
        backUpSqlite(sqlitePath(url), incompletePath),
      )
      const size = bytes.toLocaleString('en-US')
      return { json: { path, bytes }, text: `Wrote and verified ${path}, ${size} bytes.` }
    },
  }),
  defineCommand({
    name: 'database copy',
    summary:
      'Copy all records from SQLite to PostgreSQL or vice versa, and compare the two. Stop every backend first. After an interruption, run the command again: it continues where it stopped.',
    arguments: [],
    options: {
      from: {
        type: 'string',
        required: true,
        value: 'URL',
        description:
          'The source, sqlite:/path/to/file.db or postgres://…. It is not changed. Pass the password of PostgreSQL as PGPASSWORD, because other users of the machine can see arguments in the list of processes.',
      },
      to: {
        type: 'string',
        required: true,
        value: 'URL',
        description:
          'The target, a database of the other kind. It must be empty, or contain an interrupted copy.',
      },
    },
    async run({ from, to }, { stderr }) {
      // Throws if a URL is invalid.
      describeDatabase(from, '--from')
      describeDatabase(to, '--to')
      if (isPostgres(from) === isPostgres(to)) {
        throw new UsageError('One of --from and --to must be sqlite:… and the other postgres://…')
      }
      await assertMigrated(from)
      const source = await openForCopy(from)
      try {
        const target = await openForCopy(to)
        try {
          return await copy(source, target, isPostgres(to), stderr)
        } finally {
          await target.close()
        }
      } finally {
        await source.close()
      }
    },
  }),
]

async function copy(
  from: OpenDatabase,
  to: OpenDatabase,
  toPostgres: boolean,
  stderr: Context['stderr'],
): Promise<Output> {
  await rejectIfBackendsConnected(toPostgres ? to : from)
  const tables = await copyDatabase({
    from,
    to,
    sqlite: toPostgres ? 'from' : 'to',
    progress: createProgress(stderr),
  })
  // Without statistics for the new tables, PostgreSQL would choose bad plans for the first queries.
  if (toPostgres) await to.transaction((tx) => sql`analyze`.execute(tx))
  const failed = tables.some(({ differing }) => differing.length > 0)
  const verdict = failed
    ? 'The databases DIFFER. Empty the target and copy again.'
    : 'The databases have equal numbers of rows, sums of numbers and lengths of texts.'
  return {
    json: { equal: !failed, tables },
    text: `${renderTable(tables.map(describe))}\n${verdict}`,
    failed,
  }
}

function describe({ name, rows, differing }: CopiedTable) {
  const outcome = differing.length === 0 ? 'equal' : `differs: ${differing.join(', ')}`
  return { table: name, rows: rows.toLocaleString('en-US'), outcome }
}

/**
 * Throws unless the database exists and has all migrations. Without this check, opening the source for the copy would
 * migrate an old database, or create a SQLite file if the path is wrong.
 */
async function assertMigrated(url: string): Promise<void> {
  const log = createLogger('cli', 'silent')
  // With the role `operator`, this throws instead of migrating or creating a database.
  const database = await openDatabase({ url, log, openedBy: 'operator' })
  await database.close()
}

/**
 * Opens SQLite in the role of a backend, so that opening fails if a backend uses the file. Opens PostgreSQL in the role
 * of a migrator, which has no time limits.
 */
function openForCopy(url: string): Promise<OpenDatabase> {
  const openedBy = isPostgres(url) ? 'migrator' : 'backend'
  return openDatabase({ url, log: createLogger('cli', 'silent'), openedBy })
}

/** The query searches for the application name that `openPostgres` gives to the connections of backends. */
async function rejectIfBackendsConnected(postgres: OpenDatabase): Promise<void> {
  const { rows } = await postgres.transaction((tx) =>
    sql<{ sessions: number }>`
      select count(*) as sessions from pg_stat_activity
      where datname = current_database() and application_name = 'receivables backend'
    `.execute(tx),
  )
  if (rows[0]?.sessions === 0) return
  throw new Error('Backends are connected to the PostgreSQL database. Stop them first.')
}
