import { sql } from 'kysely'
import pg from 'pg'
import t from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { announce } from '../../../backend/database/announcements.ts'
import type { Transaction } from '../../../backend/database/database.ts'
import { type OpenDatabase, openDatabase } from '../../../backend/database/open.ts'
import { PostgresAnnouncements } from '../../../backend/database/postgres/announcements.ts'
import { nextRevision } from '../../../backend/database/revision.ts'
import { createDebtor } from '../../../backend/debtors/debtors.ts'
import { eraseInTable, PERSONAL_TABLES } from '../../../backend/erasure/personal-tables.ts'
import { createIdempotency } from '../../../backend/idempotency/idempotency.ts'
import { lockInvoice } from '../../../backend/invoices/actions.ts'
import { createInvoice, findInvoice } from '../../../backend/invoices/invoices.ts'
import { recordOverdueEvents } from '../../../backend/invoices/overdue-events.ts'
import { countGuess } from '../../../backend/sessions/login-guesses.ts'
import { changeRole, countActiveAdmins, createUser } from '../../../backend/users/users.ts'
import { plainDebtor, plainInvoice } from '../../fixtures/accounts/plain-records.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { insertRow, openTestDatabase, SILENT } from '../../fixtures/service/database.ts'
import { newBarePostgresUrl, newPostgresUrl } from '../../fixtures/service/database-url.ts'
import { ADMIN, logIn, startSettings } from '../../fixtures/service/settings.ts'
import {
  concurrently,
  connect,
  openTwoDatabases,
  startTwoBackends,
} from '../../fixtures/service/two-backends.ts'
import { until } from '../../fixtures/service/until.ts'

const NOW = new Date('2026-11-21T10:15:00.000Z')
const ACTION_CONTEXT = { actor: OPERATOR, now: NOW }

t.test('backends that start together on an empty database migrate it once', async (t) => {
  const url = await newBarePostgresUrl(t)
  const opened = await Promise.all([1, 2, 3, 4].map(() => openTestDatabase(t, { url })))
  t.equal(opened.filter(({ migrated }) => migrated.length > 0).length, 1)
})

t.test('an operator’s command does not create tables in an empty database', async (t) => {
  // Regression: with the name of another database in DATABASE_URL, the command created its tables there.
  const url = await newBarePostgresUrl(t)
  const open = () => openDatabase({ url, log: SILENT, openedBy: 'operator' })
  await rejectsWith(t, open(), { message: /does not contain the tables .* cli -- migrate/ })
  await rejectsWith(t, open(), { message: /does not contain the tables/ })
})

t.test('concurrent payments through two backends never exceed the invoice', async (t) => {
  const { post, createInvoice, read } = await startTwoBackends(t)
  const invoice_id = await createInvoice(10_000)
  const body = { invoice_id, currency: 'EUR', amount: 1_000 }
  const responses = await concurrently(24, (n) => post('payments', body, `payment-${n}`, n))
  const rejected = responses.filter(({ status }) => status !== 201)
  t.equal(responses.length - rejected.length, 10)
  for (const response of rejected) {
    matches(t, response, { status: 422, json: { code: 'payment_exceeds_balance' } })
  }
  matches(t, (await read(`invoices/${invoice_id}`)).json, { status: 'paid', amount_due: 0 })
})

t.test('a client that syncs with overlap misses no change that is committed late', async (t) => {
  const { database, debtorId, post, read } = await startTwoBackends(t)
  const otherDebtorId = String((await post('debtors', { name: 'Initech' }, 'other')).json['id'])
  const change = (id: string, at: string, committed: Promise<void>, begun = () => {}) =>
    database.transaction(async (tx) => {
      const values = { phone: '+31205550142', ...nextRevision(tx, at) }
      await tx.updateTable('debtors').set(values).where('id', '=', id).execute()
      begun()
      await committed
    })
  let since = '2026-11-21T00:00:00.000Z'
  const seen = new Map<unknown, unknown>()
  /** Follows docs/syncing.md: each run reads the changes since five minutes before the previous run. */
  const run = async (at: string) => {
    const { json } = await read(`debtors?updated_since=${since}&sort=updated_at`)
    for (const { id, revision } of Object(json)['data']) seen.set(id, revision)
    since = new Date(Date.parse(at) - 5 * 60_000).toISOString()
  }
  const [begun, committed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const lateChange = change(debtorId, '2026-11-21T12:00:00.000Z', committed.promise, begun.resolve)
  await begun.promise
  await change(otherDebtorId, '2026-11-21T12:00:09.000Z', Promise.resolve())
  await run('2026-11-21T12:00:10.000Z')
  t.strictSame(
    [seen.get(debtorId), seen.get(otherDebtorId)],
    [1, 2],
    'the late change is not visible yet',
  )
  committed.resolve()
  await lateChange
  await run('2026-11-21T12:00:20.000Z')
  t.strictSame([seen.get(debtorId), seen.get(otherDebtorId)], [2, 2])
})

t.test('two backends that get the same Idempotency-Key record one payment', async (t) => {
  const { post, createInvoice, read } = await startTwoBackends(t)
  const body = { invoice_id: await createInvoice(10_000), currency: 'EUR', amount: 1_000 }
  const responses = await concurrently(16, (n) => post('payments', body, 'one-key', n))
  t.strictSame([...new Set(responses.map(({ status }) => status))], [201])
  t.equal(new Set(responses.map(({ text }) => text)).size, 1)
  const originals = responses.filter(({ headers }) => !headers.has('idempotent-replayed'))
  t.equal(originals.length, 1)
  matches(t, (await read('payments')).json['data'], [{ idempotency_key: 'one-key' }])
})

t.test(
  'an invoice number is used once, even if clients choose numbers while backends assign them',
  async (t) => {
    const { debtorId, post } = await startTwoBackends(t)
    const another = String((await post('debtors', { name: 'Initech' }, 'another')).json['id'])
    const choosesNumber = (n: number) => n % 4 === 3
    const responses = await concurrently(20, (n) => {
      const body = { debtor_id: n % 3 ? debtorId : another, currency: 'EUR', amount: 100 }
      const chosen = choosesNumber(n) ? { number: `INV-${String(n).padStart(6, '0')}` } : {}
      return post('invoices', { ...body, ...chosen }, `i-${n}`, n)
    })
    const created = responses.filter(({ status }) => status === 201)
    t.equal(new Set(created.map(({ json }) => json['number'])).size, created.length)
    for (const [n, { status, json }] of responses.entries()) {
      if (status === 201) continue
      t.ok(choosesNumber(n), 'only a number that the client chose is rejected')
      matches(t, json, { code: 'duplicate_invoice_number' })
    }
  },
)

t.test('a payment fails with 503 if another session locks its debtor for too long', async (t) => {
  const { url, debtorId, post, createInvoice, read } = await startTwoBackends(t, 2000)
  const invoice_id = await createInvoice(10_000)
  const lockHolder = await connect(t, url)
  await lockHolder.query('begin')
  await lockHolder.query('select 1 from debtors where id = $1 for update', [debtorId])
  const body = { invoice_id, currency: 'EUR', amount: 1_000 }
  const response = await post('payments', body, 'locked')
  matches(t, response, { status: 503, json: { code: 'service_unavailable' } })
  t.equal(response.headers.get('retry-after'), '1')
  t.equal((await read('debtors')).status, 200, 'reads continue')
  await lockHolder.query('rollback')
  t.equal((await post('payments', body, 'locked')).status, 201)
})

// If payments locked their account, all payments of an account would wait for one another.
t.test('a payment succeeds while another session locks its account', async (t) => {
  const { url, post, createInvoice } = await startTwoBackends(t, 2000)
  const invoice_id = await createInvoice(10_000)
  const lockHolder = await connect(t, url)
  await lockHolder.query('begin')
  await lockHolder.query('select 1 from accounts for update')
  const body = { invoice_id, currency: 'EUR', amount: 1_000 }
  t.equal((await post('payments', body, 'unlocked')).status, 201)
  await lockHolder.query('rollback')
})

t.test('background work changes no invoice while another backend changes its debtor', async (t) => {
  // Regression: the other backend, which had read an invoice before this work changed it, then wrote the same revision,
  // or marked the invoice as announced although its due date had changed.
  const [first, second] = await openTwoDatabases(t)
  const { id: accountId } = await first.transaction((tx) =>
    createAccount(tx, { name: 'Acme' }, ACTION_CONTEXT),
  )
  const owner = { accountId, isDemo: false, timezone: 'UTC', paymentTermsDays: 30 }
  const { debtor, invoice } = await first.transaction(async (tx) => {
    const debtor = await createDebtor(tx, owner, plainDebtor(), NOW)
    const input = plainInvoice({
      debtor: { id: debtor.id },
      dueDate: '2026-11-20',
      notes: 'a note',
    })
    return { debtor, invoice: await createInvoice(tx, owner, input, NOW) }
  })
  const personalTable = PERSONAL_TABLES.find(({ table }) => table === 'invoices')
  if (personalTable === undefined) throw new Error('no personal data of invoices is erased')
  for (const [name, work] of [
    ['overdue events', () => recordOverdueEvents({ database: second, log: SILENT }, NOW)],
    [
      'erasure',
      () => eraseInTable(second, personalTable, { accountId, debtorId: debtor.id }, () => NOW),
    ],
  ] as const) {
    let isDone = false
    const working = await first.transaction(async (tx) => {
      const before = await lockInvoice(tx, accountId, invoice.id)
      const started = work().finally(() => {
        isDone = true
      })
      await until(async () => isDone || (await isWaitingForLock(second)), 'the work waits')
      t.strictSame(await findInvoice(tx, accountId, invoice.id), before, name)
      return { started }
    })
    await working.started
  }
})

/** Whether a session of the database is waiting for a lock. */
async function isWaitingForLock({ read }: OpenDatabase): Promise<boolean> {
  const waiting = sql<{ pid: number }>`(
    select pid from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
  )`
  const rows = await read.selectFrom(waiting.as('waiting')).select('pid').execute()
  return rows.length > 0
}

t.test(
  'a repeated call gets 409 if the first call runs for too long at another backend',
  async (t) => {
    const [first, second] = await openTwoDatabases(t, 2000)
    const { id: accountId } = await first.transaction((tx) =>
      createAccount(tx, { name: 'Acme' }, ACTION_CONTEXT),
    )
    const attempt = { accountId, operation: 'createDebtor', key: 'k', fingerprint: 'f' }
    const locked = Promise.withResolvers<void>()
    const mayCommit = Promise.withResolvers<void>()
    const write = {
      // The idempotency key is locked first, so it is locked when this read returns.
      prepare: () => async (tx: Transaction) => {
        await tx.selectFrom('accounts').select('id').execute()
        locked.resolve()
        await mayCommit.promise
        return { resourceId: 'deb_1', body: 'the response' }
      },
      recall: async () => undefined,
      originalIdMember: 'original_id',
    }
    const clock = () => NOW
    const running = createIdempotency({ database: first, clock }).once(attempt, write)
    await locked.promise
    const otherIdempotency = createIdempotency({ database: second, clock })
    await rejectsWith(t, otherIdempotency.once(attempt, write), {
      code: 'idempotency_in_progress',
      headers: { 'retry-after': '1' },
    })
    mayCommit.resolve()
    matches(t, await running, { replayed: false })
    matches(t, await otherIdempotency.once(attempt, write), {
      replayed: true,
      body: 'the response',
    })
  },
)

t.test('other backends receive announcements, even after their connection was lost', async (t) => {
  const url = await newPostgresUrl(t)
  const [first, second] = [await openTestDatabase(t, { url }), await openTestDatabase(t, { url })]
  const operator = await connect(t, url)
  let listenerCalls = 0
  second.listen('work', () => {
    listenerCalls += 1
  })
  await until(
    () => listenerCalls === 1,
    'the call after connecting, because earlier announcements may have been missed',
  )
  await first.transaction(async (tx) => announce(tx, 'work'))
  await until(() => listenerCalls === 2, 'the announcement')
  await operator.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and query = 'listen receivables'`,
  )
  await until(() => listenerCalls === 3, 'the call after reconnecting')
  await first.transaction(async (tx) => announce(tx, 'work'))
  await until(() => listenerCalls === 4, 'the announcement')
  t.pass('one call for each connection and each announcement')
})

// Regression: each such loss opened two connections, of which one was never closed.
t.test('a connection that is lost before it listens is replaced by one connection', async (t) => {
  const url = await newPostgresUrl(t)
  const operator = await connect(t, url)
  let connections = 0
  const announcements = new PostgresAnnouncements({
    async connect() {
      const client = new pg.Client({ connectionString: url })
      client.on('error', () => {})
      await client.connect()
      connections += 1
      if (connections > 1) return client
      const { rows } = await client.query('select pg_backend_pid() as pid')
      await operator.query('select pg_terminate_backend($1)', [rows[0].pid])
      return client
    },
    query: async () => {},
  })
  let listenerCalls = 0
  announcements.listen('work', () => {
    listenerCalls += 1
  })
  await until(() => listenerCalls > 0, 'the call after connecting')
  await announcements.close()
  await until(async () => {
    const { rows } = await operator.query(
      `select 1 from pg_stat_activity
        where datname = current_database() and query = 'listen receivables'`,
    )
    return rows.length === 0
  }, 'no connection remains')
  t.equal(connections, 2)
})

t.test('deadlocked transactions are run again and succeed', async (t) => {
  const [first, second] = await openTwoDatabases(t)
  await first.transaction(async (tx) => {
    await insertRow(tx, 'a')
    await insertRow(tx, 'b')
  })
  const locked = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  let runs = 0
  const updateBoth = (database: OpenDatabase, ids: readonly [string, string], n: 0 | 1) =>
    database.transaction(async (tx) => {
      runs += 1
      const update = (id: string) =>
        tx.updateTable('audit_log').set({ detail: '[]' }).where('id', '=', id).execute()
      await update(ids[0])
      locked[n].resolve()
      await locked[n === 0 ? 1 : 0].promise
      await update(ids[1])
    })
  await Promise.all([updateBoth(first, ['a', 'b'], 0), updateBoth(second, ['b', 'a'], 1)])
  t.ok(runs > 2, `${runs} runs of two transactions`)
})

t.test('if the two last Admins become Members at the same time, one stays Admin', async (t) => {
  const [first, second] = await openTwoDatabases(t)
  const account = await first.transaction((tx) =>
    createAccount(tx, { name: 'Acme' }, ACTION_CONTEXT),
  )
  const create = (email: string) =>
    first.transaction((tx) =>
      createUser(
        tx,
        { accountId: account.id, email, role: 'admin', passwordHash: 'x' },
        ACTION_CONTEXT,
      ),
    )
  const admins = [await create('a@acme.example'), await create('b@acme.example')]
  const outcomes = await Promise.allSettled(
    admins.map(({ id }, n) =>
      (n === 0 ? first : second).transaction((tx) =>
        changeRole(tx, { accountId: account.id, id }, 'member', ACTION_CONTEXT),
      ),
    ),
  )
  t.strictSame(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  t.equal(await countActiveAdmins(first.read, account.id), 1)
})

t.test('of twenty concurrent guesses at a password, exactly five are allowed', async (t) => {
  const databases = await openTwoDatabases(t)
  const guess = { purpose: 'email', subject: 'a@acme.example', address: '192.0.2.1' } as const
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, n) =>
      databases[n % 2 === 0 ? 0 : 1].transaction((tx) => countGuess(tx, guess, NOW)),
    ),
  )
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 5)
})

t.test('a NUL character, which PostgreSQL cannot store, causes no server error', async (t) => {
  const { debtorId, post, read } = await startTwoBackends(t)
  const invoice = { debtor_id: debtorId, currency: 'EUR', amount: 100 }
  const bodies: [string, object][] = [
    ...['name', 'external_id', 'email', 'tax_id', 'language'].map((field): [string, object] => [
      'debtors',
      { name: 'Globex', [field]: 'a\0b' },
    ]),
    ['debtors', { name: 'Globex', metadata: { key: 'a\0b' } }],
    ['debtors', { name: 'Globex', metadata: { 'a\0b': 'value' } }],
    ['debtors', { name: 'Globex', address: { city: 'a\0b' } }],
    ...['number', 'external_id', 'notes', 'po_number'].map((field): [string, object] => [
      'invoices',
      { ...invoice, [field]: 'a\0b' },
    ]),
    ['invoices', { ...invoice, debtor_id: 'deb_\0' }],
    ['payments', { debtor_id: debtorId, currency: 'EUR', amount: 1, reference: 'a\0b' }],
    ['payments', { invoice_id: 'inv_\0', currency: 'EUR', amount: 1 }],
  ]
  for (const [n, [path, body]] of bodies.entries()) {
    const { status } = await post(path, body, `nul-${n}`)
    t.ok(status >= 400 && status < 500, `${path} ${JSON.stringify(body)}: ${status}`)
  }
  const paths = [
    ...['q', 'email', 'external_id', 'status'].map((name) => `debtors?${name}=a%00b`),
    ...['number', 'external_id', 'debtor_id', 'currency'].map((name) => `invoices?${name}=a%00b`),
    ...['idempotency_key', 'external_id', 'invoice_id'].map((name) => `payments?${name}=a%00b`),
    ...['debtor_id', 'invoice_id', 'channel'].map((name) => `messages?${name}=a%00b`),
    'debtors/deb_%00',
    'invoices/inv_%00',
  ]
  for (const path of paths) {
    const { status } = await read(path)
    t.ok(status < 500, `${path}: ${status}`)
  }
})

t.test('a NUL character in a form or in JSON of Settings causes no server error', async (t) => {
  const database = await openTestDatabase(t, { url: await newPostgresUrl(t) })
  const { backend, account } = await startSettings(t, { database })
  const key = await backend.issueKey(account.id)
  const create = async (path: string, body: object) => {
    const headers = { 'idempotency-key': path }
    const { json } = await backend.call(key, 'POST', `/api/v1/${path}`, { headers, body })
    return String(json['id'])
  }
  const debtor_id = await create('debtors', { name: 'Globex' })
  const payment = await create('payments', { debtor_id, currency: 'EUR', amount: 100 })
  const ada = await logIn(backend, ADMIN)
  const keyField = { idempotency_key: 'k' }
  const nul = 'a\0b'
  const importFields = { date_format: 'YYYY-MM-DD', currency: 'EUR', step: 'record', file: 'a,b' }
  for (const [path, body] of [
    ['/settings/login', { email: nul, password: 'x' }],
    ['/settings/import', { ...importFields, import_id: nul }],
    ['/settings/import', { ...importFields, file_name: nul }],
    ['/settings/payments', { debtor_id: nul, currency: 'EUR', amount: 1, ...keyField }],
    ['/settings/invoices', { debtor_id: nul, currency: 'EUR', amount: 1, ...keyField }],
    [
      `/settings/payments/${payment}/allocate`,
      { allocations: [{ invoice_id: nul, amount: 1 }], ...keyField },
    ],
    [
      `/settings/payments/${payment}/undo-allocation`,
      { allocations: [{ invoice_id: nul, amount: 1 }], ...keyField },
    ],
  ] as const) {
    matches(t, await ada.send('POST', path, body), { status: 422 }, path)
  }
  const redo = { invoice_id: nul, amount: '1', ...keyField }
  t.equal((await ada.submit(`/settings/payments/${payment}/redo-allocation`, redo)).status, 400)
})
