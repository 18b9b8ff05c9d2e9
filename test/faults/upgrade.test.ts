/**
 * Upgrades the processes of the last release to this program, one by one. One backend is also downgraded and upgraded
 * again. Meanwhile, clients pay an invoice, and an Admin credits it. On PostgreSQL, no API call may fail. On SQLite,
 * which has only one backend, calls get 503 while it restarts. The records must be exact on both, although the release,
 * which does not know credits, settles credited invoices.
 *
 * The last release is the newest version tag. Before the first tag, it is a commit that has the released contract and
 * none of the later migrations.
 */
import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { Agent } from 'undici'
import { checkPayments } from '../fixtures/payments/checker.ts'
import { logInCreditingAdmin } from '../fixtures/payments/credits.ts'
import { startHistory } from '../fixtures/payments/history.ts'
import { copyToFile } from '../fixtures/payments/ledger.ts'
import { createPayer } from '../fixtures/payments/payers.ts'
import { reservePort } from '../fixtures/servers/ports.ts'
import { copyTemplate, startPostgres } from '../fixtures/servers/postgres.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { GATEWAY_SECRET } from '../fixtures/service/gateway.ts'
import { SCRIPT_ENV, type StartedProcess, startProcess } from '../fixtures/service/process.ts'
import { until } from '../fixtures/service/until.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const BEFORE_THE_FIRST_TAG = '02e91c7'
const PAYERS = 4
const CREDIT = 50
const ADMIN = { email: 'ada@acme.example', password: 'correct horse battery' }
// Over plain http, Settings accept a password only if the base URL is a loopback address.
const BASE_URL = 'http://127.0.0.1:8080'

t.setTimeout(900_000)

function git(...words: string[]): string | undefined {
  try {
    return execFileSync('git', words, { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] })
      .toString()
      .trim()
  } catch {
    return undefined
  }
}

const release = git('describe', '--tags', '--abbrev=0', '--match', 'v*') || BEFORE_THE_FIRST_TAG
const skip =
  git('cat-file', '-t', release) === 'commit' || git('cat-file', '-t', release) === 'tag'
    ? false
    : `the Git history does not contain ${release}`

/** Copies the program of the release into the directory, with the packages of this program. Resolves with its path. */
async function checkOut(directory: string): Promise<string> {
  const path = join(directory, 'release')
  mkdirSync(path)
  await promisify(execFile)('sh', ['-c', `git archive ${release} | tar -x -C "${path}"`], {
    cwd: ROOT,
  })
  symlinkSync(join(ROOT, 'node_modules'), join(path, 'node_modules'))
  return path
}

interface ServiceProcess {
  readonly script: string
  readonly env: Record<string, string>
  /** The directory of the program that the process runs. */
  program: string
  process: StartedProcess
}

async function startProcesses(t: Test, kind: 'postgres' | 'sqlite') {
  const directory = t.testdir()
  const releaseDirectory = await checkOut(directory)
  let databaseUrl = `sqlite:${join(directory, 'receivables.db')}`
  if (kind === 'postgres') {
    const server = await startPostgres()
    t.teardown(() => server.remove())
    databaseUrl = (await copyTemplate(server.url('postgres'), 'template1')).url
  }
  const env = {
    DATA_DIR: directory,
    DATABASE_URL: databaseUrl,
    KEY_PEPPER: 'v1:pepper+of+the+tests+0123456789abcdefghij',
    SECRET_BOX_KEY: 'box+of+the+tests+0123456789abcdefghijklmn',
    GATEWAY_SECRET,
    BASE_URL,
  }
  const start = async (script: string, own: Record<string, string>): Promise<ServiceProcess> => ({
    script,
    env: own,
    program: releaseDirectory,
    process: await startProcess(t, join(releaseDirectory, script), own),
  })
  const backends: ServiceProcess[] = []
  for (let n = kind === 'postgres' ? 2 : 1; n > 0; n--) {
    const ports = {
      BACKEND_PORT: String(await reservePort()),
      BACKEND_OPERATIONS_PORT: String(await reservePort()),
    }
    backends.push(await start('backend/main.ts', { ...env, ...ports }))
  }
  const redis = await startRedis(t)
  const gateways = await Promise.all(
    [1, 2].map(async () => {
      const ports = {
        GATEWAY_PORT: String(await reservePort()),
        GATEWAY_OPERATIONS_PORT: String(await reservePort()),
      }
      const urls = backends.map(({ process }) => `http://127.0.0.1:${process.port}`).join()
      return start('gateway/main.ts', {
        ...{ GATEWAY_SECRET, BASE_URL, REDIS_URL: redis.url },
        ...{ BACKEND_URLS: urls, ...ports },
      })
    }),
  )
  const cli = async (...words: string[]) => {
    const options = { env: { ...SCRIPT_ENV, ...env } }
    const command = [join(releaseDirectory, 'backend/cli.ts'), ...words, '--json']
    return JSON.parse((await promisify(execFile)(process.execPath, command, options)).stdout)
  }
  return { directory, releaseDirectory, databaseUrl, backends, gateways, cli }
}

async function upgrade(t: Test, kind: 'postgres' | 'sqlite') {
  const { directory, releaseDirectory, databaseUrl, backends, gateways, cli } =
    await startProcesses(t, kind)
  const inService = new Set(gateways)
  /** The number of times that a backend of the release drained. */
  let releaseDrains = 0
  const urls = () => [...inService].map(({ process }) => `http://127.0.0.1:${process.port}`)
  /** Drains the process and starts the given program in its place. */
  async function replace(one: ServiceProcess, program: string): Promise<void> {
    inService.delete(one)
    if (backends.includes(one) && one.program === releaseDirectory) releaseDrains++
    t.equal(await one.process.stop('SIGTERM'), 0, `${one.script} drained`)
    one.program = program
    one.process = await startProcess(t, join(program, one.script), one.env)
    const readyz = `http://127.0.0.1:${one.process.operationsPort}/readyz`
    await until(async () => (await fetch(readyz)).ok, 'the process is ready')
    if (gateways.includes(one)) inService.add(one)
  }
  for (const { process } of gateways) {
    const readyz = `http://127.0.0.1:${process.operationsPort}/readyz`
    await until(async () => (await fetch(readyz)).ok, 'the gateway is ready')
  }

  const account = (await cli('accounts', 'create', '--name', 'Acme')).id
  const scopes = 'debtors:write,invoices:read,invoices:write,payments:read,payments:write'
  const issue = ['keys', 'issue', '--account', account, '--name', 'ERP', '--scopes', scopes]
  const { secret: apiKey } = await cli(...issue, '--rate-limit', '100000000')
  const dispatcher = new Agent({ connections: 16 })
  t.teardown(() => dispatcher.destroy())
  const post = async (path: string, body: object) =>
    (await call(`${urls()[0]}/api/v1/${path}`, { key: apiKey, body, dispatcher })).json.id
  const debtor_id = await post('debtors', { name: 'Globex' })
  const invoiceId = await post('invoices', { debtor_id, currency: 'EUR', amount: 900_000_000 })
  // The user is created before the payers start, because they keep SQLite's only writer busy.
  const login = ['--email', ADMIN.email, '--role', 'admin', '--password', ADMIN.password]
  await cli('users', 'create', '--account', account, ...login)
  const admin = await logInCreditingAdmin({ urls, ...ADMIN })
  const history = startHistory(join(directory, 'history.jsonl'))
  let paid = 0
  let isOver = false
  const paying = Array.from({ length: PAYERS }, async (_, index) => {
    const client = `payer-${index}`
    const { pay } = createPayer({ client, accountId: account, apiKey, urls, history, dispatcher })
    for (let n = 0; !isOver; n++) {
      const key = `${index}-${n}`
      await pay({ key, reference: key, invoiceId, amount: 100 })
      paid++
    }
  })
  const morePaid = async () => {
    const before = paid
    await until(() => paid >= before + 2 * PAYERS, 'payments flow')
  }
  let credited = 0
  const crediting = (async () => {
    for (; !isOver; credited++) await admin.credit(invoiceId, `credit-${credited}`, CREDIT)
  })()
  const moreCredited = async () => {
    const before = credited
    await until(() => credited >= before + 4, 'credits flow')
  }

  await morePaid()
  const [first, ...others] = backends
  if (first === undefined) throw new Error('there is no backend')
  await replace(first, ROOT)
  await Promise.all([morePaid(), moreCredited()])
  // This backend is downgraded. The release then settles an invoice that was credited.
  await replace(first, releaseDirectory)
  await morePaid()
  await replace(first, ROOT)
  for (const one of [...others, ...gateways]) await replace(one, ROOT)
  await Promise.all([morePaid(), moreCredited()])
  isOver = true
  await Promise.all([...paying, crediting])
  const invoice = await call(`${urls()[0]}/api/v1/invoices/${invoiceId}`, { key: apiKey })
  t.equal(invoice.json.amount_credited, credited * CREDIT)

  const failedPayments = history.events.flatMap((event) =>
    event.type === 'unknown' ? [`${event.status} ${event.code}`] : [],
  )
  const failedCredits = admin.failures.filter((failure) => !failure.startsWith('404 '))
  const expected = kind === 'postgres' ? [] : ['503 service_unavailable']
  // A gateway does not retry a page request that writes. A backend of the release closes its idle connections before
  // gateways know that it drains, so each such drain can lose one page request. The Admin repeats it with the same key.
  const expectedOfPages = [...expected, '502 bad_gateway']
  t.strictSame(
    [
      ...failedPayments.filter((one) => !expected.includes(one)),
      ...failedCredits.filter((one) => !expectedOfPages.includes(one)),
    ],
    [],
    'no call or page request failed in another way',
  )
  const lost = failedCredits.filter((one) => one.startsWith('502 ')).length
  t.ok(
    lost <= releaseDrains,
    `${lost} page requests lost: at most one in each drain of the release`,
  )
  for (const { process } of [...backends]) await process.stop()
  const books =
    kind === 'postgres' ? await copyToFile(databaseUrl, directory) : databaseUrl.slice(7)
  const { violations, figures } = await checkPayments(books, history.events)
  t.strictSame(violations, [])
  t.equal(figures.acknowledged, figures.intents)
  t.comment(
    `from ${release}: ${failedPayments.length} × 503 of payments, ${failedCredits.length} × 502 or 503 of ${credited} credits; ${JSON.stringify(figures)}`,
  )
}

t.test('during a rolling upgrade on PostgreSQL, no API call fails', { skip }, (t) =>
  upgrade(t, 'postgres'),
)
t.test('during an upgrade on SQLite, API calls fail only with 503', { skip }, (t) =>
  upgrade(t, 'sqlite'),
)
