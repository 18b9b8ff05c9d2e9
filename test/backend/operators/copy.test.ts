// Operators move a service to another database: from SQLite to PostgreSQL, and back.
import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { copyDatabase } from '../../../backend/database/copy.ts'
import { createDemoAccount } from '../../../backend/demo/demo.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { insertRow, openTestDatabase } from '../../fixtures/service/database.ts'
import { newBarePostgresUrl, newPostgresUrl } from '../../fixtures/service/database-url.ts'

const SILENT_PROGRESS = { begin() {}, advance() {}, end() {} }

interface Outcome {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

function cli(...args: string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(process.execPath, ['backend/cli.ts', ...args], (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr })
    })
  })
}

/** Creates a SQLite database with the records of a demo account, and with more rows than one batch. */
async function createSource(t: Test) {
  const url = `sqlite:${join(t.testdir(), 'source.db')}`
  const database = await openTestDatabase(t, { url })
  await database.transaction(async (tx) => {
    await createDemoAccount(tx, 'x', { actor: OPERATOR, now: new Date() })
    for (let n = 0; n < 2500; n += 1) await insertRow(tx, `note_${String(n).padStart(5, '0')}`)
  })
  return { url, database }
}

t.test('after a copy to PostgreSQL and back, all rows are equal', async (t) => {
  const source = await createSource(t)
  await source.database.close()
  const postgres = await newPostgresUrl(t)
  const forth = await cli('database', 'copy', '--from', source.url, '--to', postgres)
  t.equal(forth.code, 0, forth.stderr)
  matches(t, forth.stdout, /audit_log +2,5\d\d +equal/)
  matches(t, forth.stdout, /The databases have equal numbers of rows/)
  matches(t, forth.stderr, /invoices \[#+\]/)
  const url = source.url.replace('source.db', 'target.db')
  const back = await cli('database', 'copy', '--from', postgres, '--to', url, '--json')
  matches(t, JSON.parse(back.stdout), { equal: true })
  const target = await openTestDatabase(t, { url })
  const original = await openTestDatabase(t, { url: source.url })
  for (const table of ['invoices', 'payments', 'payment_allocations', 'audit_log'] as const) {
    const rowsOf = async (database: typeof target) =>
      (await database.read.selectFrom(table).selectAll().execute())
        .map((row) => JSON.stringify(row))
        .toSorted()
    t.strictSame(await rowsOf(target), await rowsOf(original), table)
  }
})

t.test('an interrupted copy continues where it stopped', async (t) => {
  const { database: from } = await createSource(t)
  const to = await openTestDatabase(t, { url: await newPostgresUrl(t) })
  let batches = 0
  const interruptingProgress = {
    ...SILENT_PROGRESS,
    advance() {
      batches += 1
      if (batches === 8) throw new Error('interrupted')
    },
  }
  await rejectsWith(
    t,
    copyDatabase({ from, to, sqlite: 'from', progress: interruptingProgress }),
    /interrupted/,
  )
  const tables = await copyDatabase({ from, to, sqlite: 'from', progress: SILENT_PROGRESS })
  t.strictSame(
    tables.filter(({ differing }) => differing.length > 0),
    [],
  )
  const repeated = await copyDatabase({ from, to, sqlite: 'from', progress: SILENT_PROGRESS })
  t.strictSame(repeated, tables, 'a further run changes nothing')
})

t.test('a target with other records is rejected, and columns that differ are named', async (t) => {
  const { database: from } = await createSource(t)
  const to = await openTestDatabase(t, { url: await newPostgresUrl(t) })
  const options = { from, to, sqlite: 'from', progress: SILENT_PROGRESS } as const
  await to.transaction((tx) => insertRow(tx, 'note_00000x'))
  await rejectsWith(t, copyDatabase(options), /^In audit_log, .* empty database/)
  await to.transaction((tx) => tx.deleteFrom('audit_log').execute())
  await copyDatabase(options)
  await to.transaction((tx) =>
    tx.updateTable('invoices').set({ notes: 'changed by hand' }).execute(),
  )
  const invoices = (await copyDatabase(options)).find(({ name }) => name === 'invoices')
  matches(t, invoices, { differing: ['notes'] })
})

t.test('a copy from a database without tables is rejected, and changes nothing', async (t) => {
  // Regression: with the name of another database, the copy created its tables there, and reported equal databases.
  const wrong = await newBarePostgresUrl(t)
  const directory = t.testdir()
  const copy = () =>
    cli('database', 'copy', '--from', wrong, '--to', `sqlite:${join(directory, 'new.db')}`)
  matches(t, await copy(), { code: 1, stderr: /does not contain the tables/ })
  matches(t, await copy(), { code: 1, stderr: /does not contain the tables/ })
  t.strictSame(readdirSync(directory), [])
})

t.test(
  'a copy is rejected between two SQLite files, from a missing file, or while a backend runs',
  async (t) => {
    const { url, database } = await createSource(t)
    const postgres = await newPostgresUrl(t)
    const copy = (from: string, to: string) => cli('database', 'copy', '--from', from, '--to', to)
    matches(t, await copy(url, url), { code: 2, stderr: /One of --from and --to/ })
    // Regression: these two named DATABASE_URL, which the command does not use.
    matches(t, await copy('x.db', postgres), { code: 1, stderr: /^--from must be sqlite:/ })
    matches(t, await copy(url, 'postgres://a:b/c@d/e'), { code: 1, stderr: /^--to is not a valid/ })
    matches(t, await copy('sqlite:/nowhere/x.db', postgres), { code: 1, stderr: /no database/ })
    matches(t, await copy(url, postgres), { code: 1, stderr: /Another backend process/ })
    await database.close()
    // Regression: the copy did not find backends whose URL has an `application_name`.
    const backend = await openTestDatabase(t, { url: `${postgres}?application_name=acme` })
    await backend.read.selectFrom('accounts').select('id').execute()
    matches(t, await copy(url, postgres), { code: 1, stderr: /Stop them first/ })
  },
)
