/**
 * Repeats a request until its outcome is known, up to a maximum number of attempts. Only requests that may be repeated
 * are sent through this client: GET changes nothing, and each POST has an Idempotency-Key, so the service executes it
 * once.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { problemOf, ReceivablesError } from './receivables-error.ts'

export interface RetryOptions {
  /** The maximum number of attempts; 5 by default. */
  readonly attemptsMax?: number
  /** The longest duration of one attempt including its response, in ms; 30,000 by default. */
  readonly attemptTimeoutMs?: number
  /**
   * The longest wait between two attempts, in ms; 60,000 by default. If `Retry-After` is longer, the request
   * is not repeated.
   */
  readonly waitMaxMs?: number
}

const BACKOFF_MIN_MS = 250
const RETRYABLE_STATUSES = [408, 429, 500, 502, 503, 504]

/**
 * Returns a `fetch` that resolves with the last response of the service. It rejects with a `ReceivablesError` if a
 * proxy rejected the last attempt. It also rejects if the request is aborted, or if the last attempt had no complete
 * response of the service, so that the outcome is unknown.
 */
export function createRetryingFetch(options: RetryOptions) {
  const { attemptsMax = 5, attemptTimeoutMs = 30_000, waitMaxMs = 60_000 } = options

  return async (request: Request): Promise<Response> => {
    if (request.method === 'POST' && !request.headers.has('idempotency-key')) {
      request.headers.set('idempotency-key', crypto.randomUUID())
    }
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await send(request.clone(), attemptTimeoutMs)
      request.signal.throwIfAborted()
      const backoffMs =
        Math.min(BACKOFF_MIN_MS * 2 ** attempt, waitMaxMs) * (0.5 + Math.random() / 2)
      const waitMs = retryAfterMs(outcome) ?? backoffMs
      const isLast = attempt >= attemptsMax || waitMs > waitMaxMs
      if (!(outcome instanceof Response)) {
        if (isLast) throw outcome.cause
      } else {
        if (outcome.ok) return outcome
        const problem = await problemOf(outcome)
        const isRetryable = problem?.retryable ?? RETRYABLE_STATUSES.includes(outcome.status)
        if (isLast || !isRetryable) {
          if (problem === undefined) throw new ReceivablesError(outcome.status, undefined)
          return outcome
        }
      }
      await wait(waitMs, undefined, { signal: request.signal }).catch(() =>
        request.signal.throwIfAborted(),
      )
    }
  }
}

interface NoResponse {
  readonly cause: unknown
}

/** Reads the whole response, because a connection can also be lost in the middle of its body. */
async function send(request: Request, timeoutMs: number): Promise<Response | NoResponse> {
  try {
    const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)])
    // The service never redirects, and a followed redirect would repeat a POST as a GET.
    const response = await fetch(request, { signal, redirect: 'manual' })
    const body = await response.arrayBuffer()
    const { status, statusText, headers } = response
    if (response.ok && !headers.get('content-type')?.startsWith('application/json')) {
      throw new Error(`The response with status ${status} does not come from the service.`)
    }
    return new Response(body.byteLength === 0 ? null : body, { status, statusText, headers })
  } catch (cause) {
    return { cause }
  }
}

/** `Retry-After` is a number of seconds or a date. */
function retryAfterMs(outcome: Response | NoResponse): number | undefined {
  const value = outcome instanceof Response ? outcome.headers.get('retry-after') : null
  if (value === null) return undefined
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
