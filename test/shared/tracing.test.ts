import { createServer } from 'node:http'
import t, { type Test } from 'tap'
import { createLogger } from '../../shared/process/log.ts'
import { createMetrics } from '../../shared/process/metrics.ts'
import { startTracing } from '../../shared/process/tracing.ts'
import { containing, matches } from '../fixtures/matches.ts'
import { listen } from '../fixtures/servers/listen.ts'
import { until } from '../fixtures/service/until.ts'

/** Starts a collector that receives batches, but does not respond until `release` is called. */
async function startHangingCollector(t: Test) {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  let batches = 0
  const server = createServer(async (request, response) => {
    batches++
    await released
    request.resume()
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  const port = await listen(t, server)
  t.teardown(release)
  return { url: `http://127.0.0.1:${port}`, batches: () => batches, release }
}

t.test('spans are dropped and counted when the queue is full', async (t) => {
  const collector = await startHangingCollector(t)
  const metrics = createMetrics('test')
  const log = createLogger('test', 'silent')
  const options = { endpoint: collector.url, share: 1, service: 'test', metrics, log }
  const tracing = await startTracing(options)
  if (tracing === undefined) throw new Error('tracing is off')
  const at = performance.now()
  const span = { name: 'x', kind: 'internal', from: at, to: at, failed: false } as const
  const record = () => tracing.record(tracing.begin(), { ...span, attributes: {} }, [])
  // The first batch is sent when it is full.
  for (let n = 0; n < 512; n++) record()
  await until(() => collector.batches() === 1, 'a batch was sent')
  for (let n = 0; n < 10_000; n++) record()
  const outcomes = async () => await metrics.registry.metrics()
  matches(t, await outcomes(), containing('receivables_trace_spans_total{outcome="dropped"} 1808'))
  collector.release()
  await tracing.close()
  matches(t, await outcomes(), containing('receivables_trace_spans_total{outcome="exported"} 8704'))
})
