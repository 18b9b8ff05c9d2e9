// Months of an account with customers, Admins and an integration that act at random. Every mail, record, total, event
// and copy of a client is compared with what the documentation promises.
import t from 'tap'
import { newPostgresUrl } from '../fixtures/service/database-url.ts'
import { readFinalState } from '../fixtures/simulation/final-state.ts'
import { simulate } from '../fixtures/simulation/simulation.ts'

/**
 * `SIMULATIONS=20 DAYS=150 SEED=1000 npx tap test/faults/simulated-months.test.ts` runs longer and other simulations.
 */
const SIMULATIONS = Number(process.env['SIMULATIONS'] ?? 1)
const DAYS = Number(process.env['DAYS'] ?? 45)
const FIRST_SEED = Number(process.env['SEED'] ?? 202)
const COMPARED_DAYS = 20

// Even a busy machine has enough time for a simulation.
t.setTimeout(SIMULATIONS * DAYS * 20_000)

for (let seed = FIRST_SEED; seed < FIRST_SEED + SIMULATIONS; seed++) {
  t.test(
    `each reminder is due and correct, none is missing, and all amounts agree (seed ${seed})`,
    { timeout: 0 },
    async (t) => {
      const { engine, actions } = await simulate(t, { seed, days: DAYS, isRepeatable: false })
      t.comment(`${actions} actions, ${engine.sent.length} mails`)
      t.ok(engine.sent.length > 0)
    },
  )
}

t.test('on PostgreSQL, the final records are the same as on SQLite', { timeout: 0 }, async (t) => {
  const options = { seed: FIRST_SEED, days: COMPARED_DAYS, isRepeatable: true }
  const onSqlite = await readFinalState(await simulate(t, options))
  const url = await newPostgresUrl(t)
  const onPostgres = await readFinalState(await simulate(t, { ...options, url }))
  t.strictSame(onPostgres, onSqlite)
})
