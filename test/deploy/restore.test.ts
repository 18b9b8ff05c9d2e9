/**
 * Restores databases as docs/operations.md describes, and starts a service on each restored database. Its records equal
 * those of the backup, API keys and webhook secrets are still valid, and a repeated payment is not recorded twice.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  appendFileSync,
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import t, { type Test } from 'tap'
import { openDatabase } from '../../backend/database/open.ts'
import { matches } from '../fixtures/matches.ts'
import { copyTemplate, startPostgres } from '../fixtures/servers/postgres.ts'
import { postgresDirectory } from '../fixtures/servers/postgres-directory.ts'
import { type Receiver, startReceiver, verify } from '../fixtures/servers/receiver.ts'
import { call } from '../fixtures/service/call.ts'
import { SILENT } from '../fixtures/service/database.ts'
import { copySqliteTemplate } from '../fixtures/service/database-url.ts'
import { type System, startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const PASSWORD = 'correct horse battery'
/** Over plain http, Settings accept a password only if the base URL is a loopback address. */
const BASE_URL = { BASE_URL: 'http://127.0.0.1:8080' }
const TABLES = [
  'accounts',
  'debtors',
  'invoices',
  'payments',
  'payment_allocations',
  'idempotency_keys',
] as const

t.setTimeout(900_000)

const run = promisify(execFile)
const postgres = (command: string, ...words: string[]) =>
  run(join(postgresDirectory() ?? '', command), words)

function start(t: Test, databaseUrl: string): Promise<System> {
  const directory = mkdtempSync(join(tmpdir(), 'restored-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const context = { testdir: () => directory, teardown: (work: () => unknown) => t.teardown(work) }
  return startSystem(context, {
    databaseUrl,
    backends: 1,
    backendEnv: { ...BASE_URL, WEBHOOK_PRIVATE_TARGETS: 'allow' },
    gatewayEnv: BASE_URL,
  })
}

async function startWithPayments(t: Test, databaseUrl: string) {
  const system = await start(t, databaseUrl)
  const { url, operator } = system
  const account = await operator.createAccount()
  const admin = ['--email', 'ada@acme.example', '--role', 'admin', '--password', PASSWORD]
  await operator.cli('users', 'create', '--account', account, ...admin)
  const key = await operator.issueKey(account)
  const revoked = await operator.issueKey(account)
  await operator.revokeKey(revoked.id)
  const receiver = await startReceiver(t)
  const acceptJson = { accept: 'application/json' }
  const login = await call(`${url}/settings/login`, {
    headers: acceptJson,
    body: { email: 'ada@acme.example', password: PASSWORD },
  })
  const cookie = String(login.headers['set-cookie']).split(';')[0] ?? ''
  const endpoint = await call(`${url}/settings/webhook-endpoints`, {
    headers: { ...acceptJson, cookie, 'x-csrf-token': login.json.csrf_token },
    body: { url: receiver.url, events: ['payment.recorded'] },
  })
  const post = (path: string, body: object) =>
    call(`${url}/api/v1/${path}`, { key: key.secret, body })
  const debtor = await post('debtors', { name: 'Jansen' })
  const invoice = await post('invoices', {
    debtor_id: debtor.json.id,
    currency: 'EUR',
    amount: 1_000_001,
  })
  const prepared = {
    system,
    receiver,
    key: key.secret,
    keyId: key.id,
    revoked: revoked.secret,
    signingSecret: endpoint.json.secret,
    pay: (service: System, n: number) =>
      call(`${service.url}/api/v1/payments`, {
        key: key.secret,
        body: { invoice_id: invoice.json.id, currency: 'EUR', amount: 101 + n },
        headers: { 'idempotency-key': `bank-${n}` },
      }),
  }
  for (let n = 0; n < 20; n++) t.equal((await prepared.pay(system, n)).status, 201)
  await until(() => receiver.webhooks.length >= 20, 'webhooks are delivered')
  return prepared
}

type PreparedService = Awaited<ReturnType<typeof startWithPayments>>

/** Resolves with the number of rows of each table, the sum of their amounts, and a digest of their contents. */
async function readRecords(url: string) {
  const database = await openDatabase({ url, log: SILENT, openedBy: 'operator' })
  try {
    return await Promise.all(
      TABLES.map(async (table) => {
        const rows: Record<string, unknown>[] = await database.read
          .selectFrom(table)
          .selectAll()
          .execute()
        const cents = rows.reduce((sum, row) => sum + Number(row['amount'] ?? row['total'] ?? 0), 0)
        const lines = rows.map((row) => JSON.stringify(Object.entries(row).sort())).sort()
        const digest = createHash('sha256').update(lines.join('\n')).digest('hex')
        return { table, rows: rows.length, cents, digest }
      }),
    )
  } finally {
    await database.close()
  }
}

/** Starts a service on the restored database, and checks it. The database must have `paid` payments. */
async function checkRestored(
  t: Test,
  prepared: PreparedService,
  databaseUrl: string,
  paid: number,
) {
  const payments = (await readRecords(databaseUrl)).find(({ table }) => table === 'payments')
  // The amounts of the payments are 101 cents, 102 cents, and so on.
  matches(t, payments, { rows: paid, cents: 101 * paid + (paid * (paid - 1)) / 2 })
  const system = await start(t, databaseUrl)
  const me = async (key: string) => (await call(`${system.url}/api/v1/me`, { key })).status
  t.equal(await me(prepared.key), 200, 'the key is valid')
  t.equal(await me(prepared.revoked), 401, 'the revoked key is still rejected')
  const before = await readRecords(databaseUrl)
  const repeated = await prepared.pay(system, paid - 1)
  t.equal(repeated.status, 201)
  t.equal(
    repeated.headers['idempotent-replayed'],
    'true',
    'the repeat of a restored payment is a replay',
  )
  t.strictSame(await readRecords(databaseUrl), before)
  const received = prepared.receiver.webhooks.length
  t.equal((await prepared.pay(system, 1000)).status, 201)
  await untilDelivered(prepared.receiver, received)
  const last = prepared.receiver.webhooks.at(-1)
  t.ok(
    last !== undefined && verify(last, prepared.signingSecret),
    'signed with the secret that the endpoint had before the restore',
  )
  return system
}

function untilDelivered({ webhooks }: Receiver, received: number) {
  return until(() => webhooks.length > received, 'the webhook is delivered')
}

t.test('SQLite: a backup that was made while the service ran restores the records', async (t) => {
  // Each call of `testdir` empties the directory, so it is called once.
  const directory = t.testdir()
  const path = join(directory, 'receivables.db')
  await copySqliteTemplate(path)
  const prepared = await startWithPayments(t, `sqlite:${path}`)
  const copy = join(directory, 'copy.db')
  const before = await readRecords(`sqlite:${path}`)
  await prepared.system.operator.cli('database', 'backup', '--to', copy)
  t.equal((await prepared.pay(prepared.system, 20)).status, 201, 'paid after the backup')
  await prepared.system.backend.stop('SIGKILL')
  t.strictSame(await readRecords(`sqlite:${copy}`), before)
  await checkRestored(t, prepared, `sqlite:${copy}`, 20)
})

t.test('PostgreSQL: pg_dump and pg_restore restore the records', async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.remove())
  const { url } = await copyTemplate(server.url('postgres'))
  const prepared = await startWithPayments(t, url)
  const before = await readRecords(url)
  const dump = join(t.testdir(), 'receivables.dump')
  await postgres('pg_dump', '--format=custom', '--dbname', url, '--file', dump)
  t.equal((await prepared.pay(prepared.system, 20)).status, 201, 'paid after the backup')
  await prepared.system.backend.stop('SIGKILL')
  const other = await startPostgres()
  t.teardown(() => other.remove())
  const { url: restored } = await copyTemplate(other.url('postgres'), 'template0')
  await postgres('pg_restore', '--no-owner', '--exit-on-error', '--dbname', restored, dump)
  t.strictSame(await readRecords(restored), before)
  await checkRestored(t, prepared, restored, 20)
})

t.test(
  'PostgreSQL: a base backup and archived logs restore the records as they were before a mistake',
  async (t) => {
    const archive = mkdtempSync(join(tmpdir(), 'archive-'))
    chmodSync(archive, 0o777)
    t.teardown(() => rmSync(archive, { recursive: true, force: true }))
    const archiving = ['archive_mode=on', `archive_command=cp %p ${archive}/%f`]
    const server = await startPostgres({ settings: archiving })
    t.teardown(() => server.remove())
    const { url } = await copyTemplate(server.url('postgres'))
    const base = join(archive, 'base')
    const replication = `host=127.0.0.1 port=${server.port} user=tests`
    await postgres('pg_basebackup', '-D', base, '--checkpoint=fast', '--no-sync', '-d', replication)
    const prepared = await startWithPayments(t, url)

    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    await client.connect()
    t.teardown(() => client.end())
    const before = await readRecords(url)
    const { rows } = await client.query<{ now: string }>('select clock_timestamp()::text as now')
    for (let n = 20; n < 25; n++) t.equal((await prepared.pay(prepared.system, n)).status, 201)
    await prepared.system.operator.revokeKey(prepared.keyId)
    await client.query('drop table payment_allocations cascade')
    const { rows: switched } = await client.query('select pg_walfile_name(pg_switch_wal()) as name')
    await until(async () => {
      const { rows } = await client.query('select last_archived_wal as name from pg_stat_archiver')
      return rows[0]?.name >= switched[0]?.name
    }, 'the log is archived')
    await prepared.system.backend.stop('SIGKILL')
    await server.stop('SIGQUIT')

    const restored = await startPostgres({
      async restore(data) {
        mkdirSync(data, { mode: 0o700 })
        cpSync(base, data, { recursive: true })
        writeFileSync(join(data, 'recovery.signal'), '')
        appendFileSync(
          join(data, 'postgresql.auto.conf'),
          `restore_command = 'cp ${archive}/%f %p'
recovery_target_time = '${rows[0]?.now}'
recovery_target_action = 'promote'
`,
        )
      },
    })
    t.teardown(() => restored.remove())
    const restoredUrl = restored.url(new URL(url).pathname.slice(1))
    await until(async () => {
      const client = new pg.Client({ connectionString: restoredUrl })
      await client.connect()
      const { rows } = await client.query('select pg_is_in_recovery() as is')
      await client.end()
      return rows[0]?.is === false
    }, 'the restored server accepts writes')
    t.strictSame(await readRecords(restoredUrl), before)
    const system = await checkRestored(t, prepared, restoredUrl, 20)
    // As documented, a key that was revoked after the restored time is valid again, and later payments are missing.
    const repeated = await prepared.pay(system, 22)
    matches(t, repeated, { status: 201 })
    t.equal(
      repeated.headers['idempotent-replayed'],
      undefined,
      'the missing payment is recorded as new',
    )
  },
)
