/**
 * `node test/load/webhooks.ts`: measures how fast one backend process delivers webhooks to a fast receiver, and how
 * much receivers that hang delay deliveries to the others. The processes are real; the database is a SQLite file.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { createAccount } from '../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { SCOPES } from '../../backend/accounts/scopes.ts'
import { issueApiKey } from '../../backend/api-keys/api-keys.ts'
import { deriveKey } from '../../backend/config.ts'
import { type OpenDatabase, openDatabase } from '../../backend/database/open.ts'
import { recordEvent } from '../../backend/events/events.ts'
import { createEndpoint } from '../../backend/webhooks/endpoints.ts'
import { sampleOf } from '../../backend/webhooks/samples.ts'
import { createSecretBox } from '../../backend/webhooks/secret-box.ts'
import {
  PRINCIPAL_HEADER,
  PRINCIPAL_LIFETIME_MS,
  signPrincipal,
} from '../../shared/contract/principal.ts'
import { createLogger } from '../../shared/process/log.ts'
import { startProcess } from '../fixtures/service/process.ts'

const PEPPER = 'pepper+of+the+benchmark+0123456789abcdef'
const GATEWAY_SECRET = 'gateways+of+the+benchmark+0123456789abcd'
const BOX_KEY = 'box+of+the+benchmark+0123456789abcdefghi'
const EVENTS = 10_000
const ISOLATION_SECONDS = 20

if (process.argv[2] === 'receiver') await receive()
else await measure()

/**
 * Responds to a webhook immediately with 204, but never under /hang. /report returns how many webhooks have got a
 * response, and the latencies of the webhooks that arrived under / since the last report.
 */
async function receive(): Promise<void> {
  let count = 0
  let latencies: number[] = []
  const server = createServer((req, res) => {
    let body = ''
    req.on('data', (chunk) => {
      body += chunk
    })
    req.on('end', () => {
      if (req.url === '/report') {
        res.end(JSON.stringify({ count, latencies }))
        latencies = []
        return
      }
      if (req.url === '/hang') return
      count++
      if (req.url === '/') latencies.push(Date.now() - Date.parse(JSON.parse(body).timestamp))
      res.writeHead(204).end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`)
}

async function measure(): Promise<void> {
  const teardowns: (() => unknown)[] = []
  const owner = { teardown: (step: () => unknown) => teardowns.push(step) }
  const directory = await mkdtemp(join(tmpdir(), 'webhooks-'))
  try {
    const receiver = await startReceiver(owner)
    const backend = await startProcess(owner, 'backend/main.ts', {
      DATA_DIR: directory,
      KEY_PEPPER: `v1:${PEPPER}`,
      SECRET_BOX_KEY: BOX_KEY,
      GATEWAY_SECRET,
      WEBHOOK_PRIVATE_TARGETS: 'allow',
      BACKEND_PORT: '0',
      BACKEND_OPERATIONS_PORT: '0',
      LOG_LEVEL: 'error',
    })
    const database = await openDatabase({
      url: `sqlite:${directory}/receivables.db`,
      log: createLogger('benchmark', 'error'),
      openedBy: 'operator',
    })
    teardowns.push(() => database.close())
    for (const endpoints of [1, 10]) await measureThroughput(database, receiver, endpoints)
    for (const hanging of [0, 10]) {
      await measureIsolation(database, receiver, `http://127.0.0.1:${backend.port}`, hanging)
    }
    await backend.stop()
  } finally {
    for (const step of teardowns.reverse()) await step()
    await rm(directory, { recursive: true })
  }
}

interface Receiver {
  readonly url: string
  report(): Promise<{ count: number; latencies: number[] }>
}

async function startReceiver(owner: { teardown(step: () => unknown): unknown }): Promise<Receiver> {
  const child = spawn(process.execPath, [import.meta.filename, 'receiver'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  owner.teardown(() => child.kill('SIGKILL'))
  const [port] = await once(createInterface({ input: child.stdout }), 'line')
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    report: async () =>
      (await (await fetch(`${url}/report`, { method: 'POST' })).json()) as {
        count: number
        latencies: number[]
      },
  }
}

/** Measures how fast a backlog is delivered once its endpoints are enabled. */
async function measureThroughput(database: OpenDatabase, receiver: Receiver, endpoints: number) {
  const { accountId, ids } = await setUp(database, Array(endpoints).fill(`${receiver.url}/`))
  await setStatus(database, ids, 'paused')
  for (let made = 0; made < EVENTS / endpoints; made += 100)
    await recordEvents(database, accountId, 100)
  const before = (await receiver.report()).count
  const startedAt = performance.now()
  await setStatus(database, ids, 'enabled')
  while ((await receiver.report()).count - before < EVENTS) await delay(20)
  const seconds = (performance.now() - startedAt) / 1000
  print(`${endpoints} endpoint(s): ${Math.round(EVENTS / seconds)} deliveries/s`)
  await setStatus(database, ids, 'paused')
}

/** Measures deliveries to ten endpoints, while ten others respond or hang. Each endpoint gets ten events a second. */
async function measureIsolation(
  database: OpenDatabase,
  receiver: Receiver,
  backendUrl: string,
  hanging: number,
) {
  const good = Array(10).fill(`${receiver.url}/`)
  const { accountId, ids } = await setUp(database, good)
  const other = await setUp(
    database,
    Array.from({ length: 10 }, (_, n) => receiver.url + (n < hanging ? '/hang' : '/unmeasured')),
  )
  const [principal, otherPrincipal] = [
    await issuePrincipal(database, accountId),
    await issuePrincipal(database, other.accountId),
  ]
  await receiver.report()
  for (let turn = 0; turn < ISOLATION_SECONDS * 10; turn++) {
    await Promise.all([
      createDebtor(backendUrl, principal),
      createDebtor(backendUrl, otherPrincipal),
    ])
    await delay(100)
  }
  await delay(2000)
  const latencies = (await receiver.report()).latencies.sort((a, b) => a - b)
  const at = (share: number) => latencies[Math.floor(latencies.length * share)]
  print(
    `20 endpoints, ${hanging} hang: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms from event to receiver (${latencies.length} deliveries)`,
  )
  await setStatus(database, [...ids, ...other.ids], 'paused')
}

async function setUp(database: OpenDatabase, urls: readonly string[]) {
  const actionContext = { actor: OPERATOR, now: new Date() }
  const deps = {
    secretBox: createSecretBox([deriveKey(BOX_KEY, 'webhook secrets')]),
    privateTargetPolicy: 'allow',
  } as const
  return database.transaction(async (tx) => {
    const { id: accountId } = await createAccount(tx, { name: 'Benchmark' }, actionContext)
    const ids: string[] = []
    for (const url of urls) {
      const input = { url, description: '', eventTypes: null }
      ids.push((await createEndpoint(tx, accountId, input, deps, actionContext)).row.id)
    }
    return { accountId, ids }
  })
}

async function recordEvents(
  database: OpenDatabase,
  accountId: string,
  times: number,
): Promise<void> {
  const { object } = sampleOf('invoice.paid')
  await database.transaction(async (tx) => {
    for (let n = 0; n < times; n++) {
      const event = { accountId, type: 'invoice.paid', subjectId: 'inv_1' } as const
      await recordEvent(tx, { ...event, represent: () => object }, new Date())
    }
  })
}

async function issuePrincipal(database: OpenDatabase, accountId: string): Promise<string> {
  const actionContext = { actor: OPERATOR, now: new Date() }
  const input = { accountId, name: 'Benchmark', scopes: SCOPES }
  const pepper = { version: 'v1', secret: PEPPER }
  const { row } = await database.transaction((tx) =>
    issueApiKey(tx, input, [pepper], actionContext),
  )
  const principal = { keyId: row.id, keyRevision: 1, accountId, accountRevision: 1 }
  return signPrincipal(principal, Date.now() + PRINCIPAL_LIFETIME_MS, [GATEWAY_SECRET])
}

/** Sends the same request as a gateway, so that the measured backend records the event itself. */
async function createDebtor(backendUrl: string, principal: string): Promise<void> {
  const response = await fetch(`${backendUrl}/api/v1/debtors`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', [PRINCIPAL_HEADER]: principal },
    body: '{"name":"Jansen Bouw B.V."}',
  })
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`)
  await response.arrayBuffer()
}

async function setStatus(
  database: OpenDatabase,
  ids: readonly string[],
  status: 'enabled' | 'paused',
): Promise<void> {
  await database.transaction((tx) =>
    tx.updateTable('webhook_endpoints').set({ status }).where('id', 'in', ids).execute(),
  )
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
