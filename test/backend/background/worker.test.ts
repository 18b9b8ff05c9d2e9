// A listening worker runs a round when work is announced; its poll is only a fallback.
import t from 'tap'
import { startListeningWorker } from '../../../backend/background/worker.ts'
import { announce } from '../../../backend/database/announcements.ts'
import type { OpenDatabase } from '../../../backend/database/open.ts'
import { openTestDatabase, SILENT } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const HOUR_MS = 3_600_000

function startCountingWorker(database: OpenDatabase) {
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
  return { rounds: () => rounds, stop: () => worker.stop() }
}

t.test('each committed announcement starts a round until the worker has stopped', async (t) => {
  const database = await openTestDatabase(t)
  const worker = startCountingWorker(database)
  const other = startCountingWorker(database)
  t.teardown(() => Promise.all([worker.stop(), other.stop()]))
  await until(() => worker.rounds() > 0, 'the first round')
  for (let n = 0; n < 3; n++) {
    const before = worker.rounds()
    await database.transaction(async (tx) => announce(tx, 'counted'))
    await until(() => worker.rounds() > before, 'the announced round')
  }
  await worker.stop()
  const [before, beforeOther] = [worker.rounds(), other.rounds()]
  await database.transaction(async (tx) => announce(tx, 'counted'))
  // The other worker is notified last.
  await until(() => other.rounds() > beforeOther, 'the round of the other worker')
  t.equal(worker.rounds(), before)
})
