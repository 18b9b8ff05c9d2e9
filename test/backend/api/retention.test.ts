import { sql } from 'kysely'
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { ruleByAge } from '../../../backend/database/retention-rule.ts'
import { nextRevision } from '../../../backend/database/revision.ts'
import type { Tables } from '../../../backend/database/tables.ts'
import { REMINDER_RETENTION } from '../../../backend/reminders/retention.ts'
import { bounceMessage } from '../../../backend/reminders/sending/bounces.ts'
import { applyAllRetentionRules, startRetention } from '../../../backend/retention/retention.ts'
import { startSession } from '../../../backend/sessions/sessions.ts'
import { addUsage } from '../../../backend/usage/usage.ts'
import { addReportedCalls } from '../../../backend/usage/usage-reports.ts'
import { createInvitation } from '../../../backend/users/invitations.ts'
import { createUser } from '../../../backend/users/users.ts'
import { createEndpoint } from '../../../backend/webhooks/endpoints.ts'
import { openTestAccount, type TestAccount } from '../../fixtures/accounts/test-account.ts'
import { BOX } from '../../fixtures/accounts/webhooks.ts'
import { matches } from '../../fixtures/matches.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const DAY_MS = 86_400_000

function advanceClock({ backend }: TestAccount, ms: number): void {
  backend.now = new Date(backend.now.getTime() + ms)
}

async function countRows({ backend }: TestAccount, table: keyof Tables): Promise<number> {
  const { rows } = await backend.database.read
    .selectFrom(table)
    .select(({ fn }) => fn.countAll().as('rows'))
    .executeTakeFirstOrThrow()
  return Number(rows)
}

t.test(
  'a payment is replayed, and not recorded again, after its response was deleted',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { id } = await testAccount.createInvoice()
    const body = { invoice_id: id, currency: 'EUR', amount: 4000, reference: 'line 7' }
    const send = (change: object = {}) =>
      testAccount.post('/api/v1/payments', { ...body, ...change }, { 'idempotency-key': 'bank-7' })
    const first = await send()
    t.equal(first.status, 201)

    advanceClock(testAccount, 30 * DAY_MS - 1000)
    await applyAllRetentionRules(testAccount.backend.database, testAccount.backend.now)
    t.equal((await send()).text, first.text, 'the same bytes for thirty days')

    advanceClock(testAccount, 2000)
    await applyAllRetentionRules(testAccount.backend.database, testAccount.backend.now)
    t.equal(await countRows(testAccount, 'idempotency_keys'), 0)
    const lateRepeat = await send()
    matches(t, lateRepeat, { status: 201, json: { id: first.json['id'], amount: 4000 } })
    t.equal(lateRepeat.headers.get('idempotent-replayed'), 'true')
    t.equal(lateRepeat.headers.get('location'), first.headers.get('location'))
    matches(t, await send({ amount: 4001 }), {
      status: 422,
      json: { code: 'idempotency_key_reused', original_payment_id: first.json['id'] },
    })
    const { id: other } = await testAccount.createInvoice()
    const reused = { status: 422, json: { code: 'idempotency_key_reused' } }
    matches(t, await send({ invoice_id: other }), reused, 'the same amount for another invoice')
    const shares = [{ invoice_id: id, amount: 4000 }]
    const split = (allocations: object[]) => send({ invoice_id: undefined, allocations })
    matches(
      t,
      await split(shares),
      reused,
      'an equivalent body in another form is rejected, as in the first thirty days',
    )
    matches(t, await split([{ invoice_id: id, amount: 3000 }]), reused)
    t.equal((await testAccount.read(`/api/v1/invoices/${id}`)).amount_due, 6000, 'paid once')
    t.equal(await countRows(testAccount, 'payments'), 1)
  },
)

t.test(
  'a repeat is compared with the original request, not with the resulting allocations',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { id, debtor_id } = await testAccount.createInvoice()
    const { id: second } = await testAccount.createInvoice({ debtor_id })
    const surplus = { allow_overpayment: true, currency: 'EUR', amount: 15_000 }
    const bodies = [
      { ...surplus, allocations: [{ invoice_id: id, amount: 12_000 }] },
      { ...surplus, allocations: [{ invoice_id: id, amount: 500 }] },
      { ...surplus, invoice_id: id },
      { ...surplus, allocations: [id, second].map((each) => ({ invoice_id: each, amount: 500 })) },
    ]
    const send = (body: object, key: number) =>
      testAccount.post('/api/v1/payments', body, { 'idempotency-key': `bank-${key}` })
    const first = []
    for (const [key, body] of bodies.entries()) first.push((await send(body, key)).json['id'])
    advanceClock(testAccount, 31 * DAY_MS)
    await applyAllRetentionRules(testAccount.backend.database, testAccount.backend.now)
    for (const [key, body] of bodies.entries()) {
      const repeat = await send(body, key)
      t.strictSame([repeat.status, repeat.json['id']], [201, first[key]])
      t.equal((await send({ ...body, reference: 'other' }, key)).status, 422)
    }
    // Regression: payments that were recorded before fingerprints were stored were compared with their allocations.
    const { database, now } = testAccount.backend
    await database.transaction((tx) =>
      tx
        .updateTable('payments')
        .set({ request_fingerprint: null, ...nextRevision(tx, now.toISOString()) })
        .execute(),
    )
    for (const [key, body] of bodies.entries()) {
      const repeat = await send(body, key)
      t.strictSame([repeat.status, repeat.json['id']], [201, first[key]])
      t.equal((await send({ ...body, amount: 15_001 }, key)).status, 422)
    }
    const { id: other } = await testAccount.createInvoice()
    const otherTarget = { ...surplus, allocations: [{ invoice_id: other, amount: 12_000 }] }
    t.equal((await send(otherTarget, 0)).status, 422)
    t.equal((await send({ ...surplus, debtor_id }, 2)).status, 422)
    t.equal((await send({ ...surplus, invoice_id: id }, 3)).status, 422)
  },
)

t.test('the idempotency key of a new debtor or invoice is deleted after thirty days', async (t) => {
  const testAccount = await openTestAccount(t)
  const body = { name: 'Jansen', external_id: 'C-1' }
  const send = (path: string, body: object) =>
    testAccount.post(path, body, { 'idempotency-key': 'sync-1' })
  const debtor = await send('/api/v1/debtors', body)
  const invoice = { debtor_id: debtor.json['id'], currency: 'EUR', amount: 100, number: 'R-1' }
  const first = await send('/api/v1/invoices', invoice)
  t.equal(first.status, 201)
  advanceClock(testAccount, 30 * DAY_MS + 1000)
  await applyAllRetentionRules(testAccount.backend.database, testAccount.backend.now)
  matches(t, await send('/api/v1/debtors', body), {
    status: 409,
    json: { code: 'duplicate_external_id', existing_id: debtor.json['id'] },
  })
  matches(t, await send('/api/v1/invoices', invoice), {
    status: 409,
    json: { code: 'duplicate_invoice_number', existing_id: first.json['id'] },
  })
})

t.test(
  'rows that expire are deleted at the end of the retention period of their table, and not before',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const { accountId, backend, key } = testAccount
    const { database, now } = backend
    const actionContext = { actor: OPERATOR, now }
    await database.transaction(async (tx) => {
      const login = {
        accountId,
        email: 'ann@acme.example',
        role: 'admin',
        passwordHash: 'x',
      } as const
      const user = await createUser(tx, login, actionContext)
      await startSession(tx, user, { address: undefined, userAgent: undefined }, now)
      const invited = {
        id: 'ivt_1',
        accountId,
        email: 'bob@acme.example',
        role: 'member',
        codeHash: 'h',
      } as const
      await createInvitation(tx, invited, actionContext)
      const hour = { hour: now.toISOString().slice(0, 13), status_class: 2, calls: 5 }
      await addUsage(tx, [{ key_id: key.row.id, ...hour }])
      const errors = [
        { key_id: key.row.id, day: hour.hour.slice(0, 10), code: 'not_found', calls: 1 },
      ]
      const report = { gateway: 'gateway-1', batch: 1, refused: [], errors, windows: [] }
      await addReportedCalls(tx, report, now)
      const settings = { url: 'https://erp.example/', description: '', eventTypes: null }
      const deps = { secretBox: BOX, privateTargetPolicy: 'refuse' } as const
      const { row: endpoint } = await createEndpoint(tx, accountId, settings, deps, actionContext)
      await tx
        .insertInto('webhook_attempt_hours')
        .values({ endpoint_id: endpoint.id, hour: hour.hour, attempts: 1, succeeded: 1 })
        .execute()
      const created_at = now.toISOString()
      await tx
        .insertInto('login_guesses')
        .values({
          subject: 'address:192.0.2.1',
          guesses: 3,
          window_ends_at: new Date(now.getTime() + 900_000).toISOString(),
          blocked_until: created_at,
        })
        .execute()
      const submission = { submission: 's', account_id: accountId, key_id: key.row.id, created_at }
      await tx.insertInto('key_submissions').values(submission).execute()
    })
    const begin = now.getTime()
    const periods: readonly (readonly [keyof Tables, afterMs: number])[] = [
      ['login_guesses', 900_000],
      ['sessions', DAY_MS / 2],
      ['key_submissions', DAY_MS],
      ['webhook_attempt_hours', 2 * DAY_MS - (begin % 3_600_000)],
      ['usage_reports', 7 * DAY_MS],
      ['invitations', 37 * DAY_MS],
      // These rows count calls by day or by hour, so their period begins with that day or hour.
      ['key_errors', 90 * DAY_MS - (begin % DAY_MS)],
      ['key_usage', 90 * DAY_MS - (begin % 3_600_000)],
    ]
    for (const [table, afterMs] of periods) {
      await applyAllRetentionRules(database, new Date(begin + afterMs - 1000))
      t.equal(await countRows(testAccount, table), 1, `${table} before`)
      await applyAllRetentionRules(database, new Date(begin + afterMs + 1000))
      t.equal(await countRows(testAccount, table), 0, `${table} after`)
    }
  },
)

t.test(
  'the plan of a reminder is deleted after 90 days unless the reminder is still scheduled; its message is kept',
  async (t) => {
    const engine = await startEngine(t)
    const { testAccount, messages } = engine
    const { database } = testAccount.backend
    await engine.createInvoice('2026-11-19')
    await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
    await engine.createInvoice('2026-11-20')
    await engine.plan('2026-11-24T08:00:00.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:sent', 'friendly:scheduled'])
    const planned = testAccount.backend.now.getTime()
    await applyAllRetentionRules(database, new Date(planned + 90 * DAY_MS - 1000))
    t.equal(await countRows(testAccount, 'reminders'), 2)
    await applyAllRetentionRules(database, new Date(planned + 90 * DAY_MS + 1000))
    const [, scheduled] = await messages()
    const remaining = await database.read.selectFrom('reminders').select('message_id').execute()
    t.strictSame(
      remaining,
      [{ message_id: scheduled?.id }],
      'the plan of the scheduled reminder is kept',
    )
    t.equal(await countRows(testAccount, 'taken_stages'), 2, 'no stage is sent twice')
    t.equal((await testAccount.read('/api/v1/messages')).data.length, 2)
  },
)

t.test('a reminder that bounces when its plan expires is sent again', async (t) => {
  const engine = await startEngine(t)
  const { database } = engine.testAccount.backend
  await engine.createInvoice('2026-11-19')
  const [sent] = await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
  if (sent === undefined) throw new Error('nothing was sent')
  const now = new Date('2027-02-23T08:00:00.000Z')
  const expired = await REMINDER_RETENTION.findExpired(database.read, now)
  t.equal(expired.length, 1)
  await database.transaction(async (tx) => {
    const bounce = { type: 'soft', code: '4.2.2', detail: 'The mailbox is full' } as const
    await bounceMessage(tx, sent, bounce, now)
    await REMINDER_RETENTION.applyTo(tx, expired)
  })
  await engine.send('2027-02-23T08:30:00.000Z')
  t.equal(engine.smtp.mails.length, 2)
})

t.test('old rows are deleted even if those of another table cannot be', async (t) => {
  const testAccount = await openTestAccount(t)
  const { database, now } = testAccount.backend
  const ended = new Date(now.getTime() - 1000).toISOString()
  await database.transaction(async (tx) => {
    const subject = 'address:192.0.2.1'
    const guesses = { subject, guesses: 3, window_ends_at: ended, blocked_until: ended }
    await tx.insertInto('login_guesses').values(guesses).execute()
    await sql`alter table usage_reports rename to missing_reports`.execute(tx)
  })
  const retention = startRetention({ database, clock: () => now, log: SILENT })
  t.teardown(() => retention.stop())
  try {
    await until(
      async () => (await countRows(testAccount, 'login_guesses')) === 0,
      'the guesses are deleted',
    )
  } finally {
    // Other tests use the database again.
    await database.transaction(async (tx) => {
      await sql`alter table missing_reports rename to usage_reports`.execute(tx)
    })
  }
})

// Regression: guesses of a new window were deleted, and no longer counted, if it began while retention ran.
t.test('a row that is no longer expired when its batch is deleted is kept', async (t) => {
  const testAccount = await openTestAccount(t)
  const { database, now } = testAccount.backend
  const subject = 'address:192.0.2.1'
  const iso = (ms: number) => new Date(now.getTime() + ms).toISOString()
  const ended = { subject, guesses: 3, window_ends_at: iso(-1000), blocked_until: iso(-1000) }
  const rule = ruleByAge('login_guesses', {
    key: ['subject'],
    ageColumn: 'window_ends_at',
    keptMs: 0,
  })
  await database.transaction((tx) => tx.insertInto('login_guesses').values(ended).execute())
  const expired = await rule.findExpired(database.read, now)
  t.equal(expired.length, 1)
  await database.transaction(async (tx) => {
    await tx
      .updateTable('login_guesses')
      .set({ window_ends_at: iso(900_000) })
      .execute()
    await rule.applyTo(tx, expired)
  })
  t.equal(await countRows(testAccount, 'login_guesses'), 1)
})

t.test('two workers delete thousands of rows while payments are recorded', async (t) => {
  const testAccount = await openTestAccount(t)
  const { accountId, backend } = testAccount
  const { database } = backend
  const { id } = await testAccount.createInvoice()
  const row = { account_id: accountId, operation: 'createDebtor', fingerprint: 'f', body: '{}' }
  const created_at = new Date(backend.now.getTime() - 31 * DAY_MS).toISOString()
  await database.transaction(async (tx) => {
    for (let from = 0; from < 3000; from += 500) {
      const rows = Array.from({ length: 500 }, (_, n) => {
        return { ...row, key: `old-${from + n}`, resource_id: 'deb_1', created_at }
      })
      await tx.insertInto('idempotency_keys').values(rows).execute()
    }
  })
  const clock = () => backend.now
  const running = [1, 2].map(() => startRetention({ database, clock, log: SILENT }))
  const payments = Array.from({ length: 20 }, () =>
    testAccount.post('/api/v1/payments', { invoice_id: id, currency: 'EUR', amount: 1 }),
  )
  t.strictSame(new Set((await Promise.all(payments)).map(({ status }) => status)), new Set([201]))
  const remaining = async () =>
    (await database.read.selectFrom('idempotency_keys').select('key').execute()).filter((kept) =>
      kept.key.startsWith('old-'),
    )
  await until(async () => (await remaining()).length === 0, 'all old responses are deleted')
  await Promise.all(running.map((retention) => retention.stop()))
  t.equal(await countRows(testAccount, 'idempotency_keys'), 22)
})
