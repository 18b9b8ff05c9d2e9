import t from 'tap'
import { createMetrics } from '../../shared/process/metrics.ts'
import { startOperationsListener } from '../../shared/process/operations-listener.ts'
import { matches } from '../fixtures/matches.ts'
import { recordLog } from '../fixtures/recorded-log.ts'

t.test('a failed request of an operator is logged', async (t) => {
  // Regression: the response was 500, and nothing said why.
  const { log, lines } = recordLog<object>()
  const operations = await startOperationsListener({
    ...{ host: '127.0.0.1', port: 0, metrics: createMetrics('test'), log },
    health: () => Promise.reject(new Error('the database hangs')),
  })
  t.teardown(() => operations.close())
  const address = `http://127.0.0.1:${operations.port}/readyz`
  matches(t, await fetch(address), { status: 500 })
  const err = { message: 'the database hangs', stack: String }
  matches(t, lines, [{ level: 50, method: 'GET', url: '/readyz', err }])
})
