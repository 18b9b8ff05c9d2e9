/** The record of one call, from which its log line, metrics and trace are made. */
import type { Operation } from '../../shared/contract/contract.ts'
import type { ProblemCode } from '../../shared/contract/problem.ts'
import { createSpanId, type Trace } from '../../shared/process/trace.ts'
import type { RequestHead } from '../http1/request-head.ts'

export interface CallRecord {
  /** The address at the other end of the connection: of the client, or of a proxy in front of the gateway. */
  readonly address: string
  /** Undefined if the head was rejected. */
  head: RequestHead | undefined
  /** Undefined if the head was rejected, or if the client sent no valid trace and the gateway exports no traces. */
  trace: Trace | undefined
  /** Undefined if the request matched no operation of the API. All pages have the `operationId` `pages`. */
  operation: Pick<Operation, 'operationId' | 'path'> | undefined
  keyId: string | undefined
  accountId: string | undefined
  /** The URL of the backend to which the call was last sent. */
  backend: string | undefined
  /** How long all attempts to forward the call took together. */
  upstreamMs: number
  /** The code of the problem if the gateway itself rejected the call. */
  code: ProblemCode | undefined
  /** The bytes of the response body. For a streamed response, the head and the chunk sizes are included. */
  sentBytes: number
  /** Undefined if the gateway exports no traces. */
  readonly steps: CallStep[] | undefined
}

/** A step that waited, e.g. for Redis or for a backend. Times are `performance.now()`. */
export interface CallStep {
  readonly name: string
  readonly spanId: string
  readonly from: number
  readonly to: number
  readonly failed: boolean
}

export function createCallRecord(address: string, recordsSteps: boolean): CallRecord {
  return {
    address,
    head: undefined,
    trace: undefined,
    operation: undefined,
    keyId: undefined,
    accountId: undefined,
    backend: undefined,
    upstreamMs: 0,
    code: undefined,
    sentBytes: 0,
    steps: recordsSteps ? [] : undefined,
  }
}

/**
 * Returns `work`. If steps are recorded and `work` is a promise, records its timings when it has settled. Pass `spanId`
 * if the request to the backend contains this id, as the parent of the backend's spans.
 */
export function recordStep<T>(
  { steps }: CallRecord,
  name: string,
  work: T | Promise<T>,
  spanId?: string,
): T | Promise<T> {
  if (steps === undefined || !(work instanceof Promise)) return work
  const from = performance.now()
  const record = (failed: boolean) => {
    const step = { name, spanId: spanId ?? createSpanId(), from, to: performance.now(), failed }
    steps.push(step)
  }
  work.then(
    () => record(false),
    () => record(true),
  )
  return work
}
