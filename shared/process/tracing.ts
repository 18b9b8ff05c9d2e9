/**
 * Spans for a collector that speaks OTLP over HTTP. A span is made when all of it is over, from times
 * noted on the way: a call that is not traced pays next to nothing, and none waits for the collector.
 * The packages are loaded where an endpoint is configured, and only there.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { SpanContext } from '@opentelemetry/api'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from './log.ts'
import { type Metrics, readVersion } from './metrics.ts'
import { createRepeatedLog } from './repeated-log.ts'
import { beginTrace, createSpanId, isSampled, type Trace } from './trace.ts'

/** Spans that wait, at most; beyond it they are dropped. A batch leaves when it is full, or this old. */
const WAITING_MAX = 8_192
const BATCH_MAX = 512
const BATCH_AGE_MS = 2_000
const EXPORT_TIMEOUT_MS = 5_000
/** What a drain waits for the last batches. */
const FLUSH_MS_MAX = 2_000

/** Times by `performance.now()`. */
export interface Span {
  readonly name: string
  /** `server`: what a caller asked of us. `client`: what we asked of another process. */
  readonly kind: 'server' | 'client' | 'internal'
  /** Where another process was told of it. */
  readonly id?: string | undefined
  readonly from: number
  readonly to: number
  readonly failed: boolean
  readonly attributes: Readonly<Record<string, string | number | undefined>>
}

export interface Tracing {
  /** Of a call that no caller has given one; whether it is kept, chance decides. */
  begin(): Trace
  /** `parts` become children of `whole`. Never throws, never waits. */
  record(trace: Trace, whole: Span, parts: readonly Span[]): void
  /** Sends what waits, as far as it is taken soon. */
  close(): Promise<void>
}

export interface TracingOptions {
  /** e.g. `http://collector:4318`; undefined: there is no collector. */
  readonly endpoint: string | undefined
  /** Of the traces that begin here, from 0 to 1. */
  readonly share: number
  readonly service: string
  readonly metrics: Metrics
  readonly log: Logger
}

export async function startTracing(options: TracingOptions): Promise<Tracing | undefined> {
  const { endpoint, share, service, metrics, log } = options
  if (endpoint === undefined) return undefined
  const [{ BatchSpanProcessor }, { OTLPTraceExporter }, { resourceFromAttributes }, { SpanKind }] =
    await Promise.all([
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/api'),
    ])
  const url = `${endpoint}/v1/traces`
  const collector = new OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS })
  const exporter = countSpans(collector, metrics, log)
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: WAITING_MAX,
    maxExportBatchSize: BATCH_MAX,
    scheduledDelayMillis: BATCH_AGE_MS,
    exportTimeoutMillis: 2 * EXPORT_TIMEOUT_MS,
  })
  const resource = resourceFromAttributes({
    'service.namespace': 'receivables',
    'service.name': `receivables-${service}`,
    'service.version': readVersion(),
    'service.instance.id': randomUUID(),
  })
  const kinds = {
    server: SpanKind.SERVER,
    client: SpanKind.CLIENT,
    internal: SpanKind.INTERNAL,
  }
  const shared = {
    resource,
    instrumentationScope: { name: 'receivables' },
    links: [],
    events: [],
    ended: true,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  }

  function readable(
    { name, kind, from, to, failed, attributes }: Span,
    own: SpanContext,
    parent: SpanContext | undefined,
    clockMs: number,
  ): ReadableSpan {
    return {
      ...shared,
      name,
      kind: kinds[kind],
      spanContext: () => own,
      ...(parent === undefined ? {} : { parentSpanContext: parent }),
      startTime: split(clockMs + from),
      endTime: split(clockMs + to),
      duration: split(to - from),
      // 2 is ERROR, 0 is unset: the conventions leave it unset where all went well.
      status: { code: failed ? 2 : 0 },
      attributes,
    }
  }

  const enqueue = (span: ReadableSpan) => {
    if (exporter.admits()) processor.onEnd(span)
  }

  return {
    begin: () => beginTrace(Math.random() < share),
    record(trace, whole, parts) {
      if (!isSampled(trace)) return
      const context = (spanId: string) => ({ traceId: trace.id, spanId, traceFlags: trace.flags })
      const { parentSpanId } = trace
      const own = context(whole.id ?? createSpanId())
      const parent =
        parentSpanId === undefined ? undefined : { ...context(parentSpanId), isRemote: true }
      // By the clock of now: the one that the process began with may have been set since. One for all
      // of a trace: it is whole milliseconds, and a part must not end after the whole.
      const clockMs = Date.now() - performance.now()
      enqueue(readable(whole, own, parent, clockMs))
      for (const part of parts) {
        enqueue(readable(part, context(part.id ?? createSpanId()), own, clockMs))
      }
    },
    async close() {
      const flushed = processor.shutdown().catch(() => {})
      await Promise.race([flushed, delay(FLUSH_MS_MAX, undefined, { ref: false })])
    },
  }
}

interface CountingExporter extends SpanExporter {
  /** Whether another span may wait; one that may not is counted as dropped. */
  admits(): boolean
}

/** The package says neither what it drops nor what it could not export. */
function countSpans(exporter: SpanExporter, metrics: Metrics, log: Logger): CountingExporter {
  const name = 'receivables_trace_spans_total'
  const spans = metrics.counter(name, 'Spans by what became of them.', ['outcome'])
  const exported = spans.labels('exported')
  const failed = spans.labels('failed')
  const dropped = spans.labels('dropped')
  const repeated = createRepeatedLog(log)
  let waiting = 0
  return {
    admits() {
      const isFree = waiting < WAITING_MAX
      if (isFree) waiting++
      else dropped.inc()
      return isFree
    },
    export(batch, done) {
      waiting -= batch.length
      exporter.export(batch, (result) => {
        if (result.error === undefined) {
          exported.inc(batch.length)
        } else {
          failed.inc(batch.length)
          const fields = { spans: batch.length, reason: result.error.message }
          repeated.warn('export', fields, 'spans not exported: they are lost')
        }
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
  }
}

type HrTime = [seconds: number, nanoseconds: number]

function split(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000)
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)]
}
