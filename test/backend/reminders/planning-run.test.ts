// Each message is planned once, even if several backends plan or the database is unavailable.
import t from 'tap'
import { type Database, databaseOf } from '../../../backend/database/database.ts'
import { unavailable } from '../../../backend/database/unavailable.ts'
import { runPlanning } from '../../../backend/reminders/planning/planning-run.ts'
import { matches } from '../../fixtures/matches.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'
import { SILENT } from '../../fixtures/service/database.ts'

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
  const plan = (at: string) => runPlanning({ database: interrupted, log: SILENT }, new Date(at))
  matches(t, await plan('2026-11-24T08:00:00.000Z'), { messages: 0 })
  matches(t, await plan('2026-11-24T08:01:00.000Z'), { messages: 1 })
})

t.test('concurrent planning runs plan each message once', async (t) => {
  const engine = await startEngine(t)
  for (let n = 0; n < 5; n++) await engine.createInvoice('2026-11-19')
  await Promise.all([engine.plan(MORNING), engine.plan(MORNING), engine.plan(MORNING)])
  t.equal((await engine.messages()).length, 5)
})
