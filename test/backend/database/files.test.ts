import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { sql } from 'kysely'
import t from 'tap'
import { openDatabase } from '../../../backend/database/open.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import {
  lockDatabase,
  note,
  notes,
  openTestDatabase,
  SILENT,
} from '../../fixtures/service/database.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const MIGRATIONS = readdirSync(join(root, 'backend/database/migrations'))
  .map((file) => basename(file, '.ts'))
  .toSorted()

t.test('the database and its directory are private', async (t) => {
  const directory = join(t.testdir(), 'data')
  const path = join(directory, 'test.db')
  const database = await openTestDatabase(t, { url: `sqlite:${path}` })
  await database.transaction((tx) => note(tx, 'a'))
  t.equal(statSync(directory).mode & 0o777, 0o700)
  for (const suffix of ['', '-wal', '-shm', '.lock']) {
    t.equal(statSync(path + suffix).mode & 0o777, 0o600, `file${suffix}`)
  }
})

t.test('a database is a file or a PostgreSQL server', async (t) => {
  for (const url of ['mysql://user:password@host/db', 'sqlite:', 'sqlite::memory:', '/a/b.db']) {
    const error = await openDatabase({ url, log: SILENT, user: 'backend' }).catch(String)
    matches(t, error, containing('DATABASE_URL must be sqlite:'))
    t.notMatch(error, 'password')
  }
})

t.test('the backend migrates; a second opening finds nothing to do', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const first = await openTestDatabase(t, { url })
  matches(t, first.migrated, MIGRATIONS)
  await first.close()
  const second = await openTestDatabase(t, { url })
  t.strictSame(second.migrated, [])
})

t.test('an operator can begin with an empty database', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'empty.db')}`
  const database = await openTestDatabase(t, { url, user: 'operator' })
  matches(t, database.migrated, MIGRATIONS)
})

t.test('a command names the pending migration, and does not apply it', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const database = await openTestDatabase(t, { url })
  await database.transaction((tx) => sql`delete from schema_migrations`.execute(tx))
  await rejectsWith(t, openDatabase({ url, log: SILENT, user: 'operator' }), {
    message: /lacks the migrations 0001-initial.*cli -- migrate/,
  })
})

t.test(
  'an older program works with a newer schema, unless that removed what it needs',
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
    for (const user of ['operator', 'migrator'] as const) {
      const older = await openTestDatabase(t, { url, user })
      t.strictSame(older.migrated, [])
    }
    await record('9999-removal', '9998-later')
    for (const user of ['operator', 'migrator'] as const) {
      await rejectsWith(t, openDatabase({ url, log: SILENT, user }), {
        message: /too old for the database: it needs what 9999-removal removed/,
      })
    }
  },
)

t.test('a second backend is rejected, also after the first was killed for a third', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const holder = spawn(process.execPath, ['test/fixtures/service/database-holder.ts', url], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => holder.kill('SIGKILL'))
  await once(holder.stdout, 'data')
  await rejectsWith(t, openDatabase({ url, log: SILENT, user: 'backend' }), {
    message: new RegExp(`pid ${holder.pid}`),
  })
  const exit = once(holder, 'exit')
  holder.kill('SIGKILL')
  await exit
  await openTestDatabase(t, { url })
  await rejectsWith(t, openDatabase({ url, log: SILENT, user: 'backend' }), {
    message: new RegExp(`pid ${process.pid}`),
  })
})

t.test('operators write beside the backend', async (t) => {
  const url = `sqlite:${join(t.testdir(), 'test.db')}`
  const backend = await openTestDatabase(t, { url })
  const operator = await openTestDatabase(t, { url, user: 'operator' })
  const ids = Array.from({ length: 100 }, (_, n) => `n${String(n).padStart(3, '0')}`)
  await Promise.all(
    ids.map((id, n) => (n % 2 ? backend : operator).transaction((tx) => note(tx, id))),
  )
  t.strictSame(await notes(backend), ids)
  t.strictSame(await notes(operator), ids)
})

t.test('a lock that another process does not release is 503, and reads continue', async (t) => {
  const path = join(t.testdir(), 'test.db')
  const database = await openTestDatabase(t, { url: `sqlite:${path}`, waitMsMax: 500 })
  await database.transaction((tx) => note(tx, 'a'))
  const unlock = await lockDatabase(t, path)
  await rejectsWith(
    t,
    database.transaction((tx) => note(tx, 'b')),
    { code: 'service_unavailable' },
  )
  t.strictSame(await notes(database), ['a'])
  await unlock()
  await database.close()
  t.strictSame(database.fault, undefined)
})

t.test('a directory that cannot be made is named', async (t) => {
  const directory = t.testdir({ file: '' })
  await rejectsWith(
    t,
    openDatabase({ url: `sqlite:${directory}/file/x.db`, log: SILENT, user: 'backend' }),
    { message: /file/ },
  )
  mkdirSync(join(directory, 'x.db'))
  await rejectsWith(
    t,
    openDatabase({ url: `sqlite:${directory}/x.db`, log: SILENT, user: 'operator' }),
    { message: /Cannot open/ },
  )
})
