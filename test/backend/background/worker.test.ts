// A listening worker runs a round when work is announced; its poll is only a fallback.
import t from 'tap'
import { startListeningWorker } from '../../../backend/background/worker.ts'
import { announce } from '../../../backend/database/announcements.ts'
import { openTestDatabase, SILENT } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const HOUR_MS = 3_600_000

t.test('each committed announcement starts a round until the worker has stopped', async (t) => {
  const database = await openTestDatabase(t)
  let rounds = 0
  const worker = startListeningWorker({
    name: 'counting rounds',
    database,
    topic: 'counted',
    everyMs: HOUR_MS,
    log: SILENT,
    async round() {
      rounds += 1
      return undefined
    },
  })
  t.teardown(() => worker.stop())
  await until(() => rounds > 0, 'the first round')
  for (let n = 0; n < 3; n++) {
    const before = rounds
    await database.transaction(async (tx) => announce(tx, 'counted'))
    await until(() => rounds > before, 'the announced round')
  }
  await worker.stop()
  const before = rounds
  await database.transaction(async (tx) => announce(tx, 'counted'))
  t.equal(rounds, before)
})
