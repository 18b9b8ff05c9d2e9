// A wrong import can be taken back as a whole, except for records that have since been changed or used: the page says
// why they are kept.
import { join } from 'node:path'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { listActionsOn } from '../../../backend/accounts/audit.ts'
import { startMoneySettings, textOf } from '../../fixtures/accounts/money-settings.ts'
import { type Json, openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'
import { outputOf, runCli } from '../../fixtures/service/cli.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import {
  ADMIN,
  createUserIn,
  logIn,
  MEMBER,
  startSettings,
} from '../../fixtures/service/settings.ts'
import { byId, createSlowClock, createSyncedCopy } from '../../fixtures/service/synced-copy.ts'

const HEADER = 'Invoice number,Customer ID,Customer name,Invoice date,Due date,Amount,Paid on'
const ROWS = [
  '1001,C-1,Jansen Bouw,2026-10-01,2026-10-31,1250.00,',
  '1002,C-1,,2026-11-01,2026-12-01,480.50,',
  '1003,C-2,<b>Globex</b>,2026-09-01,2026-09-15,99.95,2026-09-20',
  '1004,C-3,Initech,2026-09-01,2026-09-15,10.00,',
]
const IMPORT = { date_format: 'YYYY-MM-DD', currency: 'EUR', step: 'record', file_name: 'may.csv' }

async function openImport(t: Test) {
  const settings = await startMoneySettings(t)
  const send = (file: string) => settings.ada.send('POST', '/settings/import', { ...IMPORT, file })
  const { json } = await send([HEADER, ...ROWS].join('\r\n'))
  const path = `/settings/imports/${json['import_id']}`
  const list = async (resource: string): Promise<Json[]> => (await settings.read(resource)).data
  return { ...settings, send, path, list, id: String(json['import_id']) }
}

t.test(
  'an import whose records are unused is taken back; the corrected file can be imported',
  async (t) => {
    const { ada, path, list, send, audit, id } = await openImport(t)
    matches(t, (await ada.get('/settings/imports')).json['data'], [
      {
        ...{ id, object: 'past_import', file_name: 'may.csv' },
        customers: { recorded: 3, taken_back: 0 },
        invoices: { recorded: 4, taken_back: 0 },
        payments: { recorded: 1, taken_back: 0 },
      },
    ])
    const page = await ada.page(path)
    matches(t, textOf(page), /1 payment is reversed\.\s+4 invoices are voided/)
    const done = await ada.send('POST', `${path}/take-back`, {})
    matches(t, done.json, {
      complete: true,
      customers: { recorded: 3, taken_back: 3 },
      can_take_back: { customers: 0, invoices: 0, payments: 0 },
      kept: [],
    })
    const invoices = await list('invoices')
    t.strictSame(
      invoices.map(({ status, external_id }) => [status, external_id]),
      Array(4).fill(['void', null]),
    )
    matches(t, await list('payments'), [{ status: 'reversed', external_id: null, revision: 2 }])
    const customers = await list('debtors?status=archived')
    t.strictSame(
      customers.map(({ external_id }) => external_id),
      [null, null, null],
    )
    const repeated = await ada.send('POST', `${path}/take-back`, {})
    matches(t, repeated.json, { complete: true, customers: { recorded: 3, taken_back: 3 } })
    const actions = (await audit()).filter((action) =>
      /ledger|voided|reversed|archived/.test(action),
    )
    const counts = [...Map.groupBy(actions, (action) => action)].map(([action, all]) => [
      action,
      all.length,
    ])
    t.strictSame(Object.fromEntries(counts), {
      'ledger.imported': 1,
      'ledger.import_taken_back': 1,
      'payment.reversed': 1,
      'invoice.voided': 4,
      'debtor.archived': 3,
    })
    const again = await send([HEADER, ...ROWS].join('\r\n').replace('480.50', '408.50'))
    matches(t, again.json, { complete: true, recorded: { customers: 3, invoices: 4, payments: 1 } })
    t.strictSame(again.json['differences'], [])
    t.not(again.json['import_id'], id)
  },
)

t.test(
  'records that were changed, paid or mentioned in a reminder are kept, and the page says why',
  async (t) => {
    const testAccount = await openTestAccount(t)
    await createUserIn(testAccount.backend, testAccount.accountId, ADMIN, 'admin')
    const ada = await logIn(testAccount.backend, ADMIN)
    const rows = [
      '1005,C-4,Hooli,2026-09-01,2026-09-15,10.00,',
      '1006,C-5,Pied Piper,2026-09-01,2026-09-15,10.00,2026-09-20',
      '1007,C-6,Umbrella,2026-09-01,2026-09-15,10.00,',
    ]
    const file = [HEADER, ...ROWS, ...rows].join('\r\n')
    const { json } = await ada.send('POST', '/settings/import', { ...IMPORT, file })
    const path = `/settings/imports/${json['import_id']}`
    const { data } = await testAccount.read('/api/v1/invoices?sort=created_at')
    const [first, second, third, fourth, , sixth, seventh] = data
    await testAccount.create('/api/v1/payments', {
      invoice_id: first.id,
      currency: 'EUR',
      amount: 100,
    })
    await ada.send('PUT', `/settings/invoices/${second.id}`, { due_date: '2026-12-24' })
    const { data: payments } = await testAccount.read(`/api/v1/payments?invoice_id=${third.id}`)
    await ada.send('POST', `/settings/payments/${payments[0].id}/reverse`, { reason: 'it bounced' })
    for (const reminded of [fourth, sixth]) {
      await testAccount.insertMessage([reminded], { status: 'delivered' })
    }
    await testAccount.create('/api/v1/payments', {
      debtor_id: seventh.debtor_id,
      currency: 'USD',
      amount: 100,
    })
    const page = await ada.page(path)
    matches(
      t,
      textOf(page),
      /These were paid separately, or their payment was changed after the import\s+1001 invoice/,
    )
    matches(t, textOf(page), /These were changed after the import\s+1002 invoice/)
    matches(
      t,
      textOf(page),
      /A reminder about these was approved, or may have reached the customer\s+1004 invoice/,
    )
    const done = await ada.submit(`${path}/take-back`, {})
    matches(t, textOf(done), /5 records taken back\./)
    const numbers = async (ids: readonly Json[]) =>
      Promise.all(
        ids.map(async ({ id }) => {
          const { number, status } = await testAccount.read(`/api/v1/invoices/${id}`)
          return `${number.replace(/ \w{6}\)$/, ')')}: ${status}`
        }),
      )
    t.strictSame(await numbers(data), [
      '1001: partially_paid',
      '1002: open',
      '1003 (taken back): void',
      '1004: open',
      '1005 (taken back): void',
      '1006: paid',
      '1007 (taken back): void',
    ])
    t.strictSame(
      ((await ada.get(path)).json['kept'] as Json[]).map(
        ({ name, reason }) => `${name}: ${reason}`,
      ),
      [
        '1001: paid',
        '1002: changed',
        '1004: reminded',
        '1006: reminded',
        'settlement:1003: closed',
        'settlement:1006: invoice_kept',
        'Jansen Bouw: other_records',
        'Initech: other_records',
        'Pied Piper: other_records',
        'Umbrella: other_records',
      ],
    )
  },
)

// Regression: these invoices were voided, although the customer may have been reminded of them.
t.test('invoices of a reminder that may have arrived, or that is approved, are kept', async (t) => {
  const { backend, accountId, insertMessage, read } = await openTestAccount(t)
  await createUserIn(backend, accountId, ADMIN, 'admin')
  const ada = await logIn(backend, ADMIN)
  const names = [
    'unknown outcome, queued',
    'unknown outcome, cancelled',
    'approved, queued',
    'queued',
  ]
  const rows = names.map((name, at) => `100${at},C-${at},"${name}",2026-09-01,2026-09-15,10.00,`)
  const file = [HEADER, ...rows].join('\r\n')
  const { json } = await ada.send('POST', '/settings/import', { ...IMPORT, file })
  const { data } = await read('/api/v1/invoices?sort=created_at')
  for (const [at, invoice] of (data as Json[]).entries()) {
    const name = names[at] ?? ''
    const message_id = await insertMessage([invoice], {
      status: name.includes('cancelled') ? 'cancelled' : 'queued',
      approval_status: name.includes('approved') ? 'approved' : null,
    })
    await backend.database.transaction((tx) =>
      tx
        .insertInto('reminders')
        .values({
          message_id,
          account_id: accountId,
          debtor_id: invoice.debtor_id,
          ...{ facts: '{}', approved_hash: null, payment_digest: null, run_at: null, lease: null },
          ...{ attempts: 1, unknown_outcomes: name.includes('unknown') ? 1 : 0 },
          planned_at: backend.now.toISOString(),
        })
        .execute(),
    )
  }
  const done = await ada.send('POST', `/settings/imports/${json['import_id']}/take-back`, {})
  const kept = (done.json['kept'] as Json[]).map(({ name, reason }) => `${name}: ${reason}`)
  t.strictSame(kept.sort(), [
    '1000: reminded',
    '1001: reminded',
    '1002: reminded',
    'approved, queued: other_records',
    'unknown outcome, cancelled: other_records',
    'unknown outcome, queued: other_records',
  ])
  const { data: voided } = await read('/api/v1/invoices?status=void')
  matches(t, voided[0].number, /^1003 \(taken back/)
})

t.test(
  'an import can be taken back even if it has long, similar numbers and line breaks in its name',
  async (t) => {
    const { ada, send, list } = await openImport(t)
    const long = 'N'.repeat(60)
    const rows = ['1', '2'].map((end) => `${long}${end},C-9,Globex,2026-10-01,2026-10-31,10.00,`)
    const file = [HEADER, ...rows].join('\n')
    const { json } = await ada.send('POST', '/settings/import', {
      ...{ ...IMPORT, file_name: 'May\u0007\nand June.csv', file },
    })
    const done = await ada.send('POST', `/settings/imports/${json['import_id']}/take-back`, {})
    matches(t, done, { status: 200, json: { complete: true, kept: [] } })
    const numbers = (await list('invoices?status=void')).map(({ number }) => String(number))
    t.equal(new Set(numbers).size, 2)
    for (const number of numbers) {
      matches(t, number, /^N+ \(taken back inv_\w+\)$/)
      t.ok(number.length <= 64)
    }
    const again = await send(file)
    matches(t, again.json, { complete: true, recorded: { customers: 1, invoices: 2 } })
  },
)

// Regression: the second take-back of the same import always ended with 500.
t.test('an import that is continued after it was taken back can be taken back again', async (t) => {
  const { ada, path, list, id } = await openImport(t)
  const takeBack = () => ada.send('POST', `${path}/take-back`, {})
  matches(t, await takeBack(), { status: 200, json: { complete: true } })
  const fields = { ...IMPORT, file: [HEADER, ...ROWS].join('\n'), import_id: id }
  const continued = await ada.send('POST', '/settings/import', fields)
  matches(t, continued.json, { complete: true, import_id: id, recorded: { invoices: 4 } })
  matches(t, await takeBack(), {
    status: 200,
    json: { complete: true, invoices: { recorded: 8, taken_back: 8 }, kept: [] },
  })
  const invoices = await list('invoices?status=void')
  t.equal(new Set(invoices.map(({ number }) => number)).size, 8)
})

t.test(
  'a payment that was reallocated to several invoices is listed once among the kept records',
  async (t) => {
    const { ada, send, list } = await openImport(t)
    const row = (number: string, paid: string) =>
      `${number},C-7,Hooli,2026-09-01,2026-09-15,9.00,${paid}`
    const { json } = await send(
      [HEADER, row('P', '2026-09-20'), row('Q', ''), row('R', '')].join('\n'),
    )
    const invoices = await list('invoices')
    const idOf = (number: string) => invoices.find((invoice) => invoice.number === number)?.id
    const [payment] = await list(`payments?invoice_id=${idOf('P')}`)
    const path = `/settings/payments/${payment?.id}`
    await ada.send('POST', `${path}/take-back`, { invoice_id: idOf('P'), reason: 'For others' })
    const allocations = ['Q', 'R'].map((number) => ({ invoice_id: idOf(number), amount: 100 }))
    await ada.send('POST', `${path}/allocate`, { allocations, idempotency_key: 'others' })
    const { kept } = (await ada.get(`/settings/imports/${json['import_id']}`)).json as Json
    t.strictSame(
      kept.map(({ name, reason }: Json) => `${name}: ${reason}`),
      ['Q: paid', 'R: paid', 'settlement:P: changed', 'Hooli: other_records'],
    )
  },
)

t.test('an import of payments that is taken back twice at once is taken back once', async (t) => {
  // Regression: one of the two ended with 409 at the first payment that the other one had reversed.
  const { ada, send, list } = await openImport(t)
  const row = (n: number, paid: string) => `Q${n},C-7,Hooli,2026-09-01,2026-09-15,9.00,${paid}`
  const fileWith = (paid: string) =>
    [HEADER, ...Array.from({ length: 20 }, (_, n) => row(n, paid))].join('\n')
  await send(fileWith(''))
  const { json } = await send(fileWith('2026-09-20'))
  const takeBack = () => ada.send('POST', `/settings/imports/${json['import_id']}/take-back`, {})
  const responses = await Promise.all([takeBack(), takeBack()])
  for (const response of responses) matches(t, response, { status: 200, json: { kept: [] } })
  const reversed = (await list('payments?limit=100')).filter(({ status }) => status === 'reversed')
  t.equal(reversed.length, 20)
})

t.test(
  'an import that is taken back in several requests has one entry in the audit log',
  async (t) => {
    // Regression: each request wrote an entry with the numbers of all records that remained.
    let ms = Date.parse('2026-11-21T10:15:00Z')
    let tickMs = 0
    const { backend, account, createUser } = await startSettings(t, {
      clock: () => {
        ms += tickMs
        return new Date(ms)
      },
    })
    const ada = await logIn(backend, ADMIN)
    await createUser(account.id, 'eve@acme.example', 'admin')
    const rows = Array.from({ length: 12 }, (_, n) => `${n},C-1,Globex,2026-11-01,2026-12-01,5.00,`)
    const file = [HEADER, ...rows].join('\n')
    const sent = (await ada.send('POST', '/settings/import', { ...IMPORT, file })).json
    const importId = String(sent['import_id'])
    const takeBack = async (admin: typeof ada) =>
      (await admin.send('POST', `/settings/imports/${importId}/take-back`, {})).json
    const entries = async () => {
      const takenBack = { action: 'ledger.import_taken_back', limit: 10 } as const
      const rows = await listActionsOn(backend.database.read, account.id, importId, takenBack)
      return rows.map(({ actor_label, detail }) => [actor_label, JSON.parse(detail)])
    }
    const detailOf = (invoices: number) => ({
      file: 'may.csv',
      customers: 1,
      invoices,
      payments: 0,
    })
    tickMs = 1_500
    for (let request = 0; request < 2; request++) {
      matches(t, await takeBack(ada), { complete: false })
      t.strictSame(await entries(), [[ADMIN, detailOf(12)]])
    }
    const { can_take_back: remaining } = (await ada.get(`/settings/imports/${importId}`))
      .json as Json
    const eve = await logIn(backend, 'eve@acme.example')
    tickMs = 0
    matches(t, await takeBack(eve), { complete: true })
    t.strictSame(
      await entries(),
      [
        ['eve@acme.example', detailOf(remaining.invoices)],
        [ADMIN, detailOf(12)],
      ],
      'another Admin who continues has an entry too',
    )
  },
)

t.test('Members and other accounts cannot take an import back', async (t) => {
  const { backend, path, ada } = await openImport(t)
  const mia = await logIn(backend, MEMBER)
  t.equal((await mia.send('POST', `${path}/take-back`, {})).status, 403)
  t.notMatch((await mia.page(path)).text, /take-back/)
  t.equal((await ada.submit(`${path}/take-back`, { csrf_token: 'x' })).status, 403)
  const other = await backend.createAccount()
  await createUserIn(backend, other.id, 'eve@other.example', 'admin')
  const eve = await logIn(backend, 'eve@other.example')
  t.equal((await eve.get(path)).status, 404)
  t.equal((await eve.send('POST', `${path}/take-back`, {})).status, 404)
  t.strictSame((await eve.get('/settings/imports')).json['data'], [])
  const file = [HEADER, ...ROWS].join('\n')
  const continued = { ...IMPORT, file, import_id: path.split('/').at(-1) }
  t.equal((await eve.send('POST', '/settings/import', continued)).status, 404)
})

t.test(
  'the link to older imports keeps the limit, and unknown parameters are rejected',
  async (t) => {
    const { ada, send } = await openImport(t)
    for (const name of ['cursor', 'file']) {
      matches(t, await ada.get(`/settings/imports?${name}=x`), {
        status: 400,
        json: { code: 'unknown_query_parameter' },
      })
    }
    await send([HEADER, '1005,C-4,Umbrella,2026-09-01,2026-09-15,1.00,'].join('\r\n'))
    const { text } = await ada.page('/settings/imports?limit=1')
    matches(t, text, /href="\/settings\/imports\?limit=1&amp;before=\w+" rel="next"/)
  },
)

/** Starts Settings on a database that the command line can open, too. */
async function openForOperator(t: Test) {
  const directory = t.testdir()
  const url = `sqlite:${join(directory, 'receivables.db')}`
  const database = await openTestDatabase(t, { url })
  const { backend, account } = await startSettings(t, { database })
  const ada = await logIn(backend, ADMIN)
  const file = [HEADER, ...ROWS].join('\n')
  const importRows = () => ada.send('POST', '/settings/import', { ...IMPORT, file })
  return { directory, database, backend, account, importRows }
}

t.test('a synchronized copy misses nothing of a long take-back by an operator', async (t) => {
  const { directory, backend, account, importRows } = await openForOperator(t)
  const { json } = await importRows()
  const key = await backend.issueKey(account.id)
  const copy = createSyncedCopy('invoices', 200, (path) => backend.call(key, 'GET', path))
  const takenBack = ['imports', 'take-back', String(json['import_id'])]
  const { clock, later, lastTime } = createSlowClock(backend.now)
  // The client's run begins ten minutes after the command, and ends before the first invoice is taken back.
  await copy.run(later(10))
  matches(t, await runCli(takenBack, { DATA_DIR: directory }, clock), { code: 0 })
  // Regression: each record got the time at which the command began, which this run considered old.
  await copy.run(lastTime())
  const all = byId(await copy.readAll())
  matches(t, all, Array(4).fill({ status: 'void' }))
  t.strictSame(byId(copy.objects), all)
})

t.test('operators list imports and take them back', async (t) => {
  const { directory, database, account, importRows } = await openForOperator(t)
  await importRows()
  const run = async (...args: string[]) =>
    JSON.parse(outputOf(await runCli([...args, '--json'], { DATA_DIR: directory })))
  const [listed] = await run('imports', 'list', '--account', account.id)
  matches(t, listed, { file_name: 'may.csv', imported_by: ADMIN, invoices: 4, taken_back: 0 })
  const takeBack = ['imports', 'take-back', listed.id]
  matches(t, await run(...takeBack, '--dry-run'), { can_take_back: 8, taken_back: 0, kept: [] })
  matches(t, await run(...takeBack), { can_take_back: 8, taken_back: 8, kept: [] })
  matches(t, await run(...takeBack), { can_take_back: 0, taken_back: 0, kept: [] })
  const [after] = await run('imports', 'list', '--account', account.id)
  t.equal(after.taken_back, 8)

  // Regression: a record that was changed during the command was counted neither as taken back nor as kept.
  const again = await importRows()
  await database.transaction((tx) =>
    sql`
      create trigger change_meanwhile after insert on audit_log
      when new.action = 'ledger.import_taken_back' begin
        insert into audit_log (id, account_id, actor_type, actor_label, subject_id, action, detail, created_at)
        select 'aud_meanwhile', account_id, 'system', 'test', id, 'invoice.edited', '{}', new.created_at
        from invoices where external_id = '1001';
      end
    `.execute(tx),
  )
  matches(t, await run('imports', 'take-back', String(again.json['import_id'])), {
    ...{ can_take_back: 8, taken_back: 6 },
    kept: [
      { name: '1001', reason: 'changed' },
      { name: 'Jansen Bouw', reason: 'other_records' },
    ],
  })
})
