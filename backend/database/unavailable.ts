/** The problems that are returned if the database did not complete a request and may do so later. */
import { Problem } from '../../shared/contract/problem.ts'

/** The database cannot serve the call now and has recorded nothing. */
export function unavailable(cause: unknown): Problem {
  if (cause instanceof Problem) return cause
  return new Problem(
    'service_unavailable',
    'The service cannot reach its records at the moment and has recorded nothing. Repeat the call shortly, a write with the same Idempotency-Key.',
    { headers: { 'retry-after': '1' }, cause },
  )
}

/**
 * A statement waited too long for a row that another transaction has locked. Clients get the same response
 * as for `unavailable`; the caller may know more about the lock.
 */
export class LockTimeout extends Problem {
  /** The table of the insert that waited; undefined if it was another kind of statement. */
  readonly table: string | undefined

  constructor(cause: Error, table?: string) {
    super(
      'service_unavailable',
      'Too many calls about the same record at once; nothing was recorded. Repeat the call shortly, a write with the same Idempotency-Key.',
      { headers: { 'retry-after': '1' }, cause },
    )
    this.table = table
  }
}

/** The connection failed while the transaction was being committed. */
export function outcomeUnknown(cause: unknown): Problem {
  return new Problem(
    'gateway_timeout',
    'The database connection failed during commit; the outcome is unknown. Repeat the call with the same Idempotency-Key: if it was recorded, its response is returned and nothing is recorded again.',
    { cause },
  )
}
