// Each message is planned once, even if several backends plan or the database is unavailable.
import t from 'tap'
import { type Database, databaseOf } from '../../../backend/database/database.ts'
import { nextRevision } from '../../../backend/database/revision.ts'
import { unavailable } from '../../../backend/database/unavailable.ts'
import { writeInParts } from '../../../backend/database/write-in-parts.ts'
import { runPlanning } from '../../../backend/reminders/planning/planning-run.ts'
import { sendRound } from '../../../backend/reminders/sending/send-worker.ts'
import { createId } from '../../../shared/contract/id.ts'
import { matches } from '../../fixtures/matches.ts'
import { recordLog } from '../../fixtures/recorded-log.ts'
import { type Engine, startEngine } from '../../fixtures/reminders/engine.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { byId, createSlowClock, createSyncedCopy } from '../../fixtures/service/synced-copy.ts'

const MORNING = '2026-11-24T08:00:00.000Z'

/** Inserts copies of an invoice whose friendly reminder is due, which is faster than one call of the API for each. */
async function createOpenInvoices(
  { createInvoice, testAccount }: Engine,
  debtorId: string,
  count: number,
) {
  if (count === 0) return
  const { database } = testAccount.backend
  const { id } = await createInvoice('2026-11-19', { debtor_id: debtorId })
  const invoice = await database.read
    .selectFrom('invoices')
    .selectAll()
    .where('id', '=', String(id))
    .executeTakeFirstOrThrow()
  const copies = Array.from({ length: count - 1 }, () => {
    const copyId = createId('inv')
    return { ...invoice, id: copyId, number: copyId }
  })
  await database.transaction((tx) =>
    writeInParts(copies, (part) => tx.insertInto('invoices').values(part).execute()),
  )
}

// Regression: a debtor whose planning met a short outage of the database was planned an hour later.
t.test('planning that met an outage of the database is repeated a minute later', async (t) => {
  const engine = await startEngine(t)
  await engine.createInvoice('2026-11-18')
  const { database } = engine.testAccount.backend
  let isAvailable = false
  const interrupted: Database = {
    ...databaseOf(database, engine.testAccount.accountId),
    async transaction(work) {
      if (isAvailable) return database.transaction(work)
      isAvailable = true
      throw unavailable(new Error('the server restarts'))
    },
  }
  const plan = (at: string) =>
    runPlanning({ database: interrupted, clock: () => new Date(at), log: SILENT })
  matches(t, await plan('2026-11-24T08:00:00.000Z'), { messages: 0 })
  matches(t, await plan('2026-11-24T08:01:00.000Z'), { messages: 1 })
})

// After a downgrade of Node.js, the time zone of an account may be unknown.
t.test('an account whose time zone is unknown delays no reminder of other accounts', async (t) => {
  const engine = await startEngine(t)
  const { database } = engine.testAccount.backend
  const other = await engine.testAccount.otherAccount()
  const { id } = await other.createDebtor({ email: 'ap9@jansen-bouw.nl' })
  const debtorId = String(id)
  const fields = { issue_date: '2026-09-01', due_date: '2026-11-19' }
  await other.createInvoice({ debtor_id: debtorId, ...fields })
  await engine.createInvoice('2026-11-19')
  const setTimeZone = (timezone: string) =>
    database.transaction((tx) =>
      tx.updateTable('accounts').set({ timezone }).where('id', '=', other.accountId).execute(),
    )
  const planned = async () => (await engine.messages()).map(({ debtor_id }) => debtor_id)
  await setTimeZone('Mars/Olympus')
  const { log, lines } = recordLog<{ debtor?: string; message?: string; msg: string }>()
  const deps = { ...engine.deps, log }
  const planAt = (at: string) => runPlanning({ ...deps, clock: () => new Date(at) })
  matches(t, await planAt('2026-11-24T08:00:00.000Z'), { messages: 1 })
  t.notOk((await planned()).includes(debtorId))
  matches(t, lines, [{ debtor: debtorId, msg: 'reminders cannot be planned' }])
  await setTimeZone('UTC')
  matches(t, await planAt('2026-11-24T09:00:00.000Z'), { messages: 1 })
  await setTimeZone('Mars/Olympus')
  engine.testAccount.backend.now = new Date('2026-11-24T09:01:00.000Z')
  await sendRound(deps, 1)
  t.strictSame(await engine.messageLog(), ['friendly:sent', 'friendly:scheduled'])
  await setTimeZone('UTC')
  await engine.send('2026-11-24T09:12:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:sent', 'friendly:sent'])
})

// Regression: no invoice could be created for this debtor, and it got no reminders.
t.test('if the time zone of a debtor is unknown, the one of the account applies', async (t) => {
  const engine = await startEngine(t)
  const { database } = engine.testAccount.backend
  const { id } = await engine.createDebtor({ timezone: 'Asia/Tokyo' })
  const debtorId = String(id)
  await database.transaction((tx) =>
    tx
      .updateTable('debtors')
      .set({ timezone: 'Mars/Olympus', ...nextRevision(tx, MORNING) })
      .where('id', '=', debtorId)
      .execute(),
  )
  const { chasing } = await engine.createInvoice('2026-11-19', { debtor_id: debtorId })
  t.equal(chasing.next_action_at, '2026-11-23T07:00:00.000Z')
  await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:sent'])
})

// Regression: the reminder was handed over, but could not be marked as sent, and was later handed over again.
t.test('in an account whose time zone is unknown, no reminder is sent', async (t) => {
  const engine = await startEngine(t)
  const { accountId, backend } = engine.testAccount
  const { id } = await engine.createDebtor({ timezone: 'Europe/Amsterdam' })
  await engine.createInvoice('2026-11-19', { debtor_id: String(id) })
  await engine.plan('2026-11-24T08:00:00.000Z')
  const setTimeZone = (timezone: string) =>
    backend.database.transaction((tx) =>
      tx.updateTable('accounts').set({ timezone }).where('id', '=', accountId).execute(),
    )
  await setTimeZone('Mars/Olympus')
  await engine.send('2026-11-24T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:scheduled'])
  t.equal(engine.smtp.mails.length, 0)
  await setTimeZone('UTC')
  await engine.send('2026-11-24T09:12:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:sent'])
  t.equal(engine.smtp.mails.length, 1)
})

t.test('concurrent planning runs plan each message once', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 5; n++) await engine.createInvoice('2026-11-19')
  await Promise.all([engine.plan(MORNING), engine.plan(MORNING), engine.plan(MORNING)])
  t.equal((await engine.messages()).length, 5)
})

t.test('a synchronized copy misses nothing of a long planning run', async (t) => {
  const { testAccount, deps, createInvoice } = await startEngine(t)
  // The planning of so many debtors takes more than one transaction.
  for (let n = 0; n < 30; n++) await createInvoice('2026-11-19')
  const copy = createSyncedCopy('messages', 200, testAccount.get)
  const { clock, later, lastTime } = createSlowClock(new Date(MORNING))
  // The client's run begins ten minutes after the planning run, and ends before the first message is planned.
  await copy.run(later(10))
  await runPlanning({ ...deps, clock })
  // Regression: each message got the time at which the planning run began, which this run considered old.
  await copy.run(lastTime())
  const all = byId(await copy.readAll())
  t.equal(all.length, 30)
  t.strictSame(byId(copy.objects), all)
})

// Regression: 25 debtors were planned in one transaction, however many invoices they had. With thousands of invoices,
// payments of all accounts waited for seconds.
t.test('a transaction plans at most 500 invoices, or one debtor', async (t) => {
  const engine = await startEngine(t)
  const { database } = engine.testAccount.backend
  const counts = [100, 100, 100, 600, ...Array.from({ length: 9 }, () => 100), 0]
  for (const [n, count] of counts.entries()) {
    const debtorId = String((await engine.createDebtor()).id)
    await createOpenInvoices(engine, debtorId, count)
    // The debtors are planned in this order.
    const plan_at = new Date(Date.parse(MORNING) - 60_000 + n).toISOString()
    await database.transaction((tx) =>
      tx.updateTable('debtors').set({ plan_at }).where('id', '=', debtorId).execute(),
    )
  }
  const countDue = async () => {
    const { due } = await database.read
      .selectFrom('invoices')
      .innerJoin('debtors', 'debtors.id', 'invoices.debtor_id')
      .select(({ fn }) => fn.countAll<number | string>().as('due'))
      .where('debtors.plan_at', '<=', MORNING)
      .executeTakeFirstOrThrow()
    return Number(due)
  }
  const planned: number[] = []
  const counted: Database = {
    ...databaseOf(database, engine.testAccount.accountId),
    async transaction(work) {
      const before = await countDue()
      const result = await database.transaction(work)
      planned.push(before - (await countDue()))
      return result
    },
  }
  const deps = { database: counted, clock: () => new Date(MORNING), log: SILENT }
  matches(t, await runPlanning(deps), { debtors: 14, messages: 13 })
  t.strictSame(
    planned.filter((count) => count > 0),
    [300, 600, 500, 400],
  )
  const all = await runPlanning({ ...deps, database }, { allDebtors: true })
  t.equal(all.debtors, 13, 'all debtors that owe money are planned')
})
