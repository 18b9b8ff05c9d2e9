// Behavior that SQLite and PostgreSQL share. write-queue.test.ts tests the single writer of SQLite.
import t from 'tap'
import { ConstraintViolation } from '../../../backend/database/constraint-violation.ts'
import type { Reader } from '../../../backend/database/database.ts'
import { prepared } from '../../../backend/database/prepared.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { insertRow, openTestDatabase, readRowIds } from '../../fixtures/service/database.ts'

const UNAVAILABLE = { code: 'service_unavailable', headers: { 'retry-after': '1' } }

t.test('a transaction is visible once its promise resolves', async (t) => {
  const database = await openTestDatabase(t)
  t.equal(await database.transaction((tx) => insertRow(tx, 'a')), 'a')
  t.strictSame(await readRowIds(database), ['a'])
})

t.test('a reader does not see uncommitted rows', async (t) => {
  const database = await openTestDatabase(t)
  const written = Promise.withResolvers<void>()
  const mayCommit = Promise.withResolvers<void>()
  const transaction = database.transaction(async (tx) => {
    await insertRow(tx, 'a')
    written.resolve()
    await mayCommit.promise
    return (await tx.selectFrom('audit_log').select('id').execute()).length
  })
  await written.promise
  t.strictSame(await readRowIds(database), [])
  mayCommit.resolve()
  t.equal(await transaction, 1, 'the transaction itself sees its row')
  t.strictSame(await readRowIds(database), ['a'])
})

t.test('a transaction that throws undoes only its own writes', async (t) => {
  const database = await openTestDatabase(t)
  const failure = new Error('thrown by the transaction')
  await database.transaction((tx) => insertRow(tx, 'a'))
  const outcomes = await Promise.allSettled([
    database.transaction(async (tx) => {
      await insertRow(tx, 'b')
      throw failure
    }),
    database.transaction(async (tx) => {
      await insertRow(tx, 'c')
      await insertRow(tx, 'a')
    }),
    database.transaction((tx) => insertRow(tx, 'd')),
  ])
  matches(t, outcomes, [
    { status: 'rejected', reason: failure },
    { status: 'rejected', reason: { kind: 'unique', columns: ['audit_log.id'] } },
    { status: 'fulfilled', value: 'd' },
  ])
  t.strictSame(await readRowIds(database), ['a', 'd'])
})

t.test(
  'a violated constraint undoes only its statement, and the transaction can continue',
  async (t) => {
    const database = await openTestDatabase(t)
    await database.transaction(async (tx) => {
      await insertRow(tx, 'a')
      await rejectsWith(t, insertRow(tx, 'a'), ConstraintViolation)
      await insertRow(tx, 'b')
    })
    t.strictSame(await readRowIds(database), ['a', 'b'])
  },
)

t.test('a transaction inside another fails an assertion', async (t) => {
  const database = await openTestDatabase(t)
  await rejectsWith(
    t,
    database.transaction(() => database.transaction((tx) => insertRow(tx, 'inner'))),
    { code: 'ERR_ASSERTION' },
  )
  t.strictSame(await readRowIds(database), [])
})

t.test('a transaction that uses `database.read` fails an assertion', async (t) => {
  const database = await openTestDatabase(t)
  await rejectsWith(
    t,
    database.transaction(() => readRowIds(database)),
    { code: 'ERR_ASSERTION' },
  )
})

t.test('a statement after the end of its transaction fails an assertion', async (t) => {
  const database = await openTestDatabase(t)
  const ended = await database.transaction(async (tx) => ({ tx }))
  await rejectsWith(t, insertRow(ended.tx, 'stray'), { code: 'ERR_ASSERTION' })
  t.strictSame(await readRowIds(database), [])
})

t.test('overlapping statements of a transaction are rolled back together', async (t) => {
  const database = await openTestDatabase(t)
  const outcome = database.transaction((tx) =>
    Promise.all([insertRow(tx, 'a'), insertRow(tx, 'b'), insertRow(tx, 'a'), insertRow(tx, 'c')]),
  )
  await rejectsWith(t, outcome, ConstraintViolation)
  await database.transaction((tx) => insertRow(tx, 'd'))
  t.strictSame(await readRowIds(database), ['d'])
})

t.test('a database that closes completes running transactions and rejects new ones', async (t) => {
  const database = await openTestDatabase(t)
  const running = database.transaction((tx) => insertRow(tx, 'a'))
  await database.close()
  t.equal(await running, 'a')
  await rejectsWith(
    t,
    database.transaction((tx) => insertRow(tx, 'b')),
    UNAVAILABLE,
  )
})

t.test('a thousand concurrent transactions are all committed', async (t) => {
  const database = await openTestDatabase(t, { waitMsMax: 60_000 })
  const ids = Array.from({ length: 1000 }, (_, n) => `n${String(n).padStart(4, '0')}`)
  await Promise.all(ids.map((id) => database.transaction((tx) => insertRow(tx, id))))
  t.strictSame(await readRowIds(database), ids)
})

t.test('waiting transactions of different accounts take turns', async (t) => {
  // On PostgreSQL, this leaves one connection for transactions.
  const database = await openTestDatabase(t, { connectionsMax: 3 })
  const begun: string[] = []
  const mayEnd = Promise.withResolvers<void>()
  const blocker = database.transaction(() => mayEnd.promise, { accountId: 'other' })
  const request = (id: string, accountId?: string) =>
    database.transaction(async () => void begun.push(id), { accountId })
  const requested = [
    ...Array.from({ length: 10 }, (_, n) => request(`a${n}`, 'a')),
    ...[request('b0', 'b'), request('b1', 'b')],
    ...[request('own work 0'), request('own work 1')],
  ]
  mayEnd.resolve()
  await Promise.all([blocker, ...requested])
  t.equal(begun.length, requested.length)
  t.ok(begun.indexOf('b0') < begun.indexOf('a1'))
  t.ok(begun.indexOf('own work 0') < begun.indexOf('a1'))
  for (const name of ['a', 'b', 'own work']) {
    const own = begun.filter((id) => id.startsWith(name))
    t.strictSame(own, own.toSorted(), `those of ${name} begin in their order`)
  }
})

// Regression: a statement was kept for each length of an array, e.g. for each number of invoices that payments paid.
t.test('only prepared statements with short arrays are kept', async (t) => {
  const database = await openTestDatabase(t)
  await database.transaction((tx) => insertRow(tx, 'id7'))
  let built = 0
  const findRows = prepared((db: Reader, { ids }: { ids: readonly string[] }) => {
    built++
    return db.selectFrom('audit_log').select('id').where('id', 'in', ids)
  })
  const uses = [
    { length: 100, statements: 1 },
    { length: 100, statements: 1 },
    { length: 101, statements: 2 },
    { length: 101, statements: 3 },
  ]
  for (const { length, statements } of uses) {
    const ids = Array.from({ length }, (_, n) => `id${n}`)
    t.strictSame(await findRows(database.read, { ids }), [{ id: 'id7' }])
    t.equal(built, statements)
  }
})
