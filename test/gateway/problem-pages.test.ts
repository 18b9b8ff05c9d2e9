/**
 * If the gateway itself rejects a request for a page, a browser gets an error page, and other clients get the problem
 * document.
 */
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { asProblem } from '../../gateway/downstream/response.ts'
import { validateRequestHead } from '../../gateway/http1/request-head.ts'
import { createProblemPages } from '../../gateway/pages/problem-page.ts'
import { matches } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { startGateway } from '../fixtures/service/gateway.ts'
import { startRawBackend } from './fixtures/raw-backend.ts'

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const LARGE_FORM = 'x'.repeat(1024 * 1024 + 1)

const backend = await startRawBackend(t)
const { url } = await startGateway(t, backend.url, {
  LOG_LEVEL: 'fatal',
  GATEWAY_UPSTREAM_TIMEOUT_MS: '500',
})

interface Sent {
  readonly method?: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

async function send(path: string, { method = 'GET', body, headers = {} }: Sent = {}, to = url) {
  const response = await fetch(to + path, {
    method,
    headers: { accept: BROWSER, ...headers },
    ...(body === undefined ? {} : { body }),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}

function assertPage(t: Test, { headers, text }: Awaited<ReturnType<typeof send>>, words: string) {
  t.equal(headers.get('content-type'), 'text/html; charset=utf-8')
  t.equal(headers.get('cache-control'), 'no-store')
  matches(t, headers.get('content-security-policy'), /^default-src 'none'; style-src 'sha256-/)
  t.ok(text.includes('<h1>') && text.includes(words), words)
  t.ok(text.includes(headers.get('x-request-id') ?? 'no id'), 'the page has the request id')
}

// Regression: the browser showed the JSON of the problem document in each of these cases.
t.test('a form that is too large gets a page that says how large it may be', async (t) => {
  const form = { method: 'POST', body: LARGE_FORM }
  const large = await send('/settings/import', form)
  t.equal(large.status, 413)
  assertPage(t, large, 'The form is larger than 1024 KiB.')
  const other = await send('/settings/customers', {
    method: 'POST',
    body: LARGE_FORM.slice(-300_000),
  })
  t.equal(other.status, 413)
  assertPage(t, other, 'The form is larger than 256 KiB.')
})

t.test('a browser gets a 503 or 504 as an error page', async (t) => {
  const stopped = await startRawBackend(t)
  const alone = await startGateway(t, stopped.url, { LOG_LEVEL: 'fatal' })
  stopped.stop()
  const unavailable = await send('/settings', {}, alone.url)
  t.equal(unavailable.status, 503)
  t.equal(unavailable.headers.get('retry-after'), '1')
  assertPage(t, unavailable, 'This page is temporarily unavailable.')

  backend.setBehavior(() => {})
  const late = await send('/docs')
  t.equal(late.status, 504)
  assertPage(t, late, 'The page took too long to load.')
  const lateForm = await send('/settings/customers', { method: 'POST', body: 'name=Globex' })
  t.equal(lateForm.status, 504)
  assertPage(t, lateForm, 'It is not known whether the change was made.')
})

// Regression: the response said to try again. The script would have repeated an action that may have been carried out.
t.test('a script learns that the outcome of its request is unknown', async (t) => {
  const headers = { accept: 'application/json' }
  const detailOf = async (path: string, sent: Sent) =>
    JSON.parse((await send(path, { ...sent, headers })).text).detail
  const form = { method: 'POST', body: '{}' }
  for (const behavior of [() => {}, (socket: Socket) => socket.destroy()]) {
    backend.setBehavior(behavior)
    matches(t, await detailOf('/settings/api-keys', form), /^It is not known whether/)
    matches(t, await detailOf('/settings/api-keys', {}), /Try again\.$/)
  }
})

// Regression: the page that a browser got for a GET mentioned the Idempotency-Key, which only API calls have.
t.test('the page of an internal error gives no advice for API calls', async (t) => {
  const problemPage = createProblemPages(url, () => ({ prefix: '/settings', methods: [] }))
  const pageOf = (method: string) => {
    const fields = ['host', 'a', 'accept', BROWSER]
    const head = validateRequestHead({ method, target: '/settings', version: '1.1', fields })
    return String(problemPage(asProblem(new Error('unexpected')), head, 'req_1')?.body)
  }
  matches(t, pageOf('GET'), /<p>Something went wrong on our side. Try again.</)
  matches(t, pageOf('POST'), /<p>It is not known whether the change was made./)
})

t.test('the path in a page is escaped', async (t) => {
  const { status, text } = await send('/docs/a&lt', { method: 'PUT' })
  t.equal(status, 405)
  t.ok(text.includes('/docs/a&amp;lt allows'))
})

t.test('scripts, dialogs and calls of the API get the problem document', async (t) => {
  const form = { method: 'POST', body: LARGE_FORM }
  for (const [path, headers] of [
    ['/settings/import', { accept: 'application/json' }],
    ['/settings/import', { accept: '*/*' }],
    ['/settings/import', { accept: 'application/json, text/html;q=0' }],
    ['/settings/import', { 'x-dialog': '1' }],
  ] as const) {
    const rejected = await send(path, { ...form, headers })
    t.equal(rejected.headers.get('content-type'), 'application/problem+json; charset=utf-8')
    matches(t, JSON.parse(rejected.text), { code: 'payload_too_large', max_bytes: 1024 * 1024 })
  }
  const { json } = await call(`${url}/api/v1/debtors`, { headers: { accept: BROWSER } })
  t.equal(json.code, 'missing_api_key')
})
