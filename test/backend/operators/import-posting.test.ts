// An import posts every row once, and records no payment on an invoice that differs from the file.
import t from 'tap'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import {
  countsOf,
  ROWS,
  runImport,
  SCOPES,
  startService,
} from '../../fixtures/service/import-service.ts'

t.test('an import records every row once, and reports that file and service agree', async (t) => {
  const service = await startService(t)
  const { json, text: report, failed, shown } = await runImport(service)
  t.equal(failed, false)
  t.strictSame(countsOf(service.rows), { debtors: 7, invoices: 30, payments: 20 })
  matches(t, service.rows.payments[0], {
    ...{ external_id: 'settlement:F-1', amount: 207, currency: 'USD', received_on: '2013-03-01' },
  })
  t.ok(
    service.rows.invoices.every((row) => row['chase_if_overdue'] === false),
    'overdue invoices will not be chased',
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
  matches(t, shown, /Acme Ltd \(acct_1\) with the key ERP \(rcv_1\)/)
  matches(t, shown, /7 customers, 30 invoices, 20 payments\..* requires 60 calls/)
})

// Regression: the import created a second customer with the external id `50%25`.
t.test('a customer whose external id has a percent sign is found', async (t) => {
  const service = await startService(t)
  service.rows.debtors.push({ id: 'debtors-0', external_id: '50%', name: 'Half' })
  const rows = ['F-1,50%,2013-01-02,2013-02-01,1.07,', 'F-2,C 1,2013-01-02,2013-02-01,1.07,']
  matches(t, await runImport(service, { rows }), { json: { agrees: true } })
  t.strictSame(
    service.rows.debtors.map(({ external_id }) => external_id),
    ['50%', 'C%201'],
  )
  t.strictSame(
    service.rows.invoices.map((row) => row['debtor_id']),
    ['debtors-0', 'debtors-1'],
  )
})

t.test('a second run posts nothing', async (t) => {
  const service = await startService(t)
  await runImport(service)
  service.setOptions({})
  matches(t, await runImport(service), {
    failed: false,
    json: { agrees: true, recorded: { invoices: 0 } },
  })
  t.strictSame(
    service.calls.filter(({ method }) => method === 'POST'),
    [],
  )
})

t.test(
  'two concurrent imports record nothing twice, and each counts only what it recorded',
  async (t) => {
    const service = await startService(t)
    const runs = await Promise.all([runImport(service), runImport(service)])
    t.strictSame(countsOf(service.rows), { debtors: 7, invoices: 30, payments: 20 })
    matches(t, runs, [{ json: { agrees: true } }, { json: { agrees: true } }])
    const counts = runs.map(({ json }) =>
      Number(JSON.stringify(json).match(/"invoices":(\d+)/)?.[1]),
    )
    t.equal((counts[0] ?? 0) + (counts[1] ?? 0), 30)
  },
)

t.test('a key or account that cannot write is rejected before anything is sent', async (t) => {
  const scopes = SCOPES.filter((scope) => scope !== 'payments:write')
  for (const [options, message] of [
    [{ scopes }, /lacks the scopes payments:write/],
    [{ readOnly: true }, /read-only/],
  ] as const) {
    const service = await startService(t, options)
    await rejectsWith(t, runImport(service), { message })
    t.notOk(service.calls.some(({ method }) => method === 'POST'))
  }
})

t.test(
  'differences are reported, and no payment is recorded on invoices that differ',
  async (t) => {
    const service = await startService(t)
    await runImport(service, { rows: ROWS.slice(0, 3) })
    const rows = [
      'F-0,C-0,2013-01-02,2013-02-01,2.07,2013-03-01',
      'F-1,C-1,2013-01-02,2013-02-02,2.07,2013-03-02',
      'F-2,C-1,2013-01-02,2013-02-01,3.07,',
    ]
    service.setOptions({})
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
    matches(
      t,
      report,
      /line 2, invoice F-0: amount is USD 2.07 in the file, USD 1.07 at the service/,
    )
    t.strictSame(
      service.calls.filter(({ method }) => method === 'POST'),
      [],
    )
  },
)

t.test('a rejected record is reported, and the others are recorded', async (t) => {
  const service = await startService(t, {
    trouble: ({ idempotencyKey }) =>
      idempotencyKey === 'import-invoices-F-2'
        ? { status: 422, code: 'validation_failed' }
        : undefined,
  })
  const { failed, json } = await runImport(service)
  t.equal(failed, true)
  matches(t, json, {
    recorded: { invoices: 29, payments: 19 },
    refusals: [{ code: 'validation_failed', detail: 'Trouble.' }],
  })
})

// Regression: the payment of the file was recorded on the other customer's invoice that had taken the number meanwhile.
t.test('no payment is recorded on an invoice that only has the same number', async (t) => {
  const service = await startService(t, {
    trouble: ({ idempotencyKey }) => {
      if (idempotencyKey !== 'import-invoices-F-1') return undefined
      const number = 'F-1'
      service.rows.invoices.push({
        ...{ id: 'inv_other', external_id: 'other', number, debtor_id: 'deb_other' },
        ...{ amount: 50_000, amount_due: 50_000, currency: 'USD', status: 'open' },
        ...{ issue_date: '2013-01-02', due_date: '2013-02-01' },
      })
      return undefined
    },
  })
  const { failed, json } = await runImport(service, { rows: ROWS.slice(0, 3) })
  t.equal(failed, true)
  matches(t, json, {
    recorded: { invoices: 2, payments: 1 },
    refusals: [{ record: 'line 3, invoice F-1', code: 'duplicate_invoice_number' }],
  })
  t.strictSame(
    service.rows.payments.map(({ external_id }) => external_id),
    ['settlement:F-2'],
  )
})

t.test('a dry run posts nothing and shows what is missing', async (t) => {
  const service = await startService(t)
  matches(t, await runImport(service, { dryRun: true }), {
    failed: false,
    json: { dry_run: true, missing: { customers: 7, invoices: 30, payments: 20 } },
  })
  t.strictSame(service.rows.debtors, [])
})
