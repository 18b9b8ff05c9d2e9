// Operators export, erase and back up records while the service runs.
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { containing, matches, rejectsWith } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { ON_POSTGRES } from '../fixtures/service/database-url.ts'
import { startProcess } from '../fixtures/service/process.ts'
import { startSystem } from '../fixtures/service/system.ts'

const system = await startSystem(t)
const { cli, cliProcess, createAccount, issueKey } = system.operator
const accountId = await createAccount()
const { secret: key } = await issueKey(accountId)
const directory = join(t.testdirName, 'files')
mkdirSync(directory, { recursive: true })

const create = async (path: string, body: object) => {
  const response = await call(`${system.url}/api/v1${path}`, { key, body })
  if (response.status !== 201) throw new Error(`${response.status}: ${response.text}`)
  return response.json
}

const debtor = await create('/debtors', { name: 'Jansen', email: 'ap@jansen.example' })
await create('/invoices', { debtor_id: debtor['id'], currency: 'EUR', amount: 100 })

t.test('an account is exported to a new, private file', async (t) => {
  const to = join(directory, 'account.ndjson')
  matches(t, await cli('accounts', 'export', accountId, '--to', to), /Wrote account acct_/)
  t.equal(statSync(to).mode & 0o777, 0o600)
  const first = countRows(readFileSync(to, 'utf8'))
  matches(t, first, { debtors: 1, invoices: 1 })
  const second = countRows(await cliProcess('accounts', 'export', accountId, '--to', '-'))
  // The use of a key is stored some seconds after its calls, so the second export can contain more of it.
  const expected = {
    ...first,
    audit_log: (first['audit_log'] ?? 0) + 1,
    key_usage: second['key_usage'],
    key_operations: second['key_operations'],
  }
  t.strictSame(second, expected, 'only the audit log has one more row, for the first export')
  await rejectsWith(t, cli('accounts', 'export', accountId, '--to', to), {
    code: 1,
    stderr: /already exists/,
  })
  const nowhere = join(directory, 'other.ndjson')
  await rejectsWith(t, cli('accounts', 'export', 'acct_none', '--to', nowhere), { code: 1 })
  t.strictSame(readdirSync(directory), ['account.ndjson'])
})

t.test('after an erasure, the next call shows the debtor as erased', async (t) => {
  const id = String(debtor['id'])
  const erased = JSON.parse(await cli('debtors', 'erase', id, '--reason', 'asked', '--json'))
  matches(t, erased, { id, was_erased: false, left_in_database_log: ON_POSTGRES })
  const shown = await call(`${system.url}/api/v1/debtors/${id}`, { key })
  matches(t, shown.json, { name: '[erased]', email: null, erased_at: erased.erased_at })
  const repeat = () => cli('debtors', 'erase', id, '--reason', 'again')
  const before = `was erased at ${erased.erased_at}.`
  const repeated = await repeat()
  matches(t, repeated, containing(`${before} There was nothing more to erase.`))
  // Regression: on SQLite, backups were mentioned only if the write-ahead log could not be emptied.
  // Only PostgreSQL keeps erased data in its files, until an operator runs `vacuum`.
  const files = ON_POSTGRES ? ', and the files of the database,' : ''
  const places = `Backups that were made before the erasure${files}`
  matches(t, repeated, containing(`${places} still contain the data`))
  const invoice = { debtor_id: id, currency: 'EUR', amount: 100, notes: 'Ask for Ms. Jansen' }
  await create('/invoices', invoice)
  // Regression: the message said that the first erasure had erased these rows.
  matches(t, await repeat(), containing(`${before} This run also erased rows: 1 in invoices`))
  await rejectsWith(t, cli('debtors', 'restore', id), { code: 1, stderr: /erased/ })
})

t.test(
  'SQLite is backed up during writes, and a backend starts on the copy',
  {
    skip: ON_POSTGRES && 'applies only to SQLite',
  },
  async (t) => {
    const to = join(directory, 'backup.db')
    const [backup] = await Promise.all([
      cli('database', 'backup', '--to', to, '--json'),
      ...Array.from({ length: 20 }, (_, n) => create('/debtors', { name: `Debtor ${n}` })),
    ])
    matches(t, JSON.parse(backup), { path: to, bytes: statSync(to).size })
    t.equal(statSync(to).mode & 0o777, 0o600)
    t.notOk(existsSync(`${to}-wal`), 'the backup is a single file')
    const restored = join(directory, 'receivables.db')
    copyFileSync(to, restored)
    const ports = { BACKEND_PORT: '0', BACKEND_OPERATIONS_PORT: '0' }
    const env = { ...system.env, ...ports, DATABASE_URL: `sqlite:${restored}` }
    const backend = await startProcess(t, 'backend/main.ts', env)
    const ready = await fetch(`http://127.0.0.1:${backend.operationsPort}/readyz`)
    t.equal(ready.status, 200)
  },
)

t.test(
  'on PostgreSQL, the backup command fails and refers to pg_dump',
  { skip: !ON_POSTGRES && 'applies only to PostgreSQL' },
  async (t) => {
    await rejectsWith(t, cli('database', 'backup', '--to', join(directory, 'x')), {
      code: 1,
      stderr: /pg_dump/,
    })
  },
)

/** Counts the rows of each table, and compares the counts with those in the last line. */
function countRows(text: string): Record<string, number> {
  const lines = text.trimEnd().split('\n')
  const { rows } = JSON.parse(lines.at(-1) ?? '').end as { rows: Record<string, number> }
  const counted = Object.fromEntries(Object.keys(rows).map((table) => [table, 0]))
  for (const line of lines.slice(1, -1)) {
    const { table } = JSON.parse(line) as { table: string }
    counted[table] = (counted[table] ?? 0) + 1
  }
  t.strictSame(counted, rows, 'the last line has the same counts')
  return counted
}
