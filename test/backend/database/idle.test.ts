// An idle backend costs its database server next to nothing.
import pg from 'pg'
import t from 'tap'
import { copyTemplate, startPostgres } from '../../fixtures/servers/postgres.ts'
import { startSystem } from '../../fixtures/service/system.ts'
import { until } from '../../fixtures/service/until.ts'

/** The server is polled four times a second, so that this many polls take ten seconds. */
const POLLS = 40

/** In the same time: four workers look for due work every five seconds, and others less often. */
const STATEMENTS_MAX = 40

// Every 50 ms, a worker looked for endpoints with due deliveries.
t.test('an idle backend sends PostgreSQL few statements', async (t) => {
  const server = await startPostgres({ settings: ['shared_preload_libraries=pg_stat_statements'] })
  t.teardown(() => server.remove())
  const { url: databaseUrl } = await copyTemplate(server.url('postgres'))
  const operator = new pg.Client({ connectionString: databaseUrl })
  await operator.connect()
  t.teardown(() => operator.end())
  await operator.query('create extension pg_stat_statements')
  const statements = async () => {
    const { rows } = await operator.query<{ text: string; calls: number; polls: boolean }>(
      `select query as text, calls::integer, query like '%pg_is_in_recovery%' as polls
        from pg_stat_statements where query not like '%pg_stat_statements%' order by calls desc`,
    )
    return rows
  }
  const callsOf = (rows: readonly { readonly calls: number }[]) =>
    rows.reduce((sum, { calls }) => sum + calls, 0)
  await startSystem(t, { databaseUrl, backends: 1 })
  await operator.query('select pg_stat_statements_reset()')
  await until(
    async () => callsOf((await statements()).filter(({ polls }) => polls)) >= POLLS,
    'the server was polled for ten seconds',
  )
  const others = (await statements()).filter(({ polls }) => !polls)
  t.ok(callsOf(others) <= STATEMENTS_MAX, 'few statements', { others })
  t.comment(others)
  // Listing the server's sessions costs ten times as much as the rest of a poll.
  const listing = (await statements()).filter(({ text }) => text.includes('pg_stat_activity'))
  t.strictSame(listing, [], 'no list of sessions without a synchronous standby')
})
