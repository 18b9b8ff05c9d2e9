/**
 * Calls the Receivables API and goes on until the outcome is known: waits where it is told to, and repeats
 * what may succeed later. A repeated POST carries the same Idempotency-Key, so it never counts twice.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { Problem } from './receivables-api.ts'

export interface Client {
  /** `path` begins behind `/api/v1`. Throws a `Refusal`, or an `Error` where the outcome stays unknown. */
  get<T>(path: string): Promise<T>
  post<T>(path: string, body: unknown, idempotencyKey: string): Promise<T>
}

/** The service understood and refused: repeating the call unchanged does not help. */
export class Refusal extends Error {
  readonly problem: Problem

  constructor(problem: Problem) {
    super(`${problem.code}: ${problem.detail} (${problem.request_id})`)
    this.problem = problem
  }
}

/** With the waits between them these take about four minutes where nothing answers. */
const TRIES_MAX = 12
const WAIT_MIN_MS = 100
const WAIT_MAX_MS = 60_000
/** Longer than the service ever takes, so that it is the service who gives up first. */
const ANSWER_TIMEOUT_MS = 30_000

export function createClient(url: string, key: string): Client {
  async function call(path: string, options: RequestInit): Promise<unknown> {
    for (let tries = 1; ; tries += 1) {
      const answer = await attempt(`${url}/api/v1${path}`, options)
      if (answer !== undefined && answer.status < 300) return answer.json
      const problem = answer && problemOf(answer.json)
      if (problem !== undefined && !problem.retryable) throw new Refusal(problem)
      const what = problem?.code ?? 'no answer'
      if (tries === TRIES_MAX)
        throw new Error(`${path}: ${what}, after ${tries} tries. Run it again.`)
      // At the end of the hour's calls Retry-After is what is left of the hour.
      const told = Number(answer?.retryAfter ?? 0) * 1000
      await wait(told || Math.min(WAIT_MIN_MS * 2 ** tries, WAIT_MAX_MS) * (0.5 + Math.random()))
    }
  }

  /** Nothing where no whole answer came: whether the call was carried out is unknown. */
  async function attempt(target: string, options: RequestInit) {
    try {
      const answer = await fetch(target, {
        ...options,
        headers: { authorization: `Bearer ${key}`, ...options.headers },
        signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
      })
      const json: unknown = await answer.json()
      return { status: answer.status, retryAfter: answer.headers.get('retry-after'), json }
    } catch {
      return undefined
    }
  }

  return {
    // What a call resolves with is as the contract says, which receivables-api.ts is made from.
    get: <T>(path: string) => call(path, {}) as Promise<T>,
    post<T>(path: string, body: unknown, idempotencyKey: string) {
      const headers = { 'content-type': 'application/json', 'idempotency-key': idempotencyKey }
      return call(path, { method: 'POST', headers, body: JSON.stringify(body) }) as Promise<T>
    },
  }
}

/** Something else than this service may have answered: that is no refusal. */
function problemOf(json: unknown): Problem | undefined {
  const isProblem =
    typeof json === 'object' && json !== null && 'code' in json && 'retryable' in json
  return isProblem ? (json as Problem) : undefined
}

/** The client of the key and the address in the environment. */
export function clientOfEnvironment(): Client {
  const { RECEIVABLES_URL = 'http://127.0.0.1:8080', RECEIVABLES_API_KEY } = process.env
  if (RECEIVABLES_API_KEY === undefined) throw new Error('Set RECEIVABLES_API_KEY.')
  return createClient(RECEIVABLES_URL, RECEIVABLES_API_KEY)
}
