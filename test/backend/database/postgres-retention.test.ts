// How PostgreSQL finds expired events.
import { type CompiledQuery, sql } from 'kysely'
import t from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { kyselyOnConnection } from '../../../backend/database/postgres/kysely.ts'
import type { Tables } from '../../../backend/database/tables.ts'
import { WEBHOOK_RETENTION } from '../../../backend/webhooks/retention.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { newPostgresUrl } from '../../fixtures/service/database-url.ts'

const NOW = new Date('2026-11-21T10:15:00.000Z')

// Regression: PostgreSQL joined all events with all deliveries for each batch. With 1,700,000 of each, this exceeded
// the time limit of a statement, so that no event was deleted.
t.test('expired events are read in the order of their age', async (t) => {
  const database = await openTestDatabase(t, { url: await newPostgresUrl(t) })
  await database.transaction(async (tx) => {
    const { id } = await createAccount(tx, { name: 'Acme Ltd' }, { actor: OPERATOR, now: NOW })
    const at = '2026-01-01T00:00:00.000Z'
    await sql`insert into webhook_endpoints (id, account_id, url, description, status, status_since,
      secret, created_at, created_by, updated_at)
      values ('whe_1', ${id}, '', '', 'paused', ${at}, '', ${at}, '', ${at})`.execute(tx)
    await sql`insert into webhook_events (id, account_id, type, subject_id, body, created_at)
      select 'evt_' || n, ${id}, 'debtor.created', 'deb_1', '{}', ${at}
      from generate_series(1, 5000) n`.execute(tx)
    await sql`insert into webhook_deliveries (id, account_id, event_id, endpoint_id, event_type,
      status, attempts, step, run_at, created_at, updated_at)
      select 'whd_' || n, ${id}, 'evt_' || n, 'whe_1', 'debtor.created',
        'pending', 0, 0, ${at}, ${at}, ${at}
      from generate_series(1, 5000) n`.execute(tx)
    await sql`analyze webhook_events, webhook_deliveries`.execute(tx)
  })
  const lines: string[] = []
  const planning = kyselyOnConnection<Tables>({
    async executeQuery({ sql: text, parameters }: CompiledQuery) {
      const literal = text.replace(/\$(\d+)/g, (_, n) => `'${parameters[Number(n) - 1]}'`)
      const { rows } = await database.transaction((tx) =>
        sql<{ 'QUERY PLAN': string }>`${sql.raw(`explain ${literal}`)}`.execute(tx),
      )
      lines.push(...rows.map((row) => row['QUERY PLAN']))
      return { rows: [] }
    },
    async *streamQuery() {},
  })
  const rule = WEBHOOK_RETENTION.find(({ name }) => name === 'webhook events')
  await rule?.findExpired(planning, NOW)
  t.ok(lines.some((line) => line.includes('Index Scan using webhook_events_by_age')))
  t.strictSame(
    lines.filter((line) => line.includes('Join')),
    [],
  )
})
