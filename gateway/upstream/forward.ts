/**
 * Forwards an authorized call to a backend. If an attempt fails before the response has begun, the call is retried
 * once, provided that it cannot take effect twice and the retry budget allows it. A call that was aborted or has
 * exceeded a limit, such as its deadline, is not retried. If the call fails, its problem says whether a backend may
 * have processed the call.
 */
import { Readable } from 'node:stream'
import { type Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import type { Logger } from '../../shared/process/log.ts'
import type { Abort } from '../call/abort.ts'
import type { CallRecord } from '../call/call-record.ts'
import { noBackendKnown } from './addresses.ts'
import { Admission, type Caller } from './admission.ts'
import {
  AttemptFailed,
  type AttemptLimits,
  createAttempt,
  type UpstreamRequest,
  type UpstreamResponse,
} from './attempt.ts'
import type { Backend, Backends } from './backends.ts'
import { isMoved, isUnreachable, sendWithFailover } from './failover.ts'
import { isReadOnly, lostResponse } from './lost-response.ts'

/** The maximum time that a call waits for a connection, at all backends together. A retry may wait this long again. */
const QUEUE_TIMEOUT_MS = 5_000
/**
 * The retry budget allows one retry for ten calls, and up to ten retries in a burst, so that a failing backend
 * does not get twice the load.
 */
const RETRIES_PER_CALL = 0.1
const RETRY_BUDGET_MAX = 10

export interface Forwarder {
  /**
   * See `Admission.admit`. Throws `Problem` 503 if no backend is known. `release` must be called once for each admitted
   * call: as soon as `forward` has been called (without waiting for the response), or as soon as the call is rejected
   * or waits for another look-up of its key.
   */
  admit(caller: Caller, abort: Abort): Promise<void> | Problem | undefined
  release(): void
  /**
   * Rejects with `Problem`, also if the call is aborted: 503 if nothing was sent; 504 if the deadline passed; 502 if
   * the response was lost or is malformed. If too many other responses are being streamed (see `streamsMax`), a
   * response that is too large to be buffered is dropped: then 503 if the request had no effect (it was a GET, or the
   * backend rejected it), otherwise 502. A 503 of a backend becomes 502 if an earlier attempt to write was lost.
   * Records the backend and the duration of the attempts in `record`.
   */
  forward(
    request: UpstreamRequest,
    abort: Abort,
    record: Pick<CallRecord, 'backend' | 'upstreamMs'>,
  ): Promise<UpstreamResponse>
  /** The number of failed attempts, by backend and kind. */
  readonly failures: ReadonlyMap<string, ReadonlyMap<FailureKind, number>>
  readonly retries: number
  readonly waitingCalls: number
  /** The number of calls that were rejected because of overload. */
  readonly shedCalls: number
}

/**
 * `timeout`: the deadline passed, or the gateway dropped the response because too many others were being streamed.
 * `lost`: the connection failed before the response began. `broken`: the response was incomplete or malformed.
 * `client_gone`: the call was aborted.
 */
export type FailureKind = 'unreachable' | 'timeout' | 'lost' | 'broken' | 'client_gone'

export interface ForwarderOptions extends AttemptLimits {
  readonly backends: Backends
  /** See `AdmissionOptions.waitMs`. */
  readonly waitMs: number
  readonly log: Logger
}

export function createForwarder(options: ForwarderOptions): Forwarder {
  const { backends, timeoutMs, waitMs, streamsMax, log } = options
  const attempt = createAttempt({ timeoutMs, streamsMax })
  const admission = new Admission({ waitMs, connections: () => backends.connections() })
  backends.onFree(() => admission.serve())
  const collapsingLog = createCollapsingLog(log)
  const failures = new Map<string, Map<FailureKind, number>>()
  let retries = 0
  let retryBudget = RETRY_BUDGET_MAX

  const forward: Forwarder['forward'] = async (request, abort, record) => {
    retryBudget = Math.min(RETRY_BUDGET_MAX, retryBudget + RETRIES_PER_CALL)
    let retriedFailure: AttemptFailed | undefined
    let waitUntil = performance.now() + QUEUE_TIMEOUT_MS
    const send = async (backend: Backend): Promise<UpstreamResponse> => {
      record.backend = backend.url
      const from = performance.now()
      try {
        const response = await attempt(backend, request, abort, waitUntil)
        backends.recordResult(backend, { isFailed: response.status >= 500 })
        return response
      } catch (error) {
        // A call that is moved to another backend was not sent to this one, so the attempt is no failure.
        if (error instanceof AttemptFailed && !isMoved(error)) recordFailure(backend, error, abort)
        throw error
      } finally {
        record.upstreamMs += performance.now() - from
      }
    }
    try {
      const response = await sendWithFailover(backends, send, (error) => {
        if (!(error instanceof AttemptFailed) || !mayRetry(request, error, abort)) return false
        retryBudget--
        retries++
        retriedFailure = error
        waitUntil = performance.now() + QUEUE_TIMEOUT_MS
        return true
      })
      const isWriteLost = retriedFailure?.progress === 'sent' && !isReadOnly(request)
      if (response.status !== 503 || !isWriteLost) return response
      // The 503 says that nothing was done, but the effect of the first attempt is unknown.
      if (response.body instanceof Readable) response.body.destroy()
      throw retriedFailure
    } catch (error) {
      if (!(error instanceof AttemptFailed)) throw error
      // The effect of the first attempt is unknown, even if the second one sent nothing.
      throw problemOf(retriedFailure?.progress === 'sent' ? retriedFailure : error, request)
    }
  }

  function mayRetry(request: UpstreamRequest, failure: AttemptFailed, abort: Abort): boolean {
    if (failure.exceededLimit !== undefined || abort.reason !== undefined || retryBudget < 1)
      return false
    return (
      failure.progress === 'nothing_sent' || (failure.progress === 'sent' && request.idempotent)
    )
  }

  function recordFailure(backend: Backend, failure: AttemptFailed, abort: Abort): void {
    const { url } = backend
    const kind = kindOf(failure, abort)
    // Neither an attempt that sent nothing nor one whose response the gateway dropped shows whether the backend
    // responds correctly.
    const isBackendFault =
      failure.progress !== 'nothing_sent' &&
      failure.exceededLimit !== 'streams' &&
      kind !== 'client_gone'
    if (isBackendFault) backends.recordResult(backend, { isFailed: true })
    const kinds = failures.get(url) ?? new Map<FailureKind, number>()
    failures.set(url, kinds.set(kind, (kinds.get(kind) ?? 0) + 1))
    if (kind === 'client_gone') return
    const fields = { backend: url, progress: failure.progress, err: failure.cause }
    collapsingLog.warn(`${url} ${kind}`, fields, 'an attempt to forward a call failed')
  }

  return {
    admit(caller, abort) {
      // Without this, the call would wait for a connection that is never opened.
      if (backends.size === 0) throw noBackendKnown()
      return admission.admit(caller, abort)
    },
    release: () => admission.release(),
    forward,
    failures,
    get retries() {
      return retries
    },
    get waitingCalls() {
      return admission.waitingCalls
    },
    get shedCalls() {
      return admission.shedCalls
    },
  }
}

function kindOf(failure: AttemptFailed, { reason }: Abort): FailureKind {
  if (reason !== undefined) return 'client_gone'
  if (isUnreachable(failure)) return 'unreachable'
  if (failure.exceededLimit !== undefined) return 'timeout'
  return failure.progress === 'response_begun' ? 'broken' : 'lost'
}

function problemOf(
  { progress, exceededLimit, cause }: AttemptFailed,
  request: UpstreamRequest,
): Problem {
  if (progress === 'nothing_sent') {
    return temporarilyUnavailable('Nothing was done. Try again in a second.', { cause })
  }
  return exceededLimit === 'deadline'
    ? lostResponse('gateway_timeout', 'The response took too long.', request, cause)
    : lostResponse('bad_gateway', 'The response was lost.', request, cause)
}
