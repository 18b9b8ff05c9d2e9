// On PostgreSQL, transactions of one account that name different debtors share one transaction of the server.
import { AsyncLocalStorage } from 'node:async_hooks'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { announce } from '../../../backend/database/announcements.ts'
import { ConstraintViolation } from '../../../backend/database/constraint-violation.ts'
import type { OpenDatabase } from '../../../backend/database/open.ts'
import { prepared } from '../../../backend/database/prepared.ts'
import type { AuditRow, Transaction } from '../../../backend/database/tables.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { startCuttingProxy } from '../../fixtures/servers/cutting-proxy.ts'
import {
  insertRow,
  LONG_WAIT_MS_MAX,
  openTestDatabase,
  readRowIds,
} from '../../fixtures/service/database.ts'
import { newPostgresUrl } from '../../fixtures/service/database-url.ts'
import { connect } from '../../fixtures/service/two-backends.ts'
import { until } from '../../fixtures/service/until.ts'

const ACCOUNT = 'account'

type Work = (tx: Transaction) => Promise<unknown>

/** Opens PostgreSQL, even if the tests run on SQLite. */
async function openPostgres(t: Test): Promise<OpenDatabase> {
  return openTestDatabase(t, { url: await newPostgresUrl(t), waitMsMax: LONG_WAIT_MS_MAX })
}

/**
 * Runs as many groups as the account may have, so that its next transactions wait. Each has two transactions, because
 * one that runs by itself soon stops counting as a group.
 */
async function occupyGroups(database: OpenDatabase): Promise<{ end(): Promise<unknown> }> {
  const mayEnd = Promise.withResolvers<void>()
  const blockers: Promise<unknown>[] = []
  for (const group of ['first', 'second']) {
    const begun = Promise.withResolvers<void>()
    const work = async () => {
      begun.resolve()
      await mayEnd.promise
    }
    for (const debtorId of [`${group} blocker 1`, `${group} blocker 2`])
      blockers.push(database.transaction(work, { accountId: ACCOUNT, debtorId }))
    await begun.promise
  }
  return {
    end() {
      mayEnd.resolve()
      return Promise.all(blockers)
    },
  }
}

/**
 * Runs the works as transactions of one group. Each is about the debtor with its name. Resolves with their outcomes.
 */
async function runTogether(database: OpenDatabase, works: Readonly<Record<string, Work>>) {
  const blockers = await occupyGroups(database)
  const entries = Object.entries(works)
  const outcomes = entries.map(([debtorId, work]) =>
    database.transaction(work, { accountId: ACCOUNT, debtorId }),
  )
  const settled = Promise.allSettled(outcomes)
  await until(() => database.activity().waiting === entries.length, 'all transactions wait')
  await blockers.end()
  return await settled
}

async function transactionId(tx: Transaction): Promise<string> {
  const { rows } = await sql<{ id: string }>`select pg_current_xact_id()::text as id`.execute(tx)
  return rows[0]?.id ?? ''
}

/** A write that is not awaited. */
const insertPrepared = prepared((tx: Transaction, row: AuditRow) =>
  tx.insertInto('audit_log').values(row),
)

function auditRow(id: string): AuditRow {
  return {
    ...{ id, account_id: null, actor_type: 'system', actor_id: null, actor_label: 'test' },
    ...{ action: 'test.noted', subject_id: null, detail: '{}', address: null },
    created_at: '2026-11-21T10:15:00.000Z',
  }
}

t.test('transactions that wait at the same time share a transaction of the server', async (t) => {
  const database = await openPostgres(t)
  const ids = new Set<string>()
  const caller = new AsyncLocalStorage<string>()
  const works = Object.fromEntries(
    ['a', 'b', 'c'].map((name) => [
      name,
      async (tx: Transaction) => {
        ids.add(await transactionId(tx))
        announce(tx, 'work')
        await insertRow(tx, name)
        return caller.getStore()
      },
    ]),
  )
  let announced = 0
  database.listen('work', () => announced++)
  const outcomes = await caller.run('the caller', () => runTogether(database, works))
  const outcome = { status: 'fulfilled', value: 'the caller' }
  t.strictSame(outcomes, [outcome, outcome, outcome])
  t.equal(ids.size, 1)
  t.strictSame(await readRowIds(database), ['a', 'b', 'c'])
  await until(() => announced > 0, 'the listener is called')
})

t.test('in a group, no work can open a transaction or read outside of its own', async (t) => {
  // Regression: the context of the caller, in which each work runs, hid that the work runs in a transaction.
  const database = await openPostgres(t)
  const messageOf = (error: unknown) => (error instanceof Error ? error.message : error)
  const outcomes = await runTogether(database, {
    a: () => database.transaction(async () => {}).catch(messageOf),
    b: () => database.read.selectFrom('audit_log').select('id').execute().catch(messageOf),
  })
  matches(t, outcomes, [
    { value: /opened inside another/ },
    { value: /must read through the transaction/ },
  ])
})

t.test('a transaction that throws is undone alone', async (t) => {
  const database = await openPostgres(t)
  const rejection = new Error('rejected')
  const outcomes = await runTogether(database, {
    a: (tx) => insertRow(tx, 'a'),
    async b(tx) {
      await insertRow(tx, 'b')
      throw rejection
    },
    c: (tx) => insertPrepared(tx, auditRow('c')),
  })
  matches(t, outcomes, [
    { status: 'fulfilled' },
    { status: 'rejected', reason: rejection },
    { status: 'fulfilled' },
  ])
  t.strictSame(await readRowIds(database), ['a', 'c'])
})

for (const [kind, insert] of [
  ['awaited', insertRow],
  ['prepared', (tx: Transaction, id: string) => insertPrepared(tx, auditRow(id))],
] as const) {
  t.test(`of two transactions with the same ${kind} row, one is rejected`, async (t) => {
    const database = await openPostgres(t)
    const outcomes = await runTogether(database, {
      a: (tx) => insert(tx, 'same'),
      b: (tx) => insert(tx, 'same'),
      c: (tx) => insert(tx, 'other'),
    })
    const rejected = outcomes.filter((outcome) => outcome.status === 'rejected')
    t.equal(rejected.length, 1)
    t.ok(rejected[0]?.reason instanceof ConstraintViolation)
    t.equal(outcomes[2]?.status, 'fulfilled')
    t.strictSame(await readRowIds(database), ['other', 'same'])
  })
}

const changeRows: Work = (tx) =>
  tx.updateTable('audit_log').set({ detail: '{"changed":true}' }).execute()

/** Opens a database with a row that another session has locked, until `unlock` is called. */
async function openWithLockedRow(t: Test) {
  const url = await newPostgresUrl(t)
  const database = await openTestDatabase(t, { url, waitMsMax: LONG_WAIT_MS_MAX })
  await database.transaction((tx) => insertRow(tx, 'locked'))
  const session = await connect(t, url)
  await session.query('begin')
  await session.query('select from audit_log for update')
  return { database, unlock: () => session.query('rollback') }
}

t.test('a transaction that must wait for a row does not make the others wait', async (t) => {
  const { database, unlock } = await openWithLockedRow(t)
  const outcomes = runTogether(database, {
    a: changeRows,
    b: (tx) => insertRow(tx, 'b'),
  })
  await until(async () => (await readRowIds(database)).includes('b'), 'b is recorded')
  await unlock()
  matches(t, await outcomes, [{ status: 'fulfilled' }, { status: 'fulfilled' }])
})

t.test('transactions that wait for a row by themselves do not make later ones wait', async (t) => {
  // Regression: two of them made all other payments of the account wait, until the wait for the row timed out.
  const { database, unlock } = await openWithLockedRow(t)
  const waiting: Promise<unknown>[] = []
  for (const debtorId of ['a', 'b']) {
    const begun = Promise.withResolvers<void>()
    const work: Work = (tx) => {
      begun.resolve()
      return changeRows(tx)
    }
    waiting.push(database.transaction(work, { accountId: ACCOUNT, debtorId }))
    await begun.promise
  }
  const later = database.transaction((tx) => insertRow(tx, 'later'), {
    accountId: ACCOUNT,
    debtorId: 'c',
  })
  await until(async () => (await readRowIds(database)).includes('later'), 'the later is recorded')
  await unlock()
  await Promise.all([...waiting, later])
})

t.test('a transaction does not wait in the queue for one about the same debtor', async (t) => {
  const database = await openPostgres(t)
  const blockers = await occupyGroups(database)
  const scope = { accountId: ACCOUNT, debtorId: 'debtor' }
  const waiting = database.transaction((tx) => insertRow(tx, 'waiting'), scope)
  await database.transaction((tx) => insertRow(tx, 'by itself'), scope)
  t.strictSame(await readRowIds(database), ['by itself'])
  await blockers.end()
  await waiting
  t.strictSame(await readRowIds(database), ['by itself', 'waiting'])
})

// Regression: only the first transaction of a debtor was taken into account. When it had ended, the next one was in a
// group, whose other transactions waited with it for the row of the debtor.
t.test('a transaction is in no group while one about the same debtor runs by itself', async (t) => {
  const database = await openPostgres(t)
  const scope = { accountId: ACCOUNT, debtorId: 'debtor' }
  const [first, second] = [1, 2].map(() => {
    const mayEnd = Promise.withResolvers<void>()
    return { mayEnd, ended: database.transaction(() => mayEnd.promise, scope) }
  })
  first?.mayEnd.resolve()
  await first?.ended
  const blockers = await occupyGroups(database)
  await database.transaction((tx) => insertRow(tx, 'by itself'), scope)
  t.strictSame(await readRowIds(database), ['by itself'])
  second?.mayEnd.resolve()
  await second?.ended
  await blockers.end()
})

t.test('all transactions of a group are run again if its connection is lost', async (t) => {
  const database = await openPostgres(t)
  let isTerminated = false
  const outcomes = await runTogether(database, {
    async a(tx) {
      await insertRow(tx, 'a')
      if (isTerminated) return
      isTerminated = true
      await sql`select pg_terminate_backend(pg_backend_pid())`.execute(tx)
    },
    b: (tx) => insertRow(tx, 'b'),
  })
  matches(t, outcomes, [{ status: 'fulfilled' }, { status: 'fulfilled' }])
  t.strictSame(await readRowIds(database), ['a', 'b'])
})

t.test('if the outcome of the COMMIT is unknown, it is unknown for the whole group', async (t) => {
  const url = new URL(await newPostgresUrl(t))
  const proxy = await startCuttingProxy(t, Number(url.port))
  url.port = String(proxy.port)
  const database = await openTestDatabase(t, { url: url.href, waitMsMax: LONG_WAIT_MS_MAX })
  // These writes are not awaited, so they are sent together with the COMMIT.
  proxy.cutAt('sent with the COMMIT', 'before')
  const outcomes = await runTogether(database, {
    a: (tx) => insertPrepared(tx, auditRow('a')),
    b: (tx) => insertPrepared(tx, auditRow('sent with the COMMIT')),
  })
  const unknown = { status: 'rejected', reason: { code: 'gateway_timeout' } }
  matches(t, outcomes, [unknown, unknown])
  t.strictSame(await readRowIds(database), [])
})

// Regression: the metrics counted the COMMIT of the group as a lost transaction, and the log said so.
t.test('if the server refuses the COMMIT of a group, no transaction counts as lost', async (t) => {
  const url = await newPostgresUrl(t)
  const database = await openTestDatabase(t, { url, waitMsMax: LONG_WAIT_MS_MAX })
  // A COMMIT is refused if its transaction has inserted two rows.
  const client = await connect(t, url)
  await client.query(`create function refuse_two_rows() returns trigger as $$ begin
    if (select count(*) from audit_log where xmin = pg_current_xact_id()::xid) > 1 then
      raise exception 'two rows' using errcode = 'disk_full';
    end if;
    return null;
  end $$ language plpgsql`)
  await client.query(`create constraint trigger refuse_two_rows after insert on audit_log
    deferrable initially deferred for each row execute function refuse_two_rows()`)
  const outcomes = await runTogether(database, {
    a: (tx) => insertPrepared(tx, auditRow('a')),
    b: (tx) => insertPrepared(tx, auditRow('b')),
  })
  matches(t, outcomes, [{ status: 'fulfilled' }, { status: 'fulfilled' }])
  t.strictSame(await readRowIds(database), ['a', 'b'])
  matches(t, database.activity(), { lost: 0 })
  t.equal(database.fault, undefined)
  const alone = database.transaction(async (tx) => {
    await insertPrepared(tx, auditRow('c'))
    await insertPrepared(tx, auditRow('d'))
  })
  await rejectsWith(t, alone, { code: 'service_unavailable' })
  matches(t, database.activity(), { lost: 1 })
})

t.test('a transaction whose group does not begin in time is rejected', async (t) => {
  const database = await openTestDatabase(t, { url: await newPostgresUrl(t), waitMsMax: 2_000 })
  const blockers = await occupyGroups(database)
  const work = database.transaction(async () => {}, { accountId: ACCOUNT, debtorId: 'debtor' })
  await rejectsWith(t, work, { code: 'service_unavailable' })
  // Regression: the metrics counted no loss, and nothing was logged.
  matches(t, database.activity(), { waiting: 0, lost: 1 })
  matches(t, database.fault, { message: /No connection was free/ })
  await blockers.end()
})
