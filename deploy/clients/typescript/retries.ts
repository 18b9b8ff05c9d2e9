/**
 * Repeats a request until its outcome is known, up to a maximum number of attempts. Only requests that may be repeated
 * are sent through this client: GET changes nothing, and each POST has an Idempotency-Key, so the service executes it
 * once.
 */
import { setTimeout as wait } from 'node:timers/promises'

export interface RetryOptions {
  /** The maximum number of attempts; 5 by default. */
  readonly attemptsMax?: number
  /** The longest duration of one attempt including its response, in ms; 30,000 by default. */
  readonly attemptTimeoutMs?: number
  /**
   * The longest wait between two attempts, in ms; 60,000 by default. If `Retry-After` is longer, the response
   * is returned.
   */
  readonly waitMaxMs?: number
}

const BACKOFF_MIN_MS = 250
const RETRYABLE_STATUSES = [408, 429, 500, 502, 503, 504]

/**
 * Returns a `fetch` that resolves with the last response. It rejects if the request is aborted, or if the last
 * attempt had no complete response, so that the outcome is unknown.
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
      if (attempt >= attemptsMax || waitMs > waitMaxMs || !(await isRetryable(outcome))) {
        if (outcome instanceof Response) return outcome
        throw outcome.cause
      }
      await wait(waitMs, undefined, { signal: request.signal })
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
    const response = await fetch(request, { signal })
    const body = await response.arrayBuffer()
    const { status, statusText, headers } = response
    return new Response(body.byteLength === 0 ? null : body, { status, statusText, headers })
  } catch (cause) {
    return { cause }
  }
}

/** Problem documents of the service have `retryable`; for a response of a proxy, the status decides. */
async function isRetryable(outcome: Response | NoResponse): Promise<boolean> {
  if (!(outcome instanceof Response)) return true
  if (outcome.ok) return false
  if (outcome.headers.get('content-type')?.startsWith('application/problem+json')) {
    const problem: unknown = await outcome.clone().json()
    if (typeof problem === 'object' && problem !== null && 'retryable' in problem) {
      return problem.retryable === true
    }
  }
  return RETRYABLE_STATUSES.includes(outcome.status)
}

/** `Retry-After` is a number of seconds or a date. */
function retryAfterMs(outcome: Response | NoResponse): number | undefined {
  const value = outcome instanceof Response ? outcome.headers.get('retry-after') : null
  if (value === null) return undefined
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
