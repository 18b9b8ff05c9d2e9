// The running service accepts calls that the generated types allow, and returns what the types promise.
import { execFile } from 'node:child_process'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import createClient from 'openapi-fetch'
import t from 'tap'
import type { Invoice, paths } from '../../deploy/examples/receivables-api.ts'
import { containing, matches, rejectsWith } from '../fixtures/matches.ts'
import { untilDocsAreRendered } from '../fixtures/service/documentation.ts'
import { startSystem } from '../fixtures/service/system.ts'

const run = promisify(execFile)
const { url, operator } = await startSystem(t)
const { secret: key } = await operator.issueKey(await operator.createAccount())
const client = createClient<paths>({
  baseUrl: url,
  headers: { authorization: `Bearer ${key}` },
  querySerializer: { array: { style: 'form', explode: false } },
})

t.test('a typed client creates, pays and reads an invoice', async (t) => {
  const me = await client.GET('/api/v1/me')
  t.equal(me.data?.key.rate_limit, 600)
  const debtor = await client.POST('/api/v1/debtors', { body: { name: 'Globex' } })
  const debtor_id = debtor.data?.id ?? ''
  const invoice = await client.POST('/api/v1/invoices', {
    body: { debtor_id, currency: 'EUR', line_items: [{ description: 'Work', unit_amount: 500 }] },
  })
  const bill: Invoice | undefined = invoice.data
  t.equal(bill?.line_items[0]?.amount, 500)
  const payment = await client.POST('/api/v1/payments', {
    params: { header: { 'Idempotency-Key': 'bank-1' } },
    body: { invoice_id: bill?.id ?? '', currency: 'EUR', amount: 200 },
  })
  t.equal(payment.data?.effects.invoices[0]?.amount_due, 300)
  const list = await client.GET('/api/v1/invoices', {
    params: { query: { status: ['open', 'partially_paid'], currency: 'EUR' } },
  })
  t.strictSame(
    list.data?.data.map(({ status, amount_due }) => [status, amount_due]),
    [['partially_paid', 300]],
  )
  const shown = await client.GET('/api/v1/debtors/{id}', { params: { path: { id: debtor_id } } })
  t.equal(shown.data?.balances[0]?.outstanding, 300)
})

t.test('the types include the members of a rejection', async (t) => {
  const { error, response } = await client.POST('/api/v1/payments', {
    params: { header: { 'Idempotency-Key': 'bank-2' } },
    body: { invoice_id: 'inv_none', currency: 'EUR', amount: 1 },
  })
  t.equal(response.status, 422)
  t.equal(error?.code, 'invoice_not_found')
  if (error === undefined || !('errors' in error)) return t.fail('the error names its fields')
  t.equal(error.errors?.[0]?.pointer, '/invoice_id')
})

const TYPES = new URL('../../deploy/examples/receivables-api.ts', import.meta.url)
const TSC =
  '--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --target esnext --types node'

/** Compiles without NODE_OPTIONS, because tsc cannot load the modules that the test runner names there. */
async function compile(file: string): Promise<void> {
  const words = [...TSC.split(' '), '--allowImportingTsExtensions', file]
  const env = { PATH: process.env['PATH'] ?? '' }
  await run('env', ['-u', 'NODE_OPTIONS', 'node_modules/.bin/tsc', ...words], { env })
}

const PREAMBLE = `import createClient from 'openapi-fetch'
import type { paths, WebhookEvent } from './receivables-api.ts'
const client = createClient<paths>({ baseUrl: '' })
`
const ALLOWED = `
export const keyed = client.POST('/api/v1/payments', {
  params: { header: { 'Idempotency-Key': 'x' } },
  body: { amount: 1, currency: 'EUR', debtor_id: 'deb_1' },
})
export const amountOf = (event: WebhookEvent) =>
  event.type === 'payment.recorded' ? event.data.object.amount : undefined
`
const FORBIDDEN: Record<string, [line: string, fault: RegExp]> = {
  'a payment without an Idempotency-Key': [
    "client.POST('/api/v1/payments', { body: { amount: 1, currency: 'EUR' } })",
    /Property 'params' is missing/,
  ],
  'a misspelled filter': [
    "client.GET('/api/v1/invoices', { params: { query: { stauts: ['open'] } } })",
    /'stauts'/,
  ],
}

t.test('calls that the types forbid do not compile', async (t) => {
  const directory = t.testdir({ 'allowed.ts': PREAMBLE + ALLOWED })
  copyFileSync(TYPES, join(directory, 'receivables-api.ts'))
  await compile(join(directory, 'allowed.ts'))
  for (const [name, [line, fault]] of Object.entries(FORBIDDEN)) {
    const file = join(directory, 'forbidden.ts')
    writeFileSync(file, `${PREAMBLE}export const forbidden = ${line}\n`)
    await rejectsWith(t, compile(file), { code: 1, stdout: fault }, name)
  }
})

t.test('the program in the guide to clients compiles and runs', async (t) => {
  const guide = readFileSync(new URL('../../docs/clients.md', import.meta.url), 'utf8')
  const [, program = ''] = /^```ts\n(import createClient .*?)^```$/ms.exec(guide) ?? []
  const directory = t.testdir({ 'program.ts': program })
  await untilDocsAreRendered(url)
  const served = await (await fetch(`${url}/docs/receivables-api.ts`)).text()
  t.equal(
    served.replaceAll('https://api.test', 'http://localhost:8080'),
    readFileSync(TYPES, 'utf8'),
  )
  copyFileSync(TYPES, join(directory, 'receivables-api.ts'))
  await compile(join(directory, 'program.ts'))
  const env = { PATH: process.env['PATH'] ?? '', SERVICE: url, KEY: key }
  const { stdout } = await run(process.execPath, [join(directory, 'program.ts')], { env })
  matches(t, stdout, /^INV-000001 300 EUR\n$/)
})

t.test('the example integration, downloaded as the guide says, runs', async (t) => {
  const guide = readFileSync(new URL('../../docs/clients.md', import.meta.url), 'utf8')
  const [, fetching = ''] = /^```sh\n(for .*?)^```$/ms.exec(guide) ?? []
  const directory = t.testdir()
  const env = { PATH: process.env['PATH'] ?? '', RECEIVABLES_URL: url, RECEIVABLES_API_KEY: key }
  const script = fetching.replaceAll('http://127.0.0.1:8080', url)
  await run('sh', ['-euc', script], { env, cwd: directory })
  const program = join(directory, 'sync.ts')
  const { stdout } = await run(process.execPath, [program, join(directory, 'books.db')], { env })
  t.equal(stdout, 'debtors: 1\ninvoices: 1\npayments: 1\n')
  matches(t, readFileSync(join(directory, 'client.ts'), 'utf8'), containing("= 'https://api.test'"))
})
