/**
 * The example integration of deploy/examples is killed several times, while a network loses calls and responses, and
 * the backend is killed too. At the end, the records of the integration equal those of the service.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { matches } from '../fixtures/matches.ts'
import { listen } from '../fixtures/servers/listen.ts'
import { call } from '../fixtures/service/call.ts'
import { SCRIPT_ENV } from '../fixtures/service/process.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const EXAMPLES = 'deploy/examples'
const LINES = 6
const DUE = 10_000

const system = await startSystem(t)
const { operator, url } = system

/** The outcomes of successive calls. The list is repeated. */
const OUTCOMES = [
  ...(['pass', 'pass', 'lose', 'pass', 'pass', 'drop'] as const),
  ...(['pass', 'pass', 'malformed', 'pass', 'pass', 'limit', 'pass'] as const),
] as const

/** Starts a proxy in front of the service, which simulates a network with the faults of `OUTCOMES`. */
async function startNetwork(t: Test) {
  let calls = 0
  const occurred = new Map<string, number>()
  const server = createServer(async (req, res) => {
    const outcome = OUTCOMES[calls % OUTCOMES.length] ?? 'pass'
    calls += 1
    occurred.set(outcome, (occurred.get(outcome) ?? 0) + 1)
    const body = await buffer(req)
    if (outcome === 'drop') return res.destroy()
    if (outcome === 'malformed')
      return res.writeHead(502, { 'content-type': 'text/html' }).end('<p>')
    if (outcome === 'limit') {
      res.writeHead(429, { 'retry-after': '1', 'content-type': 'application/problem+json' })
      return res.end('{"status":429,"code":"rate_limit_exceeded","retryable":true}')
    }
    try {
      const { authorization = '', 'idempotency-key': key, 'content-type': type } = req.headers
      const response = await fetch(url + req.url, {
        method: req.method ?? 'GET',
        headers: {
          authorization,
          ...(typeof key === 'string' ? { 'idempotency-key': key } : {}),
          ...(type === undefined ? {} : { 'content-type': type }),
        },
        ...(req.method === 'POST' ? { body } : {}),
      })
      const text = await response.text()
      if (outcome === 'lose') return res.destroy()
      const retryAfter = response.headers.get('retry-after')
      return res
        .writeHead(response.status, retryAfter === null ? {} : { 'retry-after': retryAfter })
        .end(text)
    } catch {
      return res.destroy()
    }
  })
  return {
    url: `http://127.0.0.1:${await listen(t, server)}`,
    occurred,
    calls: () => calls,
  }
}

/** Runs a program. Resolves with its exit code and output. `during` may kill it. */
async function run(
  words: readonly string[],
  env: Record<string, string>,
  during: (child: ChildProcess) => Promise<unknown> = async () => {},
) {
  const child = spawn(process.execPath, words, { env: { ...SCRIPT_ENV, ...env } })
  const output: string[] = []
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => output.push(String(chunk)))
  }
  const closed = once(child, 'close')
  await during(child)
  const [code]: unknown[] = await closed
  return { code, output: output.join('') }
}

/**
 * Runs the program four times. Kills the first run during its first call, the second during its third, and the third
 * during its sixth; the last run completes.
 */
async function runThroughKills(
  network: Awaited<ReturnType<typeof startNetwork>>,
  command: readonly string[],
  env: Record<string, string>,
) {
  for (const call of [1, 3, 6]) {
    const before = network.calls()
    await run(command, env, async (child) => {
      const isOver = () => network.calls() - before >= call || child.exitCode !== null
      await until(isOver, `call ${call} is in progress`, 60_000)
      child.kill('SIGKILL')
    })
  }
  return run(command, env)
}

t.test('despite kills and lost responses, each valid bank line is recorded once', async (t) => {
  const { secret: key } = await operator.issueKey(await operator.createAccount())
  const api = (path: string, body?: unknown) => call(`${url}/api/v1/${path}`, { key, body })
  await api('debtors', { name: 'Globex', external_id: 'C-1' })
  const bill = { debtor_external_id: 'C-1', currency: 'EUR', amount: DUE }
  for (let index = 0; index < LINES; index += 1)
    await api('invoices', { ...bill, number: `2026-${index}` })
  const amounts = Array.from({ length: LINES }, (_, index) => 1_000 + index)
  const lines = amounts.map(
    (amount, index) => `B-${index};2026-11-20;${(amount / 100).toFixed(2)};EUR;2026-${index}`,
  )
  const directory = t.testdir({
    'statement.csv': [
      'bank_id;booked_on;amount;currency;invoice_number',
      ...lines,
      'B-unknown;2026-11-20;1.00;EUR;none',
      'B-too-much;2026-11-20;999.00;EUR;2026-0',
      '',
    ].join('\n'),
  })
  const [bankFile, books] = [join(directory, 'statement.csv'), join(directory, 'books.db')]
  const network = await startNetwork(t)
  const env = { RECEIVABLES_URL: network.url, RECEIVABLES_API_KEY: key }

  const posting = runThroughKills(network, [`${EXAMPLES}/post-payments.ts`, bankFile, books], env)
  await until(() => network.calls() > 6, 'some calls were made', 60_000)
  await system.backend.stop('SIGKILL')
  await system.startBackend()
  const posted = await posting
  t.equal(posted.code, 0, posted.output)
  matches(t, posted.output, /rejected: B-unknown: there is no invoice none/)
  matches(t, posted.output, /rejected: B-too-much: payment_exceeds_balance/)
  const synced = await runThroughKills(network, [`${EXAMPLES}/sync.ts`, books], env)
  t.equal(synced.code, 0, synced.output)
  t.strictSame(
    [...network.occurred.keys()].toSorted(),
    [...new Set(OUTCOMES)].toSorted(),
    'all faults occurred',
  )

  const { json } = await api('payments?limit=200')
  const recorded: { external_id: string; amount: number }[] = json.data
  t.strictSame(
    recorded.map(({ external_id, amount }) => `${external_id} ${amount}`).toSorted(),
    amounts.map((amount, index) => `B-${index} ${amount}`).toSorted(),
  )
  const database = new DatabaseSync(books)
  t.teardown(() => database.close())
  const copyOf = (type: string) =>
    database
      .prepare(`select object from ${type} order by id`)
      .all()
      .map((row) => JSON.parse(String(row['object'])))
  for (const type of ['debtors', 'invoices', 'payments']) {
    const { json } = await api(`${type}?limit=200`)
    const stored: { id: string }[] = json.data
    t.strictSame(
      copyOf(type),
      stored.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
      `the copies of ${type}`,
    )
  }
  const due = copyOf('invoices').reduce((sum, invoice) => sum + invoice.amount_due, 0)
  t.equal(due, LINES * DUE - amounts.reduce((sum, amount) => sum + amount, 0))
})

// Regression: the redirect was followed, which turned a POST into a GET.
t.test('a redirect, for example from http to https, ends the run at once', async (t) => {
  const server = createServer((_req, res) => res.writeHead(301, { location: '/other' }).end())
  const env = {
    RECEIVABLES_URL: `http://127.0.0.1:${await listen(t, server)}`,
    RECEIVABLES_API_KEY: 'any',
  }
  const { code, output } = await run([`${EXAMPLES}/sync.ts`, join(t.testdir(), 'books.db')], env)
  t.equal(code, 1)
  matches(t, output, /redirects calls\. Set RECEIVABLES_URL/)
})

// Regression: every call was repeated for minutes, as if the service did not respond.
t.test('an address or a key that cannot be used ends the run at once', async (t) => {
  const words = [`${EXAMPLES}/sync.ts`, join(t.testdir(), 'books.db')]
  const misread = { RECEIVABLES_URL: 'localhost:8080', RECEIVABLES_API_KEY: 'any' }
  matches(t, await run(words, misread), { code: 1, output: /RECEIVABLES_URL must begin with http/ })
  const elided = { RECEIVABLES_URL: url, RECEIVABLES_API_KEY: 'rcv_…' }
  matches(t, await run(words, elided), { code: 1, output: /authorization|ByteString/ })
})

// Regression: the path of every call began with two slashes, which the service rejects.
t.test('the address of the service may end with a slash', async (t) => {
  const { secret } = await operator.issueKey(await operator.createAccount())
  const env = { RECEIVABLES_URL: `${url}/`, RECEIVABLES_API_KEY: `${secret}\n` }
  const { code, output } = await run([`${EXAMPLES}/sync.ts`, join(t.testdir(), 'books.db')], env)
  t.equal(code, 0, output)
})

// Regression: the idempotency key of such a line was invalid, and the run ended at this line each time.
t.test('the bank ids of lines may contain spaces and non-ASCII characters', async (t) => {
  const { secret: key } = await operator.issueKey(await operator.createAccount())
  await call(`${url}/api/v1/debtors`, { key, body: { name: 'Globex', external_id: 'C-1' } })
  const invoice = { debtor_external_id: 'C-1', currency: 'EUR', amount: DUE, number: '2026-1' }
  await call(`${url}/api/v1/invoices`, { key, body: invoice })
  const lines = ['NTR 4711', 'Ä€-1', '5%'].map((id) => `${id};2026-11-20;1.00;EUR;2026-1\n`)
  const directory = t.testdir({ 'statement.csv': `names\n${lines.join('')}` })
  const words = [`${EXAMPLES}/post-payments.ts`, join(directory, 'statement.csv')]
  const env = { RECEIVABLES_URL: url, RECEIVABLES_API_KEY: key }
  const expected = { code: 0, output: '' }
  t.strictSame(await run([...words, join(directory, 'books.db')], env), expected)
  const { json } = await call(`${url}/api/v1/payments`, { key })
  const recorded: { external_id: string }[] = json.data
  t.strictSame(recorded.map(({ external_id }) => external_id).toSorted(), [
    ...['%C3%84%E2%82%AC-1', '5%25', 'NTR%204711'],
  ])
})

t.test(
  'an error that affects every line, such as a revoked key, ends the run with code 1',
  async (t) => {
    const account = await operator.createAccount()
    const { id, secret } = await operator.issueKey(account)
    await operator.revokeKey(id)
    const directory = t.testdir({ 'statement.csv': 'names\nB-1;2026-11-20;1.00;EUR;2026-1\n' })
    const words = [`${EXAMPLES}/post-payments.ts`, join(directory, 'statement.csv')]
    const env = { RECEIVABLES_URL: url, RECEIVABLES_API_KEY: secret }
    const { code, output } = await run([...words, join(directory, 'books.db')], env)
    t.equal(code, 1)
    matches(t, output, /revoked_api_key/)
  },
)
