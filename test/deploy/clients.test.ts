// Installs the package that `npm run clients` creates, and runs it against the service.
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { readContractDocument } from '../../shared/contract/contract.ts'
import { matches, rejectsWith } from '../fixtures/matches.ts'
import { listen } from '../fixtures/servers/listen.ts'
import { type Outcome, startUnreliableProxy } from '../fixtures/servers/unreliable-proxy.ts'
import { call } from '../fixtures/service/call.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { receiveWebhook } from '../fixtures/service/webhook.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..', '..')
// Over plain http, Settings accept a password only if the base URL is a loopback address.
const BASE_URL = { BASE_URL: 'http://127.0.0.1:8080' }

const system = await startSystem(t, {
  backendEnv: { ...BASE_URL, WEBHOOK_PRIVATE_TARGETS: 'allow' },
  gatewayEnv: BASE_URL,
})
const { operator, url } = system

/** The environment for npm, without the test runner's variables, which make Node load modules of tap. */
const PLAIN_ENV = Object.fromEntries(
  Object.entries(process.env).filter(([name]) =>
    /^(?:PATH|HOME|NODE_EXTRA_CA_CERTS|https?_proxy|no_proxy|npm_config_.*)$/i.test(name),
  ),
)

const directory = join(t.testdirName, 'integration')
mkdirSync(directory)
// Regression: a relative path led to two directories.
const target = ['--directory', relative(ROOT, directory)]
await run(process.execPath, ['deploy/clients/main.ts', ...target], { cwd: ROOT, env: PLAIN_ENV })
const contract: { info: { version: string } } = JSON.parse(readContractDocument().json)
const tarball = join(directory, `receivables-client-${contract.info.version}.tgz`)
const installed = join(directory, 'node_modules', 'receivables-client')
mkdirSync(installed, { recursive: true })
await run('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed])

t.test(
  'the package contains only compiled modules, their types, package.json, README and license',
  async (t) => {
    const { stdout } = await run('tar', ['-tzf', tarball])
    const modules = [
      ...['client', 'index', 'lists', 'receivables-error', 'retries', 'schema', 'webhooks'],
    ]
    t.strictSame(
      stdout.trim().split('\n').sort(),
      [
        ...['LICENSE', 'README.md', 'package.json'],
        ...modules.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`]),
      ]
        .map((name) => `package/${name}`)
        .sort(),
    )
    const description: Record<string, unknown> = JSON.parse(
      readFileSync(join(installed, 'package.json'), 'utf8'),
    )
    t.equal(description['name'], 'receivables-client')
    t.equal(description['version'], contract.info.version)
    t.equal(description['license'], 'MIT')
    t.strictSame(Object.keys(Object(description['dependencies'])), [
      'openapi-fetch',
      'standardwebhooks',
    ])
  },
)

const PREAMBLE = `import { createReceivablesClient, ReceivablesError, verifyWebhook } from 'receivables-client'
const { SERVICE = 'http://127.0.0.1', KEY = '' } = process.env
const receivables = createReceivablesClient({ baseUrl: SERVICE, key: KEY, waitMaxMs: 5000 })
`

const COMPILE =
  '--ignoreConfig --noEmit --strict --module nodenext --target esnext --types node --allowImportingTsExtensions'

async function compile(program: string): Promise<string> {
  const file = join(directory, 'program.ts')
  writeFileSync(file, PREAMBLE + program)
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  await run(tsc, [...COMPILE.split(' '), file], { env: PLAIN_ENV })
  return file
}

async function runProgram(program: string, env: Record<string, string>): Promise<string> {
  const file = await compile(program)
  return (await run(process.execPath, [file], { env: { ...PLAIN_ENV, ...env } })).stdout
}

t.test('the client creates records, and reads every page of a list', async (t) => {
  const { secret: key } = await operator.issueKey(await operator.createAccount())
  const printed = await runProgram(
    `const debtor = await receivables.POST('/api/v1/debtors', { body: { name: 'Globex' } })
const debtor_id = debtor.data?.id ?? ''
for (const amount of [100, 200, 300]) {
  await receivables.POST('/api/v1/invoices', { body: { debtor_id, currency: 'EUR', amount } })
}
let due = 0
const query = { status: ['open', 'partially_paid'], limit: 2 } as const
for await (const invoice of receivables.listAll('/api/v1/invoices', { ...query, status: [...query.status] })) {
  due += invoice.amount_due
}
console.log(due)
try {
  for await (const _ of receivables.listAll('/api/v1/payments', { limit: 1000 })) console.log('none')
} catch (error) {
  if (error instanceof ReceivablesError) console.log(error.status, error.problem?.code)
}
`,
    { SERVICE: url, KEY: key },
  )
  t.equal(printed, '600\n400 invalid_query_parameter\n')
})

t.test('a POST is retried after a lost response and a 429, and carried out once', async (t) => {
  const { secret: key } = await operator.issueKey(await operator.createAccount())
  const outcomes: readonly Outcome[] = ['lose', 'reject', 'pass']
  const proxy = await startUnreliableProxy(t, url, (n) => outcomes[(n - 1) % 3] ?? 'pass')
  const startedAt = performance.now()
  const printed = await runProgram(
    `const debtor = await receivables.POST('/api/v1/debtors', { body: { name: 'Globex' } })
const payment = await receivables.POST('/api/v1/payments', {
  params: { header: { 'Idempotency-Key': 'bank-1' } },
  body: { debtor_id: debtor.data?.id ?? '', currency: 'EUR', amount: 200 },
})
console.log(payment.data?.amount, payment.data?.idempotency_key)
`,
    { SERVICE: proxy.url, KEY: key },
  )
  t.equal(printed, '200 bank-1\n')
  t.equal(proxy.requests(), 6)
  t.ok(performance.now() - startedAt >= 2000, 'the client waited for Retry-After twice')
  for (const list of ['debtors', 'payments']) {
    t.equal((await call(`${url}/api/v1/${list}`, { key })).json.data.length, 1, list)
  }
})

t.test(
  'a 429 that requires too long a wait, and a 401, are returned without a retry',
  async (t) => {
    const proxy = await startUnreliableProxy(t, url, (n) => (n === 1 ? 'reject' : 'pass'))
    const printed = await runProgram(
      `const impatient = createReceivablesClient({ baseUrl: SERVICE, key: KEY, waitMaxMs: 500 })
const limited = await impatient.GET('/api/v1/me')
const rejected = await receivables.GET('/api/v1/me')
console.log(limited.response.status, rejected.response.status, rejected.error?.code)
`,
      { SERVICE: proxy.url, KEY: 'unknown' },
    )
    t.equal(printed, '429 401 malformed_authorization\n')
    t.equal(proxy.requests(), 2)
  },
)

// Regression: a redirected POST became a GET, whose list passed for the payment, and an empty 502 looked like success.
t.test('a response that does not come from the service is never taken for a success', async (t) => {
  const html = { 'content-type': 'text/html' }
  const responses: Record<string, [status: number, headers: Record<string, string>]> = {
    '/moved': [301, { location: '/list' }],
    '/list': [200, { 'content-type': 'application/json' }],
    '/empty-502': [502, {}],
    '/empty-403': [403, { 'content-length': '0' }],
    '/page-403': [403, html],
    '/problem-502': [502, { 'content-type': 'application/problem+json' }],
    '/page-200': [200, html],
  }
  const requests: string[] = []
  const server = createServer((req, res) => {
    const path = req.url?.replace(/\/api.*/, '') ?? ''
    requests.push(path)
    const [status, headers] = responses[path] ?? [404, {}]
    const body = path === '/list' ? '{"data":[],"next_cursor":null}' : html === headers ? '<p>' : ''
    res.writeHead(status, headers).end(body)
  })
  const printed = await runProgram(
    `for (const path of (process.env['PATHS'] ?? '').split(' ')) {
  const client = createReceivablesClient({ baseUrl: SERVICE + path, key: KEY, attemptsMax: 2 })
  try {
    const { data } = await client.POST('/api/v1/payments', {
      params: { header: { 'Idempotency-Key': 'bank-1' } },
      body: { debtor_id: 'deb_1', currency: 'EUR', amount: 200 },
    })
    console.log(path, data)
  } catch (error) {
    console.log(path, error instanceof ReceivablesError ? error.message : String(error))
  }
}
`,
    {
      SERVICE: `http://127.0.0.1:${await listen(t, server)}`,
      PATHS: Object.keys(responses)
        .filter((path) => path !== '/list')
        .join(' '),
    },
  )
  t.strictSame(printed.trim().split('\n'), [
    '/moved HTTP status 301',
    '/empty-502 HTTP status 502',
    '/empty-403 HTTP status 403',
    '/page-403 HTTP status 403',
    '/problem-502 HTTP status 502',
    '/page-200 Error: The response with status 200 does not come from the service.',
  ])
  t.strictSame(requests, [
    ...['/moved', '/empty-502', '/empty-502', '/empty-403', '/page-403'],
    ...['/problem-502', '/problem-502', '/page-200', '/page-200'],
  ])
})

t.test('a base URL may end with a slash, but must begin with http', async (t) => {
  const { secret: key } = await operator.issueKey(await operator.createAccount())
  await call(`${url}/api/v1/debtors`, { key, body: { name: 'Globex' } })
  const printed = await runProgram(
    `for await (const { name } of receivables.listAll('/api/v1/debtors')) console.log(name)
try {
  createReceivablesClient({ baseUrl: 'localhost:8080', key: KEY })
} catch (error) {
  console.log(String(error))
}
`,
    // Regression: white space before the address was rejected.
    { SERVICE: ` ${url}/\n`, KEY: key },
  )
  // Regression: calls to the second address were repeated as if the service did not respond.
  const rejection = 'TypeError: baseUrl must begin with http:// or https://, not localhost:8080'
  t.equal(printed, `Globex\n${rejection}\n`)
})

t.test(
  'a call that is aborted during a wait throws the reason for which it was aborted',
  async (t) => {
    const proxy = await startUnreliableProxy(t, url, () => 'reject')
    const printed = await runProgram(
      `const signal = AbortSignal.timeout(100)
await receivables.GET('/api/v1/me', { signal }).catch((error) => console.log(error.name))
`,
      { SERVICE: proxy.url, KEY: 'unknown' },
    )
    t.equal(printed, 'TimeoutError\n')
  },
)

t.test(
  'the client accepts a webhook of the service, and rejects it with a changed body',
  async (t) => {
    const webhook = await receiveWebhook(t, system)
    const env = { HEADERS: JSON.stringify(webhook.headers), BODY: webhook.body }
    const printed = await runProgram(
      `const { HEADERS = '', BODY = '', SECRET = '' } = process.env
const event = verifyWebhook(Buffer.from(BODY), JSON.parse(HEADERS), SECRET)
if (event.type === 'debtor.created') console.log(event.data.object.name)
try {
  verifyWebhook(BODY + ' ', new Headers(JSON.parse(HEADERS)), SECRET)
} catch (error) {
  console.log(String(error))
}
`,
      // Regression: a secret with a line break, as a file of the secret may have, was rejected.
      { ...env, SECRET: `${webhook.secret}\n` },
    )
    matches(t, printed, /^Globex\n.*No matching signature found\n$/)
  },
)

t.test('the program in the guide to clients prints the open invoice', async (t) => {
  const { secret: key } = await operator.issueKey(await operator.createAccount())
  await call(`${url}/api/v1/debtors`, { key, body: { name: 'Globex', external_id: 'C-1' } })
  const invoice = { debtor_external_id: 'C-1', currency: 'EUR', amount: 700 }
  await call(`${url}/api/v1/invoices`, { key, body: invoice })
  const guide = readFileSync(join(ROOT, 'docs', 'clients.md'), 'utf8')
  const [, program = ''] =
    /^```ts\n(import \{ createReceivablesClient .*?)^```$/ms.exec(guide) ?? []
  const file = join(directory, 'guide.ts')
  writeFileSync(file, program)
  const env = { ...PLAIN_ENV, SERVICE: url, KEY: key }
  t.equal((await run(process.execPath, [file], { env })).stdout, 'INV-000001 700 EUR\n')
})

t.test('calls that the types forbid do not compile', async (t) => {
  const forbidden: Record<string, [line: string, fault: RegExp]> = {
    'a payment without an Idempotency-Key': [
      "await receivables.POST('/api/v1/payments', { body: { amount: 1, currency: 'EUR' } })",
      /Property 'params' is missing/,
    ],
    'a list that does not exist': [
      "for await (const _ of receivables.listAll('/api/v1/me')) console.log()",
      /'"\/api\/v1\/me"' is not assignable/,
    ],
    'a misspelled filter': [
      "for await (const _ of receivables.listAll('/api/v1/invoices', { stauts: ['open'] })) console.log()",
      /'stauts'/,
    ],
  }
  for (const [name, [line, fault]] of Object.entries(forbidden)) {
    await rejectsWith(t, compile(`${line}\n`), { stdout: fault }, name)
  }
})

t.test("the programs in the package's README compile", async (t) => {
  const readme = readFileSync(join(installed, 'README.md'), 'utf8')
  const programs = [...readme.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code)
  t.equal(programs.length, 4)
  const imports = programs.flatMap((code) => code.match(/^import .*$/gm) ?? [])
  const code = programs.join('\n').replaceAll(/^import .*$/gm, '')
  const file = join(directory, 'readme.ts')
  const declarations = 'declare const body: Buffer, request: Request\n'
  writeFileSync(file, `${imports.join('\n')}\n${declarations}${code}`)
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  await run(tsc, [...COMPILE.split(' '), file], { env: PLAIN_ENV })
})
