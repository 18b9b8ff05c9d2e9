/**
 * Calls the Receivables API until the outcome is known or twelve attempts have failed: waits for `Retry-After`,
 * and retries calls that may succeed later. A repeated POST has the same Idempotency-Key, so it is carried out once.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { Problem } from './receivables-api.ts'

export interface Client {
  /**
   * `path` does not include `/api/v1`. Rejects with a `Rejection` if the service rejects the call, and with another
   * `Error` if all attempts failed, or if the address or the key cannot be used.
   */
  get<T>(path: string): Promise<T>
  post<T>(path: string, body: unknown, idempotencyKey: string): Promise<T>
}

/** The service rejected the call: repeating it unchanged does not help. */
export class Rejection extends Error {
  readonly problem: Problem

  constructor(problem: Problem) {
    super(`${problem.code}: ${problem.detail} (${problem.request_id})`)
    this.problem = problem
  }
}

/** With the waits between them, these attempts take about four minutes if every connection fails immediately. */
const ATTEMPTS_MAX = 12
/** The mean wait after the first attempt. It doubles with each further attempt. */
const BACKOFF_MEAN_FIRST_MS = 200
/** The maximum of the mean wait. A random factor makes each wait 0.5 to 1.5 times as long as the mean. */
const BACKOFF_MEAN_MAX_MS = 60_000
/** Long enough that the service usually times out first: its gateway waits ten seconds for a backend by default. */
const RESPONSE_TIMEOUT_MS = 30_000

export function createClient(url: string, key: string): Client {
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new Error(`RECEIVABLES_URL must begin with http:// or https://, not ${url}`)
  const base = `${url.trim().replace(/\/+$/, '')}/api/v1`

  async function call(path: string, options: RequestInit): Promise<unknown> {
    for (let attempts = 1; ; attempts += 1) {
      // A request that cannot be created, for example because the key has an invalid character, is not retried.
      const request = new Request(base + path, {
        ...options,
        redirect: 'manual',
        headers: { authorization: `Bearer ${key}`, ...options.headers },
        signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS),
      })
      const response = await send(request)
      if (response !== undefined && response.status < 300) return response.json
      // The service never redirects, and a followed redirect would repeat a POST as a GET.
      if (response !== undefined && response.status < 400)
        throw new Error(
          `${url} redirects calls. Set RECEIVABLES_URL to the address of the service.`,
        )
      const problem = response && problemOf(response.json)
      if (problem !== undefined && !problem.retryable) throw new Rejection(problem)
      const reason = problem?.code ?? 'no usable response'
      if (attempts === ATTEMPTS_MAX)
        throw new Error(`${path}: ${reason}, after ${attempts} attempts. Run the program again.`)
      // At the hourly limit, Retry-After is the time until the limit allows calls again: up to an hour.
      const retryAfterMs = Number(response?.retryAfter ?? 0) * 1000
      const backoffMs =
        Math.min(BACKOFF_MEAN_FIRST_MS * 2 ** (attempts - 1), BACKOFF_MEAN_MAX_MS) *
        (0.5 + Math.random())
      await wait(retryAfterMs || backoffMs)
    }
  }

  /** Resolves with undefined if no complete JSON response arrived: whether the call was carried out is unknown. */
  async function send(request: Request) {
    try {
      const response = await fetch(request)
      const { status, headers } = response
      const retryAfter = headers.get('retry-after')
      if (status >= 300 && status < 400) return { status, retryAfter, json: null }
      const json: unknown = await response.json()
      return { status, retryAfter, json }
    } catch {
      return undefined
    }
  }

  return {
    // The caller names the type of the response, which is not checked: the contract guarantees it.
    get: <T>(path: string) => call(path, {}) as Promise<T>,
    post<T>(path: string, body: unknown, idempotencyKey: string) {
      const headers = { 'content-type': 'application/json', 'idempotency-key': idempotencyKey }
      return call(path, { method: 'POST', headers, body: JSON.stringify(body) }) as Promise<T>
    },
  }
}

/**
 * Undefined if the response does not come from the service, but for example from a proxy. The call is then
 * retried.
 */
function problemOf(json: unknown): Problem | undefined {
  const isProblem =
    typeof json === 'object' && json !== null && 'code' in json && 'retryable' in json
  return isProblem ? (json as Problem) : undefined
}

/** Reads the address and the key from the environment. */
export function clientFromEnvironment(): Client {
  const { RECEIVABLES_URL = 'http://127.0.0.1:8080', RECEIVABLES_API_KEY } = process.env
  if (RECEIVABLES_API_KEY === undefined) throw new Error('Set RECEIVABLES_API_KEY.')
  return createClient(RECEIVABLES_URL, RECEIVABLES_API_KEY)
}
