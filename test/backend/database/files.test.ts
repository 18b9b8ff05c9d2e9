import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { sql } from 'kysely'
import t from 'tap'
import { openDatabase } from '../../../backend/database/open.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import {
  insertRow,
  lockDatabase,
  openTestDatabase,
  readRowIds,
  SILENT,
} from '../../fixtures/service/database.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const MIGRATIONS = readdirSync(join(root, 'backend/database/migrations'))
  .map((file) => basename(file, '.ts'))
  .toSorted()

t.test('only the owner can access the database files and their directory', async (t) => {
  const directory = join(t.testdir(), 'data')
  const path = join(directory, 'test.db')
  const database = await openTestDatabase(t, { url: `sqlite:${path}` })
  await database.transaction((tx) => insertRow(tx, 'a'))
  t.equal(statSync(directory).mode & 0o777, 0o700)
  for (const suffix of ['', '-wal', '-shm', '.lock']) {
    t.equal(statSync(path + suffix).mode & 0o777, 0o600, `file${suffix}`)
  }
})

t.test('a database URL must name a SQLite file or a PostgreSQL server', async (t) => {
  for (const url of [
    'mysql://user:password@host/db',
    // Regression: the error contained the passwords of these two.
    'user:password@host/db',
    'mysql://host/db?password=x',
    'host=db user=app password=password',
    'psql://user:password',
    ...['sqlite:', 'sqlite::memory:', '/a/b.db'],
  ]) {
    const error = await openDatabase({ url, log: SILENT, openedBy: 'backend' }).catch(String)
    matches(t, error, containing('DATABASE_URL must be sqlite:'))
    t.notMatch(error, 'password')
  }
})

t.test('a backend applies each migration only once', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const first = await openTestDatabase(t, { url })
  matches(t, first.migrated, MIGRATIONS)
  await first.close()
  const second = await openTestDatabase(t, { url })
  t.strictSame(second.migrated, [])
})

t.test('an operator’s command neither creates a database nor fills an empty one', async (t) => {
  // Regression: a command with a wrong DATABASE_URL created a database, and then found no account in it.
  const directory = t.testdir({ 'empty.db': '' })
  const open = (name: string) =>
    openDatabase({ url: `sqlite:${join(directory, name)}`, log: SILENT, openedBy: 'operator' })
  await rejectsWith(t, open('none/x.db'), { message: /no database at .*x\.db.*cli -- migrate/ })
  await rejectsWith(t, open('empty.db'), { message: /does not contain the tables/ })
  t.strictSame(readdirSync(directory), ['empty.db'])
})

t.test('an operator’s command stops if migrations are pending', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const database = await openTestDatabase(t, { url })
  await database.transaction((tx) => sql`delete from schema_migrations`.execute(tx))
  await rejectsWith(t, openDatabase({ url, log: SILENT, openedBy: 'operator' }), {
    message: /lacks the migrations 0001-initial.*cli -- migrate/,
  })
})

t.test(
  'an older program works with a newer schema, unless a migration removed something that the program uses',
  async (t) => {
    const url = `sqlite:${join(t.testdir(), 'test.db')}`
    const database = await openTestDatabase(t, { url })
    const record = (name: string, requires: string | null) =>
      database.transaction((tx) =>
        sql`insert into schema_migrations values (${name}, 1, null, ${requires}, 'x', null)`.execute(
          tx,
        ),
      )
    await record('9998-later', null)
    await record('9999-later', '0001-initial')
    for (const openedBy of ['operator', 'migrator'] as const) {
      const older = await openTestDatabase(t, { url, openedBy })
      t.strictSame(older.migrated, [])
    }
    await record('9999-removal', '9998-later')
    for (const openedBy of ['operator', 'migrator'] as const) {
      await rejectsWith(t, openDatabase({ url, log: SILENT, openedBy }), {
        message: /too old for the database: it needs columns or tables that 9999-removal removed/,
      })
    }
  },
)

t.test(
  'only one backend can open a file at a time, and a killed backend does not block the next one',
  async (t) => {
    const url = `sqlite:${join(t.testdir(), 'test.db')}`
    const holder = spawn(process.execPath, ['test/fixtures/service/database-holder.ts', url], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(() => holder.kill('SIGKILL'))
    await once(holder.stdout, 'data')
    await rejectsWith(t, openDatabase({ url, log: SILENT, openedBy: 'backend' }), {
      message: new RegExp(`pid ${holder.pid}`),
    })
    const exit = once(holder, 'exit')
    holder.kill('SIGKILL')
    await exit
    await openTestDatabase(t, { url })
    await rejectsWith(t, openDatabase({ url, log: SILENT, openedBy: 'backend' }), {
      message: new RegExp(`pid ${process.pid}`),
    })
  },
)

t.test('a symbolic link does not let a second backend open a file', async (t) => {
  // Regression: the lock was beside the link, so that two backends used the file at the same time.
  const directory = t.testdir({ link: t.fixture('symlink', 'test.db') })
  const holder = await openTestDatabase(t, { url: `sqlite:${directory}/test.db` })
  const open = () => openTestDatabase(t, { url: `sqlite:${directory}/link` })
  await rejectsWith(t, open(), { message: /Another backend process/ })
  await holder.close()
  const next = await open()
  await next.transaction((tx) => insertRow(tx, 'a'))
  t.strictSame(await readRowIds(next), ['a'])
})

t.test('a symbolic link to a file that does not exist is rejected', async (t) => {
  const directory = t.testdir({ link: t.fixture('symlink', 'none/test.db') })
  const opening = openTestDatabase(t, { url: `sqlite:${directory}/link` })
  await rejectsWith(t, opening, { message: /link cannot be used: it is a link to a file that/ })
})

t.test('a command and a backend can write at the same time', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const backend = await openTestDatabase(t, { url })
  const operator = await openTestDatabase(t, { url, openedBy: 'operator' })
  const ids = Array.from({ length: 100 }, (_, n) => `n${String(n).padStart(3, '0')}`)
  await Promise.all(
    ids.map((id, n) => (n % 2 ? backend : operator).transaction((tx) => insertRow(tx, id))),
  )
  t.strictSame(await readRowIds(backend), ids)
  t.strictSame(await readRowIds(operator), ids)
})

t.test(
  'while another process locks the database, writes fail with 503 and reads succeed',
  async (t) => {
    const path = join(t.testdir(), 'test.db')
    const database = await openTestDatabase(t, { url: `sqlite:${path}`, waitMsMax: 500 })
    await database.transaction((tx) => insertRow(tx, 'a'))
    const unlock = await lockDatabase(t, path)
    await rejectsWith(
      t,
      database.transaction((tx) => insertRow(tx, 'b')),
      { code: 'service_unavailable' },
    )
    t.strictSame(await readRowIds(database), ['a'])
    await unlock()
    await database.close()
    t.strictSame(database.fault, undefined)
  },
)

t.test('a path that cannot be created or opened is named in the error', async (t) => {
  const directory = t.testdir({ file: '' })
  await rejectsWith(
    t,
    openDatabase({ url: `sqlite:${directory}/file/x.db`, log: SILENT, openedBy: 'backend' }),
    { message: /file/ },
  )
  mkdirSync(join(directory, 'x.db'))
  await rejectsWith(
    t,
    openDatabase({ url: `sqlite:${directory}/x.db`, log: SILENT, openedBy: 'operator' }),
    { message: /Cannot open .*x\.db/ },
  )
})
