/** When the gateway itself rejects a call, the response has rate-limit headers. Some of these calls are counted. */
import t from 'tap'
import { mintApiKey } from '../../shared/contract/api-key.ts'
import {
  PRINCIPAL_REJECTION_HEADER,
  type PrincipalRejection,
} from '../../shared/contract/principal.ts'
import { matches } from '../fixtures/matches.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import { startCapturingBackend } from '../fixtures/service/capturing-backend.ts'
import { exchangeBytes, startGateway } from '../fixtures/service/gateway.ts'
import { until } from '../fixtures/service/until.ts'

const backend = await startCapturingBackend(t)
const env = { LOG_LEVEL: 'error', GATEWAY_REQUEST_TIMEOUT_MS: '500' }
const gateway = await startGateway(t, backend.url, env)
const debtors = `${gateway.url}/api/v1/debtors`

const LIMIT_HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']

// Regression: the first range that matched JSON decided, so that the gateway sent a type that the client had
// excluded.
t.test('the most specific media range of Accept decides whether JSON is acceptable', async (t) => {
  const key = backend.issue(['debtors:read'], 1_000)
  const accepts: [accept: string, status: number][] = [
    ['application/json;q=0, */*', 406],
    ['*/*, application/json; q=0.000', 406],
    ['application/json;q=0, application/*;q=1', 406],
    ['application/*;q=0, */*', 406],
    ['text/html', 406],
    ['application/json, */*;q=0', 200],
    ['application/json;q=0.1, application/*;q=0', 200],
    // Regression: this header got 406, although it excludes only the media type of problems.
    ['application/problem+json;q=0, application/*', 200],
    ['application/problem+json;q=0', 406],
    ['application/*, text/html', 200],
    ['application/json;q=0, application/json', 200],
    ['application/problem+json', 200],
    ['*/*', 200],
    // Regression: an empty header, which excludes nothing, was rejected.
    ['', 200],
  ]
  for (const [accept, status] of accepts) {
    t.equal((await call(debtors, { key, headers: { accept } })).status, status, accept)
  }
})

/** Requests that are rejected before they are counted. */
const UNCOUNTED: [what: string, status: number, bytes: (authorization: string) => string][] = [
  [
    'a head with two hosts',
    400,
    (authorization) => `GET /api/v1/me HTTP/1.1\r\nHost: a\r\nHost: a\r\n${authorization}\r\n`,
  ],
  [
    'a target that is too long',
    414,
    (authorization) => `GET /${'a'.repeat(9_000)} HTTP/1.1\r\nHost: a\r\n${authorization}\r\n`,
  ],
  [
    'too many headers',
    431,
    (authorization) =>
      `GET /api/v1/me HTTP/1.1\r\nHost: a\r\n${'X: y\r\n'.repeat(110)}${authorization}\r\n`,
  ],
  [
    'a malformed body',
    400,
    (authorization) =>
      `POST /api/v1/debtors HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n${authorization}\r\nzz\r\n`,
  ],
  [
    'a slow body',
    408,
    (authorization) =>
      `POST /api/v1/debtors HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n${authorization}\r\n{`,
  ],
]

// Regression: such responses said that no calls were left, although 599 were.
t.test(
  'a call that is rejected and not counted shows the last known allowance in its headers',
  async (t) => {
    const key = backend.issue()
    const { headers } = await call(debtors, { key })
    for (const [what, status, bytes] of UNCOUNTED) {
      const { text } = await exchangeBytes(gateway.port, bytes(`Authorization: Bearer ${key}\r\n`))
      t.strictSame(
        allowanceOf(text),
        {
          status: String(status),
          limit: '600',
          remaining: '599',
          reset: headers['x-ratelimit-reset'],
        },
        what,
      )
    }
    t.equal((await call(debtors, { key })).headers['x-ratelimit-remaining'], '598')

    const unknown = mintApiKey().secret
    for (const [what, status, bytes] of UNCOUNTED) {
      const { text } = await exchangeBytes(
        gateway.port,
        bytes(`Authorization: Bearer ${unknown}\r\n`),
      )
      const expected = {
        status: String(status),
        limit: undefined,
        remaining: '0',
        reset: undefined,
      }
      t.strictSame(allowanceOf(text), expected, `${what}, of an unknown key`)
    }
  },
)

function allowanceOf(text: string) {
  const field = (name: string) => new RegExp(`\r\n${name}: (.*)\r\n`, 'i').exec(text)?.[1]
  return {
    status: text.split(' ', 2)[1],
    limit: field('x-ratelimit-limit'),
    remaining: field('x-ratelimit-remaining'),
    reset: field('x-ratelimit-reset'),
  }
}

t.test('two Authorization headers get 401 with a challenge', async (t) => {
  const twice = 'Authorization: Bearer a\r\n'.repeat(2)
  const head = `GET /api/v1/me HTTP/1.1\r\nHost: a\r\n${twice}\r\n`
  const { text, closed } = await exchangeBytes(gateway.port, head)
  t.ok(text.startsWith('HTTP/1.1 401 '))
  t.ok(text.includes('\r\nwww-authenticate: Bearer realm="api", error="invalid_token"\r\n'))
  t.ok(closed)
})

t.test('a key in an Authorization header of another scheme is rejected', async (t) => {
  const authorization = `Apikey ${backend.issue(['debtors:read'])}`
  matches(t, await call(debtors, { headers: { authorization } }), {
    status: 401,
    json: { code: 'malformed_authorization' },
  })
})

t.test('a call whose key was revoked after it was cached shows no limit', async (t) => {
  const key = backend.issue(['debtors:read'])
  t.equal((await call(debtors, { key })).status, 200)
  backend.revoke(key)
  const { status, headers } = await call(`${gateway.url}/api/v1/invoices`, { key })
  t.strictSame(
    [status, ...LIMIT_HEADERS.map((name) => headers[name])],
    [401, undefined, '0', undefined],
  )
})

// Regression: such a call was counted under the old limit and again under the new one.
t.test('a call that is rejected after its key got another limit is counted once', async (t) => {
  const key = backend.issue(['debtors:read'])
  t.equal((await call(debtors, { key })).headers['x-ratelimit-remaining'], '599')
  backend.setRateLimit(key, 700)
  const rejected = await call(`${gateway.url}/api/v1/invoices`, { key })
  matches(t, rejected, {
    status: 403,
    headers: { 'x-ratelimit-limit': '700', 'x-ratelimit-remaining': '698' },
  })
  t.equal((await call(debtors, { key })).headers['x-ratelimit-remaining'], '697')
})

// Regression: such a call was counted, and got 429 nevertheless.
t.test('a call that was counted is not over a limit that is lowered during the call', async (t) => {
  const key = backend.issue(['debtors:read'])
  for (let calls = 0; calls < 3; calls++) await call(debtors, { key })
  backend.setRateLimit(key, 2)
  const forbidden = await call(`${gateway.url}/api/v1/invoices`, { key })
  matches(t, forbidden, {
    status: 403,
    headers: { 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '0' },
  })
  t.equal((await call(debtors, { key })).status, 429)
})

t.test('a call beyond the old limit is counted once under the new limit', async (t) => {
  const key = backend.issue(['debtors:read'], 1)
  t.equal((await call(debtors, { key })).status, 200)
  t.equal((await call(debtors, { key })).status, 429)
  backend.setRateLimit(key, 3)
  const { status, headers } = await call(debtors, { key })
  t.strictSame([status, headers['x-ratelimit-remaining']], [200, '1'])
})

t.test(
  'a call that is rejected because of its address shows the new limit of its key',
  async (t) => {
    const steps: [limit: number, newLimit: number, remaining: [number, number]][] = [
      // The first call after the change was counted before the gateway knew of the change.
      [600, 700, [698, 698]],
      [1, 1, [0, 0]],
      [1, 3, [2, 2]],
    ]
    for (const [limit, newLimit, remaining] of steps) {
      const key = backend.issue(['debtors:read'], limit)
      const { headers } = await call(debtors, { key })
      backend.setRateLimit(key, newLimit)
      backend.restrictAddresses(key, ['203.0.113.0/24'])
      for (const expected of remaining) {
        const rejected = await call(`${gateway.url}/api/v1/invoices`, { key })
        t.strictSame(
          [rejected.json.code, ...LIMIT_HEADERS.map((name) => rejected.headers[name])],
          ['address_not_allowed', `${newLimit}`, `${expected}`, headers['x-ratelimit-reset']],
          `${limit} → ${newLimit}`,
        )
      }
    }
  },
)

/** Makes a call during which the backend rejects its principal `times` times. */
async function callWhilePrincipalsAreRejected(reason: PrincipalRejection, times: number) {
  const forwardedBefore = backend.requests.length
  const logBefore = gateway.log().length
  let left = times
  backend.respondWith((_, res) => {
    if (left-- > 0) res.writeHead(401, { [PRINCIPAL_REJECTION_HEADER]: reason }).end()
    else res.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end('{}')
  })
  const key = backend.issue(['debtors:read'], 600)
  const { status, headers } = await call(debtors, { key })
  return {
    status,
    remaining: headers['x-ratelimit-remaining'],
    forwarded: backend.requests.length - forwardedBefore,
    log: () => gateway.log().slice(logBefore),
  }
}

// Regression: if an account was suspended and resumed during a call, the call got 503, and an operator had to "compare
// the clocks and secrets of gateway and backend".
t.test('a call during which its account changes several times is repeated', async (t) => {
  const { log, ...response } = await callWhilePrincipalsAreRejected('revision_changed', 4)
  t.strictSame(response, { status: 200, remaining: '599', forwarded: 5 })
  const endless = await callWhilePrincipalsAreRejected('revision_changed', 100)
  matches(t, endless, { status: 503, remaining: '599', forwarded: 5 })
  t.notOk((log() + endless.log()).includes('compare the clocks'))
})

t.test('a call whose principal is invalid is repeated once, and the log says why', async (t) => {
  const { log, ...response } = await callWhilePrincipalsAreRejected('principal_invalid', 2)
  t.strictSame(response, { status: 503, remaining: '599', forwarded: 2 })
  await until(() => log().includes('compare the clocks'), 'the log says what to compare')
})

t.test('with the policy deny, a 503 shows the allowance of the key', async (t) => {
  const redis = await startRedis(t)
  const denying = await startGateway(t, backend.url, {
    ...{ LOG_LEVEL: 'fatal', REDIS_URL: redis.url, RATE_LIMIT_ON_REDIS_OUTAGE: 'deny' },
  })
  const url = `${denying.url}/api/v1/debtors`
  const key = backend.issue()
  const first = await until(async () => {
    const response = await call(url, { key })
    return response.status === 200 && response
  }, 'the gateway has reached Redis')
  await redis.kill()
  matches(t, await call(url, { key }), {
    status: 503,
    headers: {
      'x-ratelimit-limit': '600',
      'x-ratelimit-remaining': '599',
      'x-ratelimit-reset': first.headers['x-ratelimit-reset'],
    },
  })
})

// Regression: such a report was sent again forever, and blocked all later reports.
t.test('a usage report that the backend rejects is dropped', async (t) => {
  backend.respondToReportsWith(400)
  const key = backend.issue(['debtors:read'])
  await call(`${gateway.url}/api/v1/invoices`, { key })
  const reportsBefore = backend.reports.length
  await until(() => backend.reports.length > reportsBefore, 'a report is rejected')
  const rejected = backend.reports.at(-1)?.batch ?? 0
  backend.respondToReportsWith(200)
  await call(`${gateway.url}/api/v1/invoices`, { key })
  await until(() => (backend.reports.at(-1)?.batch ?? 0) > rejected, 'the next report arrives')
  const { text } = await call(`http://127.0.0.1:${gateway.operationsPort}/metrics`)
  t.ok(/\nreceivables_gateway_usage_reports_rejected_total [1-9]/.test(text))
  t.equal(gateway.log().split('a backend rejects usage reports').length - 1, 1, 'logged once')
})
