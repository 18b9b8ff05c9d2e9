// The import of a CSV file in Settings: the file is checked, compared, and recorded once; records can be corrected.
import t, { type Test } from 'tap'
import { listActionsOn, OPERATOR } from '../../../backend/accounts/audit.ts'
import { eraseDebtor } from '../../../backend/erasure/erasure.ts'
import { createId } from '../../../shared/contract/id.ts'
import { unescaped } from '../../fixtures/accounts/money-settings.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import {
  ADMIN,
  createUserIn,
  logIn,
  MEMBER,
  startSettings,
} from '../../fixtures/service/settings.ts'

const PATH = '/settings/import'
const HEADER = 'Invoice number,Customer ID,Customer name,Email,Invoice date,Due date,Amount,Paid on'
const ROWS = [
  '1001,C-1,Jansen Bouw,ap@jansen.example,2026-10-01,2026-10-31,1250.00,',
  '1002,C-1,,,2026-11-01,2026-12-01,480.50,',
  '1003,"=HYPERLINK(""x"")",<b>Globex</b>,,2026-09-01,2026-09-15,99.95,2026-09-20',
]
const FILE = [HEADER, ...ROWS].join('\r\n')
const OPTIONS = { date_format: 'YYYY-MM-DD', currency: 'EUR' }

async function startImporting(t: Test, overrides: Parameters<typeof startSettings>[1] = {}) {
  const { backend, account } = await startSettings(t, overrides)
  const key = await backend.issueKey(account.id)
  const ada = await logIn(backend, ADMIN)
  const send = (file: string, more: object = {}) =>
    ada.send('POST', PATH, { ...OPTIONS, file, ...more })
  /** Sends the form as a browser does. */
  async function upload(file: string | Uint8Array<ArrayBuffer>, more: Record<string, string> = {}) {
    const form = new FormData()
    for (const [name, value] of Object.entries({ csrf_token: ada.csrf, ...OPTIONS, ...more })) {
      form.set(name, value)
    }
    form.set('file', new File([file], 'ledger.csv', { type: 'text/csv' }))
    const encoded = new Response(form)
    return backend.request('POST', PATH, {
      headers: {
        ...{ accept: 'text/html', cookie: ada.cookie },
        'content-type': String(encoded.headers.get('content-type')),
      },
      body: Buffer.from(await encoded.arrayBuffer()),
    })
  }
  const list = async (path: string) =>
    (await backend.call(key, 'GET', `/api/v1/${path}`)).json['data'] as Json[]
  const create = async (path: string, body: object): Promise<Json> =>
    (await backend.call(key, 'POST', `/api/v1/${path}`, { body })).json
  return { backend, account, ada, send, upload, list, create }
}

t.test('a file is first compared, and then recorded only once', async (t) => {
  const { send, list, ada } = await startImporting(t)
  const preview = await send(FILE)
  t.equal(preview.status, 200)
  t.strictSame(preview.json['missing'], { customers: 2, invoices: 3, payments: 1 })
  t.strictSame(await list('invoices'), [], 'nothing is recorded by a preview')

  const [first, second] = await Promise.all([
    send(FILE, { step: 'record' }),
    send(FILE, { step: 'record' }),
  ])
  const sum = (name: string) =>
    [first, second]
      .map(({ json }) => (json['recorded'] as Record<string, number>)[name] ?? 0)
      .reduce((a, b) => a + b)
  t.strictSame(
    [sum('customers'), sum('invoices'), sum('payments')],
    [2, 3, 1],
    'a double click records each record once',
  )
  const last = await send(FILE, { step: 'record' })
  t.strictSame(last.json['missing'], { customers: 0, invoices: 0, payments: 0 })
  t.strictSame(last.json['refusals'], [])
  t.strictSame(last.json['recorded'], { customers: 0, invoices: 0, payments: 0, corrected: 0 })

  const invoices = await list('invoices?sort=created_at')
  t.strictSame(invoices.map(({ number, amount, status }) => [number, amount, status]).sort(), [
    ['1001', 125_000, 'open'],
    ['1002', 48_050, 'open'],
    ['1003', 9995, 'paid'],
  ])
  matches(t, await list('payments'), [
    { amount: 9995, received_on: '2026-09-20', recorded_by: { type: 'user' } },
  ])
  const audit = await ada.page('/settings/audit-log')
  matches(t, audit.text, /Imported a file/)
})

// Regression: an import compared the date with tomorrow in UTC, but the API compares it in the account's time zone.
t.test('a payment may be dated tomorrow in the account’s time zone', async (t) => {
  const { backend, account, send } = await startImporting(t)
  // There, 22 November begins at 10:00 UTC on 21 November.
  await backend.database.transaction((tx) =>
    tx
      .updateTable('accounts')
      .set({ timezone: 'Pacific/Kiritimati' })
      .where('id', '=', account.id)
      .execute(),
  )
  const fileWith = (paidOn: string) =>
    [HEADER, `1,C-1,,,2026-10-01,2026-10-31,5.00,${paidOn}`].join('\n')
  const { json } = await send(fileWith('2026-11-23'))
  matches(t, json, { missing: { customers: 1, invoices: 1, payments: 1 } })
  t.equal((await send(fileWith('2026-11-24'))).status, 422)
})

// Regression: an import created a second customer, because it compared "50%" as `50%25`, as it stores such an id
// itself.
t.test(
  'percent signs and underscores in the ids of customers are compared as they are',
  async (t) => {
    const { send, list, create, ada } = await startImporting(t)
    const ids = ['%', '_', '50%', 'A%20B', '%41', 'a_c', 'abc']
    for (const external_id of ids) {
      const debtor = await create('debtors', { name: `Customer ${external_id}`, external_id })
      const invoice = { number: `I ${external_id}`, currency: 'EUR', amount: 700 }
      await create('invoices', { ...invoice, debtor_id: debtor.id, issue_date: '2026-10-01' })
    }
    const customers = async () => (await list('debtors?limit=100')).map((row) => row.external_id)
    const known = await customers()

    const { text: exported } = await ada.get('/settings/invoices.csv?view=all')
    const again = await send(exported)
    matches(t, again.json, { missing: { customers: 0, invoices: 0, payments: 0 }, differences: [] })

    // An id with a space is stored as `A%20B`.
    const numbers = ['%', '_', '50%', 'A B', '%41', 'a_c', 'abc']
    const rows = numbers.map((id, at) => `N-${at},${id},,,2026-11-01,2026-12-01,5.00,`)
    const file = [HEADER, ...rows].join('\r\n')
    matches(t, (await send(file)).json, { missing: { customers: 0, invoices: 7 } })
    await send(file, { step: 'record' })
    t.strictSame(await customers(), known, 'no second customer is created')
    const invoices = await list('invoices?limit=100')
    for (const external_id of ids) {
      const [debtor] = await list(`debtors?external_id=${encodeURIComponent(external_id)}`)
      const numbersOf = invoices.flatMap((row) => (row.debtor_id === debtor?.id ? row.number : []))
      t.strictSame(numbersOf.sort(), [`I ${external_id}`, `N-${ids.indexOf(external_id)}`])
    }
  },
)

t.test(
  'the preview of a file says how many records it will create, and escapes its values',
  async (t) => {
    const { upload, list } = await startImporting(t)
    const { status, text } = await upload(FILE)
    t.equal(status, 200)
    matches(t, text, /The file has 3 invoices of 2 customers/)
    matches(t, text, /Record 6 records/)
    matches(
      t,
      text,
      /Columns: invoice number from <span translate="no">“[^”]+”<\/span>, customer number from/,
    )
    t.notMatch(text, /<b>Globex/)
    const recorded = await upload(FILE, { step: 'record' })
    matches(t, recorded.text, /6 records recorded or changed/)
    t.equal((await list('debtors')).length, 2)
    matches(t, (await upload(FILE)).text, /Everything in the file is already recorded/)
    const differing = await upload(FILE.replace('1250.00', '1260.00'))
    matches(t, differing.text, /1 difference<.*The import cannot remove the differences/s)
    t.notMatch(differing.text, /Everything in the file/)
  },
)

t.test('a preview that is confirmed several times starts one import', async (t) => {
  // Regression: each request started an import of its own. Taking back the last one kept the records of the others.
  const { ada, upload } = await startImporting(t)
  const preview = await upload(FILE)
  const [, import_id = ''] = /name="import_id" value="(\w+)"/.exec(preview.text) ?? []
  const confirm = () => upload(FILE, { step: 'record', import_id })
  const responses = await Promise.all([confirm(), confirm()])
  t.strictSame(
    responses.map(({ status }) => status),
    [200, 200],
  )
  matches(t, (await confirm()).text, containing(`/settings/imports/${import_id}"`))
  matches(t, (await ada.get('/settings/imports')).json['data'], [
    {
      id: import_id,
      customers: { recorded: 2 },
      invoices: { recorded: 3 },
      payments: { recorded: 1 },
    },
  ])
})

t.test('an import cannot be started with a malformed id', async (t) => {
  const { send } = await startImporting(t)
  t.equal((await send(FILE, { step: 'record', import_id: 'imp_x' })).status, 404)
})

t.test('every error is reported with its line, and nothing is recorded', async (t) => {
  const { upload, send, list } = await startImporting(t)
  const file = [HEADER, '1001,C-1,,,2026-10-01,2026-10-31,12,50,', '1002,C-1,,,1.11.2026,,x,'].join(
    '\n',
  )
  const { status, text } = await upload(file)
  t.equal(status, 422)
  matches(t, text, /Line 2: has 9 fields, but the header has 8/)
  matches(t, text, /Line 3: Invoice date &quot;1\.11\.2026&quot; must be a date that exists/)
  matches(t, (await send(file)).json, { code: 'validation_failed', status: 422 })
  t.strictSame(await list('debtors'), [])
  const unclear = await upload('Nr,Kunde,Datum,Betrag\n1,2,2026-10-01,4\n')
  t.equal(unclear.status, 422)
  matches(t, unclear.text, /no column was found for number/)
  matches(t, unclear.text, /<option value="Betrag">/, 'the columns can be chosen')
  const chosen = { column_number: 'Nr', column_customer: 'Kunde', column_issued: 'Datum' }
  const clear = await upload('Nr,Kunde,Datum,Betrag\n1,2,2026-10-01,4\n', {
    ...{ ...chosen, column_amount: 'Betrag', column_due: 'auto', column_name: '' },
  })
  matches(t, clear.text, /Record 2 records/)
  const many = await send([HEADER, ...Array(201).fill('1001,C-1,,,2026-10-01,,12,50,')].join('\n'))
  const errors = many.json['errors'] as readonly { readonly detail: string }[]
  t.strictSame([errors.length, errors.at(-1)?.detail], [201, 'And 1 more error.'])
  // Regression: the form was a page of ten megabytes, because it lists the columns for each field.
  const wide = await upload(`${'x,'.repeat(500)}\n1,2,3\n`)
  matches(t, wide.text, /The file has 501 columns, and at most 500 are possible/)
  t.notMatch(wide.text, /<option value="x">/)
  const latin = await upload(new Uint8Array([0x66, 0xfc, 0x72]))
  matches(t, latin.text, /The file is not UTF-8 text/)
  matches(t, (await upload('')).text, /Choose a CSV file/)
  const large = await send(`${HEADER}\n${'x'.repeat(950_000)}`)
  matches(t, large.json, { status: 422, detail: /larger than 950 KB/ })
})

t.test('a file of exactly 950 KB is recorded after its preview', async (t) => {
  // Regression: the browser sent the line ends of the previewed file as CRLF, and these bytes counted. The file was
  // therefore refused as too large when it was to be recorded.
  const { ada, backend, upload, list } = await startImporting(t)
  const rows = Array.from(
    { length: 20 },
    (_, n) => `${2000 + n},C-1,Jansen Bouw,,2026-10-01,2026-10-31,10.00,,${'x'.repeat(47_000)}`,
  )
  const file = [`${HEADER},Notes`, ...rows].join('\n').padEnd(950_000, 'x')
  t.equal(Buffer.byteLength(file), 950_000)
  const preview = await upload(file)
  t.equal(preview.status, 200)
  const [, shown = ''] = /<textarea name="file"[^>]*>\n(.*?)<\/textarea>/s.exec(preview.text) ?? []
  const sent = { file: unescaped(shown).replaceAll('\n', '\r\n'), file_name: 'ledger.csv' }
  for (const type of ['multipart/form-data', 'application/x-www-form-urlencoded']) {
    const fields = { csrf_token: ada.csrf, ...OPTIONS, ...sent, step: 'record' }
    const form = type === 'multipart/form-data' ? new FormData() : new URLSearchParams()
    for (const [name, value] of Object.entries(fields)) form.set(name, value)
    const encoded = new Response(form)
    const recorded = await backend.request('POST', PATH, {
      headers: {
        ...{ accept: 'text/html', cookie: ada.cookie },
        'content-type': String(encoded.headers.get('content-type')),
      },
      body: Buffer.from(await encoded.arrayBuffer()),
    })
    t.equal(recorded.status, 200, type)
  }
  t.equal((await list('invoices')).length, 20)
  matches(t, await upload(`${file}x`), { status: 422, text: /larger than 950 KB/ })
})

t.test('importing a corrected file corrects the records', async (t) => {
  const { send, list } = await startImporting(t)
  await send(FILE, { step: 'record' })
  const corrected = FILE.replace('2026-12-01', '2026-12-15').replace(
    'ap@jansen.example',
    'invoices@jansen.example',
  )
  const preview = await send(corrected)
  t.strictSame(preview.json['corrections'], [
    {
      record: 'customer C-1',
      change: 'email invoices@jansen.example instead of ap@jansen.example',
    },
    { record: 'invoice 1002', change: 'due on 2026-12-15 instead of 2026-12-01' },
  ])
  const kept = await send(corrected, { step: 'record' })
  t.equal(
    (kept.json['recorded'] as Record<string, number>)['corrected'],
    0,
    'records are corrected only on request',
  )
  const changed = await send(corrected, { step: 'record', correct: 'yes' })
  t.equal((changed.json['recorded'] as Record<string, number>)['corrected'], 2)
  t.strictSame(changed.json['corrections'], [])
  const due = (await list('invoices')).find(({ number }) => number === '1002')
  t.equal(due?.due_date, '2026-12-15')
  const jansen = (await list('debtors')).find(({ name }) => name === 'Jansen Bouw')
  t.equal(jansen?.email, 'invoices@jansen.example')
})

t.test('an erased customer is not corrected', async (t) => {
  // Regression: each preview offered to restore the name and the address, and each import reported a refusal.
  const { backend, send, list } = await startImporting(t)
  await send(FILE, { step: 'record' })
  const { id } = (await list('debtors')).find(({ name }) => name === 'Jansen Bouw') ?? {}
  const erasure = { actor: OPERATOR, clock: () => backend.now, reason: 'asked by letter' }
  await eraseDebtor(backend.database, String(id), erasure)
  matches(t, (await send(FILE)).json, { corrections: [] })
  const { json } = await send(FILE, { step: 'record', correct: 'yes' })
  matches(t, json, { corrections: [], refusals: [] })
})

// Regression: a payment was not recorded if the due date of its invoice differed from the file, so that the customer
// could be reminded of an invoice that was paid.
t.test(
  'a payment is recorded although the due date of its invoice differs from the file',
  async (t) => {
    const { send, list } = await startImporting(t)
    await send(FILE, { step: 'record' })
    const paid = FILE.replace('2026-12-01,480.50,', '2026-12-15,480.50,2026-11-20').replace(
      '2026-10-31,1250.00,',
      '2026-11-05,1250.00,2026-11-02',
    )
    const preview = await send(paid)
    t.strictSame(preview.json['missing'], { customers: 0, invoices: 0, payments: 2 })
    const recorded = await send(paid, { step: 'record', correct: 'yes' })
    matches(t, recorded.json, {
      recorded: { customers: 0, invoices: 0, payments: 2, corrected: 2 },
      refusals: [],
      differences: [],
      complete: true,
    })
    const invoices = await list('invoices?sort=created_at')
    t.strictSame(
      invoices.map(({ number, due_date, status }) => [number, due_date, status]).sort(),
      [
        ['1001', '2026-11-05', 'paid'],
        ['1002', '2026-12-15', 'paid'],
        ['1003', '2026-09-15', 'paid'],
      ],
    )
  },
)

t.test('a payment that was taken back from its invoice differs from the file', async (t) => {
  const { ada, send, list } = await startImporting(t)
  await send(FILE, { step: 'record' })
  const [payment] = await list('payments')
  const paid = (await list('invoices')).find(({ number }) => number === '1003')
  const path = `/settings/payments/${payment?.['id']}/take-back`
  await ada.send('POST', path, { invoice_id: paid?.['id'], reason: 'It pays something else' })
  const { json } = await send(FILE)
  const line = { line: 4, record: 'payment settlement:1003', field: 'invoice' }
  t.strictSame(json['differences'], [{ ...line, file: paid?.['id'], service: 'none' }])
  t.strictSame(json['missing'], { customers: 0, invoices: 0, payments: 0 })
})

t.test(
  'a large file is recorded in steps, each of which continues where the previous step ended',
  async (t) => {
    let ms = Date.parse('2026-11-21T10:15:00Z')
    const { send, upload } = await startImporting(t, {
      clock: () => {
        ms += 900
        return new Date(ms)
      },
    })
    const rows = Array.from({ length: 12 }, (_, n) => `${n},C-1,,,2026-11-01,2026-12-01,5.00,`)
    const file = [HEADER, ...rows].join('\n')
    const first = await upload(file, { step: 'record' })
    matches(t, first.text, /data-continue/)
    const recordedCount = /name="recorded" value="(\d+)"/.exec(first.text)?.[1] ?? ''
    t.ok(
      Number(recordedCount) > 0 && Number(recordedCount) < 13,
      'the first step records only a part',
    )
    let steps = 0
    for (; steps < 20; steps++) {
      const { json } = await send(file, { step: 'record' })
      if (json['complete'] === true) break
    }
    t.ok(steps > 0, 'the rest takes several steps')
    const { json } = await send(file)
    t.strictSame(json['missing'], { customers: 0, invoices: 0, payments: 0 })
  },
)

// Regression: the error named the members of the API, as in `/name name must …`.
t.test('the error of a rejected record names the column of the file', async (t) => {
  const { send } = await startImporting(t)
  // A customer without a name gets its id as the name, which needs visible characters.
  const row = '1,\u3164,,,2026-10-01,2026-10-31,5.00,'
  const { json } = await send([HEADER, row].join('\n'), { step: 'record' })
  matches(t, Object(json['refusals'])[0], {
    code: 'validation_failed',
    detail: /^Customer ID must [^/]*\.$/,
  })
})

// Regression: the rejected records took up the time of every step, and the import never ended.
for (const client of ['a browser', 'a script']) {
  t.test(`${client} can prevent the next step from trying rejected records again`, async (t) => {
    let ms = Date.parse('2026-11-21T10:15:00Z')
    const { send, upload, list } = await startImporting(t, {
      clock: () => {
        ms += 900
        return new Date(ms)
      },
    })
    const rows = Array.from({ length: 7 }, (_, n) => {
      // A customer needs a name with visible characters.
      const customer = n < 5 ? '\u3164'.repeat(n + 1) : '"Joe ""A"" & Co"'
      return `${n},${customer},,,2026-10-01,2026-10-31,5.00,`
    })
    const file = [HEADER, ...rows].join('\n')
    let [steps, isComplete, refusals] = [0, false, '']
    for (; !isComplete && steps < 9; steps++) {
      if (client === 'a script') {
        const { json } = await send(file, { step: 'record', refusals })
        refusals = JSON.stringify(json['refusals'])
        isComplete = json['complete'] === true
      } else {
        const { text } = await upload(file, { step: 'record', refusals })
        const [, value = ''] = /name="refusals" value="([^"]*)"/.exec(text) ?? []
        refusals = value.replaceAll('&quot;', '"').replaceAll('&amp;', '&')
        isComplete = !text.includes('data-continue')
        if (isComplete) matches(t, text, containing('10 records could not be recorded'))
      }
    }
    t.ok(isComplete && steps > 2, `${steps} steps`)
    t.equal((await list('invoices')).length, 2)
  })
}

t.test('records that earlier steps have rejected must be sent as JSON', async (t) => {
  const { send } = await startImporting(t)
  for (const refusals of ['x', '{}', '[{"record":"Customer C-1"}]']) {
    const { status, json } = await send(FILE, { step: 'record', refusals })
    matches(t, [status, json['errors']], [422, [{ pointer: '/refusals' }]], refusals)
  }
})

t.test('an import that takes several steps has one audit entry, with the totals', async (t) => {
  // Regression: each step wrote an entry with the counts of what remained.
  let ms = Date.parse('2026-11-21T10:15:00Z')
  const { backend, account, ada } = await startImporting(t, {
    clock: () => {
      ms += 900
      return new Date(ms)
    },
  })
  const import_id = createId('imp')
  const entries = async () => {
    const imported = { action: 'ledger.imported', limit: 10 } as const
    const rows = await listActionsOn(backend.database.read, account.id, import_id, imported)
    return rows.map(({ actor_label, detail }) => [actor_label, JSON.parse(detail)])
  }
  const fileOf = (from: number, to: number) =>
    [HEADER, ...numbers(from, to).map((n) => `${n},C-1,,,2026-11-01,2026-12-01,5.00,`)].join('\n')
  const numbers = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, index) => from + index)
  const step = (file: string, file_name: string, admin = ada) =>
    admin.send('POST', PATH, { ...OPTIONS, step: 'record', file, file_name, import_id })
  const may = fileOf(0, 12)
  const counts = { customers: 1, invoices: 12, payments: 0, corrections: 0 }
  const first = [ADMIN, { file: 'may.csv', ...counts }]
  let steps = 0
  for (let isComplete = false; !isComplete; steps++) {
    isComplete = (await step(may, 'may.csv')).json['complete'] === true
    t.strictSame(await entries(), [first])
  }
  t.ok(steps > 2, 'the import takes several steps')
  t.equal((await step(may, 'may.csv')).json['complete'], true)
  t.strictSame(await entries(), [first], 'a repeated step records nothing')

  matches(t, (await step(fileOf(12, 24), 'june.csv')).json, { complete: false })
  const second = [ADMIN, { file: 'june.csv', ...counts, customers: 0 }]
  t.strictSame(await entries(), [second, first], 'another file has its own entry')
  await createUserIn(backend, account.id, 'eve@acme.example', 'admin')
  const eve = await logIn(backend, 'eve@acme.example')
  await step(fileOf(12, 24), 'june.csv', eve)
  matches(t, await entries(), [['eve@acme.example', { file: 'june.csv' }], second, first])
})

t.test('only an Admin can import, and only with the CSRF token of the session', async (t) => {
  const { backend, ada, upload } = await startImporting(t)
  const mia = await logIn(backend, MEMBER)
  t.equal((await mia.send('POST', PATH, { ...OPTIONS, file: FILE })).status, 403)
  t.equal((await mia.page(PATH)).status, 403)
  t.equal((await upload(FILE, { csrf_token: 'x' })).status, 403)
  matches(t, (await ada.page(PATH)).text, /type="file"/)
})

t.test('the list of invoices that Settings exports can be imported again', async (t) => {
  // Regression: the import took the amount due for the due date, an apostrophe that prevents a formula for a part of
  // the number, and the customer's name for the customer's number. It could create the invoices and customers again.
  const file = [
    'Number,Customer ID,Issued on,Due on,Currency,Amount,Customer',
    "'-17,C 1,2026-10-01,2026-10-31,EUR,9999999999.99,Jansen; '=Bouw",
    "''-17,100%,2026-10-01,2026-10-31,KWD,1.234,'+31 Design",
    '001,\'@3,2026-10-01,2026-10-31,JPY,1000,"""Globex"", \'unquoted\'"',
  ].join('\n')
  const first = await startImporting(t)
  const second = await startImporting(t)
  await first.send(file, { step: 'record' })
  const exported = (await first.ada.page('/settings/invoices.csv')).text

  const { json } = await first.send(exported, { correct: 'yes' })
  t.strictSame(json['missing'], { customers: 0, invoices: 0, payments: 0 })
  t.strictSame([json['differences'], json['corrections']], [[], []])

  await second.send(exported, { step: 'record' })
  for (const { list } of [first, second]) {
    const debtors = await list('debtors?sort=created_at')
    t.strictSame(debtors.map(({ external_id, name }) => [external_id, name]).sort(), [
      ['100%25', '+31 Design'],
      ['@3', '"Globex", \'unquoted\''],
      ['C%201', 'Jansen; =Bouw'],
    ])
    const invoices = await list('invoices')
    t.strictSame(invoices.map(({ number, amount }) => [number, amount]).sort(), [
      ["'-17", 1234],
      ['-17', 999_999_999_999],
      ['001', 1000],
    ])
  }
})

t.test('an invoice whose number a spreadsheet has changed is not recorded again', async (t) => {
  // Regression: spreadsheets save 001 as 1, and 1E5 as 100000. The import recorded the invoices under the new numbers,
  // and created customers without invoices.
  const { ada, send, list } = await startImporting(t)
  const rows = ['001,C-1,2026-10-01,2026-10-31,10.00', '1E5,002,2026-10-01,2026-10-31,20.00']
  const file = [`Number,Customer ID,Issued on,Due on,Amount`, ...rows].join('\n')
  const { json: imported } = await send(file, { step: 'record' })
  const exported = (await ada.page('/settings/invoices.csv')).text
  const changed = exported.replace('001,', '1,').replace('1E5,', '100000,').replaceAll(',002', ',2')

  const { json } = await send(changed, { step: 'record', correct: 'yes' })
  t.strictSame(json['recorded'], { customers: 0, invoices: 0, payments: 0, corrected: 0 })
  const differences = json['differences'] as Json[]
  t.strictSame(differences.map(({ field, file, service }) => [field, file, service]).sort(), [
    ['customer', '2', '002'],
    ['number', '1', '001'],
    ['number', '100000', '1E5'],
  ])
  t.equal((await list('invoices')).length, 2)

  await ada.send('POST', `/settings/imports/${imported['import_id']}/take-back`)
  const again = await send(exported, { step: 'record' })
  matches(t, again.json, { recorded: { customers: 2, invoices: 2 }, differences: [] })
})
