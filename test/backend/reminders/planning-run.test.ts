// Each message is planned once, even if several backends plan or the database is unavailable.
import t from 'tap'
import { type Database, databaseOf } from '../../../backend/database/database.ts'
import { unavailable } from '../../../backend/database/unavailable.ts'
import { runPlanning } from '../../../backend/reminders/planning/planning-run.ts'
import { matches } from '../../fixtures/matches.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { byId, createSyncedCopy } from '../../fixtures/service/synced-copy.ts'

const MORNING = '2026-11-24T08:00:00.000Z'

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

t.test('concurrent planning runs plan each message once', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 5; n++) await engine.createInvoice('2026-11-19')
  await Promise.all([engine.plan(MORNING), engine.plan(MORNING), engine.plan(MORNING)])
  t.equal((await engine.messages()).length, 5)
})

t.test('a synchronized copy misses nothing of a long planning run', async (t) => {
  const { testAccount, deps, createInvoice } = await startEngine(t)
  // More than one transaction plans.
  for (let n = 0; n < 30; n++) await createInvoice('2026-11-19')
  const copy = createSyncedCopy('messages', 200, testAccount.get)
  const begunAt = Date.parse(MORNING)
  const later = (minutes: number) => new Date(begunAt + minutes * 60_000)
  // The client's run begins ten minutes after the planning run, and ends before the first message is planned.
  await copy.run(later(10))
  let minutes = -10
  const clock = () => {
    minutes += 10
    return later(minutes)
  }
  await runPlanning({ ...deps, clock })
  // Regression: each message got the time at which the planning run began, which this run considered old.
  await copy.run(later(minutes))
  const all = byId(await copy.readAll())
  t.equal(all.length, 30)
  t.strictSame(byId(copy.objects), all)
})
