/**
 * Brings an approved call to a backend, over what fails on the way: a backend that refuses is passed
 * over, a lost answer is asked for once more where that can do no harm, and what stays lost becomes a
 * problem that says whether anything may have been done.
 */

import { Problem } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'
import { createRepeatedLog } from '../../shared/process/repeated-log.ts'
import type { CallStory } from '../observability/call-record.ts'
import type { Abort } from '../pipeline/call.ts'
import {
  AttemptFailed,
  createAttempt,
  type UpstreamAnswer,
  type UpstreamRequest,
} from './attempt.ts'
import { type Backend, type Upstream, wasNeverConnected } from './backends.ts'

/** Repeats are at most this share of the calls, so that a sick backend is not hit twice as hard. */
const REPEAT_SHARE = 0.1
const REPEATS_SAVED_MAX = 10

export interface Forwarder {
  /**
   * Throws `Problem` 503 where nothing was sent, 504 past a deadline, 502 where the answer was lost
   * or garbled, and gives up where the call is aborted. `story` is told of the backend and its time.
   */
  forward(
    request: UpstreamRequest,
    abort: Abort,
    story: Pick<CallStory, 'backend' | 'upstreamMs'>,
  ): Promise<UpstreamAnswer>
  /** Attempts that failed, by backend and kind. */
  readonly failures: ReadonlyMap<string, ReadonlyMap<FailureKind, number>>
  /** Attempts that repeated a lost one. */
  readonly retries: number
}

export type FailureKind = 'unreachable' | 'timeout' | 'lost' | 'broken' | 'client_gone'

export interface ForwarderOptions {
  readonly upstream: Upstream
  readonly timeoutMs: number
  readonly streamsMax: number
  readonly log: Logger
}

export function createForwarder(options: ForwarderOptions): Forwarder {
  const { upstream, timeoutMs, streamsMax, log } = options
  const attempt = createAttempt({ timeoutMs, streamsMax })
  const repeatedLog = createRepeatedLog(log)
  const failures = new Map<string, Map<FailureKind, number>>()
  let retries = 0
  let repeats = REPEATS_SAVED_MAX

  const forward: Forwarder['forward'] = async (request, abort, story) => {
    repeats = Math.min(REPEATS_SAVED_MAX, repeats + REPEAT_SHARE)
    let lost: AttemptFailed | undefined
    let backend = upstream.choose()
    for (let refusals = 0; ; ) {
      story.backend = backend.url
      const from = performance.now()
      try {
        return await attempt(backend, request, abort)
      } catch (error) {
        if (!(error instanceof AttemptFailed)) throw error
        noteFailure(backend, error, abort)
        // What a lost attempt may have done stays unknown, however little the next one did.
        const failure = lost?.progress === 'sent' ? lost : error
        const next = upstream.choose(backend)
        if (wasNeverConnected(error.cause)) {
          // To pass it over is no repeat: nobody was asked yet.
          if (next === backend || ++refusals >= upstream.size) throw problemOf(failure)
        } else {
          if (lost !== undefined || !mayRepeat(request, error, abort)) throw problemOf(failure)
          repeats--
          retries++
          lost = error
        }
        backend = next
      } finally {
        story.upstreamMs += performance.now() - from
      }
    }
  }

  function mayRepeat(request: UpstreamRequest, failure: AttemptFailed, abort: Abort) {
    if (failure.isDeadline || abort.reason !== undefined || repeats < 1) return false
    return (
      failure.progress === 'nothing_sent' || (failure.progress === 'sent' && request.idempotent)
    )
  }

  function noteFailure(backend: Backend, failure: AttemptFailed, abort: Abort): void {
    if (wasNeverConnected(failure.cause)) upstream.markUnreachable(backend)
    const { url } = backend
    const kind = kindOf(failure, abort)
    const ofBackend = failures.get(url) ?? new Map<FailureKind, number>()
    failures.set(url, ofBackend.set(kind, (ofBackend.get(kind) ?? 0) + 1))
    if (kind === 'client_gone') return
    const fields = { backend: url, progress: failure.progress, err: failure.cause }
    repeatedLog.warn(`${url} ${kind}`, fields, 'upstream')
  }

  return {
    forward,
    failures,
    get retries() {
      return retries
    },
  }
}

function kindOf(failure: AttemptFailed, { reason }: Abort): FailureKind {
  if (reason !== undefined) return 'client_gone'
  if (wasNeverConnected(failure.cause)) return 'unreachable'
  if (failure.isDeadline) return 'timeout'
  return failure.progress === 'answer_begun' ? 'broken' : 'lost'
}

function problemOf({ progress, isDeadline, cause }: AttemptFailed): Problem {
  if (progress === 'nothing_sent') {
    return new Problem('service_unavailable', 'Nothing was done. Try again in a second.', {
      headers: { 'retry-after': '1' },
      cause,
    })
  }
  if (isDeadline) {
    return new Problem(
      'gateway_timeout',
      'The answer took too long; what it did is not known. Retry with the same Idempotency-Key.',
      { cause },
    )
  }
  return new Problem(
    'bad_gateway',
    'The answer was lost; what it did is not known. Retry with the same Idempotency-Key.',
    { cause },
  )
}
