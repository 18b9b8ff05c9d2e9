// How SQLite finds and deletes expired rows. Its plan does not depend on the rows, because it has no statistics.
import { join } from 'node:path'
import { type CompiledQuery, sql } from 'kysely'
import t, { type Test } from 'tap'
import type { Database } from '../../../backend/database/database.ts'
import { SqliteConnection } from '../../../backend/database/sqlite/connection.ts'
import { kyselyOnConnection } from '../../../backend/database/sqlite/kysely.ts'
import type { Tables } from '../../../backend/database/tables.ts'
import { applyAllRetentionRules } from '../../../backend/retention/retention.ts'
import { WEBHOOK_RETENTION } from '../../../backend/webhooks/retention.ts'
import { matches } from '../../fixtures/matches.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'

/** These tables remain small, or need no order. */
const WITHOUT_INDEX = ['webhook_endpoints', 'invitations', 'key_submissions']

interface Plan {
  readonly text: string
  readonly parameters: readonly unknown[]
  readonly steps: readonly string[]
}

/** Returns a database without rows, and the plans of its statements. Its first read of each table finds `row`. */
async function openPlanner(t: Test, row: object) {
  const path = join(t.testdir(), 'test.db')
  await openTestDatabase(t, { url: `sqlite:${path}` })
  const connection = await SqliteConnection.open(path, 'read')
  t.teardown(() => connection.close())
  const planner = kyselyOnConnection<Tables>(connection)
  const plans: Plan[] = []
  const planning = kyselyOnConnection<Tables>({
    async executeQuery<R>({ sql: text, parameters }: CompiledQuery) {
      const anyValue = sql.raw(`explain query plan ${text.replace(/\?\d*/g, "'x'")}`)
      const { rows } = await sql<{ detail: string }>`${anyValue}`.execute(planner)
      const isFirst = text.startsWith('select') && plans.every((plan) => plan.text !== text)
      plans.push({ text, parameters, steps: rows.map(({ detail }) => detail) })
      return { rows: isFirst ? [row as R] : [] }
    },
    async *streamQuery() {},
  })
  const database: Pick<Database, 'read' | 'transaction'> = {
    read: planning,
    transaction: (work) => work(planning),
  }
  return { database: database as Database, planning, plans }
}

// Regression: for each expired event, SQLite read all deliveries of the account. With 400,000 deliveries, all other
// writes waited for half a minute while a hundred events were deleted.
t.test('the deliveries of an expired event are found by the event', async (t) => {
  const { planning, plans } = await openPlanner(t, {})
  const rule = WEBHOOK_RETENTION.find(({ name }) => name === 'webhook events')
  await rule?.applyTo(planning, [{ id: 'evt_1' }, { id: 'evt_2' }])
  const steps = plans.flatMap((plan) => plan.steps)
  const deliveries = steps.filter((step) => step.includes(' webhook_deliveries '))
  t.ok(deliveries.length > 0, 'SQLite checks the foreign key')
  for (const step of deliveries) t.ok(step.includes('event_id=?'), step)
})

// Regression: each batch read all old rows before it that are kept, such as deliveries to a paused endpoint.
t.test('each batch of expired rows begins at the age of the last row before it', async (t) => {
  const at = '2026-01-01T00:00:00.000Z'
  const { database, plans } = await openPlanner(t, { id: 'x', created_at: at, planned_at: at })
  await applyAllRetentionRules(database, new Date('2026-11-21T10:15:00.000Z'))
  const searches = plans.filter(({ text }) => / order by "\w+" limit /.test(text))
  const byTable = Map.groupBy(searches, ({ text }) => /from "(\w+)"/.exec(text)?.[1] ?? '')
  t.ok(byTable.size > 15)
  for (const [table, [first, second]] of byTable) {
    t.equal(first?.parameters[1], '', `${table}, first batch`)
    t.not(second?.parameters[1], '', `${table}, second batch`)
    if (WITHOUT_INDEX.includes(table)) continue
    matches(t, first?.steps[0], /\((\w+)>\? AND \1<\?\)$/, table)
    t.notOk(
      first?.steps.some((step) => step.includes('B-TREE')),
      table,
    )
  }
})
