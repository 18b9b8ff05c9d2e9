// An idle backend causes almost no load on its database server.
import pg from 'pg'
import t from 'tap'
import { copyTemplate, startPostgres } from '../../fixtures/servers/postgres.ts'
import { startSystem } from '../../fixtures/service/system.ts'
import { until } from '../../fixtures/service/until.ts'

/** The backend polls the server four times a second, so this many polls take at least ten seconds. */
const POLLS = 40

/** A wide margin: several workers query for due work every five seconds, and other workers less often. */
const STATEMENTS_PER_SECOND_MAX = 4

// Regression: a worker queried for endpoints with due deliveries every 50 ms.
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
  const from = performance.now()
  await until(
    async () => callsOf((await statements()).filter(({ polls }) => polls)) >= POLLS,
    'the server was polled for ten seconds',
  )
  const others = (await statements()).filter(({ polls }) => !polls)
  const seconds = (performance.now() - from) / 1000
  t.ok(callsOf(others) <= seconds * STATEMENTS_PER_SECOND_MAX, 'few statements', {
    others,
    seconds,
  })
  t.comment(others)
  // Listing the server's sessions costs ten times as much as the rest of a poll.
  const listing = (await statements()).filter(({ text }) => text.includes('pg_stat_activity'))
  t.strictSame(listing, [], 'sessions are not listed if there is no synchronous standby')
})
