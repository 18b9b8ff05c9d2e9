/**
 * `node test/load/lists.ts`: measures how long reads by id, lists and pages of Settings take with a thousand, a hundred
 * thousand and a million invoices, on SQLite and on PostgreSQL. Each size has its own backend, and one caller sends the
 * same requests as a gateway. The sizes take turns, so that other work on the machine affects them equally. `--help`
 * lists the options.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { Client } from 'undici'
import { createAccount } from '../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { SCOPES } from '../../backend/accounts/scopes.ts'
import { issueApiKey } from '../../backend/api-keys/api-keys.ts'
import { deriveKey } from '../../backend/config.ts'
import { isPostgres, openDatabase } from '../../backend/database/open.ts'
import { updateAllTotals } from '../../backend/debtors/ledger-totals.ts'
import { createPasswords } from '../../backend/users/passwords.ts'
import { createUser } from '../../backend/users/users.ts'
import { digestApiKey } from '../../shared/contract/api-key.ts'
import { PRINCIPAL_HEADER, SIGNATURE_HEADER, signRequest } from '../../shared/contract/principal.ts'
import { createLogger } from '../../shared/process/log.ts'
import { readOptions } from '../fixtures/runner/options.ts'
import { startPostgres } from '../fixtures/servers/postgres.ts'
import { startProcess } from '../fixtures/service/process.ts'
import { analyzeTables } from './analyze-tables.ts'
import { type Engine, enginesOf } from './engines.ts'
import { CALLS, type Call, type Dataset } from './lists/calls.ts'
import { type Ledger, seedLedger } from './lists/ledger.ts'
import { Cleanup, describeMachine, moveToLoadCore, pin, SUBJECT_CORE } from './machine.ts'
import { quantile, rounded, tableOf } from './report.ts'

const HELP = `Measures the latency of reads and lists by the number of invoices.

Usage: npm run bench -- lists [options]

  --sizes N,N,…     numbers of invoices, the smallest first (1000,100000,1000000)
  --engine NAME     uses only sqlite or only postgres
  --rounds N        how often all calls are measured (5)
  --only TEXT       makes only calls whose name contains TEXT
  --cold            requests any records, instead of the same twenty again and again
  --data DIR        keeps the SQLite files in DIR, and reuses those that exist
  --postgres URL    uses this server, e.g. postgres://user@host/postgres, and keeps and reuses its databases
  --seed            only fills the databases
  --json FILE       writes the figures as JSON
`
/** The number of repetitions of a call for each size in a round. */
const REPETITIONS = 20
/**
 * Without `--cold`, calls request this many different invoices, because an integration, too, requests a few records
 * repeatedly.
 */
const HOT_INVOICES = 20
const WARM_UP_ROUNDS = 2
/** After this time, a call is not repeated again, because a call to a large database may take seconds. */
const BLOCK_MS_MAX = 2_000
/** A call is flat, i.e. independent of the size, if its p50 is at most this many times the p50 of the smallest size. */
const FLAT_MAX = 1.5
/** After this time, the caller looks up its key again, because a principal is valid for only a minute. */
const LOOK_UP_EVERY_MS = 20_000

const SECRETS = {
  KEY_PEPPER: 'pepper+of+the+benchmark+0123456789abcdef',
  SECRET_BOX_KEY: 'box+key+of+the+benchmark+0123456789abcde',
  GATEWAY_SECRET: 'gateways+of+the+benchmark+0123456789abcd',
}

const LOGIN = { email: 'ada@lists.example', password: 'correct horse battery' }

/** A backend with a dataset of one size, and a caller. */
interface Subject {
  readonly engine: Engine
  readonly invoices: number
  readonly dataset: Dataset
  request(call: Call): Promise<number>
}

interface Figure {
  readonly engine: Engine
  readonly call: string
  readonly invoices: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** The ratio of this p50 to the p50 of the smallest dataset. */
  readonly ratio: number
}

const options = readOptions(HELP, {
  sizes: { type: 'string', default: '1000,100000,1000000' },
  engine: { type: 'string' },
  rounds: { type: 'string', default: '5' },
  only: { type: 'string', default: '' },
  cold: { type: 'boolean', default: false },
  data: { type: 'string' },
  postgres: { type: 'string' },
  seed: { type: 'boolean' },
  json: { type: 'string' },
})
const engines = enginesOf(options.engine)
const sizes = options.sizes.split(',').map(Number)
const calls = CALLS.filter(({ name }) => name.includes(options.only))
const log = createLogger('lists', 'error')

moveToLoadCore()
const cleanup = new Cleanup()
try {
  print(`${describeMachine()}\n`)
  const figures: Figure[] = []
  for (const engine of engines) {
    const urls = engine === 'SQLite' ? sqliteUrls() : await postgresUrls()
    figures.push(...(await compare(engine, urls)))
  }
  const json = { machine: describeMachine(), sizes, figures }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(json, null, 2)}\n`)
} finally {
  await cleanup.end()
}
process.exit(0)

/** Resolves with the database URL of the dataset of this size. */
type Urls = (size: number) => Promise<string>

function sqliteUrls(): Urls {
  const directory = options.data ?? mkdtempSync(join(tmpdir(), 'lists-load-'))
  mkdirSync(directory, { recursive: true })
  if (options.data === undefined) cleanup.teardown(() => rmSync(directory, { recursive: true }))
  return async (size) => `sqlite:${join(directory, `lists-${size}.db`)}`
}

async function postgresUrls(): Promise<Urls> {
  const at = options.postgres ?? (await startOwnPostgres())
  return async (size) => {
    const url = new URL(at)
    url.pathname = `/lists_${size}`
    const client = new pg.Client(at)
    await client.connect()
    const named = await client.query('select from pg_database where datname = $1', [
      url.pathname.slice(1),
    ])
    if (named.rowCount === 0) await client.query(`create database ${url.pathname.slice(1)}`)
    await client.end()
    return url.href
  }
}

async function startOwnPostgres(): Promise<string> {
  const server = await startPostgres({ durable: true })
  cleanup.teardown(() => server.remove())
  return server.url('postgres')
}

async function compare(engine: Engine, urls: Urls): Promise<Figure[]> {
  const subjects: Subject[] = []
  for (const size of sizes) subjects.push(await prepare(engine, await urls(size), size))
  if (options.seed) return []
  const times = new Map<string, number[]>()
  for (let round = -WARM_UP_ROUNDS; round < Number(options.rounds); round++) {
    for (const call of calls) {
      for (const subject of subjects) {
        const taken = await requestSome(subject, call)
        const key = `${call.name} ${subject.invoices}`
        if (round >= 0) times.set(key, [...(times.get(key) ?? []), ...taken])
      }
    }
  }
  const figures = calls.flatMap(({ name }) => figuresOf(engine, name, times))
  print(`${engine}: milliseconds, one caller\n\n${tableOfFigures(figures)}\n`)
  return figures
}

async function requestSome(subject: Subject, call: Call): Promise<number[]> {
  const begin = performance.now()
  const times: number[] = []
  while (times.length < REPETITIONS && performance.now() - begin < BLOCK_MS_MAX) {
    times.push(await subject.request(call))
  }
  return times
}

/** Opens the dataset of this size, fills it if it is new, and starts a backend and a caller. */
async function prepare(engine: Engine, url: string, invoices: number): Promise<Subject> {
  const { ledger, secret } = await openDataset(url, invoices)
  const cursorKeys = [deriveKey(SECRETS.SECRET_BOX_KEY, 'cursor')]
  const dataset = { ledger, cursorKeys, distinctInvoices: options.cold ? invoices : HOT_INVOICES }
  const dataDirectory = mkdtempSync(join(tmpdir(), 'lists-backend-'))
  cleanup.teardown(() => rmSync(dataDirectory, { recursive: true }))
  const backend = await startProcess(cleanup, 'backend/main.ts', {
    ...SECRETS,
    KEY_PEPPER: `v1:${SECRETS.KEY_PEPPER}`,
    DATA_DIR: dataDirectory,
    DATABASE_URL: url,
    BACKEND_PORT: '0',
    BACKEND_OPERATIONS_PORT: '0',
    LOG_LEVEL: 'warn',
    // No reminders are sent about these invoices.
    REHEARSAL: 'on',
  })
  pin(backend.pid, SUBJECT_CORE)
  const client = new Client(`http://127.0.0.1:${backend.port}`)
  cleanup.teardown(() => client.destroy())
  const cookie = await logIn(client)
  let principal = ''
  let lookedUpAt = Number.NEGATIVE_INFINITY
  return {
    engine,
    invoices,
    dataset,
    async request(call) {
      if (performance.now() - lookedUpAt > LOOK_UP_EVERY_MS) {
        principal = await lookUp(client, secret)
        lookedUpAt = performance.now()
      }
      const path = pathOf(call, dataset)
      const begin = performance.now()
      const { statusCode, body } = await client.request({
        method: 'GET',
        path,
        headers: call.isPage
          ? { accept: 'text/html', cookie, [SIGNATURE_HEADER]: signatureOf('GET', path, '') }
          : { [PRINCIPAL_HEADER]: principal },
      })
      const text = await body.text()
      const took = performance.now() - begin
      if (statusCode !== 200) throw new Error(`${path}: ${statusCode} ${text}`)
      return took
    },
  }
}

function pathOf(call: Call, dataset: Dataset): string {
  return `${call.isPage ? '/settings' : '/api/v1/'}${call.path(dataset)}`
}

function signatureOf(method: string, path: string, body: string): string {
  return signRequest({ method, path, body }, Date.now(), [SECRETS.GATEWAY_SECRET])
}

/** Resolves with the cookie of a session, for pages. */
async function logIn(client: Client): Promise<string> {
  const path = '/settings/login'
  const body = JSON.stringify(LOGIN)
  const { headers } = await client.request({
    method: 'POST',
    path,
    body,
    headers: {
      ...{ accept: 'application/json', 'content-type': 'application/json' },
      [SIGNATURE_HEADER]: signatureOf('POST', path, body),
    },
  })
  return [headers['set-cookie'] ?? []]
    .flat()
    .map((line) => line.split(';')[0])
    .join('; ')
}

/** Looks up the key as a gateway does. Resolves with a new principal. */
async function lookUp(client: Client, secret: string): Promise<string> {
  const path = '/internal/api-keys/look-up'
  const body = JSON.stringify({ digest: digestApiKey(secret) })
  const request = { method: 'POST', path, body } as const
  const signature = signRequest(request, Date.now(), [SECRETS.GATEWAY_SECRET])
  const headers = { [SIGNATURE_HEADER]: signature, 'content-type': 'application/json' }
  const response = await client.request({ ...request, headers })
  // The cast is safe, because the response comes from our own backend.
  const { principal } = (await response.body.json()) as { readonly principal: string }
  return principal
}

async function openDataset(url: string, invoices: number) {
  const database = await openDatabase({ url, log, openedBy: 'migrator' })
  try {
    const actionContext = { actor: OPERATOR, now: new Date() }
    const known = await database.read
      .selectFrom('accounts')
      .select(['id', 'created_at'])
      .executeTakeFirst()
    // The year of the dataset ends when the account was created.
    const account =
      known ??
      (await database.transaction((tx) => createAccount(tx, { name: 'Lists' }, actionContext)))
    const ledger: Ledger = { accountId: account.id, invoices, now: new Date(account.created_at) }
    if (known === undefined) await fill(ledger)
    if (known === undefined) await addReader(account.id)
    await updateAllTotals(database)
    // Without this, each page that shows totals would scan the dead rows that `updateAllTotals` has left.
    if (known === undefined && isPostgres(url)) await analyzeTables(url)
    const peppers = [{ version: 'v1', secret: SECRETS.KEY_PEPPER }]
    const key = { accountId: account.id, name: 'Caller', scopes: SCOPES }
    const { secret } = await database.transaction((tx) =>
      issueApiKey(tx, key, peppers, actionContext),
    )
    return { ledger, secret }
  } finally {
    await database.close()
  }

  async function addReader(accountId: string): Promise<void> {
    const passwordHash = await createPasswords().hash(LOGIN.password)
    const user = { accountId, email: LOGIN.email, role: 'admin', passwordHash } as const
    await database.transaction((tx) => createUser(tx, user, { actor: OPERATOR, now: new Date() }))
  }

  async function fill(ledger: Ledger): Promise<void> {
    const begin = performance.now()
    let done = 0
    await seedLedger(database, url, ledger, (more) => {
      done += more
      if (process.stderr.isTTY) process.stderr.write(`\r${rounded(done)} of ${rounded(invoices)} `)
    })
    const seconds = (performance.now() - begin) / 1000
    print(
      `${rounded(invoices)} invoices were inserted in ${rounded(seconds, 1)} s (${url.split(':')[0]})`,
    )
  }
}

function figuresOf(engine: Engine, call: string, times: ReadonlyMap<string, number[]>): Figure[] {
  const p50Of = (invoices: number) => quantile(times.get(`${call} ${invoices}`) ?? [], 0.5)
  return sizes.map((invoices) => ({
    engine,
    call,
    invoices,
    p50Ms: p50Of(invoices),
    p99Ms: quantile(times.get(`${call} ${invoices}`) ?? [], 0.99),
    ratio: p50Of(invoices) / p50Of(sizes[0] ?? 0),
  }))
}

function tableOfFigures(figures: readonly Figure[]): string {
  const byCall = Map.groupBy(figures, ({ call }) => call)
  const rows = [...byCall].map(([call, all]) => {
    const others = all.slice(1)
    const flat = others.every(({ ratio }) => ratio <= FLAT_MAX)
    return [
      call,
      ...all.map(({ p50Ms, p99Ms }) => `${rounded(p50Ms, 2)} (${rounded(p99Ms, 2)})`),
      ...others.map(({ ratio }) => rounded(ratio, 2)),
      flat ? '' : 'not flat',
    ]
  })
  const columns = [
    'p50 (p99) of a call',
    ...sizes.map((size) => rounded(size)),
    ...sizes.slice(1).map((size) => `× at ${rounded(size)}`),
    '',
  ]
  return tableOf(columns, rows)
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
