/**
 * `npm run bench -- key-use [--rounds N]`: measures how much the use of many keys delays payments. A payer records one
 * payment after the other in three cases: nothing else happens; one key makes 10,000 calls in four seconds; or 10,000
 * keys make one call each, and two gateways report the windows of these keys. The last two cases differ only in the use
 * of keys that is reported and stored. A real backend process runs on SQLite and on PostgreSQL.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { isMainThread, Worker, workerData } from 'node:worker_threads'
import { Pool } from 'undici'
import { createAccount } from '../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { SCOPES } from '../../backend/accounts/scopes.ts'
import { issueApiKey } from '../../backend/api-keys/api-keys.ts'
import { type OpenDatabase, openDatabase } from '../../backend/database/open.ts'
import {
  PRINCIPAL_HEADER,
  PRINCIPAL_LIFETIME_MS,
  SIGNATURE_HEADER,
  signPrincipal,
  signRequest,
} from '../../shared/contract/principal.ts'
import { USAGE_REPORT_ENTRIES_MAX, USAGE_REPORT_PATH } from '../../shared/contract/usage-report.ts'
import { createLogger } from '../../shared/process/log.ts'
import { readOptions } from '../fixtures/runner/options.ts'
import { startPostgres, TEMPLATE } from '../fixtures/servers/postgres.ts'
import { startProcess } from '../fixtures/service/process.ts'
import { Cleanup } from './machine.ts'

const PEPPER = 'pepper+of+the+benchmark+0123456789abcdef'
const GATEWAY_SECRET = 'gateways+of+the+benchmark+0123456789abcd'
const BOX_KEY = 'box+of+the+benchmark+0123456789abcdefghi'

const KEYS = 10_000
const CALLS_MS = 4_000
/** The backend stores the use of keys four seconds after the calls. The payer continues until the use is stored. */
const ROUND_MS = 9_000

const LOADS = ['nothing', 'calls of one key', 'calls of 10,000 keys'] as const
type Load = (typeof LOADS)[number]

const HELP = `Measures payments alone, during calls of one key, and during calls of 10,000 keys.

Usage: npm run bench -- key-use [options]

  --rounds N   how often each case is measured (3)
`

const options = readOptions(HELP, { rounds: { type: 'string', default: '3' } })
const cleanup = new Cleanup()
let submissions = 0
// A separate thread uses the keys, so that it does not delay the payer.
if (isMainThread) await measureBoth(Number(options.rounds))
else await useKeys(workerData)

async function measureBoth(rounds: number): Promise<void> {
  try {
    for (const kind of ['SQLite', 'PostgreSQL']) await measure(kind, rounds)
  } finally {
    await cleanup.end()
  }
}

async function measure(kind: string, rounds: number): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'key-use-'))
  cleanup.teardown(() => rm(directory, { recursive: true }))
  const databaseUrl =
    kind === 'SQLite' ? `sqlite:${directory}/receivables.db` : await startPostgresDatabase()
  const backend = await startProcess(cleanup, 'backend/main.ts', {
    DATABASE_URL: databaseUrl,
    DATA_DIR: directory,
    KEY_PEPPER: `v1:${PEPPER}`,
    SECRET_BOX_KEY: BOX_KEY,
    GATEWAY_SECRET: GATEWAY_SECRET,
    BACKEND_PORT: '0',
    BACKEND_OPERATIONS_PORT: '0',
    LOG_LEVEL: 'error',
  })
  const log = createLogger('benchmark', 'error')
  const database = await openDatabase({ url: databaseUrl, log, openedBy: 'operator' })
  const ledger = await fill(database)
  await database.close()
  const url = `http://127.0.0.1:${backend.port}`
  const pool = new Pool(url, { connections: 1 })
  const times = new Map<Load, number[]>(LOADS.map((load) => [load, []]))
  for (let round = 0; round < rounds; round += 1) {
    for (const load of LOADS)
      times.get(load)?.push(...(await payDuring(pool, { url, ledger, load })))
  }
  await pool.close()
  await backend.stop()
  for (const load of LOADS) {
    const sorted = (times.get(load) ?? []).toSorted((a, b) => a - b)
    const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(1)
    process.stdout.write(
      `${kind}, during ${load}: ${sorted.length} payments, median ${at(0.5)} ms, p99 ${at(0.99)} ms, longest ${at(1)} ms\n`,
    )
  }
}

async function startPostgresDatabase(): Promise<string> {
  const postgres = await startPostgres({ durable: true })
  cleanup.teardown(() => postgres.remove())
  return postgres.url(TEMPLATE)
}

interface Ledger {
  readonly accountId: string
  readonly payerId: string
  readonly keyIds: readonly string[]
}

/** Creates an account with the payer's key, and with 10,000 copies of this key for other callers. */
async function fill(database: OpenDatabase): Promise<Ledger> {
  const actionContext = { actor: OPERATOR, now: new Date() }
  return database.transaction(async (tx) => {
    const { id: accountId } = await createAccount(tx, { name: 'Benchmark' }, actionContext)
    const input = { accountId, name: 'Benchmark', scopes: SCOPES, rateLimit: 1_000_000 }
    const { row } = await issueApiKey(tx, input, [{ version: 'v1', secret: PEPPER }], actionContext)
    const keyIds = Array.from({ length: KEYS }, (_, n) => `${row.id.slice(0, -6)}${100_000 + n}`)
    for (const [n, id] of keyIds.entries()) {
      const digest = `${n}`.padStart(64, '0')
      await tx
        .insertInto('api_keys')
        .values({ ...row, id, digest, prefix: `rk_${n}` })
        .execute()
    }
    return { accountId, payerId: row.id, keyIds }
  })
}

function principalOf(accountId: string, keyId: string): string {
  const principal = { keyId, keyRevision: 1, accountId, accountRevision: 1 }
  return signPrincipal(principal, Date.now() + PRINCIPAL_LIFETIME_MS, [GATEWAY_SECRET])
}

/** Makes payments during a load. Resolves with the duration of each, in milliseconds. */
async function payDuring(pool: Pool, use: Use): Promise<number[]> {
  const { accountId, payerId } = use.ledger
  const post = (path: string, body: object) => {
    submissions += 1
    return call(
      pool,
      'POST',
      path,
      {
        [PRINCIPAL_HEADER]: principalOf(accountId, payerId),
        'idempotency-key': `benchmark-${submissions}`,
      },
      JSON.stringify(body),
    )
  }
  const { id: debtorId } = JSON.parse(await post('/api/v1/debtors', { name: 'Globex' }))
  const keyUse =
    use.load === 'nothing'
      ? undefined
      : once(new Worker(new URL(import.meta.url), { workerData: use }), 'exit')
  const until = performance.now() + ROUND_MS
  const times: number[] = []
  while (performance.now() < until) {
    const from = performance.now()
    await post('/api/v1/payments', { debtor_id: debtorId, currency: 'EUR', amount: 100 })
    times.push(performance.now() - from)
  }
  await keyUse
  return times
}

interface Use {
  readonly url: string
  readonly ledger: Ledger
  readonly load: Load
}

/** Makes one call with each key, or as many calls with one key, spread evenly over `CALLS_MS`. */
async function useKeys({ url, ledger: { accountId, keyIds }, load }: Use): Promise<void> {
  const pool = new Pool(url, { connections: 32 })
  const [only = ''] = keyIds
  const principals = keyIds.map((id) =>
    principalOf(accountId, load === 'calls of one key' ? only : id),
  )
  const from = performance.now()
  const calls: Promise<unknown>[] = []
  while (calls.length < principals.length) {
    const due = Math.floor(((performance.now() - from) / CALLS_MS) * principals.length)
    for (const principal of principals.slice(calls.length, due)) {
      calls.push(call(pool, 'GET', '/api/v1/me', { [PRINCIPAL_HEADER]: principal }))
    }
    await delay(2)
  }
  await Promise.all(calls)
  if (load === 'calls of 10,000 keys') {
    await Promise.all(['gateway-one', 'gateway-two'].map((name) => report(pool, name, keyIds)))
  }
  await pool.close()
}

async function report(pool: Pool, name: string, keyIds: readonly string[]): Promise<void> {
  const gateway = `${name}-${randomUUID()}`
  for (let at = 0; at < keyIds.length; at += USAGE_REPORT_ENTRIES_MAX) {
    const windows = keyIds.slice(at, at + USAGE_REPORT_ENTRIES_MAX).map((key_id) => {
      return { key_id, used: 1, limit: 600, ends_at: Date.now() + 3_600_000 }
    })
    const batch = 1 + at / USAGE_REPORT_ENTRIES_MAX
    const body = JSON.stringify({ gateway, batch, refused: [], errors: [], windows })
    const signed = { method: 'POST', path: USAGE_REPORT_PATH, body }
    const headers = { [SIGNATURE_HEADER]: signRequest(signed, Date.now(), [GATEWAY_SECRET]) }
    await call(pool, 'POST', USAGE_REPORT_PATH, headers, body)
  }
}

async function call(
  pool: Pool,
  method: 'GET' | 'POST',
  path: string,
  headers: Record<string, string>,
  body?: string,
): Promise<string> {
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const response = await pool.request({
    method,
    path,
    headers: { ...headers, ...type },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.body.text()
  if (response.statusCode >= 300)
    throw new Error(`${method} ${path}: ${response.statusCode} ${text}`)
  return text
}
