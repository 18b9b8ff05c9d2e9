/** Operators observe the running service through metrics, log lines and traces, and change its log level. */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { containing, matches } from '../fixtures/matches.ts'
import { startCollector } from '../fixtures/servers/collector.ts'
import { startRedis } from '../fixtures/servers/redis.ts'
import { call } from '../fixtures/service/call.ts'
import type { StartedProcess } from '../fixtures/service/process.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const redis = await startRedis(t)
const collector = await startCollector(t)
const OTEL_EXPORTER_OTLP_ENDPOINT = collector.url
const system = await startSystem(t, {
  redisUrl: redis.url,
  backends: 1,
  gatewayEnv: { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=acme' },
  backendEnv: { OTEL_EXPORTER_OTLP_ENDPOINT },
})
const [gateway] = system.gateways
if (gateway === undefined) throw new Error('no gateway')
const accountId = await system.operator.createAccount()
const key = await system.operator.issueKey(accountId, { scopes: ['debtors:read'], rateLimit: 6 })
const url = `${system.url}/api/v1`

const request = (path: string, headers: Record<string, string> = {}) =>
  call(url + path, { key: key.secret, headers })
const scrape = ({ operationsPort }: StartedProcess) =>
  call(`http://127.0.0.1:${operationsPort}/metrics`).then(({ text }) => text)

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'
const SPAN_ID = 'b7ad6b7169203331'
await request('/debtors?q=S3CR3T', { traceparent: `00-${TRACE_ID}-${SPAN_ID}-01` })
await request('/debtors/deb_S3CR3T')
await request('/invoices/inv_S3CR3T')
await call(`${url}/me`, { key: 'S3CR3T' })
await call(`${system.url}/S3CR3T`)
for (let calls = 0; calls < 4; calls++) await request('/me')

t.test('calls are counted by operation and status, rejections by code', async (t) => {
  const text = await scrape(gateway)
  for (const line of [
    'calls_total{operation="listDebtors",status="200"} 1',
    'calls_total{operation="getDebtor",status="404"} 1',
    'calls_total{operation="getInvoice",status="403"} 1',
    'calls_total{operation="getMe",status="200"} 3',
    'calls_total{operation="getMe",status="401"} 1',
    'calls_total{operation="getMe",status="429"} 1',
    'calls_total{operation="none",status="404"} 1',
    'refusals_total{status="401",code="malformed_authorization"} 1',
    'refusals_total{status="403",code="insufficient_scope"} 1',
    'refusals_total{status="429",code="rate_limit_exceeded"} 1',
    'call_duration_seconds_count{operation="getMe"} 5',
    'upstream_duration_seconds_count{operation="getMe"} 3',
    'key_lookups_total{outcome="found"} 3',
    'redis_up 1',
    'redis_spend_duration_seconds_count 7',
  ]) {
    t.ok(text.includes(`\nreceivables_gateway_${line}\n`), line)
  }
  const backend = await scrape(system.backend)
  matches(
    t,
    backend,
    containing('\nreceivables_backend_calls_total{operation="getMe",status="200"} 3\n'),
  )
  matches(
    t,
    backend,
    containing('\nreceivables_backend_problems_total{status="404",code="not_found"} 1\n'),
  )
  matches(
    t,
    backend,
    containing('\nreceivables_backend_problems_total{status="500",code="internal_error"} 0\n'),
    'the counter begins at 0, so that an alert sees the first increase',
  )
})

t.test(
  'both processes expose exactly the documented metrics, except the one that requires TLS',
  async (t) => {
    const documented = readDocumented()
    t.ok(documented.length > 40)
    for (const [process, started] of [
      ['gateway', gateway],
      ['backend', system.backend],
    ] as const) {
      const text = await scrape(started)
      assertExposition(t, text)
      const found = [...text.matchAll(/^# TYPE (receivables_\S+) (\w+)$/gm)]
      const ownMetrics = documented.filter(({ name }) =>
        new RegExp(`^receivables_(?:${process}_|(?!gateway|backend))`).test(name),
      )
      t.strictSame(
        new Set(found.map(([, name, type]) => `${name} ${type}`)),
        // The metric about the certificate is exposed only with TLS.
        new Set(
          ownMetrics
            .filter(({ name }) => !/_tls_/.test(name))
            .map(({ name, type }) => `${name} ${type}`),
        ),
      )
      for (const { name, labels } of ownMetrics) {
        const sample = new RegExp(`^${name}(?:_count)?\\{(.+)\\} `, 'm').exec(text)?.[1]
        const names = [...(sample ?? '').matchAll(/(\w+)="/g)].map(([, label]) => label)
        if (sample !== undefined) t.strictSame(names.toSorted(), labels.toSorted(), name)
      }
    }
  },
)

t.test('each call has a log line with its route, and without text from the client', async (t) => {
  const lines = await until(() => {
    const all = linesOf(gateway).filter(({ msg }) => msg === 'call')
    return all.length >= 9 && all
  }, 'each call has its log line')
  matches(t, lines[0], {
    level: 'info',
    requestId: /^req_/,
    method: 'GET',
    route: '/api/v1/debtors',
    status: 200,
    keyId: key.id,
    accountId,
    ms: Number,
    upstreamMs: Number,
    sentBytes: Number,
    backend: `http://127.0.0.1:${system.backend.port}`,
    client: '127.0.0.1',
    traceId: TRACE_ID,
  })
  matches(t, lines[2], { route: '/api/v1/invoices/{id}', status: 403, code: 'insufficient_scope' })
  matches(t, lines[3], { route: '/api/v1/me', status: 401, code: 'malformed_authorization' })
  matches(t, lines[4], { status: 404, code: 'route_not_found' })
  t.notOk('route' in (lines[4] ?? {}))
  t.notMatch(gateway.log() + system.backend.log(), 'S3CR3T')
  const ready = linesOf(gateway).filter(({ msg }) => msg === 'readiness of backend changed')
  matches(t, ready, [{ ready: true }])
  t.equal(ready.length, 1, 'the readiness of a backend is logged once')
})

t.test('the spans of a call in both processes form one trace', async (t) => {
  const spans = await until(() => {
    const spansOfTrace = collector.spans.filter(({ traceId }) => traceId === TRACE_ID)
    return spansOfTrace.length >= 5 && spansOfTrace
  }, 'the spans are exported')
  const named = (name: string, service = 'receivables-gateway') => {
    const span = spans.find((candidate) => candidate.name === name && candidate.service === service)
    if (span === undefined) throw new Error(`no span ${name} of ${service}`)
    return span
  }
  const whole = named('GET /api/v1/debtors')
  matches(t, whole, { kind: 2, parentSpanId: SPAN_ID })
  matches(t, whole.attributes, {
    'http.route': '/api/v1/debtors',
    'http.response.status_code': 200,
    'receivables.key_id': key.id,
  })
  for (const step of ['look up key', 'consume rate limit', 'forward']) {
    t.equal(named(step).parentSpanId, whole.spanId)
    t.ok(named(step).startMs >= whole.startMs && named(step).endMs <= whole.endMs)
  }
  const backend = named('GET /api/v1/debtors', 'receivables-backend')
  matches(t, backend, { kind: 2, parentSpanId: named('forward').spanId })
  t.ok(Math.abs(whole.endMs - Date.now()) < 60_000)
  matches(t, collector.headers(), { path: '/v1/traces' })
})

t.test('the log level can be changed while the process runs', async (t) => {
  const address = `http://127.0.0.1:${gateway.operationsPort}/log-level`
  const put = (body: string) => call(address, { method: 'PUT', body })
  t.equal((await call(address)).text, 'info\n')
  matches(t, await put('loud'), { status: 400, text: /must be one of fatal, error, warn/ })
  // Regression: the connection could be closed before the client received the response.
  for (let n = 0; n < 20; n++) {
    matches(t, await put('x'.repeat(1_000_000)), { status: 400 })
  }
  matches(t, await put('warn'), { status: 200, text: 'warn\n' })
  const before = gateway.log().length
  await request('/me')
  matches(t, await put('info'), { status: 200 })
  await until(() => gateway.log().length > before, 'the change is logged')
  t.notMatch(gateway.log().slice(before), '"msg":"call"')
  matches(t, await call(address, { method: 'POST', body: 'info' }), {
    status: 405,
    headers: { allow: 'GET, HEAD, PUT' },
  })
})

t.test('a process that stops exports its remaining spans', async (t) => {
  const traceId = TRACE_ID.replace('0af', 'fa0')
  await request('/me', { traceparent: `00-${traceId}-${SPAN_ID}-01` })
  t.equal(await gateway.stop(), 0)
  t.ok(collector.spans.some((span) => span.traceId === traceId))
})

function linesOf(process: StartedProcess): Record<string, unknown>[] {
  const lines = process.log().split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line))
}

/** Returns the metrics in the tables of docs/metrics.md. */
function readDocumented() {
  const page = readFileSync(new URL('../../docs/metrics.md', import.meta.url), 'utf8')
  const rows = page.matchAll(/^\| `(receivables_\w+)` \| (\w+) \|([^|]*)\|/gm)
  return [...rows].map(([, name = '', type = '', labels = '']) => ({
    name,
    type,
    labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label),
  }))
}

/** Checks Prometheus' text format: types precede samples, values are numbers, and buckets are cumulative. */
function assertExposition(t: Test, text: string): void {
  const types = new Map<string, string>()
  const buckets = new Map<string, number>()
  for (const line of text.split('\n')) {
    const [, name = '', type = ''] =
      /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line) ?? []
    if (name !== '') types.set(name, type)
    if (line === '' || line.startsWith('#')) continue
    const [, sample = '', labels = '', value = ''] =
      /^([a-z][a-z0-9_]*)(\{(?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+\})? (-?[\d.e+-]+|[+-]Inf|Nan)$/.exec(
        line,
      ) ?? []
    const base = sample.replace(/_(?:bucket|sum|count)$/, '')
    const isTyped = types.has(sample) || types.get(base) === 'histogram'
    if (!isTyped) t.fail(`not in Prometheus' text format: ${line}`)
    if (types.get(base) !== 'histogram' || !sample.endsWith('_bucket')) continue
    const series = base + labels.replace(/le="[^"]*",?/, '')
    t.ok(Number(value) >= (buckets.get(series) ?? 0), line)
    buckets.set(series, Number(value))
  }
  t.ok(types.size > 30)
}
