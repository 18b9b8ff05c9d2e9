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
import { plainDebtor } from '../../fixtures/accounts/plain-records.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import {
  insertRow,
  lockDatabase,
  openTestDatabase,
  readRowIds,
} from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const UNAVAILABLE = { code: 'service_unavailable', headers: { 'retry-after': '1' } }

/** Opens SQLite, even if the tests run on PostgreSQL. */
async function openSqlite(t: Test, options: Partial<DatabaseOptions> = {}) {
  return openTestDatabase(t, { url: `sqlite:${join(t.testdir(), 'test.db')}`, ...options })
}

/** Queues two transactions behind a running one. Resolves with whether the two were committed together. */
async function areCommittedTogether(
  database: OpenDatabase,
  ids: readonly string[],
): Promise<boolean> {
  const [idA = '', idB = ''] = ids
  const before = await readRowIds(database)
  const blockerMayEnd = Promise.withResolvers<void>()
  const secondBegan = Promise.withResolvers<void>()
  const secondMayWrite = Promise.withResolvers<void>()
  const blocker = database.transaction(() => blockerMayEnd.promise)
  let isFirstSettled = false
  const first = database
    .transaction((tx) => insertRow(tx, idA))
    .finally(() => {
      isFirstSettled = true
    })
  const second = database.transaction(async (tx) => {
    secondBegan.resolve()
    await secondMayWrite.promise
    await insertRow(tx, idB)
  })
  blockerMayEnd.resolve()
  await blocker
  await secondBegan.promise
  // If the second transaction began before the first was committed, both belong to one group.
  const areTogether = !isFirstSettled && (await readRowIds(database)).length === before.length
  secondMayWrite.resolve()
  await Promise.all([first, second])
  return areTogether
}

t.test('queued transactions are committed together', async (t) => {
  const database = await openSqlite(t)
  const ids: string[] = []
  // On a busy machine, the first transaction may exceed the time limit of a group (50 ms).
  await until(() => {
    const pair = [`${ids.length}`, `${ids.length + 1}`]
    ids.push(...pair)
    return areCommittedTogether(database, pair)
  }, 'both are committed together')
  t.strictSame(await readRowIds(database), ids.toSorted())
})

t.test('a long transaction is committed before the next one begins', async (t) => {
  const database = await openSqlite(t)
  const blockerMayEnd = Promise.withResolvers<void>()
  const blocker = database.transaction(() => blockerMayEnd.promise)
  let isCommitted = false
  const long = database
    .transaction(async (tx) => {
      await insertRow(tx, 'a')
      // Longer than the time limit of a group, which is 50 ms.
      const from = performance.now()
      while (performance.now() - from < 150);
    })
    .finally(() => {
      isCommitted = true
    })
  const next = database.transaction(async (tx) => {
    t.equal(isCommitted, true)
    await insertRow(tx, 'b')
  })
  blockerMayEnd.resolve()
  await Promise.all([blocker, long, next])
  t.strictSame(await readRowIds(database), ['a', 'b'])
})

t.test('queued transactions run in the order in which they were queued', async (t) => {
  const database = await openSqlite(t)
  const runs: string[] = []
  let isPaying = true
  const payers = Array.from({ length: 200 }, async () => {
    while (isPaying) await database.transaction(async () => void runs.push('payment'))
  })
  await database.transaction(async () => void runs.push('settings'))
  isPaying = false
  await Promise.all(payers)
  t.equal(runs.indexOf('settings'), payers.length, 'after the first payment of each client')
})

t.test('a transaction is committed before the next one of an account with slow ones', async (t) => {
  const database = await openSqlite(t)
  const slow = database.transaction(
    async () => {
      // Longer than 20 ms, which is slow, but shorter than the time limit of a group.
      const from = performance.now()
      while (performance.now() - from < 25);
    },
    { accountId: 'a' },
  )
  let isCommitted = false
  const next = database.transaction(
    async () => {
      t.equal(isCommitted, true)
    },
    { accountId: 'a' },
  )
  // Queued later, but it is the turn of this account.
  const quick = database
    .transaction((tx) => insertRow(tx, 'b'), { accountId: 'b' })
    .then(() => {
      isCommitted = true
    })
  await Promise.all([slow, next, quick])
})

t.test('a transaction that waits too long in the queue is rejected and never runs', async (t) => {
  const database = await openSqlite(t, { waitMsMax: 500 })
  const blockerMayEnd = Promise.withResolvers<void>()
  const blocker = database.transaction(() => blockerMayEnd.promise)
  await rejectsWith(
    t,
    database.transaction((tx) => insertRow(tx, 'late')),
    UNAVAILABLE,
  )
  blockerMayEnd.resolve()
  await blocker
  await database.transaction((tx) => insertRow(tx, 'next'))
  t.strictSame(await readRowIds(database), ['next'])
})

t.test(
  'a transaction that waits too long for another process counts as lost, not as committed',
  async (t) => {
    // Regression: if the transaction was the first in the queue, it also counted as committed.
    const directory = t.testdir()
    const url = `sqlite:${join(directory, 'test.db')}`
    const database = await openTestDatabase(t, { url, waitMsMax: 200 })
    const { committed, lost } = database.activity()
    const unlock = await lockDatabase(t, join(directory, 'test.db'))
    await rejectsWith(
      t,
      database.transaction((tx) => insertRow(tx, 'late')),
      UNAVAILABLE,
    )
    await unlock()
    await database.transaction((tx) => insertRow(tx, 'next'))
    t.strictSame(await readRowIds(database), ['next'])
    matches(t, database.activity(), { committed: committed + 1, lost: lost + 1 })
  },
)

t.test('a full disk undoes the whole group of transactions, and only the group', async (t) => {
  const database = await openSqlite(t)
  await database.transaction((tx) => insertRow(tx, 'before'))
  const fillUp = async (tx: Transaction) => {
    // The limit ends with the group, because the database then replaces the connection.
    await sql`pragma max_page_count = 1`.execute(tx)
    await insertRow(tx, 'b', 'x'.repeat(1_000_000)).catch(() => 'swallowed')
  }
  const outcomes = await Promise.allSettled([
    database.transaction((tx) => insertRow(tx, 'a')),
    database.transaction(fillUp),
    database.transaction(async () => {
      throw new Error('thrown in a group that is undone')
    }),
  ])
  const lost = { status: 'rejected', reason: { ...UNAVAILABLE, cause: { code: 'SQLITE_FULL' } } }
  matches(t, outcomes.slice(-2), [lost, lost])
  matches(t, database.fault, { code: 'SQLITE_FULL' })
  await database.transaction((tx) => insertRow(tx, 'c'))
  t.equal(database.fault, undefined)
  const ids = await readRowIds(database)
  t.ok(ids.includes('before') && ids.includes('c'))
  t.notOk(ids.includes('b'))
})

const insertAuditRow = prepared((tx: Transaction, row: AuditRow) =>
  tx.insertInto('audit_log').values(row),
)

const findAuditRow = prepared((tx: Transaction, { id }: { id: string }) =>
  tx.selectFrom('audit_log').selectAll().where('id', '=', id),
)

const readChanges = prepared((tx: Transaction, { accountId }: { accountId: string }) =>
  tx.selectFrom('ledger_changes').select('debtor_id').where('account_id', '=', accountId),
)

const renameDebtors = prepared((tx: Transaction, { name }: { name: string }) =>
  tx.updateTable('debtors').set({ name }),
)

/** Copies a row under each id. The promises of the prepared inserts resolve before their results arrive. */
async function copyAuditRow(tx: Transaction, from: string, ...ids: readonly string[]) {
  const [row] = await findAuditRow(tx, { id: from })
  if (row === undefined) throw new Error(`there is no row ${from}`)
  for (const id of ids) await insertAuditRow(tx, { ...row, id })
}

t.test(
  'if a write in a combined statement fails, only the transaction of that write is undone',
  async (t) => {
    const database = await openSqlite(t)
    await database.transaction((tx) => insertRow(tx, 'a'))
    const violation = { name: 'ConstraintViolation', columns: ['audit_log.id'] }
    // In the first round the writes run one by one; later, the same writes run as one statement.
    for (const round of ['1', '2', '3']) {
      const copy = (...ids: readonly string[]) =>
        database.transaction((tx) => copyAuditRow(tx, 'a', ...ids))
      await copy(`alone${round}`, `beside${round}`)
      await rejectsWith(t, copy(`lost${round}`, 'a'), violation, 'alone')
      const outcomes = await Promise.allSettled([
        copy(`first${round}`, `second${round}`),
        copy(`gone${round}`, 'a'),
        database.transaction(async (tx) => {
          await copyAuditRow(tx, 'a', `read${round}`)
          await copyAuditRow(tx, `read${round}`, `undone${round}`, `undone${round}`)
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
  },
)

t.test('a transaction with a failed write is undone, even if it catches the error', async (t) => {
  const database = await openSqlite(t)
  await database.transaction((tx) => insertRow(tx, 'a'))
  const catching = database.transaction(async (tx) => {
    await insertRow(tx, 'b')
    await copyAuditRow(tx, 'a', 'a')
    await findAuditRow(tx, { id: 'a' }).catch(() => 'swallowed')
  })
  await rejectsWith(t, catching, { name: 'ConstraintViolation', columns: ['audit_log.id'] })
  t.strictSame(await readRowIds(database), ['a'])
})

t.test('a read sees earlier writes of its transaction, even those of a trigger', async (t) => {
  const database = await openSqlite(t)
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

const insertWithCommonTableExpression = prepared((tx: Transaction, row: AuditRow) =>
  tx
    .with('named', (db) => db.selectNoFrom(sql<string>`${row.action}`.as('action')))
    .insertInto('audit_log')
    .values({ ...row, action: (eb) => eb.selectFrom('named').select('action') }),
)

// Regression: after such writes, the next group of transactions was rejected with 503.
t.test('writes that cannot be combined into one statement run one by one', async (t) => {
  const database = await openSqlite(t)
  await database.transaction((tx) => insertRow(tx, 'a'))
  for (const round of ['1', '2', '3']) {
    await database.transaction(async (tx) => {
      const [row] = await findAuditRow(tx, { id: 'a' })
      if (row === undefined) throw new Error('there is no row a')
      await insertWithCommonTableExpression(tx, { ...row, id: `b${round}` })
      await insertWithCommonTableExpression(tx, { ...row, id: `c${round}` })
    })
  }
  t.strictSame(await readRowIds(database), ['a', 'b1', 'b2', 'b3', 'c1', 'c2', 'c3'])
})
