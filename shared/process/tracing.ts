/**
 * Exports spans to a collector by OTLP over HTTP. A span is created when its work has ended, from the
 * recorded times: an unsampled call costs almost nothing, and no call waits for the collector.
 * OpenTelemetry's packages are loaded only if an endpoint is configured.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { SpanContext } from '@opentelemetry/api'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from './log.ts'
import { type Metrics, readVersion } from './metrics.ts'
import { createRepeatedLog } from './repeated-log.ts'
import { beginTrace, createSpanId, isSampled, type Trace } from './trace.ts'

/** Spans beyond this many in the queue are dropped. A batch is exported when it is full, or this old. */
const WAITING_MAX = 8_192
const BATCH_MAX = 512
const BATCH_AGE_MS = 2_000
const EXPORT_TIMEOUT_MS = 5_000
/** How long a drain waits for the last batches. */
const FLUSH_MS_MAX = 2_000

/** Times by `performance.now()`. */
export interface Span {
  readonly name: string
  /** `server`: a request that we received. `client`: a request that we sent. */
  readonly kind: 'server' | 'client' | 'internal'
  /** Set if the id was sent to another process. */
  readonly id?: string | undefined
  readonly from: number
  readonly to: number
  readonly failed: boolean
  readonly attributes: Readonly<Record<string, string | number | undefined>>
}

export interface Tracing {
  /** Begins a trace for a call without one. Whether it is sampled is random. */
  begin(): Trace
  /** Records a span and its children. Never throws, never waits. */
  record(trace: Trace, span: Span, children: readonly Span[]): void
  /** Exports the queued spans, and waits for at most two seconds. */
  close(): Promise<void>
}

export interface TracingOptions {
  /** The URL of the collector, e.g. `http://collector:4318`. If it is undefined, tracing is off. */
  readonly endpoint: string | undefined
  /** The sampled fraction of the traces that begin here, from 0 to 1. */
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
      // 2 is ERROR, 0 is UNSET, which the conventions want for success.
      status: { code: failed ? 2 : 0 },
      attributes,
    }
  }

  const enqueue = (span: ReadableSpan) => {
    if (exporter.admits()) processor.onEnd(span)
  }

  return {
    begin: () => beginTrace(Math.random() < share),
    record(trace, span, children) {
      if (!isSampled(trace)) return
      const context = (spanId: string) => ({ traceId: trace.id, spanId, traceFlags: trace.flags })
      const { parentSpanId } = trace
      const own = context(span.id ?? createSpanId())
      const parent =
        parentSpanId === undefined ? undefined : { ...context(parentSpanId), isRemote: true }
      // The clock may have been set since the process started. All spans use one offset, so that no child
      // ends after its parent by a rounding error.
      const clockMs = Date.now() - performance.now()
      enqueue(readable(span, own, parent, clockMs))
      for (const child of children) {
        enqueue(readable(child, context(child.id ?? createSpanId()), own, clockMs))
      }
    },
    async close() {
      const flushed = processor.shutdown().catch(() => {})
      await Promise.race([flushed, delay(FLUSH_MS_MAX, undefined, { ref: false })])
    },
  }
}

interface CountingExporter extends SpanExporter {
  /** Whether the queue has room for another span; if not, the span is counted as dropped. */
  admits(): boolean
}

/** The package reports neither the spans that it drops nor those that it could not export. */
function countSpans(exporter: SpanExporter, metrics: Metrics, log: Logger): CountingExporter {
  const name = 'receivables_trace_spans_total'
  const spans = metrics.counter(name, 'Spans by outcome.', ['outcome'])
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
