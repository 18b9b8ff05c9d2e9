// How SQLite deletes expired rows. Its plan does not depend on the rows, because it has no statistics.
import { join } from 'node:path'
import { type CompiledQuery, sql } from 'kysely'
import t from 'tap'
import { SqliteConnection } from '../../../backend/database/sqlite/connection.ts'
import { kyselyOnConnection } from '../../../backend/database/sqlite/kysely.ts'
import type { Tables } from '../../../backend/database/tables.ts'
import { WEBHOOK_RETENTION } from '../../../backend/webhooks/retention.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

// Regression: for each expired event, SQLite read all deliveries of the account. With 400,000 deliveries, all other
// writes waited for half a minute while a hundred events were deleted.
t.test('the deliveries of an expired event are found by the event', async (t) => {
  const path = join(t.testdir(), 'test.db')
  await openTestDatabase(t, { url: `sqlite:${path}` })
  const connection = await SqliteConnection.open(path, 'read')
  t.teardown(() => connection.close())
  const planner = kyselyOnConnection<Tables>(connection)
  const steps: string[] = []
  const planning = kyselyOnConnection<Tables>({
    async executeQuery({ sql: text }: CompiledQuery) {
      const anyValue = sql.raw(`explain query plan ${text.replace(/\?\d*/g, "'x'")}`)
      const { rows } = await sql<{ detail: string }>`${anyValue}`.execute(planner)
      steps.push(...rows.map(({ detail }) => detail))
      return { rows: [] }
    },
    async *streamQuery() {},
  })
  const rule = WEBHOOK_RETENTION.find(({ subject }) => subject === 'webhook events')
  await rule?.deleteExpired(planning, [{ id: 'evt_1' }, { id: 'evt_2' }])
  const deliveries = steps.filter((step) => step.includes(' webhook_deliveries '))
  t.ok(deliveries.length > 0, 'SQLite checks the foreign key')
  for (const step of deliveries) t.ok(step.includes('event_id=?'), step)
})
