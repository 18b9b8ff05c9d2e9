import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import t, { type Test } from 'tap'
import { listAudit, OPERATOR } from '../../../backend/accounts/audit.ts'
import { readAnyTable } from '../../../backend/database/any-table.ts'
import { nextRevision } from '../../../backend/database/revision.ts'
import { readTableShapes, type TableShape } from '../../../backend/database/shape.ts'
import type { Reader, Transaction } from '../../../backend/database/tables.ts'
import { changeDebtor, getLockedDebtor } from '../../../backend/debtors/change.ts'
import { pauseChasing } from '../../../backend/debtors/chasing.ts'
import { suppressAddress } from '../../../backend/debtors/contactability.ts'
import { eraseDebtor } from '../../../backend/erasure/erasure.ts'
import { PERSONAL_TABLES } from '../../../backend/erasure/personal-tables.ts'
import {
  type Json,
  openTestAccount,
  type TestAccount,
} from '../../fixtures/accounts/test-account.ts'
import { openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import { startReceiver } from '../../fixtures/servers/receiver.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { ON_POSTGRES } from '../../fixtures/service/database-url.ts'
import { byId, createSlowClock, createSyncedCopy } from '../../fixtures/service/synced-copy.ts'
import { until } from '../../fixtures/service/until.ts'

/** A word that identifies the person. No other text contains it. */
const CANARY = 'zaphodbeeblebrox'

const PHONE = '+31205550142'

/** Tables without data about debtors. */
const WITHOUT_DEBTORS = `
  account_logos accounts api_keys chasing_settings due_totals imports invitations key_errors key_operations
  key_submissions key_usage key_windows kill_switches known_browsers login_guesses mail_outbox muted_notices notices
  passkey_challenges passkeys password_resets payment_details recovery_codes reminder_wordings sessions usage_reports
  users webhook_attempt_hours webhook_endpoints
`

/** The columns without personal data in the other tables, by table. */
const NOT_PERSONAL: Readonly<Record<string, string>> = {
  'any table': `
    id account_id actor_id debtor_id delivery_id endpoint_id event_id external_id import_id invoice_id message_id
    payment_id provider_message_id record_id resource_id subject_id currency due_date kind lease stage status
  `,
  // The address is that of the person who performed the action.
  audit_log: 'action actor_label actor_type address',
  debtor_standings: 'oldest_due_date',
  debtors: 'chasing_status chasing_until contactability_email ladder language timezone',
  idempotency_keys: 'fingerprint key operation',
  inbound_mail: 'digest',
  invoices: `
    chasing_blocked_reason chasing_hold chasing_hold_until chasing_next_stage chasing_stage chasing_status issue_date
    line_items number po_number
  `,
  messages: `
    approval_decided_by approval_status bounce_code bounce_type channel direction scheduled_for suppression_reason
  `,
  payments: 'effects idempotency_key method received_on recorded_by request_fingerprint source',
  reminders: 'approved_hash payment_digest',
  webhook_attempts: 'error request_headers',
  webhook_deliveries: 'event_type last_error',
  webhook_events: 'type',
}

const REASON = 'asked by letter of 20 November'

const debtorBody = {
  name: `${CANARY} & Sons`,
  external_id: 'C-1001',
  email: `${CANARY}@customer.example`,
  phone: PHONE,
  address: { line1: `${CANARY} street 1`, city: CANARY, country: 'NL' },
  tax_id: CANARY,
  company_number: CANARY,
  metadata: { owner: CANARY },
}

interface Ledger {
  readonly debtor: Json
  readonly paid: Json
  readonly open: Json
  readonly message: string
}

/** Creates records of every kind for the debtor; their texts contain the canary. */
async function fillLedger(testAccount: TestAccount, debtor: Json): Promise<Ledger> {
  const { accountId, backend } = testAccount
  const text = { notes: `for ${CANARY}`, metadata: { contact: CANARY } }
  const link = { payment_url: `https://pay.example/${CANARY}` }
  const invoice = { debtor_id: debtor.id, ...text, ...link }
  const [paid, open] = [
    await testAccount.createInvoice(invoice),
    await testAccount.createInvoice(invoice),
  ]
  const transfer = { reference: `${CANARY} INV`, metadata: { payer: CANARY } }
  const payment = { invoice_id: paid.id, currency: 'EUR', amount: 10_000, ...transfer }
  await testAccount.create('/api/v1/payments', payment)
  const texts = {
    recipient: `${CANARY}@customer.example`,
    subject: `Dear ${CANARY}`,
    body: `Dear ${CANARY}, your invoice is due.`,
    suppression_detail: `${CANARY} refused`,
  }
  await testAccount.insertMessage([paid], {
    status: 'sent',
    sent_at: backend.now.toISOString(),
    ...texts,
  })
  const message = await testAccount.insertMessage([open], { status: 'scheduled', ...texts })
  const created_at = backend.now.toISOString()
  const ids = { account_id: accountId, message_id: message }
  await backend.database.transaction(async (tx) => {
    await tx
      .insertInto('message_html')
      .values({ ...ids, html: `<p>${CANARY}</p>` })
      .execute()
    await tx
      .insertInto('message_transitions')
      .values({ ...ids, id: 't1', status: 'scheduled', detail: CANARY, created_at })
      .execute()
    await tx
      .insertInto('inbound_mail')
      .values({ ...ids, digest: 'd', kind: 'reply', sender: CANARY, received_at: created_at })
      .execute()
    const address = `${CANARY}@customer.example`
    await tx
      .insertInto('suppressed_addresses')
      .values({ ...ids, address, reason: 'bounced', detail: CANARY, created_at })
      .execute()
    const facts = JSON.stringify({ recipient: CANARY })
    const planned = { facts, run_at: null, lease: null, attempts: 0, unknown_outcomes: 0 }
    await tx
      .insertInto('reminders')
      .values({
        ...ids,
        debtor_id: debtor.id,
        approved_hash: null,
        payment_digest: null,
        planned_at: created_at,
        ...planned,
      })
      .execute()
    const pause = { reason: `${CANARY} is ill`, until: null }
    await pauseChasing(tx, accountId, debtor.id, pause, { actor: OPERATOR, now: backend.now })
  })
  return { debtor, paid, open, message }
}

const isPersonal = (value: unknown) =>
  [CANARY, PHONE].some((text) => JSON.stringify(value).includes(text))

/** Returns the name of each table with personal data, with one of the rows. */
async function findPersonalRows(read: Reader, shapes: readonly TableShape[]): Promise<string[]> {
  const found: string[] = []
  for (const { name } of shapes) {
    const rows = await readAnyTable(read).selectFrom(name).selectAll().execute()
    const row = rows.find(isPersonal)
    if (row !== undefined) found.push(`${name}: ${JSON.stringify(row)}`)
  }
  return found
}

/**
 * Returns the columns in which this test has stored no personal data, although they may contain some. Tables from
 * which erasures delete rows need no check.
 */
async function findUntested(read: Reader, shapes: readonly TableShape[]): Promise<string[]> {
  const deleted = PERSONAL_TABLES.filter((personalTable) => 'deletesRows' in personalTable).map(
    ({ table }) => table,
  )
  const unchecked = [...wordsOf(WITHOUT_DEBTORS), ...deleted]
  const untested: string[] = []
  for (const { name: table, columns } of shapes.filter(({ name }) => !unchecked.includes(name))) {
    const rows = await readAnyTable(read).selectFrom(table).selectAll().execute()
    const listed = ['any table', table].flatMap((key) => wordsOf(NOT_PERSONAL[key] ?? ''))
    const found = columns
      .filter(({ name, isText }) => isText && !name.endsWith('_at') && !listed.includes(name))
      .filter(({ name }) => !rows.some((row) => isPersonal(row[name] ?? null)))
    untested.push(...found.map(({ name }) => `${table}.${name}`))
  }
  return untested
}

const wordsOf = (text: string) => text.split(/\s+/).filter((word) => word !== '')

/** Reads the tables and columns from a SQLite database; PostgreSQL has the same. */
async function readShapesOf(t: Test, { backend }: TestAccount): Promise<TableShape[]> {
  if (!ON_POSTGRES) return backend.database.transaction(shapesIn)
  const database = await openTestDatabase(t, { url: `sqlite:${join(t.testdir(), 'tables.db')}` })
  return database.transaction(shapesIn)
}

const shapesIn = (tx: Transaction) => readTableShapes(tx as unknown as Kysely<unknown>)

function readAudit({ backend, accountId }: TestAccount) {
  const newest = { sort: 'created_at', direction: 'desc', rowsMax: 10, after: undefined } as const
  return listAudit(backend.database.read, accountId, {}, newest)
}

function erase({ backend }: TestAccount, id: string, reason = REASON) {
  return eraseDebtor(backend.database, id, { actor: OPERATOR, clock: () => backend.now, reason })
}

t.test('a synchronized copy contains no personal data after a long erasure', async (t) => {
  const testAccount = await openTestAccount(t)
  const { backend } = testAccount
  const debtor = await testAccount.createDebtor(debtorBody)
  await fillLedger(testAccount, debtor)
  const types = ['invoices', 'payments', 'messages']
  const copies = types.map((type) => createSyncedCopy(type, 200, testAccount.get))
  const { clock, later, lastTime } = createSlowClock(backend.now)
  // The client's run begins ten minutes after the command, but reads the records before they are erased.
  for (const copy of copies) await copy.run(later(10))
  await eraseDebtor(backend.database, debtor.id, { actor: OPERATOR, clock, reason: REASON })
  // Regression: each record got the time at which the command began, which this run considered old.
  for (const copy of copies) await copy.run(lastTime())
  const copied = copies.flatMap(({ objects }) => byId(objects))
  t.equal(copied.length, 5)
  t.notOk(JSON.stringify(copied).includes(CANARY))
})

t.test('after an erasure no table contains personal data, and amounts are unchanged', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const receiver = await startReceiver(t, {
    respond: ({ body }, res) => void res.writeHead(200, { 'x-echo': CANARY }).end(body),
  })
  await webhooks.createEndpoint(receiver.url)
  const { debtor, paid, open, message } = await fillLedger(
    testAccount,
    await testAccount.createDebtor(debtorBody),
  )
  const worker = webhooks.startWorker()
  await webhooks.untilAll(({ status }) => status === 'delivered', 'all events are delivered')
  // Otherwise the worker would also record the response to the event about the erasure.
  await worker.drain()
  const { read } = testAccount.backend.database
  const shapes = await readShapesOf(t, testAccount)
  // Regression: this test did not fail if a new column was not erased.
  const help =
    'Fill a new column in this test if it contains personal data; otherwise list it here.'
  t.strictSame(await findUntested(read, shapes), [], help)

  testAccount.backend.now = new Date(testAccount.backend.now.getTime() + 1000)
  const { erased, wasErasedBefore } = await erase(testAccount, debtor.id)
  t.equal(wasErasedBefore, false)
  t.strictSame(await findPersonalRows(read, shapes), [])
  matches(t, erased, { messages: 2, invoices: 2, payments: 1, idempotency_keys: 4 })

  const shown = await testAccount.read(`/api/v1/debtors/${debtor.id}`)
  matches(t, shown, {
    name: '[erased]',
    external_id: 'C-1001',
    email: null,
    phone: null,
    address: null,
    tax_id: null,
    status: 'archived',
    erased_at: testAccount.backend.now.toISOString(),
    contactability: { email: 'missing' },
    chasing: { status: 'stopped', reason: 'erased', until: null },
    balances: [{ currency: 'EUR', outstanding: 10_000 }],
    metadata: {},
  })
  for (const { id, number, amount, due_date } of [paid, open]) {
    const kept = { id, number, amount, due_date, notes: null, payment_url: null, metadata: {} }
    const updated_at = testAccount.backend.now.toISOString()
    matches(t, await testAccount.read(`/api/v1/invoices/${id}`), { ...kept, updated_at })
  }
  const [payment] = (await testAccount.read(`/api/v1/payments?debtor_id=${debtor.id}`)).data
  matches(t, payment, { amount: 10_000, reference: null, metadata: {} })
  const { data } = await testAccount.read(`/api/v1/messages?debtor_id=${debtor.id}`)
  t.strictSame(
    data.map((shown: Json) => [shown.to, shown.subject, shown.preview]),
    [
      [null, null, null],
      [null, null, null],
    ],
  )
  t.equal(data.find(({ id }: Json) => id === message).status, 'cancelled')
  const [found] = (await testAccount.read('/api/v1/debtors?q=%5Berased')).data
  t.equal(found?.id, debtor.id)
})

t.test('a response that arrives after an erasure is logged without personal data', async (t) => {
  // Regression: a response that repeated the event stayed until somebody repeated the erasure.
  const webhooks = await openWebhooks(t, { attemptMsMax: 60_000 })
  const { testAccount } = webhooks
  const responses: (() => void)[] = []
  const receiver = await startReceiver(t, {
    respond: ({ body }, res) => void responses.push(() => res.writeHead(500).end(body)),
  })
  await webhooks.createEndpoint(receiver.url, ['debtor.created'])
  const worker = webhooks.startWorker()
  const debtor = await testAccount.createDebtor(debtorBody)
  await until(() => responses.length === 1, 'the attempt is in progress')
  await erase(testAccount, debtor.id)
  for (const respond of responses) respond()
  await webhooks.untilAll(({ attempts }) => attempts === 1, 'the attempt is recorded')
  await worker.drain()
  const [attempt] = await webhooks.attempts()
  matches(t, attempt, { status_code: 500, response_headers: null, response_body: null })
  t.strictSame((await erase(testAccount, debtor.id)).erased, {}, 'a repeated erasure finds nothing')
})

t.test('an erasure is audited and reported as an event, without the personal data', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const debtor = await testAccount.createDebtor(debtorBody)
  await webhooks.createEndpoint('https://receiver.example/', [
    'debtor.updated',
    'debtor.contactability_changed',
  ])
  await erase(testAccount, debtor.id)
  const [row] = await readAudit(testAccount)
  matches(t, row, { action: 'debtor.erased', subject_id: debtor.id, actor_type: 'operator' })
  t.strictSame(JSON.parse(row?.detail ?? ''), { reason: REASON })
  const events = await testAccount.backend.database.read
    .selectFrom('webhook_events')
    .select(['type', 'body'])
    .orderBy('id')
    .execute()
  t.strictSame(
    events.map(({ type }) => type),
    ['debtor.updated', 'debtor.contactability_changed'],
  )
  for (const { body } of events) {
    const { object, previous } = JSON.parse(body).data
    matches(t, object, { id: debtor.id, name: '[erased]', status: 'archived', revision: 2 })
    // Regression: chasing had the previous status but the new reason, `erased`, and half of the members were missing.
    t.strictSame(previous, {
      status: 'active',
      contactability: { email: 'ok' },
      chasing: { status: 'active', reason: null, until: null },
      erased_at: null,
      updated_at: debtor.updated_at,
      revision: 1,
    })
  }
  t.notMatch(JSON.stringify(events), CANARY)
})

t.test('events about an erased debtor keep their revision', async (t) => {
  // Regression: `data.revision` became `{}`, and the events of the erasure lacked the reason `erased`.
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  await webhooks.createEndpoint('https://receiver.example/', ['debtor.created', 'debtor.updated'])
  const { id } = await testAccount.createDebtor(debtorBody)
  await erase(testAccount, id)
  const events = await testAccount.backend.database.read
    .selectFrom('webhook_events')
    .select('body')
    .orderBy('id')
    .execute()
  const [created, updated] = events.map(({ body }) => JSON.parse(body).data)
  matches(t, created, { object: { name: '[erased]', revision: 1 }, revision: 1 })
  const object = await testAccount.read(`/api/v1/debtors/${id}`)
  matches(t, updated, { object, revision: object.revision })
})

t.test('after an erasure, a repeated write is a replay without personal data', async (t) => {
  const testAccount = await openTestAccount(t)
  const send = (name: string) =>
    testAccount.post('/api/v1/debtors', { ...debtorBody, name }, { 'idempotency-key': 'sync-1' })
  const first = await send(CANARY)
  await erase(testAccount, String(first.json['id']))
  const repeated = await send(CANARY)
  matches(t, repeated, {
    status: 201,
    json: { id: first.json['id'], name: '[erased]', email: null },
  })
  t.equal(repeated.headers.get('idempotent-replayed'), 'true')
  matches(t, await send('another'), { status: 422, json: { code: 'idempotency_key_reused' } })
  matches(t, await testAccount.post('/api/v1/debtors', debtorBody), {
    status: 409,
    json: { code: 'duplicate_external_id', existing_id: first.json['id'] },
  })
})

t.test(
  'a repeated erasure erases only personal data that was added since the first one',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { database } = testAccount.backend
    const { debtor, open } = await fillLedger(
      testAccount,
      await testAccount.createDebtor(debtorBody),
    )
    const { debtor: first } = await erase(testAccount, debtor.id)
    testAccount.backend.now = new Date(testAccount.backend.now.getTime() + 60_000)
    const second = await erase(testAccount, debtor.id)
    matches(t, second, {
      wasErasedBefore: true,
      erased: {},
      debtor: { erased_at: first.erased_at },
    })
    t.strictSame(Object.keys(second.erased), [])
    await database.transaction((tx) =>
      tx
        .updateTable('invoices')
        .set({ notes: CANARY, ...nextRevision(tx, testAccount.backend.now.toISOString()) })
        .where('id', '=', open.id)
        .execute(),
    )
    t.strictSame((await erase(testAccount, debtor.id)).erased, { invoices: 1 })
    const rows = await readAudit(testAccount)
    t.equal(rows.filter(({ action }) => action === 'debtor.erased').length, 1)
  },
)

t.test('an unsubscribed former address of the debtor is erased too', async (t) => {
  const testAccount = await openTestAccount(t)
  const { database } = testAccount.backend
  const debtor = await testAccount.createDebtor({ email: 'Former@customer.example' })
  await testAccount.insertMessage([await testAccount.createInvoice({ debtor_id: debtor.id })], {
    recipient: 'Former@customer.example',
  })
  const suppressed = { accountId: testAccount.accountId, detail: null, messageId: null }
  const unsubscribe = (address: string) =>
    database.transaction((tx) =>
      suppressAddress(
        tx,
        { ...suppressed, address, reason: 'unsubscribed' },
        testAccount.backend.now,
      ),
    )
  await unsubscribe('Former@customer.example')
  await unsubscribe('stranger@customer.example')
  await database.transaction(async (tx) => {
    const row = await getLockedDebtor(tx, testAccount.accountId, debtor.id)
    await changeDebtor(tx, row, { email: 'current@customer.example' }, testAccount.backend.now)
  })
  await erase(testAccount, debtor.id)
  const kept = await database.read.selectFrom('suppressed_addresses').select('address').execute()
  t.strictSame(kept, [{ address: 'stranger@customer.example' }])
})

t.test('an erasure does not change the records of other debtors', async (t) => {
  const testAccount = await openTestAccount(t)
  const email = 'shared@customer.example'
  const [erasedDebtor, other] = [
    await testAccount.createDebtor({ email }),
    await testAccount.createDebtor({ email, name: 'Other' }),
  ]
  const { data: messages } = await (async () => {
    await testAccount.insertMessage([await testAccount.createInvoice({ debtor_id: other.id })])
    return testAccount.read('/api/v1/messages')
  })()
  const created_at = testAccount.backend.now.toISOString()
  const suppressed = {
    account_id: testAccount.accountId,
    address: email,
    detail: null,
    message_id: null,
  }
  await testAccount.backend.database.transaction((tx) =>
    tx
      .insertInto('suppressed_addresses')
      .values({ ...suppressed, reason: 'unsubscribed', created_at })
      .execute(),
  )
  const before = await testAccount.read(`/api/v1/debtors/${other.id}`)
  await erase(testAccount, erasedDebtor.id)
  t.strictSame(await testAccount.read(`/api/v1/debtors/${other.id}`), before)
  t.strictSame((await testAccount.read('/api/v1/messages')).data, messages)
  const { read } = testAccount.backend.database
  const kept = await read.selectFrom('suppressed_addresses').select('address').execute()
  t.strictSame(kept, [{ address: email }], 'the other debtor still gets no mail')
})

t.test('an unknown debtor and an empty reason are rejected', async (t) => {
  const testAccount = await openTestAccount(t)
  const { id } = await testAccount.createDebtor()
  await rejectsWith(t, erase(testAccount, 'deb_none'), { code: 'not_found' })
  await rejectsWith(t, erase(testAccount, id, '  '), { code: 'validation_failed' })
  t.equal((await testAccount.read(`/api/v1/debtors/${id}`)).erased_at, null)
})

t.test(
  'after an erasure, the SQLite file and its log no longer contain the erased text',
  { skip: ON_POSTGRES && 'about SQLite' },
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { database } = testAccount.backend
    const path = join(t.testdirName, 'test.db')
    const debtor = await testAccount.createDebtor(debtorBody)
    await fillLedger(testAccount, debtor)
    // These rows make SQLite split and merge pages, which can leave old bytes in free space.
    for (let n = 0; n < 60; n += 1) await testAccount.createInvoice({ notes: 'x'.repeat(1500) })
    await database.truncateWriteAheadLog()
    const readFiles = () =>
      ['', '-wal'].map((suffix) => readFileSync(path + suffix, 'latin1')).join('')
    matches(t, readFiles(), containing(CANARY))
    await erase(testAccount, debtor.id)
    t.equal(await database.truncateWriteAheadLog(), true)
    t.notMatch(readFiles(), CANARY)
  },
)

// Regression: the guide omitted half of the tables, so that PostgreSQL kept old versions of their rows.
t.test(
  'the operations guide lists every table with erased data in its vacuum command',
  async (t) => {
    const guide = readFileSync(join(import.meta.dirname, '../../../docs/operations.md'), 'utf8')
    const [, tables = ''] = /`vacuum ([^`;]+)`/.exec(guide) ?? []
    t.strictSame(
      new Set(tables.split(/,\s+/)),
      new Set(['debtors', ...PERSONAL_TABLES.map(({ table }) => table)]),
    )
  },
)
