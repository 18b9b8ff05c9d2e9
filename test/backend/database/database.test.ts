// The properties of every database. Those of SQLite's single writer are in write-queue.test.ts.
import t from 'tap'
import { ConstraintViolation } from '../../../backend/database/constraint-violation.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { note, notes, openTestDatabase } from '../../fixtures/service/database.ts'

const UNAVAILABLE = { code: 'service_unavailable', headers: { 'retry-after': '1' } }

t.test('a transaction is visible once its promise resolves', async (t) => {
  const database = await openTestDatabase(t)
  t.equal(await database.transaction((tx) => note(tx, 'a')), 'a')
  t.strictSame(await notes(database), ['a'])
})

t.test('a reader does not see what is not committed', async (t) => {
  const database = await openTestDatabase(t)
  const written = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const transaction = database.transaction(async (tx) => {
    await note(tx, 'a')
    written.resolve()
    await gate.promise
    return (await tx.selectFrom('audit_log').select('id').execute()).length
  })
  await written.promise
  t.strictSame(await notes(database), [])
  gate.resolve()
  t.equal(await transaction, 1, 'the transaction itself does')
  t.strictSame(await notes(database), ['a'])
})

t.test('a transaction that throws undoes only its own writes', async (t) => {
  const database = await openTestDatabase(t)
  const refusal = new Error('refused')
  await database.transaction((tx) => note(tx, 'a'))
  const outcomes = await Promise.allSettled([
    database.transaction(async (tx) => {
      await note(tx, 'b')
      throw refusal
    }),
    database.transaction(async (tx) => {
      await note(tx, 'c')
      await note(tx, 'a')
    }),
    database.transaction((tx) => note(tx, 'd')),
  ])
  matches(t, outcomes, [
    { status: 'rejected', reason: refusal },
    { status: 'rejected', reason: { kind: 'unique', columns: ['audit_log.id'] } },
    { status: 'fulfilled', value: 'd' },
  ])
  t.strictSame(await notes(database), ['a', 'd'])
})

t.test(
  'a violated constraint undoes its statement, and the transaction may continue',
  async (t) => {
    const database = await openTestDatabase(t)
    await database.transaction(async (tx) => {
      await note(tx, 'a')
      await rejectsWith(t, note(tx, 'a'), ConstraintViolation)
      await note(tx, 'b')
    })
    t.strictSame(await notes(database), ['a', 'b'])
  },
)

t.test('a transaction inside another is a mistake', async (t) => {
  const database = await openTestDatabase(t)
  await rejectsWith(
    t,
    database.transaction(() => database.transaction((tx) => note(tx, 'inner'))),
    { code: 'ERR_ASSERTION' },
  )
  t.strictSame(await notes(database), [])
})

t.test('a read outside the transaction is a mistake inside it', async (t) => {
  const database = await openTestDatabase(t)
  await rejectsWith(
    t,
    database.transaction(() => notes(database)),
    { code: 'ERR_ASSERTION' },
  )
})

t.test('a statement after the end of its transaction is a mistake', async (t) => {
  const database = await openTestDatabase(t)
  const kept = await database.transaction(async (tx) => ({ tx }))
  await rejectsWith(t, note(kept.tx, 'stray'), { code: 'ERR_ASSERTION' })
  t.strictSame(await notes(database), [])
})

t.test('statements of one transaction that overlap are all part of it', async (t) => {
  const database = await openTestDatabase(t)
  const outcome = database.transaction((tx) =>
    Promise.all([note(tx, 'a'), note(tx, 'b'), note(tx, 'a'), note(tx, 'c')]),
  )
  await rejectsWith(t, outcome, ConstraintViolation)
  await database.transaction((tx) => note(tx, 'd'))
  t.strictSame(await notes(database), ['d'])
})

t.test('a closed database completes running transactions and accepts no more', async (t) => {
  const database = await openTestDatabase(t)
  const begun = database.transaction((tx) => note(tx, 'a'))
  await database.close()
  t.equal(await begun, 'a')
  await rejectsWith(
    t,
    database.transaction((tx) => note(tx, 'b')),
    UNAVAILABLE,
  )
})

t.test('a thousand transactions at once are all recorded', async (t) => {
  const database = await openTestDatabase(t, { waitMsMax: 60_000 })
  const ids = Array.from({ length: 1000 }, (_, n) => `n${String(n).padStart(4, '0')}`)
  await Promise.all(ids.map((id) => database.transaction((tx) => note(tx, id))))
  t.strictSame(await notes(database), ids)
})
