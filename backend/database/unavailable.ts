/** The problems that clients receive if the database did not complete a call, or if it is unknown whether it did. */
import { Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'

/**
 * The database cannot serve the call now and has recorded nothing. A cause that is a `Problem` is returned unchanged.
 */
export function unavailable(cause: unknown): Problem {
  if (cause instanceof Problem) return cause
  return temporarilyUnavailable(
    'The database is unavailable, so nothing was recorded. Repeat the call shortly; repeat a write with the same Idempotency-Key.',
    { cause },
  )
}

/**
 * A statement waited too long for a lock that another transaction holds. A caller that knows what such
 * a lock means can catch the error and respond more precisely.
 */
export class LockTimeout extends Problem {
  constructor(cause: Error) {
    super(
      'service_unavailable',
      'Too many calls changed the same record at once, so nothing was recorded. Repeat the call shortly; repeat a write with the same Idempotency-Key.',
      { headers: { 'retry-after': '1' }, cause },
    )
  }
}

/** The database (e.g. its disk) or the connection to it failed while the transaction was being committed. */
export function outcomeUnknown(cause: unknown): Problem {
  return new Problem(
    'gateway_timeout',
    'The database or the connection to it failed during the commit, so the outcome is unknown. Repeat the call with the same Idempotency-Key: if the first call was recorded, its response is returned and nothing is recorded twice.',
    { cause },
  )
}

/**
 * Whether a transaction may succeed if it is repeated: the database was unavailable, a row was locked for too long, or
 * the outcome of the commit is unknown.
 */
export function isRetryable(error: unknown): boolean {
  return (
    error instanceof Problem &&
    (error.code === 'service_unavailable' || error.code === 'gateway_timeout')
  )
}
