import { join } from 'node:path'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { DatabaseOptions } from '../../../backend/database/database.ts'
import type { OpenDatabase } from '../../../backend/database/open.ts'
import { prepared } from '../../../backend/database/prepared.ts'
import type { AuditRow, Transaction } from '../../../backend/database/tables.ts'
import { createDebtor } from '../../../backend/debtors/debtors.ts'
import { plainDebtor } from '../../fixtures/books/plain-records.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { note, notes, openTestDatabase } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const UNAVAILABLE = { code: 'service_unavailable', headers: { 'retry-after': '1' } }

/** SQLite, whatever the tests run on. */
async function open(t: Test, options: Partial<DatabaseOptions> = {}) {
  return openTestDatabase(t, { url: `sqlite:${join(t.testdir(), 'test.db')}`, ...options })
}

/** Two transactions that wait for a third; resolves with whether the first of them waits for the second. */
async function commitTogether(database: OpenDatabase): Promise<boolean> {
  const before = await notes(database)
  const first = Promise.withResolvers<void>()
  const second = Promise.withResolvers<void>()
  const secondRuns = Promise.withResolvers<void>()
  const blocker = database.transaction(() => first.promise)
  let settled = false
  const a = database
    .transaction((tx) => note(tx, 'a'))
    .finally(() => {
      settled = true
    })
  const b = database.transaction(async (tx) => {
    secondRuns.resolve()
    await second.promise
    await note(tx, 'b')
  })
  first.resolve()
  await blocker
  await secondRuns.promise
  const isTogether = !settled && (await notes(database)).length === before.length
  second.resolve()
  await Promise.all([a, b])
  return isTogether
}

t.test('transactions that wait are committed together', async (t) => {
  const database = await open(t)
  // On a busy machine, the first may take longer than a group may last.
  await until(() => commitTogether(database), 'the first gets its result with the second')
  t.strictSame((await notes(database)).slice(-2), ['a', 'b'])
})

t.test('a group that takes long is committed before another is begun', async (t) => {
  const database = await open(t)
  const first = Promise.withResolvers<void>()
  const blocker = database.transaction(() => first.promise)
  let settled = false
  const long = database
    .transaction(async (tx) => {
      await note(tx, 'a')
      const from = performance.now()
      while (performance.now() - from < 150);
    })
    .finally(() => {
      settled = true
    })
  const next = database.transaction(async (tx) => {
    t.equal(settled, true)
    await note(tx, 'b')
  })
  first.resolve()
  await Promise.all([blocker, long, next])
  t.strictSame(await notes(database), ['a', 'b'])
})

t.test('a transaction that waits runs before all that come later', async (t) => {
  const database = await open(t)
  const turns: string[] = []
  let paying = true
  const payers = Array.from({ length: 200 }, async () => {
    while (paying) await database.transaction(async () => void turns.push('payment'))
  })
  await database.transaction(async () => void turns.push('settings'))
  paying = false
  await Promise.all(payers)
  t.equal(turns.indexOf('settings'), payers.length)
})

t.test('a transaction that waits too long for the writer is rejected and never runs', async (t) => {
  const database = await open(t, { waitMsMax: 500 })
  const gate = Promise.withResolvers<void>()
  const blocker = database.transaction(() => gate.promise)
  await rejectsWith(
    t,
    database.transaction((tx) => note(tx, 'late')),
    UNAVAILABLE,
  )
  gate.resolve()
  await blocker
  await database.transaction((tx) => note(tx, 'next'))
  t.strictSame(await notes(database), ['next'])
})

t.test('a full disk loses the whole group, and only the group', async (t) => {
  const database = await open(t)
  await database.transaction((tx) => note(tx, 'before'))
  const fillUp = async (tx: Transaction) => {
    // The limit is the connection's, and the connection is given up with the group.
    await sql`pragma max_page_count = 1`.execute(tx)
    await note(tx, 'b', 'x'.repeat(1_000_000)).catch(() => 'swallowed')
  }
  const outcomes = await Promise.allSettled([
    database.transaction((tx) => note(tx, 'a')),
    database.transaction(fillUp),
    database.transaction(async () => {
      throw new Error('refused, perhaps for a reason that is lost')
    }),
  ])
  const lost = { status: 'rejected', reason: { ...UNAVAILABLE, cause: { code: 'SQLITE_FULL' } } }
  matches(t, outcomes.slice(-2), [lost, lost])
  matches(t, database.fault, { code: 'SQLITE_FULL' })
  await database.transaction((tx) => note(tx, 'c'))
  t.equal(database.fault, undefined)
  t.notOk((await notes(database)).includes('b'))
})

const insertNote = prepared((tx: Transaction, row: AuditRow) =>
  tx.insertInto('audit_log').values(row),
)

const findNote = prepared((tx: Transaction, { id }: { id: string }) =>
  tx.selectFrom('audit_log').selectAll().where('id', '=', id),
)

const readChanges = prepared((tx: Transaction, { accountId }: { accountId: string }) =>
  tx.selectFrom('ledger_changes').select('debtor_id').where('account_id', '=', accountId),
)

const renameDebtors = prepared((tx: Transaction, { name }: { name: string }) =>
  tx.updateTable('debtors').set({ name }),
)

/** Writes copies of a note, of which none waits for the result of another. */
async function copyNote(tx: Transaction, from: string, ...ids: readonly string[]) {
  const [row] = await findNote(tx, { id: from })
  if (row === undefined) throw new Error(`there is no note ${from}`)
  for (const id of ids) await insertNote(tx, { ...row, id })
}

t.test('writes that run together are undone together, in a group and alone', async (t) => {
  const database = await open(t)
  await database.transaction((tx) => note(tx, 'a'))
  const violation = { name: 'ConstraintViolation', columns: ['audit_log.id'] }
  // The same writes run one by one at first, and then as one statement.
  for (const round of ['1', '2', '3']) {
    const copy = (...ids: readonly string[]) =>
      database.transaction((tx) => copyNote(tx, 'a', ...ids))
    await copy(`alone${round}`, `beside${round}`)
    await rejectsWith(t, copy(`lost${round}`, 'a'), violation, 'alone')
    const outcomes = await Promise.allSettled([
      copy(`first${round}`, `second${round}`),
      copy(`gone${round}`, 'a'),
      database.transaction(async (tx) => {
        await copyNote(tx, 'a', `read${round}`)
        await copyNote(tx, `read${round}`, `undone${round}`, `undone${round}`)
      }),
      copy(`third${round}`, `fourth${round}`),
    ])
    t.strictSame(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
    )
  }
  const kept = ['alone', 'beside', 'first', 'second', 'third', 'fourth']
  const expected = ['1', '2', '3'].flatMap((round) => kept.map((name) => name + round))
  t.strictSame(await notes(database), ['a', ...expected].sort())
})

t.test('a transaction whose write failed is undone, even if it catches the error', async (t) => {
  const database = await open(t)
  await database.transaction((tx) => note(tx, 'a'))
  const stubborn = database.transaction(async (tx) => {
    await note(tx, 'b')
    await copyNote(tx, 'a', 'a')
    await findNote(tx, { id: 'a' }).catch(() => 'swallowed')
  })
  await rejectsWith(t, stubborn, { name: 'ConstraintViolation', columns: ['audit_log.id'] })
  t.strictSame(await notes(database), ['a'])
})

t.test('a read sees what its transaction wrote before, also by a trigger', async (t) => {
  const database = await open(t)
  const now = new Date('2026-11-21T10:15:00.000Z')
  await database.transaction(async (tx) => {
    const account = await createAccount(tx, { name: 'Acme Ltd' }, { actor: OPERATOR, now })
    const accountId = account.id
    const { id } = await createDebtor(tx, { accountId, isDemo: false }, plainDebtor(), now)
    await sql`delete from ledger_changes`.execute(tx)
    await renameDebtors(tx, { name: 'Other Ltd' })
    t.strictSame(await readChanges(tx, { accountId }), [{ debtor_id: id }])
  })
})

const insertWithCommonTable = prepared((tx: Transaction, row: AuditRow) =>
  tx
    .with('named', (db) => db.selectNoFrom(sql<string>`${row.action}`.as('action')))
    .insertInto('audit_log')
    .values({ ...row, action: (eb) => eb.selectFrom('named').select('action') }),
)

// The group after such writes was rejected with 503.
t.test('writes that cannot run together run one by one', async (t) => {
  const database = await open(t)
  await database.transaction((tx) => note(tx, 'a'))
  for (const round of ['1', '2', '3']) {
    await database.transaction(async (tx) => {
      const [row] = await findNote(tx, { id: 'a' })
      if (row === undefined) throw new Error('there is no note a')
      await insertWithCommonTable(tx, { ...row, id: `b${round}` })
      await insertWithCommonTable(tx, { ...row, id: `c${round}` })
    })
  }
  t.strictSame(await notes(database), ['a', 'b1', 'b2', 'b3', 'c1', 'c2', 'c3'])
})
