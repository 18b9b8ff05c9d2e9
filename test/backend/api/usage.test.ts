import t from 'tap'
import type { IssuedApiKey } from '../../../backend/api-keys/api-keys.ts'
import { createLastUsed } from '../../../backend/api-keys/last-used.ts'
import type { UsageReport } from '../../../shared/contract/usage-report.ts'
import { matches } from '../../fixtures/matches.ts'
import { startBackend } from '../../fixtures/service/backend.ts'
import { insertRow, SILENT } from '../../fixtures/service/database.ts'
import { ADMIN, logIn, startSettings } from '../../fixtures/service/settings.ts'

const GATEWAY = 'gateway-of-the-tests'
const HOUR = '2026-11-21T10'

function reportIn(key: IssuedApiKey, overrides: Partial<UsageReport> = {}): UsageReport {
  const refused = [{ key_id: key.row.id, hour: HOUR, status_class: 4, calls: 3 }]
  return { gateway: GATEWAY, batch: 1, refused, errors: [], windows: [], ...overrides }
}

t.test('a report is applied once, even if it arrives repeatedly or out of order', async (t) => {
  const { backend, account } = await startSettings(t)
  const key = await backend.issueKey(account.id)
  const report = (overrides: Partial<UsageReport>) =>
    backend.request('POST', '/internal/usage', { body: reportIn(key, overrides) })
  matches(t, await report({}), { status: 200, json: { applied: 1 } })
  await Promise.all([report({ batch: 1 }), report({ batch: 2 }), report({ batch: 2 })])
  matches(t, await report({ batch: 1 }), { status: 200 }, 'acknowledged again')
  await report({ gateway: 'another-gateway', batch: 1 })
  await backend.call(key, 'GET', '/api/v1/me')
  const ada = await logIn(backend, ADMIN)
  const { json } = await ada.get(`/settings/api-keys/${key.row.id}`)
  matches(t, Object(json['usage']).calls_by_hour.at(-1), { succeeded: 1, refused: 9, failed: 0 })
})

t.test('the most frequent errors of a key are listed with their codes', async (t) => {
  const { backend, account } = await startSettings(t)
  const key = await backend.issueKey(account.id)
  const key_id = key.row.id
  await backend.call(key, 'GET', '/api/v1/me')
  for (const id of ['deb_1', 'deb_2']) await backend.call(key, 'GET', `/api/v1/debtors/${id}`)
  await backend.call(key, 'GET', '/api/v1/debtors?color=red')
  const errors = [
    { key_id, day: '2026-11-20', code: 'rate_limit_exceeded', calls: 7 },
    { key_id, day: '2026-11-20', code: 'not_found', calls: 1 },
    { key_id, day: '2026-09-01', code: 'bad_gateway', calls: 99 },
    { key_id: 'key_none', day: '2026-11-20', code: 'not_found', calls: 1 },
  ]
  const report = (overrides: object) =>
    backend.request('POST', '/internal/usage', { body: { ...reportIn(key), ...overrides } })
  t.equal((await report({ errors })).status, 200)
  t.equal((await report({ errors })).status, 200, 'applied once')
  const unknownCode = { key_id, day: '2026-11-20', code: 'made_up', calls: 1 }
  t.equal(
    (await report({ batch: 2, errors: [unknownCode] })).status,
    400,
    'unknown codes are rejected',
  )
  t.equal(
    (await report({ batch: 2, errors: undefined })).status,
    200,
    'older gateways do not report errors',
  )
  const ada = await logIn(backend, ADMIN)
  const { json } = await ada.get(`/settings/api-keys/${key_id}`)
  t.strictSame(Object(json['usage']).top_errors, [
    { code: 'rate_limit_exceeded', calls: 7, last_day: '2026-11-20' },
    { code: 'not_found', calls: 3, last_day: '2026-11-21' },
    { code: 'unknown_query_parameter', calls: 1, last_day: '2026-11-21' },
  ])
  t.strictSame(Object(json['usage']).calls_by_operation, [
    { operation: 'getDebtor', calls: 2, errors: 2 },
    { operation: 'getMe', calls: 1, errors: 0 },
    { operation: 'listDebtors', calls: 1, errors: 1 },
  ])
  const page = await ada.page(`/settings/api-keys/${key_id}`)
  matches(t, page.text, /href="\/docs\/errors#rate_limit_exceeded"/)
  matches(t, page.text, /<meter[^>]*value="100\.0" aria-label="Share of errors of getDebtor">/)
  backend.now = new Date(backend.now.getTime() + 25 * 3_600_000)
  const later = await (await logIn(backend, ADMIN)).get(`/settings/api-keys/${key_id}`)
  t.strictSame(
    Object(later.json['usage']).calls_by_operation,
    [],
    'only calls of the last 24 hours are counted',
  )
})

t.test('a key returns neither to a lower count of its window nor to an ended window', async (t) => {
  const { backend, account } = await startSettings(t)
  const key = await backend.issueKey(account.id)
  const ada = await logIn(backend, ADMIN)
  const window = async () => {
    const { json } = await ada.get(`/settings/api-keys/${key.row.id}`)
    return Object(json['usage']).window
  }
  let batch = 0
  const report = (used: number, ends: string) => {
    batch += 1
    const windows = [{ key_id: key.row.id, used, limit: 600, ends_at: Date.parse(ends) }]
    return backend.request('POST', '/internal/usage', { body: reportIn(key, { batch, windows }) })
  }
  t.equal(await window(), null)
  matches(t, (await ada.page(`/settings/api-keys/${key.row.id}`)).text, /since 11:00/)
  await report(12, '2026-11-21T10:40:00Z')
  await report(9, '2026-11-21T10:40:00Z')
  await report(600, '2026-11-21T09:40:00Z')
  t.strictSame(await window(), { used: 12, limit: 600, resets_at: '2026-11-21T10:40:00.000Z' })
  const page = await ada.page(`/settings/api-keys/${key.row.id}`)
  matches(t, page.text, /<strong>12<\/strong> of 600\s+<span class="hint">Resets at 11:40\./)
  backend.now = new Date('2026-11-21T10:39:20Z')
  await report(13, '2026-11-21T10:40:00Z')
  matches(t, await window(), { used: 13, resets_at: '2026-11-21T10:40:00.000Z' })
  // By the clock of Redis, which is ahead, the previous window has ended.
  await report(1, '2026-11-21T11:10:00Z')
  matches(t, await window(), { used: 1, resets_at: '2026-11-21T11:10:00.000Z' })
  backend.now = new Date('2026-11-21T11:10:00Z')
  const later = await logIn(backend, ADMIN)
  const { json } = await later.get(`/settings/api-keys/${key.row.id}`)
  t.strictSame(Object(json['usage']).window, { used: 0, limit: 600, resets_at: null })
})

// Regression: the page showed the count of the later window until this window ended, although the key's calls were
// counted in the earlier one. Then it showed both in turn, while two gateways reported them.
t.test(
  'while gateways count a key in two windows, and after that, the higher count is shown',
  async (t) => {
    const { backend, account } = await startSettings(t)
    const key = await backend.issueKey(account.id)
    const ada = await logIn(backend, ADMIN)
    const early = Date.parse('2026-11-21T10:40:00Z')
    const late = Date.parse('2026-11-21T10:50:00Z')
    let batch = 0
    const report = (...reported: readonly (readonly [used: number, ends_at: number])[]) => {
      batch += 1
      const limit = { key_id: key.row.id, limit: 600 }
      const windows = reported.map(([used, ends_at]) => ({ ...limit, used, ends_at }))
      return backend.request('POST', '/internal/usage', { body: reportIn(key, { batch, windows }) })
    }
    const window = async () => {
      const { json } = await ada.get(`/settings/api-keys/${key.row.id}`)
      return Object(json['usage']).window
    }
    await report([5, early])
    await report([3, late])
    matches(t, await window(), { used: 5, resets_at: '2026-11-21T10:40:00.000Z' })
    await report([6, late])
    matches(t, await window(), { used: 6, resets_at: '2026-11-21T10:50:00.000Z' })
    await report([9, early])
    matches(t, await window(), { used: 9, resets_at: '2026-11-21T10:40:00.000Z' })
    await report([12, early], [10, late])
    matches(t, await window(), { used: 12, resets_at: '2026-11-21T10:40:00.000Z' })
    backend.now = new Date(early)
    await report([11, late], [13, early])
    matches(t, await window(), { used: 11, resets_at: '2026-11-21T10:50:00.000Z' })
  },
)

t.test(
  'keys that do not exist are ignored in a report; a malformed report is rejected',
  async (t) => {
    const backend = await startBackend(t)
    const key = await backend.createKey()
    const refused = [
      { key_id: 'key_none', hour: HOUR, status_class: 4, calls: 1 },
      { key_id: key.row.id, hour: HOUR, status_class: 5, calls: 2 },
    ]
    const windows = [{ key_id: 'key_none', used: 1, limit: 1, ends_at: 1 }]
    const request = (body: unknown) => backend.request('POST', '/internal/usage', { body })
    t.equal((await request(reportIn(key, { refused, windows }))).status, 200)
    const rows = await backend.database.read.selectFrom('key_usage').selectAll().execute()
    t.strictSame(rows, [{ key_id: key.row.id, hour: HOUR, status_class: 5, calls: 2 }])
    const wrong: unknown[] = [
      {},
      'null',
      reportIn(key, { batch: 0 }),
      reportIn(key, { gateway: '' }),
      reportIn(key, { refused: [{ key_id: 'k', hour: 'now', status_class: 4, calls: 1 }] }),
      reportIn(key, { refused: [{ key_id: 'k', hour: HOUR, status_class: 4, calls: -1 }] }),
      { ...reportIn(key), more: 1 },
    ]
    for (const body of wrong) t.equal((await request(body)).status, 400, JSON.stringify(body))
    const unsigned = await backend.send('POST', '/internal/usage', { body: reportIn(key) })
    matches(t, unsigned, { status: 404, text: '' })
  },
)

t.test('a report of many keys is applied in batches, between other writes', async (t) => {
  const { backend, account } = await startSettings(t)
  const { database } = backend
  const reporter = await backend.issueKey(account.id)
  const keys: IssuedApiKey[] = []
  while (keys.length < 600) keys.push(await backend.issueKey(account.id))
  const ends_at = Date.parse('2026-11-21T10:40:00Z')
  const windows = keys.map(({ row }, n) => ({ key_id: row.id, used: n + 1, limit: 600, ends_at }))
  const [first] = windows
  const body = reportIn(reporter, {
    windows: [...windows, ...(first ? [first] : [])],
  })
  const before = database.activity().committed
  let isReported = false
  const response = backend.request('POST', '/internal/usage', { body }).finally(() => {
    isReported = true
  })
  let writes = 0
  while (!isReported) {
    writes += 1
    await database.transaction((tx) => insertRow(tx, `note_${writes}`))
  }
  matches(t, await response, { status: 200 })
  t.equal(
    database.activity().committed - before - writes,
    8,
    'one transaction for the counts, and seven for batches of up to 100 windows',
  )
  const rows = await database.read
    .selectFrom('key_windows')
    .select(({ fn }) => [fn.countAll().as('keys'), fn.sum('used').as('used')])
    .execute()
  t.strictSame(
    rows.map((row) => [Number(row.keys), Number(row.used)]),
    [[600, (600 * 601) / 2]],
  )
})

t.test('times of last use of many keys are written in batches, between other writes', async (t) => {
  const { backend, account } = await startSettings(t)
  const { database } = backend
  const keys = [await backend.issueKey(account.id), await backend.issueKey(account.id)]
  const lastUsed = createLastUsed(database, SILENT)
  const [early, late] = [new Date('2026-11-21T10:00:00.000Z'), new Date('2026-11-21T11:00:00.000Z')]
  const stampAll = (at: Date) => {
    for (let n = 0; n < 5000; n++) lastUsed.record(`key_unknown_${n}`, at)
    for (const { row } of keys) lastUsed.record(row.id, at)
  }
  const before = database.activity().committed
  stampAll(late)
  const order: string[] = []
  const flushed = lastUsed.flush().then(() => order.push('last uses'))
  await database.transaction((tx) => insertRow(tx, 'note_1')).then(() => order.push('other write'))
  await flushed
  t.strictSame(order, ['other write', 'last uses'])
  t.equal(database.activity().committed - before, 52, 'no batch is larger than 100')
  stampAll(early)
  await lastUsed.flush()
  const rows = await database.read
    .selectFrom('api_keys')
    .select('last_used_at')
    .where(
      'id',
      'in',
      keys.map(({ row }) => row.id),
    )
    .execute()
  const at = late.toISOString()
  t.strictSame(
    rows,
    [{ last_used_at: at }, { last_used_at: at }],
    'an earlier time does not replace a later one',
  )
})
