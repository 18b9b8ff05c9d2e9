/**
 * `node test/load/product.ts`: measures gateway, backend and database as an integration uses them. Each subject has one
 * core, except the two whose names say `both cores`; load generator and Redis share the other. In production,
 * PostgreSQL would run on another machine: here it has the third core, or shares the core of the load generator if
 * there are only two. Two floors are measured for comparison: bare hapi with the raw driver, and the number of commits
 * per second on this disk. Every payment is on disk before its response is sent.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import sqlite3 from 'sqlite3'
import {
  PRINCIPAL_HEADER,
  PRINCIPAL_LIFETIME_MS,
  signPrincipal,
} from '../../shared/contract/principal.ts'
import { readOptions } from '../fixtures/runner/options.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { startPostgres } from '../fixtures/servers/postgres.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { type System, type SystemOptions, startSystem } from '../fixtures/service/system.ts'
import { analyzeTables } from './analyze-tables.ts'
import {
  Cleanup,
  cpuSeconds,
  describeMachine,
  moveToLoadCore,
  pin,
  SERVER_CORE,
  SUBJECT_CORE,
  startOn,
} from './machine.ts'
import { median, rounded, tableOf } from './report.ts'
import { untilResponding } from './responding.ts'
import { runWrk } from './wrk.ts'

const DEBTORS = 2_000
const INVOICES = 2_000
const SEEDERS = 32
const SCRIPT = fileURLToPath(new URL('product/calls.lua', import.meta.url))

const HELP = `Compares the whole product with bare hapi: reads, lists, payments.

Usage: npm run bench -- product [options]

  --rounds N       how often each subject is measured (5)
  --seconds N      duration of each measurement (5)
  --calls TEXT     makes only calls whose name contains TEXT, e.g. payment
  --subjects TEXT  measures only subjects whose name contains TEXT, e.g. SQLite
  --json FILE      writes the figures as JSON
`

const options = readOptions(HELP, {
  rounds: { type: 'string', default: '5' },
  seconds: { type: 'string', default: '5' },
  calls: { type: 'string', default: '' },
  subjects: { type: 'string', default: '' },
  json: { type: 'string' },
})
const rounds = Number(options.rounds)
const seconds = Number(options.seconds)

/** The kinds of calls, and the number of concurrent callers. */
const LOADS = [
  { name: 'read by id', kind: 'read', connections: 64 },
  { name: 'list of 50', kind: 'list', connections: 64 },
  { name: 'payment, 1 caller', kind: 'pay', connections: 1 },
  { name: 'payments, 64 callers', kind: 'pay', connections: 64 },
  { name: 'payments to an invoice', kind: 'settle', connections: 64 },
  { name: 'reads and lists', kind: 'browse', connections: 64 },
  { name: 'mixed', kind: 'mixed', connections: 64 },
] as const

type Kind = (typeof LOADS)[number]['kind']
type Load = (typeof LOADS)[number]

interface Subject {
  readonly name: string
  readonly url: string
  /** Returns the header that identifies the caller, with its current value. */
  readonly identity: () => readonly [name: string, value: string]
  readonly idFile: string
  /** The process ids of the subject. */
  readonly pids: readonly number[]
  /** The process id of the subject's database server, if it has one. */
  readonly serverPid?: number
  readonly kinds: readonly Kind[]
}

interface Figure {
  readonly callsPerSecond: number
  readonly callsPerCpuSecond: number
  /** CPU time of the database server per call; 0 if there is none. */
  readonly serverMicroseconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly failed: number
}

moveToLoadCore()
const cleanup = new Cleanup()
try {
  print(`${describeMachine()}\n${rounds} rounds of ${seconds} s\n`)
  const directory = mkdtempSync(join(tmpdir(), 'product-load-'))
  cleanup.teardown(() => rmSync(directory, { recursive: true }))
  const subjects = await startSubjects(directory)
  const figures = new Map<string, Figure[]>()
  const commits: number[] = []
  for (let round = 0; round < rounds; round++) {
    commits.push(await measureCommits(join(directory, `commits-${round}.db`)))
    print(`${round + 1}  durable commits of one row: ${rounded(commits.at(-1) ?? 0)}/s`)
    const loads = LOADS.filter(({ name }) => name.includes(options.calls))
    for (const load of loads) await measureRound(figures, subjects, load, round)
  }
  print(`\n${tableOfFigures(figures)}\n`)
  print(`durable commits of one row, raw sqlite3: ${rounded(median(commits))}/s`)
  print(ratiosOfPayments(figures, subjects, median(commits)))
  const json = { machine: describeMachine(), figures: Object.fromEntries(figures), commits }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(json, null, 2)}\n`)
} finally {
  await cleanup.end()
}
process.exit(0)

/** The cores of the product. If it uses both cores, it shares them with the load generator and Redis. */
type Cores = 'one core' | 'both cores'

async function startSubjects(directory: string): Promise<Subject[]> {
  const at = (name: string) => join(directory, name)
  const [onSqlite, alone] = await startProduct('SQLite', at('sqlite'), 'one core')
  const path = join(at('sqlite'), 'data', 'receivables.db')
  const floor = await startFloor('bare hapi, raw sqlite3', onSqlite, path)
  const others = {
    PostgreSQL: (name: string) => startOnPostgres(name, at('postgres')),
    'SQLite, both cores': (name: string) => startWhole(name, at('both')),
    'SQLite, both cores, 2 gateway workers': (name: string) =>
      startWhole(name, at('workers'), { gatewayEnv: { GATEWAY_WORKERS: '2' } }),
  }
  const subjects = [onSqlite, alone, floor].filter(({ name }) => isWanted(name))
  for (const [name, start] of Object.entries(others)) {
    if (isWanted(name)) subjects.push(...(await start(name)))
  }
  return subjects
}

function isWanted(subject: string): boolean {
  return subject.includes(options.subjects)
}

async function startOnPostgres(name: string, directory: string) {
  const postgres = await startPostgres({ durable: true })
  cleanup.teardown(() => postgres.remove())
  await createDatabase(postgres.url('postgres'), 'product')
  const databaseUrl = postgres.url('product')
  const serverPid = Number.parseInt(readFileSync(join(postgres.data, 'postmaster.pid'), 'utf8'), 10)
  pin(serverPid, SERVER_CORE)
  const [whole, alone] = await startProduct(name, directory, 'one core', {
    databaseUrl,
    backends: 1,
  })
  for (const load of LOADS) {
    if (alone.kinds.some((kind) => kind === load.kind)) await measure(alone, load)
  }
  await analyzeTables(databaseUrl)
  const floor = await startFloor('bare hapi, raw pg', whole, databaseUrl)
  return [whole, alone, floor].map((subject) => ({ ...subject, serverPid }))
}

async function createDatabase(url: string, name: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(`create database ${name}`)
  await client.end()
}

/** Starts the whole product on both cores. */
async function startWhole(name: string, directory: string, systemOptions: SystemOptions = {}) {
  const [whole] = await startProduct(name, directory, 'both cores', systemOptions)
  return [whole]
}

/**
 * Starts the whole product. The second subject is its backend alone, which gets the same requests as from a gateway.
 */
async function startProduct(
  name: string,
  directory: string,
  cores: Cores,
  systemOptions: SystemOptions = {},
): Promise<readonly [whole: Subject, backend: Subject]> {
  const redis = await startRedis(cleanup)
  const context = { testdir: () => directory, teardown: cleanup.teardown.bind(cleanup) }
  const quiet = { LOG_LEVEL: 'error', ACCESS_LOG: 'off' }
  const system = await startSystem(context, {
    redisUrl: redis.url,
    ...systemOptions,
    gatewayEnv: { ...quiet, ...systemOptions.gatewayEnv },
    backendEnv: { LOG_LEVEL: 'error' },
  })
  const { key, lines, principal } = await seed(system)
  const pids = [system.backend.pid, ...system.gateways.map(({ pid }) => pid)]
  for (const pid of pids) pin(pid, cores === 'one core' ? SUBJECT_CORE : 'all')
  const idFile = `${directory}-ids`
  writeFileSync(idFile, `${lines.join('\n')}\n`)
  const kinds = LOADS.map(({ kind }) => kind)
  const { port, pid } = system.backend
  return [
    {
      name,
      url: system.url,
      identity: () => ['Authorization', `Bearer ${key}`],
      idFile,
      pids,
      kinds,
    },
    {
      name: `${name}, backend alone`,
      url: `http://127.0.0.1:${port}`,
      identity: () => [PRINCIPAL_HEADER, principal()],
      idFile,
      pids: [pid],
      kinds: ['read', 'list', 'pay', 'settle'],
    },
  ]
}

/** Creates an account, a key, debtors and invoices through the API. */
async function seed({ operator, url }: System) {
  const accountId = await operator.createAccount()
  const { id: keyId, secret: key } = await operator.issueKey(accountId, {
    rateLimit: 1_000_000_000,
  })
  const create = async (path: string, body: object): Promise<string> => {
    const response = await call(`${url}/api/v1/${path}`, { key, body })
    if (response.status !== 201) throw new Error(`${path}: ${response.status} ${response.text}`)
    return response.json.id
  }
  const ids: string[] = []
  const lines: string[] = []
  await inParallel(DEBTORS, async (n) => {
    const body = { name: `Customer ${n}`, email: `ap-${n}@customer.example`, currency: 'EUR' }
    ids.push(await create('debtors', body))
  })
  await inParallel(INVOICES, async (n) => {
    const debtorId = ids[n % ids.length]
    const body = { debtor_id: debtorId, currency: 'EUR', amount: 12_500 }
    lines.push(`${debtorId} ${await create('invoices', body)}`)
  })
  const claims = { keyId, keyRevision: 1, accountId, accountRevision: 1 }
  const principal = () =>
    signPrincipal(claims, Date.now() + PRINCIPAL_LIFETIME_MS, [GATEWAY_SECRET])
  return { key, lines, principal }
}

async function inParallel(count: number, work: (n: number) => Promise<void>): Promise<void> {
  const numbers = Array.from({ length: count }, (_, n) => n).values()
  const workers = Array.from({ length: SEEDERS }, async () => {
    for (const n of numbers) await work(n)
  })
  await Promise.all(workers)
}

/** Starts bare hapi on the database of the product. */
async function startFloor(
  name: string,
  { identity, idFile }: Subject,
  database: string,
): Promise<Subject> {
  const port = await reservePort()
  const script = fileURLToPath(new URL('product/bare-hapi.ts', import.meta.url))
  const command = [process.execPath, script, database, String(port)]
  const { pid } = startOn(cleanup, SUBJECT_CORE, command, { UV_THREADPOOL_SIZE: '16' })
  const url = `http://127.0.0.1:${port}`
  await untilResponding(url)
  return { name, url, identity, idFile, pids: [pid], kinds: ['read'] }
}

async function measureRound(
  figures: Map<string, Figure[]>,
  subjects: readonly Subject[],
  load: Load,
  round: number,
): Promise<void> {
  const measured = subjects.filter(({ kinds }) => kinds.includes(load.kind))
  const from = round % measured.length
  for (const subject of [...measured.slice(from), ...measured.slice(0, from)]) {
    const figure = await measure(subject, load)
    const title = `${load.name} | ${subject.name}`
    figures.set(title, [...(figures.get(title) ?? []), figure])
    print(
      `${round + 1}  ${title.padEnd(50)} ${rounded(figure.callsPerSecond).padStart(8)}/s  p99 ${rounded(figure.p99Ms, 1)} ms${figure.failed > 0 ? `  ${figure.failed} FAILED` : ''}`,
    )
  }
}

async function measure(subject: Subject, { kind, connections }: Load): Promise<Figure> {
  const request = (forSeconds: number) =>
    runWrk(subject.url, {
      script: SCRIPT,
      args: [...subject.identity(), subject.idFile, kind, String(Date.now() % 1_000_000_000)],
      connections,
      seconds: forSeconds,
    })
  await request(1)
  const { serverPid, pids } = subject
  const cpu = () => pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0)
  const serverCpu = () => (serverPid === undefined ? 0 : cpuSeconds(serverPid))
  const before = cpu()
  const serverBefore = serverCpu()
  const { calls, seconds: took, failed, p50_ms, p99_ms } = await request(seconds)
  return {
    callsPerSecond: calls / took,
    callsPerCpuSecond: calls / (cpu() - before),
    serverMicroseconds: ((serverCpu() - serverBefore) / calls) * 1e6,
    p50Ms: p50_ms,
    p99Ms: p99_ms,
    failed,
  }
}

/** Resolves with the number of one-row commits per second. One caller cannot make more payments than this. */
async function measureCommits(path: string): Promise<number> {
  const database = new sqlite3.Database(path)
  const run = (sql: string) =>
    new Promise<void>((resolve, reject) => {
      database.exec(sql, (error) => (error === null ? resolve() : reject(error)))
    })
  await run('pragma journal_mode = wal; pragma synchronous = full; create table t (x text)')
  const until = performance.now() + 2_000
  let commits = 0
  for (; performance.now() < until; commits++) {
    await run(`begin immediate; insert into t values ('${'x'.repeat(200)}'); commit`)
  }
  await new Promise((resolve) => database.close(resolve))
  return commits / 2
}

function tableOfFigures(figures: ReadonlyMap<string, readonly Figure[]>): string {
  const medianOf = (all: readonly Figure[], figure: (one: Figure) => number) =>
    median(all.map(figure))
  const rows = [...figures].map(([title, all]) => [
    ...title.split(' | '),
    rounded(medianOf(all, ({ callsPerSecond }) => callsPerSecond)),
    rounded(medianOf(all, ({ callsPerCpuSecond }) => callsPerCpuSecond)),
    rounded(
      medianOf(all, ({ p50Ms }) => p50Ms),
      1,
    ),
    rounded(
      medianOf(all, ({ p99Ms }) => p99Ms),
      1,
    ),
    rounded(medianOf(all, ({ serverMicroseconds }) => serverMicroseconds)),
    rounded(medianOf(all, ({ failed }) => failed)),
  ])
  const measures = ['calls/s', 'calls/CPU s', 'p50 ms', 'p99 ms', 'server µs', 'failed']
  return tableOf(['calls', 'subject', ...measures], rows, 2)
}

/**
 * For each subject, compares the payments of one caller with the commits that the disk allows, and the payments of 64
 * callers with those of one.
 */
function ratiosOfPayments(
  figures: ReadonlyMap<string, readonly Figure[]>,
  subjects: readonly Subject[],
  commits: number,
): string {
  const rate = (load: string, { name }: Subject) =>
    median((figures.get(`${load} | ${name}`) ?? []).map(({ callsPerSecond }) => callsPerSecond))
  const paying = subjects.filter(({ kinds }) => kinds.includes('pay'))
  const rows = paying.map((subject) => {
    const one = rate('payment, 1 caller', subject)
    const many = rate('payments, 64 callers', subject)
    return [subject.name, rounded(one / commits, 2), rounded(many / one, 1)]
  })
  return `\n${tableOf(['payments', '1 caller / commits', '64 callers / 1'], rows)}`
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
