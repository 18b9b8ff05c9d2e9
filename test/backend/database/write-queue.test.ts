import { join } from 'node:path'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import type { DatabaseOptions } from '../../../backend/database/database.ts'
import type { Transaction } from '../../../backend/database/tables.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { note, notes, openTestDatabase } from '../../fixtures/service/database.ts'

const UNAVAILABLE = { code: 'service_unavailable', headers: { 'retry-after': '1' } }

/** SQLite, whatever the tests run on. */
async function open(t: Test, options: Partial<DatabaseOptions> = {}) {
  return openTestDatabase(t, { url: `sqlite:${join(t.testdir(), 'test.db')}`, ...options })
}

t.test('transactions that wait are committed together', async (t) => {
  const database = await open(t)
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
  t.strictSame(await notes(database), [])
  t.equal(settled, false, 'no job gets its result before the commit')
  second.resolve()
  await Promise.all([a, b])
  t.strictSame(await notes(database), ['a', 'b'])
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

t.test('who waits is served before all that come later, however many keep coming', async (t) => {
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
