/** Classifies PostgreSQL's errors by their codes (SQLSTATE). */
import { DatabaseError } from 'pg'
import { ConstraintViolation } from '../constraint-violation.ts'

/**
 * The kinds of errors:
 *
 * - `conflict`: e.g. a deadlock; the whole transaction may succeed when it runs again.
 * - `locked`: another transaction held a lock for too long.
 * - `unavailable`: the server cannot serve the request now; the connection may still be usable.
 * - `connection_lost`: the connection must not be used again.
 */
export type ErrorKind = 'conflict' | 'locked' | 'unavailable' | 'connection_lost'

/** Kinds by error code or by its class (the first two characters). The entry of a code takes precedence. */
const ERROR_KINDS: ReadonlyMap<string, ErrorKind> = new Map<string, ErrorKind>([
  // A serialization failure.
  ['40001', 'conflict'],
  // A deadlock.
  ['40P01', 'conflict'],
  // A statement waited too long for a lock.
  ['55P03', 'locked'],
  // A statement took too long, or an operator cancelled it.
  ['57014', 'unavailable'],
  // Insufficient disk space, memory or connections.
  ['53', 'unavailable'],
  // A system error, e.g. of the disk.
  ['58', 'unavailable'],
  // The connection failed.
  ['08', 'connection_lost'],
  // The server shuts down, has crashed, or has not started yet.
  ['57', 'connection_lost'],
  // The transaction was idle for too long.
  ['25P03', 'connection_lost'],
  // The server has become a standby.
  ['25006', 'connection_lost'],
  // The login is rejected, e.g. while a password is changed.
  ['28', 'connection_lost'],
  // The database does not exist, e.g. while it is restored.
  ['3D', 'connection_lost'],
  // An internal error of the server.
  ['XX', 'connection_lost'],
])

/** Returns undefined for an error that the statement itself caused, such as a constraint violation. */
export function errorKindOf(error: unknown): ErrorKind | undefined {
  // Errors of the driver itself concern the connection.
  if (!(error instanceof DatabaseError))
    return error instanceof BadValue ? undefined : 'connection_lost'
  const { code = '' } = error
  return ERROR_KINDS.get(code) ?? ERROR_KINDS.get(code.slice(0, 2))
}

/** Whether the server sent an error after which the connection must not be used again. */
export function endsConnection(error: unknown): boolean {
  return error instanceof DatabaseError && errorKindOf(error) === 'connection_lost'
}

/** Whether the error shows that the server is a standby. */
export function isReadOnlyServer(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === '25006'
}

/** How long to wait before the next attempt to connect to a full server (see `isServerFull`). */
export const FULL_RETRY_MS = 1_000

/** Whether the server, the database or the role has as many connections as it may have. */
export function isServerFull(error: unknown): boolean {
  return error instanceof DatabaseError && error.code === '53300'
}

/**
 * Whether a COMMIT with this error has certainly recorded nothing: because of a constraint (23), the state of the
 * transaction (25), a rollback (40), or insufficient resources (53).
 */
export function isCommitRefused(error: unknown): boolean {
  return error instanceof DatabaseError && /^(?:23|25|40|53)/.test(error.code ?? '')
}

/** A value that this program cannot represent, which is a bug rather than a connection error. */
export class BadValue extends Error {
  override readonly name = 'BadValue'
}

export function constraintViolation(error: unknown): ConstraintViolation | undefined {
  if (!(error instanceof DatabaseError)) return undefined
  switch (error.code) {
    case '23505':
      return new ConstraintViolation('unique', columnsOf(error), error)
    case '23503':
      return new ConstraintViolation('foreign_key', [], error)
    case '23514':
      return new ConstraintViolation('check', [], error)
    default:
      return undefined
  }
}

/** Parses `Key (account_id, number)=(…) already exists.`, in any language of the server. */
function columnsOf({ table = '', detail = '' }: DatabaseError): string[] {
  const [, names = ''] = /\(([^()]*)\)=\(/.exec(detail) ?? []
  return names.split(', ').map((name) => `${table}.${name}`)
}

/** Returns why no session could be opened. The driver's own text about a missing password is unclear. */
export function connectFailureOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return /password must be a (?:non-empty )?string/i.test(message)
    ? 'the server requires a password, and the URL of the database contains none'
    : message
}
