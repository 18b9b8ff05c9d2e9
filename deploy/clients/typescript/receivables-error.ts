import type { components } from './schema.ts'

type Problem = components['schemas']['Problem']

/**
 * The last attempt of a request got an error response. The client's methods `GET` and `POST` throw this error only if
 * the response comes from a proxy. If the response comes from the service, they resolve with the problem as `error`.
 * `listAll` throws this error in both cases.
 * A write may have been recorded nevertheless: by the last attempt after 500, 502 or 504, or by an earlier attempt that
 * got such a status or no response.
 */
export class ReceivablesError extends Error {
  override readonly name = 'ReceivablesError'
  readonly status: number
  /** Undefined if the response does not come from the service, but for example from a proxy. */
  readonly problem: Problem | undefined

  constructor(status: number, problem: Problem | undefined) {
    super(problem === undefined ? `HTTP status ${status}` : `${problem.code}: ${problem.detail}`)
    this.status = status
    this.problem = problem
  }
}

/**
 * Resolves with the problem document of the service; undefined for any other response, for example of a proxy. The
 * response can still be read afterwards.
 */
export async function problemOf(response: Response): Promise<Problem | undefined> {
  if (!response.headers.get('content-type')?.startsWith('application/problem+json'))
    return undefined
  const value: unknown = await response
    .clone()
    .json()
    .catch(() => undefined)
  const isProblem =
    typeof value === 'object' && value !== null && 'code' in value && 'retryable' in value
  // The contract, from which the types are generated, guarantees the other members.
  return isProblem ? (value as Problem) : undefined
}
