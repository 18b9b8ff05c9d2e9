/**
 * Exports spans to a collector by OTLP over HTTP. A span is created from recorded times after its work has ended, so
 * that an unsampled call costs almost nothing, and no call waits for the collector.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { SpanContext } from '@opentelemetry/api'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'
import { createCollapsingLog } from './collapsing-log.ts'
import type { Logger } from './log.ts'
import { type Metrics, readVersion } from './metrics.ts'
import { beginTrace, createSpanId, isSampled, type Trace } from './trace.ts'

/** If this many spans are queued, further spans are dropped. */
const WAITING_MAX = 8_192
/** A batch is exported when it is full, or when its first span has waited for `BATCH_AGE_MS`. */
const BATCH_MAX = 512
const BATCH_AGE_MS = 2_000
const EXPORT_TIMEOUT_MS = 5_000
const FLUSH_MS_MAX = 2_000

/** `from` and `to` are times by `performance.now()`. */
export interface Span {
  readonly name: string
  /** `server`: a request that we received. `client`: a request that we sent. */
  readonly kind: 'server' | 'client' | 'internal'
  /** Must be set if the id was sent to another process. If it is undefined, `Tracing.record` creates an id. */
  readonly id?: string | undefined
  readonly from: number
  readonly to: number
  readonly failed: boolean
  readonly attributes: Readonly<Record<string, string | number | undefined>>
}

export interface Tracing {
  /** Begins a trace for a call that has none. Whether it is sampled is random. */
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
  const otlpExporter = new OTLPTraceExporter({ url, timeoutMillis: EXPORT_TIMEOUT_MS })
  const exporter = countSpans(otlpExporter, metrics, log)
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: WAITING_MAX,
    maxExportBatchSize: BATCH_MAX,
    scheduledDelayMillis: BATCH_AGE_MS,
    // `otlpExporter` has a shorter timeout: it reports a failed export before the processor abandons the export.
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

  function toReadableSpan(
    { name, kind, from, to, failed, attributes }: Span,
    context: SpanContext,
    parent: SpanContext | undefined,
    offsetMs: number,
  ): ReadableSpan {
    return {
      ...shared,
      name,
      kind: kinds[kind],
      spanContext: () => context,
      ...(parent === undefined ? {} : { parentSpanContext: parent }),
      startTime: toHrTime(offsetMs + from),
      endTime: toHrTime(offsetMs + to),
      duration: toHrTime(to - from),
      // 2 is ERROR. 0 is UNSET, which the conventions require for success.
      status: { code: failed ? 2 : 0 },
      attributes,
    }
  }

  const enqueue = (span: ReadableSpan) => {
    if (exporter.reserve()) processor.onEnd(span)
  }

  return {
    begin: () => beginTrace(Math.random() < share),
    record(trace, span, children) {
      if (!isSampled(trace)) return
      const context = (spanId: string) => ({ traceId: trace.id, spanId, traceFlags: trace.flags })
      const { parentSpanId } = trace
      const spanContext = context(span.id ?? createSpanId())
      const parent =
        parentSpanId === undefined ? undefined : { ...context(parentSpanId), isRemote: true }
      // The offset between the two clocks is computed each time, because the system's clock may be set at any time. The
      // span and its children use one offset, so that a rounding error cannot make a child end after its parent.
      const offsetMs = Date.now() - performance.now()
      enqueue(toReadableSpan(span, spanContext, parent, offsetMs))
      for (const child of children) {
        enqueue(toReadableSpan(child, context(child.id ?? createSpanId()), spanContext, offsetMs))
      }
    },
    async close() {
      const flushed = processor.shutdown().catch(() => {})
      await Promise.race([flushed, delay(FLUSH_MS_MAX, undefined, { ref: false })])
    },
  }
}

interface CountingExporter extends SpanExporter {
  /** Reserves room in the queue for a span. If there is none, counts the span as dropped and returns false. */
  reserve(): boolean
}

/** Counts spans, because OpenTelemetry's package reports neither dropped spans nor failed exports. */
function countSpans(exporter: SpanExporter, metrics: Metrics, log: Logger): CountingExporter {
  const name = 'receivables_trace_spans_total'
  const spans = metrics.counter(name, 'Spans by outcome.', ['outcome'])
  const exported = spans.labels('exported')
  const failed = spans.labels('failed')
  const dropped = spans.labels('dropped')
  const collapsingLog = createCollapsingLog(log)
  let waiting = 0
  return {
    reserve() {
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
          collapsingLog.warn('export', fields, 'spans not exported: they are lost')
        }
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
  }
}

type HrTime = [seconds: number, nanoseconds: number]

function toHrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000)
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)]
}
