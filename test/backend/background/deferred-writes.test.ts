// A timer writes the collected data. `close` writes it for the last time.
import { mock } from 'node:test'
import t from 'tap'
import { deferWrites } from '../../../backend/background/deferred-writes.ts'
import { SILENT } from '../../fixtures/service/database.ts'

const LONG_MS = 3_600_000

t.test('no write follows `close`, even if a scheduled write fails meanwhile', async (t) => {
  // Regression: the failed write was scheduled again, and ran after the database had been closed.
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const failing = Promise.withResolvers<boolean>()
  let writes = 0
  const deferred = deferWrites({
    subject: 'test',
    log: SILENT,
    write: () => (++writes === 1 ? failing.promise : Promise.resolve(true)),
  })
  deferred.scheduleWrite()
  mock.timers.tick(LONG_MS)
  const closing = deferred.close()
  failing.reject(new Error('the database is unavailable'))
  await closing
  mock.timers.tick(LONG_MS)
  await deferred.flush()
  t.equal(writes, 3, 'one failed, `close` wrote for the last time, and this test flushed')
})
