import { join } from 'node:path'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { insertRow, openTestDatabase } from '../../fixtures/service/database.ts'

/** Opens SQLite, even if the tests run on PostgreSQL. `details` maps the id of each row to its detail. */
async function openSqliteWithRows(t: Test, details: Readonly<Record<string, string>> = {}) {
  const database = await openTestDatabase(t, { url: `sqlite:${join(t.testdir(), 'test.db')}` })
  await database.transaction(async (tx) => {
    for (const [id, detail] of Object.entries(details)) await insertRow(tx, id, detail)
  })
  const find = (id: string) =>
    database.read.selectFrom('audit_log').selectAll().where('id', '=', id).execute()
  return { ...database, find }
}

t.test('many reads in one turn of the event loop each get their own rows', async (t) => {
  const ids = Array.from({ length: 100 }, (_, n) => `note_${n}`)
  const { read, find } = await openSqliteWithRows(
    t,
    Object.fromEntries(ids.map((id) => [id, `of ${id}`])),
  )
  const requestedIds = [...ids, 'note_absent']
  const count = () => read.selectFrom('audit_log').select(({ fn }) => fn.countAll().as('all'))
  const [found, [total]] = await Promise.all([
    Promise.all(requestedIds.map(find)),
    count().execute(),
  ])
  t.strictSame(
    found.map((rows) => rows.map(({ id, detail }) => [id, detail])),
    [...ids.map((id) => [[id, `of ${id}`]]), []],
  )
  t.strictSame(total, { all: 100 })
})

t.test('rows have the stored values, in the requested order', async (t) => {
  const texts = [
    '',
    '"quoted" \\ \u2028 \u{1f600}',
    "it's ?1",
    'a\u0000b',
    '{"json": [1]}',
    '12',
    'null',
  ]
  const { read } = await openSqliteWithRows(
    t,
    Object.fromEntries(texts.map((text, n) => [`note_${n}`, text])),
  )
  const numbers = [0, -1, 1.5, Number.MAX_SAFE_INTEGER]
  const select = (number: number) =>
    read
      .selectFrom('audit_log')
      .select(['detail', 'address', sql<number>`${number}`.as('number')])
      .where('detail', 'in', texts)
      .orderBy('id', 'desc')
  const expected = (number: number) =>
    texts.toReversed().map((detail) => ({ detail, address: null, number }))
  t.strictSame(
    await Promise.all(numbers.map((number) => select(number).execute())),
    numbers.map(expected),
    'together',
  )
  t.strictSame(await select(7).limit(3).execute(), expected(7).slice(0, 3), 'a page')
})

t.test('a read that fails does not fail the reads that run together with it', async (t) => {
  const { read } = await openSqliteWithRows(t, { note: '{"a": 1}' })
  const select = (path: string) =>
    read
      .selectFrom('audit_log')
      .select(sql<unknown>`json_extract(detail, ${path})`.as('value'))
      .execute()
  const [first, wrong, last] = await Promise.allSettled(['$.a', 'no path', '$.b'].map(select))
  t.strictSame(first, { status: 'fulfilled', value: [{ value: 1 }] })
  matches(t, wrong, { status: 'rejected', reason: { code: 'SQLITE_ERROR' } })
  t.strictSame(last, { status: 'fulfilled', value: [{ value: null }] })
})

t.test(
  'many pages in one turn of the event loop each get their own rows, in the requested order',
  async (t) => {
    const ids = Array.from({ length: 30 }, (_, n) => `note_${String(n).padStart(2, '0')}`)
    const { read } = await openSqliteWithRows(
      t,
      Object.fromEntries(ids.map((id) => [id, `["${id}"]`])),
    )
    const page = (after: string, limit: number) =>
      read
        .selectFrom('audit_log')
        .select(['id', 'detail'])
        .where('id', '>', after)
        .orderBy('id', 'desc')
        .limit(limit)
        .execute()
    const expected = (after: string, limit: number) =>
      ids
        .filter((id) => id > after)
        .toReversed()
        .slice(0, limit)
        .map((id) => ({ id, detail: `["${id}"]` }))
    for (const count of [1, 2, 3, 7, 30]) {
      const starts = ids.slice(0, count)
      t.strictSame(
        await Promise.all(starts.map((id, n) => page(id, n + 1))),
        starts.map((id, n) => expected(id, n + 1)),
        `${count} pages`,
      )
    }
  },
)

t.test('a page that fails does not fail the pages that are read together with it', async (t) => {
  const { read } = await openSqliteWithRows(t, { note: '{"a": 1}' })
  const page = (path: string) =>
    read
      .selectFrom('audit_log')
      .select(sql<unknown>`json_extract(detail, ${path})`.as('value'))
      .limit(5)
      .execute()
  const outcomes = await Promise.allSettled(['$.a', 'no path', '$.b', '$.c'].map(page))
  t.strictSame(
    outcomes.map((outcome) =>
      outcome.status === 'fulfilled' ? outcome.value : outcome.reason.code,
    ),
    [[{ value: 1 }], 'SQLITE_ERROR', [{ value: null }], [{ value: null }]],
  )
})

t.test('a read that begins after a commit sees the new row, even under load', async (t) => {
  const { transaction, find } = await openSqliteWithRows(t)
  let isReading = true
  const others = Array.from({ length: 20 }, async (_, n) => {
    while (isReading) await find(`note_${n}`)
  })
  for (let n = 0; n < 50; n++) {
    const id = await transaction((tx) => insertRow(tx, `note_${n}`))
    t.equal((await find(id)).length, 1, id)
  }
  isReading = false
  await Promise.all(others)
})

t.test('a long transaction does not delay reads', async (t) => {
  const { find, transaction } = await openSqliteWithRows(t, { note_1: 'before' })
  const begun = Promise.withResolvers<void>()
  const mayCommit = Promise.withResolvers<void>()
  const long = transaction(async (tx) => {
    await insertRow(tx, 'note_2')
    begun.resolve()
    await mayCommit.promise
  })
  await begun.promise
  t.strictSame(
    (await find('note_1')).map(({ detail }) => detail),
    ['before'],
  )
  t.strictSame(await find('note_2'), [], 'not committed yet')
  mayCommit.resolve()
  await long
  t.strictSame(
    (await find('note_2')).map(({ id }) => id),
    ['note_2'],
  )
})

t.test('reads that arrive while a transaction fails succeed', async (t) => {
  const { find, transaction } = await openSqliteWithRows(t, { note_1: 'before' })
  const reads: ReturnType<typeof find>[] = []
  const begun = Promise.withResolvers<void>()
  const failing = transaction(async (tx) => {
    await insertRow(tx, 'note_2')
    begun.resolve()
    await insertRow(tx, 'note_2')
  })
  await begun.promise
  reads.push(find('note_1'), find('note_2'))
  await rejectsWith(t, failing, { name: 'ConstraintViolation' })
  t.strictSame(
    (await Promise.all(reads)).map((rows) => rows.map(({ id }) => id)),
    [['note_1'], []],
  )
})
