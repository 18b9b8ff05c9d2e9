/**
 * The metrics of a process, in Prometheus' format. Most of them are plain numbers in other modules, and are
 * read only at a scrape, so that metrics do not slow down calls.
 */
import { readFileSync } from 'node:fs'
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { asMetric, type Durations, Histogram } from './histogram.ts'

export type { Counter, Durations, Histogram }

/**
 * A number, or one sample per set of label values. A sample has these values, in the order of `ReadOptions.labels`, and
 * then the number.
 */
export type Reading = number | readonly (readonly [...labels: string[], value: number])[]

/** How a supervisor combines the values of one metric from several processes. */
type Aggregator = 'sum' | 'min' | 'max' | 'first'

/** How long a scrape waits for one metric. Prometheus usually waits ten seconds for the whole scrape. */
const READ_MS_MAX = 2_000

/** Gauges of prom-client whose names end in `_total`, which is reserved for counters. */
const MISNAMED = ['handles', 'requests', 'resources'].map((kind) => `nodejs_active_${kind}_total`)

interface ReadOptions {
  readonly labels?: readonly string[]
  readonly aggregator?: Aggregator
}

export interface Metrics {
  readonly registry: Registry
  counter(name: string, help: string, labels?: readonly string[]): Counter
  /** Durations in seconds. */
  histogram(name: string, help: string, labels?: readonly string[]): Histogram
  /**
   * `read` is called at each scrape. If it throws, returns undefined or takes more than two seconds, there is no
   * sample.
   */
  gauge(name: string, help: string, read: Read, options?: ReadOptions): void
  /** Like `gauge`, for a number that only grows. */
  total(name: string, help: string, read: Read, options?: ReadOptions): void
}

type Read = () => Reading | undefined | Promise<Reading | undefined>

export function createMetrics(processName: string): Metrics {
  const registry = new Registry()
  const registers = [registry]
  const version = readVersion()
  collectDefaultMetrics({ register: registry })
  for (const name of MISNAMED) registry.removeSingleMetric(name)
  // By default, prom-client averages this metric over the workers, and a single blocked worker would not be noticed.
  const lag = registry.getSingleMetric('nodejs_eventloop_lag_p99_seconds')
  if (lag !== undefined) Object.assign(lag, { aggregator: 'max' satisfies Aggregator })

  function register(
    Kind: typeof Gauge | typeof Counter,
    name: string,
    help: string,
    read: Read,
    { labels = [], aggregator = 'sum' }: ReadOptions = {},
  ): void {
    const metric = new Kind({
      name,
      help,
      labelNames: labels,
      registers,
      aggregator,
      async collect() {
        const reading = await readWithTimeout(read)
        metric.reset()
        // `reset` leaves a metric without labels at 0, which would look like a reading.
        if (labels.length === 0) metric.remove()
        if (typeof reading === 'number') metric.inc(reading)
        else
          for (const sample of reading ?? []) metric.inc(labeled(labels, sample), numberOf(sample))
      },
    })
  }

  const metrics: Metrics = {
    registry,
    counter: (name, help, labels = []) =>
      new Counter({ name, help, labelNames: labels, registers }),
    histogram(name, help, labels = []) {
      const histogram = new Histogram(name, help, labels)
      registry.registerMetric(asMetric(histogram))
      return histogram
    },
    gauge: (name, help, read, options) => register(Gauge, name, help, read, options),
    total: (name, help, read, options) => register(Counter, name, help, read, options),
  }
  metrics.gauge(
    'receivables_info',
    'Always 1; the labels contain the version of the process and of Node.',
    () => [[processName, version, process.version, 1]],
    { labels: ['process', 'version', 'node'], aggregator: 'first' },
  )
  metrics.gauge('receivables_processes', 'Processes that reported these metrics.', () => 1)
  return metrics
}

/** Resolves with undefined if `read` fails or takes too long, so that the other metrics can be scraped. */
async function readWithTimeout(read: Read): Promise<Reading | undefined> {
  const { promise: tooLate, resolve } = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => resolve(undefined), READ_MS_MAX)
  try {
    return await Promise.race([Promise.try(read), tooLate])
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
  }
}

function labeled(names: readonly string[], sample: readonly (string | number)[]) {
  return Object.fromEntries(names.map((name, index) => [name, String(sample[index])]))
}

function numberOf(sample: readonly (string | number)[]): number {
  return Number(sample.at(-1))
}

export function readVersion(): string {
  const { version } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  ) as { readonly version: string }
  return version
}

/**
 * Calls `read` at most once every `ms` milliseconds. All callers get the promise that `read` last returned, even if
 * this promise rejects.
 */
export function cachedFor<T>(ms: number, read: () => Promise<T>): () => Promise<T> {
  let latest: Promise<T> | undefined
  let readAt = 0
  return () => {
    const now = performance.now()
    if (latest === undefined || now - readAt > ms) {
      readAt = now
      latest = read()
    }
    return latest
  }
}

/** The metrics of a worker, for `aggregateFrom`. */
export type MetricsSnapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

/**
 * Combines the metrics of several workers, each metric with its aggregator. `query` resolves with snapshots by worker
 * id, undefined for a worker that does not respond. The last totals of a worker that hangs or has ended are still
 * included: Prometheus would interpret a lower total as a restart, and count the whole total again.
 */
export function aggregateFrom(
  query: () => Promise<ReadonlyMap<number, MetricsSnapshot | undefined>>,
): Registry {
  const lastSnapshots = new Map<number, MetricsSnapshot>()
  let endedTotals: MetricsSnapshot = []

  async function aggregate(): Promise<Registry> {
    const snapshots = await query()
    for (const [id, snapshot] of lastSnapshots) {
      if (snapshots.has(id)) continue
      const totals = [endedTotals, totalsOf(snapshot)]
      endedTotals = await AggregatorRegistry.aggregate(totals).getMetricsAsJSON()
      lastSnapshots.delete(id)
    }
    const present = [...snapshots].map(
      ([id, snapshot]) => snapshot ?? totalsOf(lastSnapshots.get(id) ?? []),
    )
    for (const [id, snapshot] of snapshots) {
      if (snapshot !== undefined) lastSnapshots.set(id, snapshot)
    }
    return AggregatorRegistry.aggregate([...present, endedTotals])
  }

  /** Concurrent scrapes share one result. Otherwise, each would add the totals of the same ended worker. */
  let pending: Promise<Registry> | undefined
  const aggregateOnce = () => {
    pending ??= aggregate().finally(() => {
      pending = undefined
    })
    return pending
  }

  const aggregated = new Registry()
  aggregated.metrics = async () => (await aggregateOnce()).metrics()
  aggregated.getMetricsAsJSON = async () => (await aggregateOnce()).getMetricsAsJSON()
  return aggregated
}

/** Returns the counters and histograms. `type` is declared as a number, but is a string in JSON. */
function totalsOf(snapshot: MetricsSnapshot): MetricsSnapshot {
  return snapshot.filter(({ type }) => ['counter', 'histogram'].includes(String(type)))
}
