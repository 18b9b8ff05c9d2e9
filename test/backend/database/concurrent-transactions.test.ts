// On SQLite, transactions that name different debtors run at the same time, and share statements.
import { join } from 'node:path'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import type { OpenDatabase } from '../../../backend/database/open.ts'
import { prepared } from '../../../backend/database/prepared.ts'
import type { AuditRow, Transaction } from '../../../backend/database/tables.ts'
import { together } from '../../../backend/database/together.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { insertRow, openTestDatabase, readRowIds } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

/** Opens SQLite, even if the tests run on PostgreSQL. On a busy machine, slow transactions wait for a long time. */
async function openSqlite(t: Test) {
  return openTestDatabase(t, { url: `sqlite:${join(t.testdir(), 'test.db')}`, waitMsMax: 60_000 })
}

type Work = (tx: Transaction) => Promise<unknown>

let accounts = 0

/**
 * Queues the transactions behind a running one, so that they are in one group. Resolves with their outcomes. They have
 * an account of their own: otherwise, they would run one after another if earlier transactions took long.
 */
async function runTogether(
  database: OpenDatabase,
  works: Readonly<Record<string, Work>>,
  debtorIdOf = (name: string): string | undefined => name,
) {
  const mayEnd = Promise.withResolvers<void>()
  const accountId = `account_${accounts++}`
  const blocker = database.transaction(() => mayEnd.promise, { accountId: `before_${accountId}` })
  const outcomes = Promise.allSettled(
    Object.entries(works).map(([name, work]) =>
      database.transaction(work, { accountId, debtorId: debtorIdOf(name) }),
    ),
  )
  mayEnd.resolve()
  await blocker
  return await outcomes
}

const insertAuditRow = prepared((tx: Transaction, row: AuditRow) =>
  tx.insertInto('audit_log').values(row),
)

const findAuditRow = prepared((tx: Transaction, { id }: { id: string }) =>
  tx.selectFrom('audit_log').selectAll().where('id', '=', id),
)

/** Copies the row `from` under each id with writes that can be combined with those of other transactions. */
async function copyRow(tx: Transaction, from: string, ids: readonly string[], detail?: string) {
  const [row] = await findAuditRow(tx, { id: from })
  if (row === undefined) throw new Error(`there is no row ${from}`)
  for (const id of ids) await insertAuditRow(tx, { ...row, id, detail: detail ?? row.detail })
}

/** Opens SQLite with a row `a` and two copies, which create the view that later pairs of copies are inserted into. */
async function openWithRow(t: Test) {
  const database = await openSqlite(t)
  await database.transaction((tx) => insertRow(tx, 'a'))
  await database.transaction((tx) => copyRow(tx, 'a', ['b', 'c']))
  return database
}

t.test('transactions of different debtors run at the same time', async (t) => {
  const database = await openSqlite(t)
  const begun = new Set<string>()
  const haveBegun = Promise.withResolvers<void>()
  const meet = (id: string) => async (tx: Transaction) => {
    begun.add(id)
    if (begun.size === 3) haveBegun.resolve()
    await haveBegun.promise
    await insertRow(tx, id)
  }
  await runTogether(database, { a: meet('a'), b: meet('b'), c: meet('c') })
  t.strictSame(await readRowIds(database), ['a', 'b', 'c'])
})

t.test('transactions of one debtor run in turn, and those without one run alone', async (t) => {
  const database = await openSqlite(t)
  const debtorIds = new Map(Object.entries({ a1: 'a', b1: 'b', a2: 'a', b2: 'b', b3: 'b' }))
  const running = new Set<string>()
  const order: string[] = []
  const record = (name: string) => async (tx: Transaction) => {
    running.add(name)
    order.push(name)
    await insertRow(tx, name)
    const others = [...running].filter((other) => other !== name)
    const debtorId = debtorIds.get(name)
    t.notOk(debtorId === undefined && others.length > 0, `${name} runs alone`)
    t.notOk(others.some((other) => debtorIds.get(other) === debtorId || !debtorIds.has(other)))
    t.strictSame((await findAuditRow(tx, { id: name })).length, 1, 'it sees its own writes')
    running.delete(name)
  }
  const names = ['a1', 'b1', 'a2', 'alone', 'b2', 'b3']
  await runTogether(
    database,
    Object.fromEntries(names.map((name) => [name, record(name)])),
    (name) => debtorIds.get(name),
  )
  t.strictSame(order, names)
  t.strictSame(await readRowIds(database), names.toSorted())
})

t.test(
  'a transaction sees the writes of an earlier transaction of its debtor in the same group',
  async (t) => {
    const database = await openWithRow(t)
    await runTogether(
      database,
      {
        first: (tx) => copyRow(tx, 'a', ['d', 'e']),
        second: (tx) => copyRow(tx, 'e', ['f', 'g']),
      },
      () => 'debtor',
    )
    t.strictSame(await readRowIds(database), ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  },
)

t.test('writes in a common statement have exact values', async (t) => {
  const database = await openWithRow(t)
  const texts: Readonly<Record<string, string>> = {
    empty: '',
    quotes: `"quoted" 'single' \\ \u2028 \u{1f600}`,
    placeholder: "it's ?1",
    zero: 'a\u0000b',
    json: '{"json": [1]}',
    number: '12',
    null: 'null',
    long: 'x'.repeat(100_000),
  }
  await runTogether(
    database,
    Object.fromEntries(
      Object.entries(texts).map(([name, text]) => [
        name,
        (tx) => copyRow(tx, 'a', [name, `${name}_2`], text),
      ]),
    ),
  )
  for (const [name, text] of Object.entries(texts)) {
    const rows = await database.read
      .selectFrom('audit_log')
      .select(['detail', 'address', sql`typeof(detail)`.as('type')])
      .where('id', 'in', [name, `${name}_2`])
      .execute()
    const expected = { detail: text, address: null, type: 'text' }
    t.strictSame(rows, [expected, expected], name)
  }
})

t.test('an unpaired surrogate is stored as by a transaction that runs alone', async (t) => {
  const database = await openWithRow(t)
  await database.transaction((tx) => copyRow(tx, 'a', ['d', 'e'], 'x\ud800'))
  await runTogether(database, {
    a: (tx) => copyRow(tx, 'a', ['f', 'g'], 'x\ud800'),
    b: (tx) => copyRow(tx, 'a', ['h', 'i'], 'x\ud800'),
  })
  const rows = await database.read
    .selectFrom('audit_log')
    .select(sql`hex(detail)`.as('hex'))
    .where('id', 'in', ['d', 'f', 'g', 'h', 'i'])
    .distinct()
    .execute()
  t.equal(rows.length, 1)
})

t.test('a transaction that fails before it has written has no effect on the others', async (t) => {
  const database = await openWithRow(t)
  const runs: string[] = []
  const rejected = new Error('rejected')
  const outcomes = await runTogether(database, {
    a: async (tx) => {
      runs.push('a')
      await copyRow(tx, 'a', ['d', 'e'])
    },
    b: async (tx) => {
      runs.push('b')
      await copyRow(tx, 'a', ['lost', 'lost too'])
      throw rejected
    },
    c: async (tx) => {
      runs.push('c')
      await copyRow(tx, 'a', ['f', 'g'])
    },
  })
  t.strictSame(runs, ['a', 'b', 'c'])
  matches(t, outcomes, [
    { status: 'fulfilled' },
    { status: 'rejected', reason: rejected },
    { status: 'fulfilled' },
  ])
  t.strictSame(await readRowIds(database), ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
})

t.test('a transaction that fails after it has written undoes only its own writes', async (t) => {
  const database = await openWithRow(t)
  const { committed, rolledBack } = database.activity()
  const outcomes = await runTogether(database, {
    a: async (tx) => {
      await insertRow(tx, 'd')
      await copyRow(tx, 'd', ['e', 'f'])
    },
    b: async (tx) => {
      await insertRow(tx, 'lost')
      await insertRow(tx, 'a')
    },
    c: async (tx) => {
      await copyRow(tx, 'a', ['g', 'h'])
      return 'the result'
    },
  })
  matches(t, outcomes, [
    { status: 'fulfilled' },
    { status: 'rejected', reason: { name: 'ConstraintViolation', columns: ['audit_log.id'] } },
    { status: 'fulfilled', value: 'the result' },
  ])
  t.strictSame(await readRowIds(database), ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'])
  matches(t, database.activity(), { committed: committed + 3, rolledBack: rolledBack + 1 })
})

t.test(
  'a violation in a common statement rejects only the transaction that caused it',
  async (t) => {
    const database = await openWithRow(t)
    for (const round of ['1', '2']) {
      const outcomes = await runTogether(database, {
        a: (tx) => copyRow(tx, 'a', [`d${round}`, `e${round}`]),
        b: (tx) => copyRow(tx, 'a', [`lost${round}`, 'a']),
        c: (tx) => copyRow(tx, 'a', [`f${round}`, `g${round}`]),
        // These writes differ from those of the others, so they need another statement.
        d: (tx) => copyRow(tx, 'a', [`h${round}`]),
      })
      matches(t, outcomes, [
        { status: 'fulfilled' },
        { status: 'rejected', reason: { name: 'ConstraintViolation', columns: ['audit_log.id'] } },
        { status: 'fulfilled' },
        { status: 'fulfilled' },
      ])
    }
    const kept = ['d', 'e', 'f', 'g', 'h'].flatMap((name) => [`${name}1`, `${name}2`])
    t.strictSame(await readRowIds(database), ['a', 'b', 'c', ...kept].sort())
  },
)

t.test('of two transactions that write the same unique value, the first is recorded', async (t) => {
  const database = await openWithRow(t)
  const outcomes = await runTogether(database, {
    a: (tx) => copyRow(tx, 'a', ['d', 'same']),
    b: (tx) => copyRow(tx, 'a', ['e', 'same']),
  })
  matches(t, outcomes, [
    { status: 'fulfilled' },
    { status: 'rejected', reason: { name: 'ConstraintViolation', columns: ['audit_log.id'] } },
  ])
  t.strictSame(await readRowIds(database), ['a', 'b', 'c', 'd', 'same'])
})

t.test('a full disk undoes all transactions that run at the same time', async (t) => {
  const database = await openWithRow(t)
  const outcomes = await runTogether(database, {
    a: (tx) => copyRow(tx, 'a', ['d', 'e']),
    b: async (tx) => {
      // The limit ends with the group, because the database then replaces the connection.
      await sql`pragma max_page_count = 1`.execute(tx)
      await insertRow(tx, 'f', 'x'.repeat(1_000_000)).catch(() => 'swallowed')
    },
    c: async (tx) => {
      await insertRow(tx, 'g')
    },
  })
  const lost = {
    status: 'rejected',
    reason: { code: 'service_unavailable', cause: { code: 'SQLITE_FULL' } },
  }
  matches(t, outcomes, [lost, lost, lost])
  await database.transaction((tx) => insertRow(tx, 'z'))
  t.strictSame(await readRowIds(database), ['a', 'b', 'c', 'z'])
})

// Regression: SQLite committed each statement that the other transaction sent after the disk was full.
t.test('after a full disk, no statement of the other transactions is recorded', async (t) => {
  const database = await openWithRow(t)
  const isFull = Promise.withResolvers<void>()
  const outcomes = await runTogether(database, {
    a: async (tx) => {
      await insertRow(tx, 'd')
      await sql`pragma max_page_count = 1`.execute(tx)
      await insertRow(tx, 'e', 'x'.repeat(1_000_000)).catch(() => 'swallowed')
      isFull.resolve()
    },
    b: async (tx) => {
      await isFull.promise
      await insertRow(tx, 'payment')
    },
  })
  t.strictSame(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected'],
  )
  t.strictSame(await readRowIds(database), ['a', 'b', 'c'])
})

// Regression: another account waited for 64 transactions, since the time limit of a group was checked only after them.
t.test('an account does not wait for many slow transactions of another account', async (t) => {
  const database = await openSqlite(t)
  let ended = 0
  const blockerMayEnd = Promise.withResolvers<void>()
  const blocker = database.transaction(() => blockerMayEnd.promise, { accountId: 'a' })
  const begun = Promise.withResolvers<void>()
  const slow = Array.from({ length: 64 }, async (_, n) => {
    const work = async (tx: Transaction) => {
      begun.resolve()
      await sql`
        with recursive numbers(n) as (select ${n} union all select n + 1 from numbers where n < 40000)
        select count(*) from numbers`.execute(tx)
    }
    await database.transaction(work, { accountId: 'a', debtorId: `${n}` })
    ended++
  })
  blockerMayEnd.resolve()
  await begun.promise
  await database.transaction(async () => {}, { accountId: 'b' })
  t.ok(ended < 32, `${ended} of 64 transactions were committed first`)
  await Promise.all([blocker, ...slow])
})

t.test('statements that are sent together run in their order', async (t) => {
  const database = await openSqlite(t)
  const ids = ['a', 'b', 'c']
  await database.transaction(async (tx) => {
    for (const id of ids) await insertRow(tx, id, 'before')
  })
  const readBeforeWrite = (id: string) => async (tx: Transaction) => {
    const [before] = await together([
      findAuditRow(tx, { id }),
      tx.updateTable('audit_log').set({ detail: 'after' }).where('id', '=', id).execute(),
    ])
    const after = await findAuditRow(tx, { id })
    return [before[0]?.detail, after[0]?.detail]
  }
  const outcomes = await runTogether(
    database,
    Object.fromEntries(ids.map((id) => [id, readBeforeWrite(id)])),
  )
  const expected = { status: 'fulfilled', value: ['before', 'after'] }
  t.strictSame(outcomes, [expected, expected, expected])
})

/** Keeps SQLite busy for a time that is long for a transaction. */
async function countSlowly(tx: Transaction) {
  await sql`
    with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 1000000)
    select count(*) from numbers`.execute(tx)
}

// Regression: the time of a slow transaction was shared equally by those that ran at the same time, so that none of
// their accounts was slow.
t.test('an account with slow transactions is recognized among others', async (t) => {
  const database = await openSqlite(t)
  const doesAnyRunBesideSlow = async () => {
    let isSlowRunning = false
    let isAnyBesideSlow = false
    const slow = async (tx: Transaction) => {
      isSlowRunning = true
      await countSlowly(tx)
      isSlowRunning = false
    }
    const quick = async (tx: Transaction) => {
      if (isSlowRunning) isAnyBesideSlow = true
      await findAuditRow(tx, { id: 'a' })
    }
    const mayEnd = Promise.withResolvers<void>()
    const blocker = database.transaction(() => mayEnd.promise)
    const all = ['slow', ...Array.from({ length: 15 }, (_, n) => `quick ${n}`)].map((id) =>
      database.transaction(id === 'slow' ? slow : quick, { accountId: id, debtorId: id }),
    )
    mayEnd.resolve()
    await Promise.all([blocker, ...all])
    return isAnyBesideSlow
  }
  await until(async () => !(await doesAnyRunBesideSlow()), 'the slow transaction runs alone')
})

// Regression: the number of transactions that run at the same time was limited for each account only.
t.test('long transactions of many accounts do not all run at the same time', async (t) => {
  const database = await openSqlite(t)
  const accountIds = Array.from({ length: 12 }, (_, n) => `${n}`)
  for (const accountId of accountIds) await database.transaction(countSlowly, { accountId })
  let running = 0
  let most = 0
  const countRunning = async (tx: Transaction) => {
    running++
    most = Math.max(most, running)
    await countSlowly(tx)
    running--
  }
  await Promise.all(
    accountIds.map((accountId) =>
      database.transaction(countRunning, { accountId, debtorId: accountId }),
    ),
  )
  t.ok(most <= 2, `${most} ran at the same time`)
})

t.test('a statement after the end of its transaction fails', async (t) => {
  const database = await openWithRow(t)
  const leaked: Transaction[] = []
  await runTogether(database, {
    a: async (tx) => void leaked.push(tx),
    b: async () => {},
  })
  const [tx] = leaked
  t.ok(tx)
  await rejectsWith(t, copyRow(tx as Transaction, 'a', ['d']), {
    message: 'A statement ran outside of its transaction',
  })
})
