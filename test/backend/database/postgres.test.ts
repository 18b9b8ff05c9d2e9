// What only a database with several writers must show, whatever the other tests run on.
import { sql } from 'kysely'
import pg from 'pg'
import t, { type Test } from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { announce } from '../../../backend/database/announcements.ts'
import type { Transaction } from '../../../backend/database/database.ts'
import type { OpenDatabase } from '../../../backend/database/open.ts'
import { prepared } from '../../../backend/database/prepared.ts'
import { stampOf } from '../../../backend/database/stamp.ts'
import type { AuditRow } from '../../../backend/database/tables.ts'
import { createIdempotency } from '../../../backend/idempotency/idempotency.ts'
import { claimGuess } from '../../../backend/sessions/login-guesses.ts'
import { changeRole, createUser, listUsers } from '../../../backend/users/users.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { type Response, startBackend } from '../../fixtures/service/backend.ts'
import { note, notes, openTestDatabase } from '../../fixtures/service/database.ts'
import { newBarePostgresUrl, newPostgresUrl } from '../../fixtures/service/database-url.ts'
import { until } from '../../fixtures/service/until.ts'

const NOW = new Date('2026-11-21T10:15:00.000Z')
const ACT = { actor: OPERATOR, now: NOW }

/** Two backends on one database, and one account's key that both know. */
async function startTwo(t: Test, waitMsMax?: number) {
  const url = await newPostgresUrl(t)
  const options = { url, ...(waitMsMax === undefined ? {} : { waitMsMax }) }
  const database = await openTestDatabase(t, options)
  const first = await startBackend(t, { database })
  const second = await startBackend(t, { database: await openTestDatabase(t, options) })
  const key = await first.createKey()
  const post = (path: string, body: object, idempotencyKey: string, place = 0) =>
    (place % 2 === 0 ? first : second).call(key, 'POST', `/api/v1/${path}`, {
      body,
      headers: { 'idempotency-key': idempotencyKey },
    })
  const debtor = String((await post('debtors', { name: 'Globex' }, 'debtor')).json['id'])
  const createInvoice = async (amount: number) => {
    const body = { debtor_id: debtor, currency: 'EUR', amount }
    return String((await post('invoices', body, `invoice-${amount}`)).json['id'])
  }
  const read = (path: string) => second.call(key, 'GET', `/api/v1/${path}`)
  return { url, database, debtor, post, createInvoice, read }
}

/** A session of someone else, for statements by hand. */
async function connect(t: Test, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  t.teardown(() => client.end())
  return client
}

async function openTwo(t: Test, waitMsMax = 5000): Promise<[OpenDatabase, OpenDatabase]> {
  const url = await newPostgresUrl(t)
  const open = () => openTestDatabase(t, { url, waitMsMax })
  return [await open(), await open()]
}

function atOnce(count: number, work: (place: number) => Promise<Response>): Promise<Response[]> {
  return Promise.all(Array.from({ length: count }, (_, place) => work(place)))
}

t.test('backends that start together on an empty database migrate it once', async (t) => {
  const url = await newBarePostgresUrl(t)
  const opened = await Promise.all([1, 2, 3, 4].map(() => openTestDatabase(t, { url })))
  t.equal(opened.filter(({ migrated }) => migrated.length > 0).length, 1)
})

t.test('text has the order of its code points in every table', async (t) => {
  const client = await connect(t, await newPostgresUrl(t))
  const { rows } = await client.query(
    `select table_name, column_name from information_schema.columns
      where table_schema = 'public' and data_type = 'text' and collation_name is distinct from 'C'`,
  )
  t.strictSame(rows, [])
})

t.test('payments on one invoice from two backends never exceed it', async (t) => {
  const { post, createInvoice, read } = await startTwo(t)
  const invoice_id = await createInvoice(10_000)
  const body = { invoice_id, currency: 'EUR', amount: 1_000 }
  const responses = await atOnce(24, (place) => post('payments', body, `payment-${place}`, place))
  const refused = responses.filter(({ status }) => status !== 201)
  t.equal(responses.length - refused.length, 10)
  for (const response of refused) {
    matches(t, response, { status: 422, json: { code: 'payment_exceeds_balance' } })
  }
  matches(t, (await read(`invoices/${invoice_id}`)).json, { status: 'paid', amount_due: 0 })
})

t.test('a reader that overlaps its runs misses no change that is committed late', async (t) => {
  const { database, debtor, post, read } = await startTwo(t)
  const other = String((await post('debtors', { name: 'Initech' }, 'other')).json['id'])
  const change = (id: string, at: string, committed: Promise<void>, begun = () => {}) =>
    database.transaction(async (tx) => {
      const values = { phone: '+31205550142', ...stampOf(tx, at) }
      await tx.updateTable('debtors').set(values).where('id', '=', id).execute()
      begun()
      await committed
    })
  let since = '2026-11-21T00:00:00.000Z'
  const seen = new Map<unknown, unknown>()
  /** As docs/syncing.md says: the next run reads from five minutes before this one. */
  const run = async (at: string) => {
    const { json } = await read(`debtors?updated_since=${since}&sort=updated_at`)
    for (const { id, revision } of Object(json)['data']) seen.set(id, revision)
    since = new Date(Date.parse(at) - 5 * 60_000).toISOString()
  }
  const [begun, committed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const late = change(debtor, '2026-11-21T12:00:00.000Z', committed.promise, begun.resolve)
  await begun.promise
  await change(other, '2026-11-21T12:00:09.000Z', Promise.resolve())
  await run('2026-11-21T12:00:10.000Z')
  t.strictSame([seen.get(debtor), seen.get(other)], [1, 2], 'the late one is not visible yet')
  committed.resolve()
  await late
  await run('2026-11-21T12:00:20.000Z')
  t.strictSame([seen.get(debtor), seen.get(other)], [2, 2])
})

t.test('one Idempotency-Key at two backends at once is one payment', async (t) => {
  const { post, createInvoice, read } = await startTwo(t)
  const body = { invoice_id: await createInvoice(10_000), currency: 'EUR', amount: 1_000 }
  const responses = await atOnce(16, (place) => post('payments', body, 'one-key', place))
  t.strictSame([...new Set(responses.map(({ status }) => status))], [201])
  t.equal(new Set(responses.map(({ text }) => text)).size, 1)
  const originals = responses.filter(({ headers }) => !headers.has('idempotent-replayed'))
  t.equal(originals.length, 1)
  matches(t, (await read('payments')).json['data'], [{ idempotency_key: 'one-key' }])
})

t.test('invoice numbers are taken once, also those that clients choose meanwhile', async (t) => {
  const { debtor, post } = await startTwo(t)
  const another = String((await post('debtors', { name: 'Initech' }, 'another')).json['id'])
  const responses = await atOnce(20, (place) => {
    const body = { debtor_id: place % 3 ? debtor : another, currency: 'EUR', amount: 100 }
    const chosen = place % 4 === 3 ? { number: `INV-${String(place).padStart(6, '0')}` } : {}
    return post('invoices', { ...body, ...chosen }, `i-${place}`, place)
  })
  const created = responses.filter(({ status }) => status === 201)
  t.equal(new Set(created.map(({ json }) => json['number'])).size, created.length)
  for (const { json } of responses.filter(({ status }) => status !== 201)) {
    matches(t, json, { code: 'duplicate_invoice_number' }, 'only where the client chose it')
  }
  t.ok(created.length >= 15)
})

t.test('a debtor that another session holds for too long is 503', async (t) => {
  const { url, debtor, post, createInvoice, read } = await startTwo(t, 2000)
  const invoice_id = await createInvoice(10_000)
  const holder = await connect(t, url)
  await holder.query('begin')
  await holder.query('select 1 from debtors where id = $1 for update', [debtor])
  const body = { invoice_id, currency: 'EUR', amount: 1_000 }
  const response = await post('payments', body, 'held')
  matches(t, response, { status: 503, json: { code: 'service_unavailable' } })
  t.equal(response.headers.get('retry-after'), '1')
  t.equal((await read('debtors')).status, 200, 'reads go on')
  await holder.query('rollback')
  t.equal((await post('payments', body, 'held')).status, 201)
})

t.test('a key whose first call runs for too long at another backend is 409', async (t) => {
  const [first, second] = await openTwo(t, 2000)
  const { id: accountId } = await first.transaction((tx) =>
    createAccount(tx, { name: 'Acme' }, ACT),
  )
  const attempt = { accountId, operation: 'createDebtor', key: 'k', fingerprint: 'f' }
  const inserted = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const write = {
    // All work begins with a look at what it is about; the key's row was written before that.
    prepare: () => async (tx: Transaction) => {
      await tx.selectFrom('accounts').select('id').execute()
      inserted.resolve()
      await gate.promise
      return { resourceId: 'deb_1', body: 'the answer' }
    },
    recall: async () => undefined,
    originalMember: 'original_id',
  }
  const clock = () => NOW
  const running = createIdempotency({ database: first, clock }).once(attempt, write)
  await inserted.promise
  const other = createIdempotency({ database: second, clock })
  await rejectsWith(t, other.once(attempt, write), {
    code: 'idempotency_in_progress',
    headers: { 'retry-after': '1' },
  })
  gate.resolve()
  matches(t, await running, { replayed: false })
  matches(t, await other.once(attempt, write), { replayed: true, body: 'the answer' })
})

const insertNote = prepared((tx: Transaction, row: AuditRow) =>
  tx.insertInto('audit_log').values(row),
)

const findNote = prepared((tx: Transaction, { id }: { id: string }) =>
  tx.selectFrom('audit_log').selectAll().where('id', '=', id),
)

/** Copies a note under another id, by a write that nobody waits for. */
async function copyNote(tx: Transaction, from: string, id: string) {
  const [row] = await findNote(tx, { id: from })
  if (row !== undefined) await insertNote(tx, { ...row, id })
}

t.test('a prepared write that fails ends the transaction with its own error', async (t) => {
  const [database] = await openTwo(t)
  await database.transaction((tx) => note(tx, 'a'))
  const violation = { name: 'ConstraintViolation', columns: ['audit_log.id'] }
  await rejectsWith(
    t,
    database.transaction((tx) => copyNote(tx, 'a', 'a')),
    violation,
    'at the end',
  )
  let steps = 0
  const goOn = async (tx: Transaction, step: () => Promise<unknown>) => {
    await note(tx, 'b')
    await copyNote(tx, 'a', 'a')
    steps += 1
    await copyNote(tx, 'a', 'c').finally(() => {
      steps += 1
    })
    await step()
  }
  await rejectsWith(
    t,
    database.transaction((tx) => goOn(tx, async () => {})),
    violation,
    'at the next read',
  )
  await rejectsWith(
    t,
    database.transaction(async (tx) => {
      await copyNote(tx, 'a', 'a')
      await note(tx, 'd')
    }),
    violation,
    'at the next write that is waited for',
  )
  t.equal(steps, 2)
  t.strictSame(await notes(database), ['a'])
})

t.test(
  'a write that violates a constraint is undone alone, whatever was sent before it',
  async (t) => {
    const [database] = await openTwo(t)
    await database.transaction((tx) => note(tx, 'a'))
    await database.transaction(async (tx) => {
      await copyNote(tx, 'a', 'b')
      const outcomes = await Promise.allSettled([
        note(tx, 'a'),
        note(tx, 'c'),
        copyNote(tx, 'a', 'd'),
      ])
      t.strictSame(
        outcomes.map(({ status }) => status),
        ['rejected', 'fulfilled', 'fulfilled'],
      )
      await copyNote(tx, 'a', 'e')
    })
    t.strictSame(await notes(database), ['a', 'b', 'c', 'd', 'e'])
  },
)

t.test('transactions go on while columns are added', async (t) => {
  const url = await newPostgresUrl(t)
  const database = await openTestDatabase(t, { url, connectionsMax: 3 })
  const operator = await connect(t, url)
  await database.transaction((tx) => note(tx, 'a'))
  const find = () => database.transaction((tx) => findNote(tx, { id: 'a' }))
  await find()
  await operator.query('alter table audit_log add column added text')
  const [row] = await find()
  t.strictSame(Reflect.get(row ?? {}, 'added'), null)
  await operator.query('alter table audit_log drop column added')
})

t.test(
  'what is announced is heard by other backends, also after their connection was lost',
  async (t) => {
    const url = await newPostgresUrl(t)
    const [first, second] = [await openTestDatabase(t, { url }), await openTestDatabase(t, { url })]
    const operator = await connect(t, url)
    let heard = 0
    second.listen('work', () => {
      heard += 1
    })
    await until(() => heard === 1, 'the connection: what was announced before is unknown')
    await first.transaction(async (tx) => announce(tx, 'work'))
    await until(() => heard === 2, 'the announcement')
    await operator.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and query = 'listen receivables'`,
    )
    await until(() => heard === 3, 'the connection to be made again')
    await first.transaction(async (tx) => announce(tx, 'work'))
    await until(() => heard === 4, 'the announcement')
    t.pass('four times, as expected')
  },
)

t.test('transactions that block each other are run again, and nobody knows', async (t) => {
  const [first, second] = await openTwo(t)
  await first.transaction(async (tx) => {
    await note(tx, 'a')
    await note(tx, 'b')
  })
  const holds = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const
  let runs = 0
  const touch = (database: OpenDatabase, ids: readonly [string, string], place: 0 | 1) =>
    database.transaction(async (tx) => {
      runs += 1
      const update = (id: string) =>
        tx.updateTable('audit_log').set({ detail: '[]' }).where('id', '=', id).execute()
      await update(ids[0])
      holds[place].resolve()
      await holds[place === 0 ? 1 : 0].promise
      await update(ids[1])
    })
  await Promise.all([touch(first, ['a', 'b'], 0), touch(second, ['b', 'a'], 1)])
  t.ok(runs > 2, `${runs} runs of two transactions`)
})

t.test('of two Admins who step down at once one stays', async (t) => {
  const [first, second] = await openTwo(t)
  const account = await first.transaction((tx) => createAccount(tx, { name: 'Acme' }, ACT))
  const create = (email: string) =>
    first.transaction((tx) =>
      createUser(tx, { accountId: account.id, email, role: 'admin', passwordHash: 'x' }, ACT),
    )
  const admins = [await create('a@acme.example'), await create('b@acme.example')]
  const outcomes = await Promise.allSettled(
    admins.map(({ id }, place) =>
      (place === 0 ? first : second).transaction((tx) =>
        changeRole(tx, { accountId: account.id, id }, 'member', ACT),
      ),
    ),
  )
  t.strictSame(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  t.equal((await listUsers(first.read, account.id)).filter((u) => u.role === 'admin').length, 1)
})

t.test('guesses at a password at once are counted one by one', async (t) => {
  const databases = await openTwo(t)
  const guesser = { email: 'a@acme.example', address: '192.0.2.1' }
  const outcomes = await Promise.allSettled(
    Array.from({ length: 20 }, (_, place) =>
      databases[place % 2 === 0 ? 0 : 1].transaction((tx) => claimGuess(tx, guesser, NOW)),
    ),
  )
  t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 5)
})

t.test(
  'a number that cannot be represented exactly is a mistake, not another number',
  async (t) => {
    const [database] = await openTwo(t)
    const select = (text: string) =>
      database.transaction(
        async (tx) => (await sql<{ n: number }>`${sql.raw(text)}`.execute(tx)).rows,
      )
    t.strictSame(await select('select 9007199254740991 as n, sum(1::bigint) as m'), [
      { n: 9_007_199_254_740_991, m: 1 },
    ])
    await rejectsWith(t, select('select 9007199254740993 as n'), { name: 'BadValue' })
    await rejectsWith(t, select('select 1.5::numeric as n'), { name: 'BadValue' })
  },
)

t.test(
  'a transaction that goes on after an error of a read commits nothing, and says so',
  async (t) => {
    const [database] = await openTwo(t)
    await rejectsWith(
      t,
      database.transaction(async (tx) => {
        await note(tx, 'a')
        await sql`select nonsense`.execute(tx).catch(() => 'ignored')
      }),
      { code: 'ERR_ASSERTION' },
    )
    t.strictSame(await notes(database), [])
  },
)

t.test('a NUL, which PostgreSQL cannot hold, never reaches it', async (t) => {
  const { debtor, post, read } = await startTwo(t)
  const invoice = { debtor_id: debtor, currency: 'EUR', amount: 100 }
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
    ['payments', { debtor_id: debtor, currency: 'EUR', amount: 1, reference: 'a\0b' }],
    ['payments', { invoice_id: 'inv_\0', currency: 'EUR', amount: 1 }],
  ]
  for (const [path, body] of bodies) {
    const { status } = await post(path, body, `nul-${bodies.length}`)
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

t.test('reading connections cannot write', async (t) => {
  const [database] = await openTwo(t)
  const reader = database.read as Parameters<typeof note>[0]
  await t.rejects(note(reader, 'a'))
  t.strictSame(await notes(database), [])
})
