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
import { insertRow, openTestDatabase, readRowIds } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const UNAVAILABLE = { code: 'service_unavailable', headers: { 'retry-after': '1' } }

/** Opens SQLite, even if the tests run on PostgreSQL. */
async function open(t: Test, options: Partial<DatabaseOptions> = {}) {
  return openTestDatabase(t, { url: `sqlite:${join(t.testdir(), 'test.db')}`, ...options })
}

/**
 * Queues two transactions behind a third. Resolves with whether the first of the two was committed together
 * with the second.
 */
async function commitTogether(database: OpenDatabase, ids: readonly string[]): Promise<boolean> {
  const [idA = '', idB = ''] = ids
  const before = await readRowIds(database)
  const first = Promise.withResolvers<void>()
  const second = Promise.withResolvers<void>()
  const secondRuns = Promise.withResolvers<void>()
  const blocker = database.transaction(() => first.promise)
  let settled = false
  const a = database
    .transaction((tx) => insertRow(tx, idA))
    .finally(() => {
      settled = true
    })
  const b = database.transaction(async (tx) => {
    secondRuns.resolve()
    await second.promise
    await insertRow(tx, idB)
  })
  first.resolve()
  await blocker
  await secondRuns.promise
  const isTogether = !settled && (await readRowIds(database)).length === before.length
  second.resolve()
  await Promise.all([a, b])
  return isTogether
}

t.test('queued transactions are committed together', async (t) => {
  const database = await open(t)
  const ids: string[] = []
  // On a busy machine, the first transaction may take longer than a group may last.
  await until(() => {
    const pair = [`${ids.length}`, `${ids.length + 1}`]
    ids.push(...pair)
    return commitTogether(database, pair)
  }, 'both are committed together')
  t.strictSame(await readRowIds(database), ids.toSorted())
})

t.test('a transaction that takes long is committed before the next one begins', async (t) => {
  const database = await open(t)
  const first = Promise.withResolvers<void>()
  const blocker = database.transaction(() => first.promise)
  let settled = false
  const long = database
    .transaction(async (tx) => {
      await insertRow(tx, 'a')
      const from = performance.now()
      while (performance.now() - from < 150);
    })
    .finally(() => {
      settled = true
    })
  const next = database.transaction(async (tx) => {
    t.equal(settled, true)
    await insertRow(tx, 'b')
  })
  first.resolve()
  await Promise.all([blocker, long, next])
  t.strictSame(await readRowIds(database), ['a', 'b'])
})

t.test('a queued transaction runs before all that are queued later', async (t) => {
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
    database.transaction((tx) => insertRow(tx, 'late')),
    UNAVAILABLE,
  )
  gate.resolve()
  await blocker
  await database.transaction((tx) => insertRow(tx, 'next'))
  t.strictSame(await readRowIds(database), ['next'])
})

t.test('a full disk loses the whole group, and only the group', async (t) => {
  const database = await open(t)
  await database.transaction((tx) => insertRow(tx, 'before'))
  const fillUp = async (tx: Transaction) => {
    // The limit applies to this connection only, which is closed together with the group.
    await sql`pragma max_page_count = 1`.execute(tx)
    await insertRow(tx, 'b', 'x'.repeat(1_000_000)).catch(() => 'swallowed')
  }
  const outcomes = await Promise.allSettled([
    database.transaction((tx) => insertRow(tx, 'a')),
    database.transaction(fillUp),
    database.transaction(async () => {
      throw new Error('refused in a group that is lost')
    }),
  ])
  const lost = { status: 'rejected', reason: { ...UNAVAILABLE, cause: { code: 'SQLITE_FULL' } } }
  matches(t, outcomes.slice(-2), [lost, lost])
  matches(t, database.fault, { code: 'SQLITE_FULL' })
  await database.transaction((tx) => insertRow(tx, 'c'))
  t.equal(database.fault, undefined)
  t.notOk((await readRowIds(database)).includes('b'))
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

/** Copies a row to each id, with prepared writes, whose promises resolve before the results arrive. */
async function copyNote(tx: Transaction, from: string, ...ids: readonly string[]) {
  const [row] = await findNote(tx, { id: from })
  if (row === undefined) throw new Error(`there is no row ${from}`)
  for (const id of ids) await insertNote(tx, { ...row, id })
}

t.test('writes that run together are undone together, in a group and alone', async (t) => {
  const database = await open(t)
  await database.transaction((tx) => insertRow(tx, 'a'))
  const violation = { name: 'ConstraintViolation', columns: ['audit_log.id'] }
  // In the first round the writes run one by one; later, the same writes run as one statement.
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
  t.strictSame(await readRowIds(database), ['a', ...expected].sort())
})

t.test('a transaction whose write failed is undone, even if it catches the error', async (t) => {
  const database = await open(t)
  await database.transaction((tx) => insertRow(tx, 'a'))
  const stubborn = database.transaction(async (tx) => {
    await insertRow(tx, 'b')
    await copyNote(tx, 'a', 'a')
    await findNote(tx, { id: 'a' }).catch(() => 'swallowed')
  })
  await rejectsWith(t, stubborn, { name: 'ConstraintViolation', columns: ['audit_log.id'] })
  t.strictSame(await readRowIds(database), ['a'])
})

t.test('a read sees what its transaction has written before, even by a trigger', async (t) => {
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

// Regression: the next group after such writes was rejected with 503.
t.test('writes that cannot run together run one by one', async (t) => {
  const database = await open(t)
  await database.transaction((tx) => insertRow(tx, 'a'))
  for (const round of ['1', '2', '3']) {
    await database.transaction(async (tx) => {
      const [row] = await findNote(tx, { id: 'a' })
      if (row === undefined) throw new Error('there is no row a')
      await insertWithCommonTable(tx, { ...row, id: `b${round}` })
      await insertWithCommonTable(tx, { ...row, id: `c${round}` })
    })
  }
  t.strictSame(await readRowIds(database), ['a', 'b1', 'b2', 'b3', 'c1', 'c2', 'c3'])
})
