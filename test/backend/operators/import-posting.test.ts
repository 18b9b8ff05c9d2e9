/** Imports into a service that behaves badly on purpose. */

import { createServer, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { createApi } from '../../../backend/cli/import/api.ts'
import { importLedger } from '../../../backend/cli/import/import-ledger.ts'
import { createProgress } from '../../../backend/cli/import/progress.ts'
import { dateReader } from '../../../backend/import/date-format.ts'
import { readLedger } from '../../../backend/import/ledger.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'

const HEADER = 'number,customer,issued,due,amount,settled'
const ROWS = Array.from({ length: 30 }, (_, place) => {
  const settled = place % 3 === 0 ? '' : '2013-03-01'
  return `F-${place},C-${place % 7},2013-01-02,2013-02-01,${place + 1}.07,${settled}`
})

type Kind = 'debtors' | 'invoices' | 'payments'
type Row = Record<string, unknown> & { id: string; external_id: string }
type Trouble =
  | 'reset'
  | 'reset after the write'
  | { status: number; retryAfter?: number; code?: string }

interface Call {
  /** From 1, over all calls. */
  readonly count: number
  readonly method: string
  readonly path: string
  /** Its Idempotency-Key. */
  readonly key: string | undefined
}

interface ServiceOptions {
  readonly trouble?: (call: Call) => Trouble | undefined
  readonly scopes?: readonly string[]
  readonly readOnly?: boolean
}

const SCOPES = ['debtors', 'invoices', 'payments'].flatMap((kind) => [
  `${kind}:read`,
  `${kind}:write`,
])

/** Keeps what is posted and lists it, ten a page; trouble comes as asked. */
async function startService(t: Test, options: ServiceOptions = {}) {
  const rows: Record<Kind, Row[]> = { debtors: [], invoices: [], payments: [] }
  const stored = new Map<string, Row>()
  const calls: (Call & { replayed: boolean })[] = []
  let settings = options

  function create(
    kind: Kind,
    body: Row,
    key: string,
  ): { row: Row; status: number; replayed?: true } {
    const known = stored.get(`${kind} ${key}`)
    if (known !== undefined) return { row: known, status: 201, replayed: true }
    const twin = rows[kind].find((row) => row.external_id === body.external_id)
    if (twin !== undefined) {
      return { row: { ...twin, code: 'duplicate_external_id', existing_id: twin.id }, status: 409 }
    }
    const row: Row = { ...body, id: `${kind}-${rows[kind].length}` }
    if (kind === 'invoices') {
      const debtor = rows.debtors.find(({ external_id: id }) => id === row['debtor_external_id'])
      if (debtor === undefined) return { row: { ...row, code: 'debtor_not_found' }, status: 422 }
      Object.assign(row, { debtor_id: debtor.id, amount_due: row['amount'], status: 'open' })
    }
    if (kind === 'payments') {
      const invoice = rows.invoices.find(({ id }) => id === row['invoice_id'])
      if (invoice === undefined) return { row: { ...row, code: 'invoice_not_found' }, status: 422 }
      Object.assign(invoice, { amount_due: 0, status: 'paid' })
      Object.assign(row, { status: 'recorded', allocations: [{ invoice_id: invoice.id }] })
    }
    rows[kind].push(row)
    stored.set(`${kind} ${key}`, row)
    return { row, status: 201 }
  }

  function respond(res: ServerResponse, status: number, body: object, more: object = {}) {
    res.writeHead(status, {
      'content-type': 'application/json',
      'x-ratelimit-limit': '600',
      ...more,
    })
    res.end(JSON.stringify(body))
  }

  const server = createServer(async (req, res) => {
    const url = new URL(req.url ?? '', 'http://fake')
    const kind = (url.pathname.split('/')[3] ?? '') as Kind
    const body = await text(req)
    const key = req.headers['idempotency-key']?.toString()
    const call = { count: calls.length + 1, method: req.method ?? '', path: url.pathname, key }
    const trouble = settings.trouble?.(call)
    const replayed = stored.has(`${kind} ${key}`)
    calls.push({ ...call, replayed })
    if (trouble === 'reset') return req.socket.destroy()
    if (typeof trouble === 'object') {
      const { status, code = 'internal_error', retryAfter } = trouble
      const after = retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) }
      return respond(res, status, { code, detail: 'Trouble.', request_id: 'req_1' }, after)
    }
    if (req.method === 'POST') {
      const { row, status, replayed } = create(kind, JSON.parse(body), key ?? '')
      if (trouble === 'reset after the write') return req.socket.destroy()
      return respond(res, status, row, replayed ? { 'idempotent-replayed': 'true' } : {})
    }
    if (url.pathname === '/api/v1/me') {
      return respond(res, 200, {
        account: { id: 'acct_1', name: 'Acme Ltd', read_only: settings.readOnly ?? false },
        key: { label: 'ERP', prefix: 'rcv_1', rate_limit: 600, scopes: settings.scopes ?? SCOPES },
      })
    }
    const from = Number(url.searchParams.get('cursor') ?? 0)
    const more = rows[kind].length > from + 10
    const data = rows[kind].slice(from, from + 10)
    respond(res, 200, { data, has_more: more, next_cursor: more ? String(from + 10) : null })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  return {
    url: `http://127.0.0.1:${port}`,
    rows,
    calls,
    behave(next: ServiceOptions) {
      settings = next
      calls.length = 0
    },
  }
}

type Service = Awaited<ReturnType<typeof startService>>

interface Run {
  readonly rows?: readonly string[]
  readonly dryRun?: boolean
  readonly stop?: AbortSignal
}

async function runImport(service: Service, { rows = ROWS, dryRun = false, stop }: Run = {}) {
  const ledger = readLedger(Buffer.from([HEADER, ...rows].join('\n')), {
    currency: 'USD',
    dateFormat: 'YYYY-MM-DD',
    readDate: dateReader('YYYY-MM-DD'),
    decimalMark: '.',
    columns: new Map(),
    now: new Date('2026-11-21T10:15:00.000Z'),
  })
  const shown: string[] = []
  const progress = createProgress({ write: (line) => shown.push(line) })
  const api = createApi({
    baseUrl: service.url,
    key: 'rcv_test',
    connections: 4,
    stop: stop ?? new AbortController().signal,
    onWait: (reason, untilMs) => progress.wait(reason, untilMs),
    retryDelaysMs: [1, 1, 1, 1],
  })
  try {
    const file = 'ledger.csv'
    const output = await importLedger({
      file,
      ledger,
      api,
      progress,
      concurrency: 4,
      chaseOverdue: false,
      dryRun,
    })
    return { ...output, shown: shown.join('') }
  } finally {
    await api.close()
  }
}

function countsOf(rows: Readonly<Record<Kind, readonly Row[]>>) {
  const { debtors, invoices, payments } = rows
  return { debtors: debtors.length, invoices: invoices.length, payments: payments.length }
}

t.test('records every row once, and says that file and service agree', async (t) => {
  const service = await startService(t)
  const { json, text: report, failed, shown } = await runImport(service)
  t.equal(failed, false)
  t.strictSame(countsOf(service.rows), { debtors: 7, invoices: 30, payments: 20 })
  matches(t, service.rows.payments[0], {
    ...{ external_id: 'settlement:F-1', amount: 207, currency: 'USD', received_on: '2013-03-01' },
  })
  t.ok(
    service.rows.invoices.every((row) => row['chase_if_overdue'] === false),
    'what is past due is history',
  )
  matches(t, json, {
    ...{
      agrees: true,
      recorded: { debtors: 7, invoices: 30, payments: 20 },
      missing: { invoices: 0 },
    },
    currencies: [
      {
        currency: 'USD',
        file: { invoices: 30, invoiced: 46_710, payments: 20, paid: 32_140, open: 14_570 },
        service: { invoices: 30, invoiced: 46_710, payments: 20, paid: 32_140, open: 14_570 },
      },
    ],
  })
  matches(t, report, /open +145.70 +145.70/)
  matches(t, shown, /Acme Ltd \(acct_1\), key ERP \(rcv_1\)/)
  matches(t, shown, /7 customers, 30 invoices, 20 payments: 60 calls/)
})

t.test('a second run posts nothing', async (t) => {
  const service = await startService(t)
  await runImport(service)
  service.behave({})
  matches(t, await runImport(service), {
    failed: false,
    json: { agrees: true, recorded: { invoices: 0 } },
  })
  t.strictSame(
    service.calls.filter(({ method }) => method === 'POST'),
    [],
  )
})

t.test('calls with errors, resets and lost responses are repeated with the same key', async (t) => {
  const troubles: Trouble[] = [
    ...(['reset', 'reset after the write', { status: 500 }] as const),
    ...[{ status: 502 }, { status: 503, retryAfter: 0 }, { status: 504 }, { status: 408 }],
    { status: 409, retryAfter: 0, code: 'idempotency_in_progress' },
  ]
  const troubled = new Set<string | undefined>([undefined])
  const service = await startService(t, {
    trouble({ key }) {
      if (troubled.has(key)) return undefined
      troubled.add(key)
      return troubles[troubled.size % troubles.length]
    },
  })
  matches(t, await runImport(service), {
    failed: false,
    json: { recorded: { debtors: 7, invoices: 30, payments: 20 } },
  })
  t.strictSame(countsOf(service.rows), { debtors: 7, invoices: 30, payments: 20 })
  t.ok(
    service.calls.some(({ replayed }) => replayed),
    'a write whose response was lost was repeated',
  )
})

t.test('two imports at once record nothing twice, and each counts what it did', async (t) => {
  const service = await startService(t)
  const runs = await Promise.all([runImport(service), runImport(service)])
  t.strictSame(countsOf(service.rows), { debtors: 7, invoices: 30, payments: 20 })
  matches(t, runs, [{ json: { agrees: true } }, { json: { agrees: true } }])
  const counts = runs.map(({ json }) => Number(JSON.stringify(json).match(/"invoices":(\d+)/)?.[1]))
  t.equal((counts[0] ?? 0) + (counts[1] ?? 0), 30)
})

t.test('a spent hour is waited for, by all calls', async (t) => {
  let limited = false
  function openLater() {
    limited = true
    const timer = setTimeout(() => {
      limited = false
    }, 500)
    t.teardown(() => clearTimeout(timer))
  }
  const service = await startService(t, {
    trouble({ count }) {
      if (count === 20) openLater()
      return limited ? { status: 429, retryAfter: 1, code: 'rate_limit_exceeded' } : undefined
    },
  })
  matches(t, await runImport(service), { failed: false, json: { agrees: true } })
  const refused = service.calls.filter(({ count }) => count >= 20).length - (1 + 57 + 7 - 19)
  t.ok(refused <= 4, `no more calls than were on their way met the limit: ${refused}`)
})

t.test(
  'a service that stays unavailable ends the import, and the next run continues',
  async (t) => {
    const service = await startService(t, {
      trouble: ({ count }) =>
        count > 25 ? { status: 503, code: 'service_unavailable' } : undefined,
    })
    await rejectsWith(t, runImport(service), {
      name: 'ImportStopped',
      message:
        /failed 5 times: POST \/api\/v1\/\w+: 503 service_unavailable.*Run the same command again/,
    })
    const there = service.rows.invoices.length
    t.ok(there > 0 && there < 30)
    service.behave({})
    matches(t, await runImport(service), {
      failed: false,
      json: { recorded: { invoices: 30 - there } },
    })
  },
)

t.test('what waiting cannot cure ends the import at once', async (t) => {
  for (const [status, code] of [
    [401, 'revoked_api_key'],
    [403, 'insufficient_scope'],
    [423, 'account_read_only'],
  ] as const) {
    const service = await startService(t, {
      trouble: ({ count }) => (count > 10 ? { status, code } : undefined),
    })
    await rejectsWith(t, runImport(service), {
      message: new RegExp(`${status} ${code}: Trouble. \\(req_1\\)`),
    })
    t.ok(service.calls.length <= 14, 'only what was on its way was sent')
  }
})

t.test('a key or account that cannot write is rejected before anything is sent', async (t) => {
  const scopes = SCOPES.filter((scope) => scope !== 'payments:write')
  await rejectsWith(t, runImport(await startService(t, { scopes })), {
    message: /lacks payments:write/,
  })
  await rejectsWith(t, runImport(await startService(t, { readOnly: true })), {
    message: /read-only/,
  })
})

t.test('asked to stop, it ends the calls on their way and sends nothing more', async (t) => {
  const stop = new AbortController()
  const service = await startService(t, {
    trouble({ count }) {
      if (count === 20) stop.abort()
      return undefined
    },
  })
  await rejectsWith(t, runImport(service, { stop: stop.signal }), {
    message: /Stopped as asked.*Run the same/,
  })
  t.ok(service.calls.length <= 23)
  service.behave({})
  matches(t, await runImport(service), { failed: false, json: { agrees: true } })
})

t.test('what differs is reported, and no money is recorded on top of it', async (t) => {
  const service = await startService(t)
  await runImport(service, { rows: ROWS.slice(0, 3) })
  const rows = [
    'F-0,C-0,2013-01-02,2013-02-01,2.07,2013-03-01',
    'F-1,C-1,2013-01-02,2013-02-02,2.07,2013-03-02',
    'F-2,C-1,2013-01-02,2013-02-01,3.07,',
  ]
  service.behave({})
  const { failed, json, text: report } = await runImport(service, { rows })
  t.equal(failed, true)
  matches(t, json, {
    agrees: false,
    differences: [
      { line: 2, record: 'invoice F-0', field: 'amount', file: 'USD 2.07', service: 'USD 1.07' },
      { line: 3, record: 'invoice F-1', field: 'due date', service: '2013-02-01' },
      {
        record: 'payment settlement:F-1',
        field: 'settled',
        file: '2013-03-02',
        service: '2013-03-01',
      },
      { record: 'invoice F-2', field: 'customer', file: 'C-1', service: 'C-2' },
      { record: 'payment settlement:F-2', field: 'settled', file: 'no', service: '2013-03-01' },
    ],
  })
  matches(t, report, /line 2, invoice F-0: amount is USD 2.07 in the file, USD 1.07 at the service/)
  t.strictSame(
    service.calls.filter(({ method }) => method === 'POST'),
    [],
  )
})

t.test('a record that is refused is named, and the others are recorded', async (t) => {
  const service = await startService(t, {
    trouble: ({ key }) =>
      key === 'import-invoices-F-2' ? { status: 422, code: 'validation_failed' } : undefined,
  })
  const { failed, json } = await runImport(service)
  t.equal(failed, true)
  matches(t, json, {
    recorded: { invoices: 29, payments: 19 },
    refusals: [{ code: 'validation_failed', detail: 'Trouble.' }],
  })
})

t.test('a dry run posts nothing and shows what is missing', async (t) => {
  const service = await startService(t)
  matches(t, await runImport(service, { dryRun: true }), {
    failed: false,
    json: { dry_run: true, missing: { customers: 7, invoices: 30, payments: 20 } },
  })
  t.strictSame(service.rows.debtors, [])
})
