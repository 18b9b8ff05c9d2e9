// If the service fails during an import, calls are repeated or delayed, or the import stops and a later run
// continues it.
import t from 'tap'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import {
  countsOf,
  runImport,
  startService,
  type Trouble,
} from '../../fixtures/service/import-service.ts'

t.test('calls with errors, resets and lost responses are repeated with the same key', async (t) => {
  const troubles: Trouble[] = [
    ...(['reset', 'reset after the write', { status: 500 }] as const),
    ...[{ status: 502 }, { status: 503, retryAfter: 0 }, { status: 504 }, { status: 408 }],
    { status: 409, retryAfter: 0, code: 'idempotency_in_progress' },
  ]
  const troubledKeys = new Set<string | undefined>([undefined])
  const service = await startService(t, {
    trouble({ idempotencyKey }) {
      if (troubledKeys.has(idempotencyKey)) return undefined
      troubledKeys.add(idempotencyKey)
      return troubles[troubledKeys.size % troubles.length]
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

t.test('after a call is rejected by the hourly limit, all calls wait', async (t) => {
  let limited = false
  function limitCallsBriefly() {
    limited = true
    const timer = setTimeout(() => {
      limited = false
    }, 500)
    t.teardown(() => clearTimeout(timer))
  }
  const service = await startService(t, {
    trouble({ count }) {
      if (count === 20) limitCallsBriefly()
      return limited ? { status: 429, retryAfter: 1, code: 'rate_limit_exceeded' } : undefined
    },
  })
  matches(t, await runImport(service), { failed: false, json: { agrees: true } })
  // Without the limit, an import reads the account, writes 57 records, and reads seven pages.
  const rejected = service.calls.length - (1 + 57 + 7)
  t.ok(rejected > 0 && rejected <= 4, `only calls in progress were rejected: ${rejected}`)
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
    const recorded = service.rows.invoices.length
    t.ok(recorded > 0 && recorded < 30)
    // Regression: without a code, a space was before the full stop.
    service.setOptions({ trouble: () => 'empty 502' })
    await rejectsWith(t, runImport(service), { message: /: 502\./ })
    service.setOptions({})
    matches(t, await runImport(service), {
      failed: false,
      json: { recorded: { invoices: 30 - recorded } },
    })
  },
)

t.test('after an error that is not retryable, an import sends no more calls', async (t) => {
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
    t.ok(service.calls.length <= 14, 'only the calls in progress were sent')
  }
})

t.test('on a signal, an import completes the calls in progress and sends no more', async (t) => {
  const stop = new AbortController()
  const service = await startService(t, {
    trouble({ count }) {
      if (count === 20) stop.abort()
      return undefined
    },
  })
  await rejectsWith(t, runImport(service, { stop: stop.signal }), {
    message: /Stopped on request.*Run the same/,
  })
  t.ok(service.calls.length <= 23)
  service.setOptions({})
  matches(t, await runImport(service), { failed: false, json: { agrees: true } })
})

// Regression: the import stopped at 32 MiB, although 200 invoices with many lines can be larger.
t.test('a page of invoices may be as large as its invoices can make it', async (t) => {
  const service = await startService(t)
  matches(t, await runImport(service), { failed: false })
  Object.assign(service.rows.invoices[0] ?? {}, { notes: 'x'.repeat(34_000_000) })
  matches(t, await runImport(service, { dryRun: true }), { failed: false })
})
