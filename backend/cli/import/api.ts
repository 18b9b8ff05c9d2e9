/**
 * A client of the public API. Requests wait while the key's hourly limit is used up. A request is retried if it gets no
 * response, or a response that reports a transient failure (5xx, 408, or 409 `idempotency_in_progress`). If the last
 * attempt fails, `ImportStopped` is thrown. `post` returns the rejection of one record (422, or 409 with another code).
 * Any other rejection throws `ImportStopped`.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Dispatcher, Pool } from 'undici'

/** The import cannot continue. The message says why, and what to do. */
export class ImportStopped extends Error {
  override readonly name = 'ImportStopped'
}

export type Json = Readonly<Record<string, unknown>>

export interface ApiResponse {
  readonly status: number
  /**
   * Whether another run has created the record, earlier or concurrently. False after a failed attempt of this
   * request, because that attempt may have created the record.
   */
  readonly replayed: boolean
  readonly body: Json
}

/** The rate limit of the key, as the last response reported it. */
export interface RateLimitWindow {
  readonly limit: number
  readonly remaining: number
  /** The end of the window, in milliseconds of the Unix epoch. */
  readonly resetAtMs: number
}

export interface Api {
  /**
   * Returns the body of a response with status 200; throws `ImportStopped` for any other status. `attemptsMax` can only
   * lower the number of attempts that `retryDelaysMs` allows.
   */
  get(path: string, options?: { readonly attemptsMax?: number }): Promise<Json>
  /**
   * Returns the response if the service created the record (201), or rejected it (409, 422). A 409 can mean that the
   * record exists.
   */
  post(path: string, idempotencyKey: string, body: Json): Promise<ApiResponse>
  readonly window: RateLimitWindow | undefined
  /** The number of requests that received a response. */
  readonly calls: number
  close(): Promise<void>
}

export interface ApiOptions {
  readonly baseUrl: string
  readonly key: string
  readonly connections: number
  /** If aborted, requests in flight finish and no further request is sent. */
  readonly stop: AbortSignal
  /** Called before each wait for the hourly limit or for a retry. */
  readonly onWait: (reason: string, untilMs: number) => void
  /** The delays before the second attempt, the third, and so on. */
  readonly retryDelaysMs?: readonly number[]
}

/** Eight attempts over about three minutes, which is longer than a restart or a deployment takes. */
const RETRY_DELAYS_MS = [500, 2000, 5000, 10_000, 30_000, 60_000, 90_000]
/**
 * Longer than the gateway waits by default for a backend (10 s) or for a slow client (30 s), so that the gateway ends
 * the request first.
 */
const RESPONSE_TIMEOUT_MS = 40_000
const CONNECT_TIMEOUT_MS = 10_000
/** More than a page of 200 invoices, each of which was created with a body of the maximum size (256 KiB). */
const RESPONSE_BYTES_MAX = 128 * 1024 * 1024
/** The wait after a 429 without Retry-After. */
const RATE_LIMIT_WAIT_SECONDS = 60
const LIMIT_REACHED = 'The hourly limit of the key is reached'

interface Call {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

type Outcome =
  | { readonly kind: 'response'; readonly response: ApiResponse }
  | { readonly kind: 'limited'; readonly waitMs: number }
  | { readonly kind: 'failed'; readonly reason: string; readonly waitMs: number }

export function createApi({
  baseUrl,
  key,
  connections,
  stop,
  onWait,
  retryDelaysMs = RETRY_DELAYS_MS,
}: ApiOptions): Api {
  const { origin, pathname } = new URL(baseUrl)
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    connect: { timeout: CONNECT_TIMEOUT_MS },
    headersTimeout: RESPONSE_TIMEOUT_MS,
    bodyTimeout: RESPONSE_TIMEOUT_MS,
    maxResponseSize: RESPONSE_BYTES_MAX,
  })
  let window: RateLimitWindow | undefined
  let calls = 0
  /** The limit applies to the key: one 429 therefore delays all requests. */
  let limitedUntilMs = 0

  async function call(request: Call, attemptsMax: number): Promise<ApiResponse> {
    for (let failures = 0; ; ) {
      if (limitedUntilMs > Date.now()) onWait(LIMIT_REACHED, limitedUntilMs)
      await pause(limitedUntilMs - Date.now())
      const outcome = await send(request)
      if (outcome.kind === 'response') {
        const { response } = outcome
        return { ...response, replayed: response.replayed && failures === 0 }
      }
      if (outcome.kind === 'limited') {
        limitedUntilMs = Math.max(limitedUntilMs, Date.now() + outcome.waitMs)
        continue
      }
      const delayMs = retryDelaysMs[failures++]
      if (delayMs === undefined || failures >= attemptsMax) {
        throw new ImportStopped(
          `${request.method} ${request.path} failed ${failures} times: ${outcome.reason}.`,
        )
      }
      // The jitter prevents requests that failed together from being retried together.
      const waitMs = Math.max(outcome.waitMs, delayMs * (0.75 + Math.random() / 2))
      onWait(outcome.reason, Date.now() + waitMs)
      await pause(waitMs)
    }
  }

  /** Throws immediately if the import is stopped, even during a wait. */
  async function pause(waitMs: number): Promise<void> {
    try {
      stop.throwIfAborted()
      if (waitMs > 0) await sleep(waitMs, undefined, { signal: stop })
    } catch (error) {
      if (!stop.aborted) throw error
      throw new ImportStopped('Stopped on request.', { cause: error })
    }
  }

  async function send({ method, path, headers, body }: Call): Promise<Outcome> {
    let response: Dispatcher.ResponseData
    let text: string
    try {
      response = await pool.request({
        method,
        path: pathname.replace(/\/$/, '') + path,
        headers: { authorization: `Bearer ${key}`, accept: 'application/json', ...headers },
        body: body ?? null,
      })
      text = await response.body.text()
    } catch (error) {
      const reason = `no response from ${origin} (${describe(error)})`
      return { kind: 'failed', reason, waitMs: 0 }
    }
    calls++
    window = readWindow(response.headers) ?? window
    return classify({
      request: `${method} ${path.replace(/\?.*/, '')}`,
      status: response.statusCode,
      retryAfter: response.headers['retry-after'],
      replayed: response.headers['idempotent-replayed'] === 'true',
      body: parseObject(text),
    })
  }

  return {
    async get(path, { attemptsMax = Number.POSITIVE_INFINITY } = {}) {
      const { status, body } = await call({ method: 'GET', path, headers: {} }, attemptsMax)
      if (status !== 200) throw unexpected(`GET ${path}`, status, body)
      return body
    },
    async post(path, idempotencyKey, body) {
      const headers = { 'content-type': 'application/json', 'idempotency-key': idempotencyKey }
      const request = { method: 'POST', path, headers, body: JSON.stringify(body) } as const
      return await call(request, Number.POSITIVE_INFINITY)
    },
    get window() {
      return window
    },
    get calls() {
      return calls
    },
    close: () => pool.close(),
  }
}

interface Received {
  /** Method and path, for messages. */
  readonly request: string
  readonly status: number
  readonly retryAfter: string | string[] | undefined
  readonly replayed: boolean
  /** Undefined if the body is not a JSON object. */
  readonly body: Json | undefined
}

function classify({ request, status, retryAfter, replayed, body }: Received): Outcome {
  const seconds = /^\d{1,6}$/.test(String(retryAfter)) ? Number(retryAfter) : undefined
  const code = body?.['code']
  if (status === 429)
    return { kind: 'limited', waitMs: (seconds ?? RATE_LIMIT_WAIT_SECONDS) * 1000 }
  if (status >= 500 || status === 408 || code === 'idempotency_in_progress') {
    return {
      kind: 'failed',
      reason: `${request}: ${status}${code === undefined ? '' : ` ${code}`}`,
      waitMs: (seconds ?? 0) * 1000,
    }
  }
  const isExpected = status === 200 || status === 201 || status === 409 || status === 422
  if (isExpected && body !== undefined)
    return { kind: 'response', response: { status, replayed, body } }
  throw unexpected(request, status, body)
}

function unexpected(request: string, status: number, body: Json | undefined): ImportStopped {
  if (body?.['code'] === undefined) {
    return new ImportStopped(
      `The response to ${request} has status ${status} and does not come from Receivables: check --base-url.`,
    )
  }
  const { code, detail, request_id: requestId } = body
  return new ImportStopped(
    `${request} was rejected with ${status} ${code}: ${detail} (${requestId})`,
  )
}

function readWindow(headers: Dispatcher.ResponseData['headers']): RateLimitWindow | undefined {
  const [limit = 0, remaining = 0, resetAtSeconds = 0] = ['limit', 'remaining', 'reset'].map(
    (name) => Number(headers[`x-ratelimit-${name}`] ?? Number.NaN),
  )
  const resetAtMs = resetAtSeconds * 1000
  return Number.isNaN(limit + remaining + resetAtMs) ? undefined : { limit, remaining, resetAtMs }
}

function parseObject(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}

function describe(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : String(error)
}
