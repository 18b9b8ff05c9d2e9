import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findKeysByDigest } from '../../../backend/api-keys/api-keys.ts'
import { SqliteConnection } from '../../../backend/database/sqlite/connection.ts'
import { createPasswords } from '../../../backend/users/passwords.ts'
import { findUserByEmail } from '../../../backend/users/users.ts'
import { digestApiKey } from '../../../shared/contract/api-key.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import {
  runCli,
  runCliOnTerminal,
  runCliProcess,
  runCliUnread,
} from '../../fixtures/service/cli.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { copySqliteTemplate } from '../../fixtures/service/database-url.ts'
import { SCRIPT_ENV } from '../../fixtures/service/process.ts'
import { endWithThisProcess } from '../../fixtures/service/terminate-children.ts'
import { until } from '../../fixtures/service/until.ts'

const PEPPER = 'iLqYvZcN1uXbT4wKs0dJmR8eHgA3pF6y'

const PASSWORD = 'correct horse battery'

async function canLogIn(t: Test, url: string, email: string): Promise<boolean> {
  const database = await openTestDatabase(t, { url })
  const stored = await findUserByEmail(database.read, email)
  return createPasswords().verify(stored?.password_hash, PASSWORD)
}

/** Creates a database in a data directory, and returns functions that run the operators' command line on it. */
async function prepareCli(t: Test, env: Record<string, string> = { KEY_PEPPER: `v1:${PEPPER}` }) {
  const directory = t.testdir()
  await copySqliteTemplate(join(directory, 'receivables.db'))
  const settings = { DATA_DIR: directory, ...env }
  const run = (...args: string[]) => runCli(args, settings)
  const runProcess = (...args: string[]) => runCliProcess(args, settings)
  const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout)
  return { directory, url: `sqlite:${join(directory, 'receivables.db')}`, run, runProcess, json }
}

t.test('an account and a key are created, changed and revoked while a backend runs', async (t) => {
  const { url, json, run } = await prepareCli(t)
  const backend = await openTestDatabase(t, { url })
  const account = await json('accounts', 'create', '--name', 'Acme Ltd', '--currency', 'eur')
  matches(t, account, { id: /^acct_/, name: 'Acme Ltd', status: 'active', default_currency: 'EUR' })

  const scopes = 'payments:write, debtors:read'
  const key = await json(
    ...['keys', 'issue', '--account', account.id, '--name', 'ERP', '--scopes', scopes],
    ...['--rate-limit', '5'],
  )
  const { secret, ...rest } = key
  matches(t, rest, {
    id: /^key_/,
    prefix: secret.slice(0, 12),
    name: 'ERP',
    scopes: ['debtors:read', 'payments:write'],
    rate_limit: 5,
    account_id: account.id,
  })
  const peppers = [{ version: 'v1', secret: PEPPER }]
  const find = async () =>
    (await findKeysByDigest(backend.read, [digestApiKey(secret)], peppers))[0]
  matches(t, await find(), { key_id: key.id, revoked_at: null })

  matches(t, await json('accounts', 'set-status', account.id, 'suspended'), { read_only: true })
  // Regression: the command said that nothing can be changed, although disputes can be recorded.
  const again = await run('accounts', 'set-status', account.id, 'suspended')
  matches(t, again.stdout, /Reminders can still be paused, and disputes recorded\./)
  matches(t, await json('accounts', 'set-scopes', account.id, 'debtors:read'), {
    scope_allowance: ['debtors:read'],
  })
  matches(t, await json('accounts', 'set-scopes', account.id, 'all'), { scope_allowance: null })
  matches(t, await json('keys', 'revoke', key.id), { revoked_by: 'operator' })
  matches(t, await find(), { status: 'suspended', account_revision: 4, revoked_at: String })
  matches(t, await json('keys', 'list', '--account', account.id), [{ id: key.id }])
  matches(t, await json('accounts', 'list'), [{ id: account.id, status: 'suspended' }])
})

t.test('a user can log in with the given password', async (t) => {
  const { url, json } = await prepareCli(t)
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  const user = await json(
    ...['users', 'create', '--account', id, '--email', 'Ada@Example.org'],
    ...['--role', 'admin', '--password', PASSWORD],
  )
  matches(t, user, { email: 'ada@example.org', role: 'admin' })
  t.ok(await canLogIn(t, url, 'ada@example.org'))
})

t.test('the second factors of a user who has lost them are removed', async (t) => {
  const { url, json, run } = await prepareCli(t)
  const account = await json('accounts', 'create', '--name', 'Acme')
  const create = ['users', 'create', '--account', account.id, '--email', 'ada@acme.example']
  const { id } = await json(...create, '--role', 'admin', '--password', PASSWORD)
  const database = await openTestDatabase(t, { url })
  const created_at = '2026-11-21T10:15:00.000Z'
  const passkey = { account_id: account.id, user_id: id, name: 'Laptop', public_key: 'x' }
  await database.transaction(async (tx) => {
    const app = { totp_secret: 'x', totp_enabled_at: created_at }
    await tx.updateTable('users').set(app).where('id', '=', id).execute()
    const code = { user_id: id, code_hash: 'x', created_at, used_at: null }
    await tx.insertInto('recovery_codes').values(code).execute()
    const rows = ['1', '2'].map((n) => ({
      ...{ ...passkey, id: `psk_${n}`, credential_id: n, sign_count: 0, transports: '[]' },
      ...{ created_at, last_used_at: null },
    }))
    await tx.insertInto('passkeys').values(rows).execute()
  })
  matches(t, await run('users', 'disable-second-factor', 'Ada@acme.example'), {
    code: 0,
    stdout: 'ada@acme.example now logs in with the password alone.\n',
  })
  const { read } = database
  t.strictSame(await read.selectFrom('passkeys').select('id').execute(), [])
  t.strictSame(await read.selectFrom('recovery_codes').select('user_id').execute(), [])
  matches(t, await findUserByEmail(read, 'ada@acme.example'), {
    ...{ totp_secret: null, totp_enabled_at: null },
  })
  const audit = await read.selectFrom('audit_log').select('action').orderBy('id').execute()
  t.strictSame(
    audit.slice(2).map(({ action }) => action),
    ['user.second_factor_disabled', 'user.passkey_removed', 'user.passkey_removed'],
  )
  matches(t, await run('users', 'disable-second-factor', 'bob@acme.example'), {
    ...{ code: 1, stderr: containing('There is no user') },
  })
})

t.test('a password is read from standard input', async (t) => {
  // Regression: a password could only be passed as an option, which other users can see in the list of processes.
  const { directory, url, run, json } = await prepareCli(t)
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  const create = ['users', 'create', '--account', id, '--email', 'ada@example.org']
  const role = ['--role', 'admin']
  const pipe = (input: string) =>
    runCliProcess([...create, ...role, '--password-stdin'], { DATA_DIR: directory }, input)
  matches(t, await pipe('two\nlines\n'), { code: 2, stderr: /one line/ })
  matches(t, await pipe(''), { code: 1, stderr: /must have 8 to 256 characters/ })
  const both = [...role, '--password-stdin', '--password', PASSWORD]
  matches(t, await run(...create, ...both), { code: 2, stderr: /either --password or/ })
  matches(t, await run(...create, ...role), { code: 2, stderr: /use --password-stdin/ })
  matches(t, await pipe(`${PASSWORD}\n`), { code: 0, stderr: '' })
  t.ok(await canLogIn(t, url, 'ada@example.org'))
})

t.test('a password is requested on a terminal, which does not show the password', async (t) => {
  const { directory, url, json } = await prepareCli(t)
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  const create = ['users', 'create', '--account', id, '--email', 'ada@example.org']
  const type = (...entries: readonly [prompt: string, typed: string][]) =>
    runCliOnTerminal([...create, '--role', 'admin'], { DATA_DIR: directory }, entries)
  const differ = await type(['Password: ', PASSWORD], ['again: ', 'incorrect horse'])
  matches(t, differ, { code: 2, screen: /The two passwords differ/ })
  const interrupted = await type(['Password: ', '\u0003'])
  matches(t, interrupted, { code: 2, screen: /No password was entered/ })
  const { code, screen } = await type(['Password: ', PASSWORD], ['again: ', PASSWORD])
  t.equal(code, 0)
  matches(t, screen, /^Password: \r\nPassword, again: \r\nCreated user \w+, ada@example.org/)
  t.ok(await canLogIn(t, url, 'ada@example.org'))
})

t.test('the process has an exit code, and writes errors to standard error', async (t) => {
  const { runProcess } = await prepareCli(t)
  const listed = { code: 0, stdout: 'None.\n', stderr: '' }
  matches(t, await runProcess('accounts', 'list'), listed)
  const stderr = /no API key key_none/
  matches(t, await runProcess('keys', 'revoke', 'key_none'), { code: 1, stdout: '', stderr })
  matches(t, await runProcess('nope'), { code: 2, stdout: '', stderr: /no command nope/ })
})

t.test('an output that cannot be written causes no stack trace', async (t) => {
  // Regression: `… | head` ended with the stack trace of an unhandled error.
  const env = { DATA_DIR: t.testdir() }
  matches(t, await runCliUnread(['--help'], env), { code: 1, stderr: '' })
  const full = openSync('/dev/full', 'w')
  t.teardown(() => closeSync(full))
  matches(t, await runCliUnread(['--help'], env, full), {
    code: 1,
    stderr: /^The output could not be written: ENOSPC.*\n$/,
  })
})

t.test('without --json, the output consists of sentences and tables', async (t) => {
  const { run } = await prepareCli(t)
  matches(t, await run('accounts', 'list'), { code: 0, stdout: 'None.\n' })
  await run('accounts', 'create', '--name', 'Acme', '--demo')
  matches(t, await run('accounts', 'list'), { stdout: /^ID +NAME .*\nacct_\w+ +Acme +active +UTC/ })
  matches(t, await run('migrate'), { code: 0, stdout: 'No migration is pending.\n' })
})

t.test('wrong usage is explained, with exit code 2', async (t) => {
  const { run } = await prepareCli(t)
  const wrong: [args: string[], message: RegExp][] = [
    [['nope'], /no command nope.*--help/],
    [['keys'], /keys issue, keys list, keys revoke, keys change, keys rotate/],
    [['accounts', 'create'], /requires --name/],
    [['accounts', 'create', '--nome', 'x'], /--nome/],
    [['accounts', 'set-status', 'acct_x'], /requires STATUS/],
    [['accounts', 'set-status', 'acct_x', 'frozen'], /frozen/],
    [['keys', 'revoke', 'a', 'b'], /does not accept b/],
  ]
  await Promise.all(
    wrong.map(async ([args, message]) =>
      matches(t, await run(...args), { code: 2, stdout: '', stderr: message }, args.join(' ')),
    ),
  )
})

t.test('an empty value is rejected', async (t) => {
  // Regression: an empty value, such as an unset shell variable, set payment terms of 0 days, removed all scopes and
  // holidays, and removed the address restriction of a key.
  const { json, run } = await prepareCli(t)
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  const key = await json(
    ...['keys', 'issue', '--account', id, '--name', 'ERP', '--scopes', 'debtors:read'],
    ...['--addresses', '10.0.0.0/8'],
  )
  const schedule = ['reminders', 'schedule', '--account', id]
  await json(...schedule, '--holidays', '2026-12-25')
  const issue = ['keys', 'issue', '--account', id, '--name', 'B', '--scopes', 'debtors:read']
  const wording = ['reminders', 'wording', '--account', id, '--stage', 'firm', '--language', 'en']
  const ledger = ['import', '--date-format', 'YYYY-MM-DD']
  const empty: [args: string[], message: RegExp][] = [
    [['accounts', 'change', id, '--payment-terms', ''], /--payment-terms .* number, not empty/],
    [['accounts', 'change', id, '--payment-terms', ' '], /--payment-terms .* number, not empty/],
    [['accounts', 'change', id, '--payment-terms', '0x10'], /number, not 0x10/],
    [['accounts', 'set-scopes', id, ''], /^SCOPES is empty: give a list .* the word none/],
    [[...issue, '--addresses', ''], /^--addresses is empty: give a list .* the word none/],
    [[...issue, '--rate-limit', ''], /--rate-limit .* number, not empty/],
    [['keys', 'change', key.id, '--addresses', ''], /^--addresses is empty: give a list/],
    [['reminders', 'preview', '--account', id, '--days', ''], /--days .* number, not empty/],
    [[...schedule, '--holidays', ''], /^--holidays is empty: give a list/],
    [['reminders', 'sender', '--account', id, '--name', ''], /--name is empty/],
    [['reminders', 'sender', '--account', id, '--logo', ''], /^--logo is empty: give the path/],
    [[...wording, '--from', ''], /^--from is empty: give the path of a file/],
    // Regression: the error said that '' does not exist, or was about a file that the operator had not named.
    [[...ledger, ''], /^FILE is empty: give the path of a file/],
    [[...ledger, 'x.csv', '--key-file', ''], /^--key-file is empty: give the path of a file/],
    [['accounts', 'export', id, '--to', ''], /^--to is empty: give the path of a file/],
    [['database', 'backup', '--to='], /^--to is empty: give the path of a file/],
    [[...schedule, '--courtesy', ''], /--courtesy .* number, not empty/],
    [[...schedule, '--ladder', '3,1e1,21,35'], /--ladder .* number, not 1e1/],
  ]
  for (const [args, stderr] of empty) {
    matches(t, await run(...args), { code: 2, stdout: '', stderr }, args.join(' '))
  }
  matches(t, await json('accounts', 'list'), [{ payment_terms_days: 30, scope_allowance: null }])
  matches(t, await json('keys', 'list', '--account', id), [{ allowed_addresses: ['10.0.0.0/8'] }])
  matches(t, await json(...schedule), { holidays: ['2026-12-25'] })
})

t.test('the reply address and the use of money on account are set', async (t) => {
  const { json, run } = await prepareCli(t)
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  const setReplyTo = ['accounts', 'set-reply-to', id]
  matches(t, await json(...setReplyTo, 'ar@acme.example'), { reply_to: 'ar@acme.example' })
  for (const wrong of ['nowhere', '']) {
    const stderr = 'reply_to must be one e-mail address.\n'
    matches(t, await run(...setReplyTo, wrong), { code: 1, stderr })
  }
  matches(t, await json('accounts', 'list'), [{ reply_to: 'ar@acme.example' }])
  const toService = 'Replies to reminders go to MAIL_FROM.\n'
  matches(t, await run(...setReplyTo, 'none'), { stdout: toService })
  const setApplyCredit = ['accounts', 'set-apply-credit', id]
  matches(t, await json(...setApplyCredit, 'oldest_first'), { apply_credit: 'oldest_first' })
  matches(t, await run(...setApplyCredit, 'newest_first'), {
    ...{ code: 1, stderr: 'apply_credit must be manual or oldest_first.\n' },
  })
  matches(t, await json('accounts', 'list'), [{ reply_to: null, apply_credit: 'oldest_first' }])
  matches(t, await run(...setApplyCredit, 'manual'), { stdout: containing('stays on account') })
})

t.test('an account whose keys may use no scope is listed with "none"', async (t) => {
  // Regression: the list showed nothing for the scopes of such an account.
  const { run } = await prepareCli(t)
  await run('accounts', 'create', '--name', 'Acme')
  const { stdout } = await run('accounts', 'list')
  const [id = ''] = /acct_\w+/.exec(stdout) ?? []
  matches(t, stdout, / all\n$/)
  await run('accounts', 'set-scopes', id, 'none')
  matches(t, (await run('accounts', 'list')).stdout, / none\n$/)
})

t.test('a rejection is explained, with exit code 1', async (t) => {
  const { run } = await prepareCli(t)
  matches(t, await run('keys', 'revoke', 'key_none'), { code: 1, stderr: /no API key key_none/ })
  matches(t, await run('keys', 'issue', '--account', 'acct_none', '--name', ' ', '--scopes', ''), {
    code: 1,
    stderr: 'Give the key a name. Choose at least one thing the key may do.\n',
  })
})

t.test('if several values are wrong, each is explained', async (t) => {
  // Regression: the error was "3 fields are wrong. They are listed in errors.", without a list.
  const { json, run } = await prepareCli(t)
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  matches(t, await run('reminders', 'schedule', '--account', id, '--ladder', '5,4,3,2'), {
    code: 1,
    stderr:
      /^reminder must be .* after friendly\. firm must be .* final must be .* after firm\.\n$/,
  })
})

t.test('a wrong value is explained without a JSON Pointer', async (t) => {
  // Regression: the error began with "At /default_currency: ", which names a place in the body of an API call.
  const { json, run } = await prepareCli(t)
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  matches(t, await run('accounts', 'change', id, '--currency', 'XAU'), {
    code: 1,
    stderr: 'default_currency must be a currency with a minor unit, not XAU.\n',
  })
  matches(t, await run('reminders', 'schedule', '--account', id, '--courtesy', '99'), {
    code: 1,
    stderr: 'courtesy must be 1 to 30 days before the due date (-1 to -30), or none.\n',
  })
})

t.test('an option with a value is accepted only once', async (t) => {
  // Regression: `kill-switch on --account A --account B` stopped the reminders of B only.
  const { json, run } = await prepareCli(t)
  const a = await json('accounts', 'create', '--name', 'A')
  const b = await json('accounts', 'create', '--name', 'B')
  const twice = ['--account', a.id, `--account=${b.id}`, '--reason', 'wrong bank account']
  matches(t, await run('kill-switch', 'on', ...twice), {
    code: 2,
    stderr: /^The command accepts --account only once/,
  })
  t.strictSame(await json('kill-switch', 'status'), [])
  matches(t, await run('accounts', 'list', '--json', '--json'), { code: 0 })
})

t.test('an error of the database is explained without advice for clients of the API', async (t) => {
  // Regression: the message told operators to repeat the call with the same Idempotency-Key.
  const { directory, json, run } = await prepareCli(t)
  await json('accounts', 'create', '--name', 'Acme')
  // A write version of the file format that SQLite does not know makes the file read-only, even for root.
  const file = openSync(join(directory, 'receivables.db'), 'r+')
  writeSync(file, Buffer.of(3), 0, 1, 18)
  closeSync(file)
  matches(t, await run('accounts', 'create', '--name', 'Globex'), {
    code: 1,
    stderr:
      /^The database could not complete the command\. Run .* when the database is available\. \(SQLITE_READONLY: [^\n]*\)\n$/,
  })
})

t.test('concurrent backups or exports to the same file do not damage each other', async (t) => {
  // Regression: both used the same incomplete file, so the first could publish what the second had just begun.
  const { directory, json, run } = await prepareCli(t)
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  const backup = join(directory, 'backup.db')
  const backups = await Promise.all([1, 2, 3].map(() => run('database', 'backup', '--to', backup)))
  t.strictSame(
    backups.map(({ stderr }) => stderr).filter((text) => !text.includes('already exists')),
    ['', '', ''],
  )
  const restored = (...args: string[]) => runCli(args, { DATABASE_URL: `sqlite:${backup}` })
  matches(t, await restored('accounts', 'list'), { stdout: containing(id) })

  const to = join(directory, 'acme.ndjson')
  // An incomplete file of another user, who could read what is written to it.
  writeFileSync(`${to}.partial`, '', { mode: 0o644 })
  const exported = await Promise.all([1, 2, 3].map(() => run('accounts', 'export', id, '--to', to)))
  t.strictSame(
    exported.map(({ stderr }) => stderr),
    ['', '', ''],
  )
  t.equal(statSync(to).mode & 0o777, 0o600)
  const lines = readFileSync(to, 'utf8').trimEnd().split('\n')
  matches(t, JSON.parse(lines.at(-1) ?? ''), { end: { rows: { accounts: 1 } } })
  t.equal(lines.filter((line) => line.startsWith('{"export"')).length, 1)
})

t.test('a backup of a database without tables fails', async (t) => {
  // Regression: with a wrong DATABASE_URL, each backup succeeded and was empty.
  const directory = t.testdir({ 'empty.db': '' })
  const to = join(directory, 'backup.db')
  const settings = { DATABASE_URL: `sqlite:${join(directory, 'empty.db')}` }
  matches(t, await runCli(['database', 'backup', '--to', to], settings), {
    code: 1,
    stderr: /does not contain the tables/,
  })
  t.strictSame(readdirSync(directory), ['empty.db'])
})

t.test('a backup or an export that a signal ends leaves no incomplete file behind', async (t) => {
  // Regression: the incomplete file, which contains personal data, stayed until a person deleted it.
  const { directory } = await prepareCli(t)
  const database = await SqliteConnection.open(join(directory, 'receivables.db'), 'write')
  t.teardown(() => database.close())
  // The commands wait for this lock after they have created their files.
  await database.exec('pragma locking_mode = exclusive; begin immediate')
  const commands = [
    ['database', 'backup', '--to', join(directory, 'new.db')],
    ['accounts', 'export', 'acct_x', '--to', join(directory, 'new.ndjson')],
  ]
  const created = () => readdirSync(directory).filter((name) => name.startsWith('new.'))
  for (const [index, args] of commands.entries()) {
    const signal = index === 0 ? 'SIGTERM' : 'SIGINT'
    const child = spawn(process.execPath, ['backend/cli.ts', ...args], {
      env: { ...SCRIPT_ENV, DATA_DIR: directory },
      stdio: 'ignore',
    })
    endWithThisProcess(child)
    const exited = once(child, 'exit')
    await until(() => created().length > 0, 'the command has created its file')
    child.kill(signal)
    t.strictSame(await exited, [null, signal])
    t.strictSame(created(), [])
  }
})

t.test('a backup removes the incomplete files of killed commands, and no others', async (t) => {
  // Regression: after SIGKILL, the incomplete file, which contains personal data, stayed until a person deleted it.
  const { directory, run } = await prepareCli(t)
  const killed = spawn(process.execPath, ['--eval', '0'], { stdio: 'ignore' })
  await once(killed, 'exit')
  const uuid = '01234567-89ab-cdef-0123-456789abcdef'
  const removed = [
    `a.db.${killed.pid}@${hostname()}.${uuid}.partial`,
    `b.db.7@elsewhere.${uuid}.partial`,
  ]
  const kept = [
    ...[`c.db.${process.pid}@${hostname()}.${uuid}.partial`, `d.db.7@elsewhere.${uuid}.partial`],
    ...[`e.ndjson.${uuid}.partial`, 'mine.partial'],
  ]
  const old = new Date(Date.now() - 13 * 3_600_000)
  for (const name of [...removed, ...kept, `${removed[0]}-journal`])
    writeFileSync(join(directory, name), '')
  for (const name of [removed[1] ?? '', 'mine.partial']) utimesSync(join(directory, name), old, old)
  const { code, stderr } = await run('database', 'backup', '--to', join(directory, 'new.db'))
  t.equal(code, 0)
  for (const name of removed) matches(t, stderr, containing(`Removed ${join(directory, name)}`))
  const present = readdirSync(directory).filter((name) => name.includes('.partial'))
  t.strictSame(present.toSorted(), kept.toSorted())
})

t.test('help lists the commands, and explains a single command', async (t) => {
  const { run } = await prepareCli(t)
  const { code, stdout } = await run('--help')
  t.equal(code, 0)
  const names = ['accounts create', 'accounts list', 'accounts set-status', 'accounts set-scopes']
  for (const name of [
    ...names,
    'users create',
    'users disable-second-factor',
    'keys issue',
    'keys list',
    'keys revoke',
    'keys change',
    'keys rotate',
    'migrate',
  ])
    matches(t, stdout, containing(`  ${name}`))
  matches(t, await run('keys', 'issue', '--help'), {
    code: 0,
    stdout: /-- keys issue --account ID/,
  })
})

t.test('an option before the name of the command is rejected with the reason', async (t) => {
  const { run } = await prepareCli(t)
  for (const words of [
    ['--json', 'accounts', 'list'],
    ['accounts', '--json', 'list'],
  ]) {
    matches(t, await run(...words), {
      code: 2,
      stderr: /^Options must follow the name of the command, accounts list\. For help/,
    })
  }
})

t.test('secrets that the environment lacks are read from the data directory', async (t) => {
  const { directory, run, json } = await prepareCli(t, {})
  const { id } = await json('accounts', 'create', '--name', 'Acme')
  const issue = () =>
    run('keys', 'issue', '--account', id, '--name', 'A', '--scopes', 'debtors:read')
  matches(t, await issue(), { code: 1, stderr: /KEY_PEPPER is not set/ })
  const path = join(directory, 'secrets.env')
  writeFileSync(path, `KEY_PEPPER=v1:${PEPPER}\n`, { mode: 0o600 })
  matches(t, await issue(), { code: 0 })
  // Regression: after an edit on Windows, the first secret was missing.
  writeFileSync(path, `\uFEFFKEY_PEPPER=v1:${PEPPER}\r\n`)
  matches(t, await issue(), { code: 0 })
})

t.test('a file of secrets that other users can read is rejected', async (t) => {
  const { directory, run } = await prepareCli(t, {})
  writeFileSync(join(directory, 'secrets.env'), `KEY_PEPPER=v1:${PEPPER}\n`, { mode: 0o644 })
  matches(t, await run('accounts', 'list'), { code: 1, stderr: /chmod 600/ })
})

t.test('a demo account without an open invoice gets a key', async (t) => {
  // Regression: after the sample invoices were paid, npm start failed.
  const { url, json } = await prepareCli(t)
  const demo = ['demo', '--password', PASSWORD]
  const { account, invoice } = await json(...demo)
  matches(t, invoice, { id: /^inv_/, currency: 'EUR' })
  const database = await openTestDatabase(t, { url })
  await database.transaction((tx) =>
    tx
      .updateTable('invoices')
      .set({ status: 'void' })
      .where('account_id', '=', account.id)
      .execute(),
  )
  matches(t, await json(...demo), {
    account: { id: account.id },
    invoice: null,
    key: { id: /^key_/ },
  })
})

t.test('each start of the demo revokes the key of the previous start', async (t) => {
  // Regression: every start created another key with all scopes, and revoked none.
  const { json } = await prepareCli(t)
  const first = await json('demo', '--password', 'correct horse battery')
  const second = await json('demo', '--password', 'correct horse battery')
  t.equal(second.account.id, first.account.id)
  const keys = await json('keys', 'list', '--account', first.account.id)
  const active = (keys as { id: string; revoked_at: string | null }[])
    .filter(({ revoked_at }) => revoked_at === null)
    .map(({ id }) => id)
  t.strictSame(active, [second.key.id])
})

t.test('an import names the file or the variable that contains no API key', async (t) => {
  // Regression: if the file was empty, the error said to name a file with --key-file.
  const directory = t.testdir({
    'ledger.csv': 'number,customer,issued,amount\n1,C 1,2026-11-02,10.00\n',
    files: { empty: '', blank: '\r\n', other: 'secret' },
  })
  const args = ['import', join(directory, 'ledger.csv'), '--date-format', 'YYYY-MM-DD']
  const run = (env: Record<string, string>, ...options: string[]) =>
    runCli([...args, '--currency', 'EUR', ...options], env)
  for (const name of ['empty', 'blank', 'other']) {
    const path = join(directory, 'files', name)
    const stderr = `${path} does not contain an API key (rcv_…).\n`
    matches(t, await run({}, '--key-file', path), { code: 1, stderr }, name)
  }
  for (const name of ['files', 'missing']) {
    const path = join(directory, name)
    matches(t, await run({}, '--key-file', path), { code: 1, stderr: containing(`'${path}'`) })
  }
  for (const env of [{}, { RECEIVABLES_API_KEY: '' }]) {
    matches(t, await run(env), { code: 2, stderr: /name a file with --key-file/ })
  }
  matches(t, await run({ RECEIVABLES_API_KEY: ' ' }), {
    code: 1,
    stderr: /^RECEIVABLES_API_KEY does not contain an API key/,
  })
})
