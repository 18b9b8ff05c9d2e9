import t from 'tap'
import {
  aggregateFrom,
  cachedFor,
  createMetrics,
  type MetricsSnapshot,
} from '../../shared/process/metrics.ts'
import { matches } from '../fixtures/matches.ts'

t.test('values are read at each scrape, and a value that cannot be read is omitted', async (t) => {
  const metrics = createMetrics('test')
  let calls = 0
  metrics.total('calls_total', 'Calls.', () => [['a', ++calls]], { labels: ['name'] })
  metrics.gauge('depth', 'Depth.', () => calls)
  const fail = () => Promise.reject(new Error('unavailable'))
  metrics.gauge('failing', 'Cannot be read.', fail)
  metrics.gauge('failing_by_name', 'Cannot be read.', fail, { labels: ['name'] })
  metrics.gauge('slow', 'Never ends.', () => new Promise(() => {}))
  metrics.gauge('missing', 'Does not exist.', () => undefined)
  await metrics.registry.metrics()
  const text = await metrics.registry.metrics()
  matches(t, text, /^calls_total\{name="a"\} 2$/m)
  matches(t, text, /^depth 2$/m)
  matches(t, text, /^receivables_info\{process="test",version="[^"]+",node="v\d+[^"]*"\} 1$/m)
  t.notMatch(text, /^(failing|failing_by_name|slow|missing)[ {]/m)
})

t.test('a cached value is read once for all callers until it expires', async (t) => {
  let reads = 0
  const read = cachedFor(60_000, async () => ++reads)
  t.strictSame(await Promise.all([read(), read(), read()]), [1, 1, 1])
  t.equal(await read(), 1)
  const always = cachedFor(-1, async () => ++reads)
  t.not(await always(), await always())
})

t.test('when one of several processes hangs or ends, its totals are still included', async (t) => {
  const [firstMetrics, secondMetrics] = [createMetrics('one'), createMetrics('other')]
  const calls = [firstMetrics, secondMetrics].map((metrics) =>
    metrics.counter('calls_total', 'Calls.', ['code']),
  )
  for (const [n, counter] of calls.entries()) counter.inc({ code: '200' }, n + 1)
  firstMetrics.histogram('took_seconds', 'Took.').of().observe(1)
  const [firstSnapshot, secondSnapshot] = [
    await firstMetrics.registry.getMetricsAsJSON(),
    await secondMetrics.registry.getMetricsAsJSON(),
  ]
  const responses = new Map<number, MetricsSnapshot | undefined>([
    [1, firstSnapshot],
    [2, secondSnapshot],
  ])
  const aggregated = aggregateFrom(async () => responses)
  const read = async () => {
    const text = await aggregated.metrics()
    return ['calls_total{code="200"}', 'receivables_processes', 'took_seconds_count'].map(
      (sample) => Number(text.split(`\n${sample} `)[1]?.split('\n')[0]),
    )
  }
  t.strictSame(await read(), [3, 2, 1])
  responses.set(1, undefined)
  t.strictSame(await read(), [3, 1, 1], 'while a process hangs')
  responses.delete(1)
  t.strictSame(await Promise.all([read(), read()]), [
    [3, 1, 1],
    [3, 1, 1],
  ])
  responses.set(3, firstSnapshot)
  t.strictSame(await read(), [4, 2, 2], 'a new process replaces the ended one')
})

// Regression: the lag was the average of all workers, so that no alert fired while one of four workers was blocked.
t.test('the event loop lag of several processes is that of the slowest one', async (t) => {
  const snapshot = await createMetrics('test').registry.getMetricsAsJSON()
  const name = 'nodejs_eventloop_lag_p99_seconds'
  const withLag = (value: number) =>
    snapshot.map((metric) =>
      metric.name === name ? { ...metric, values: [{ value, labels: {} }] } : metric,
    )
  const snapshots = new Map([0.01, 0.5, 0.02].map((lag, worker) => [worker, withLag(lag)]))
  matches(
    t,
    await aggregateFrom(async () => snapshots).metrics(),
    new RegExp(`^${name} 0\\.5$`, 'm'),
  )
})
