/** What PostgreSQL's errors mean here. The only place that knows its codes (SQLSTATE). */
import { DatabaseError } from 'pg'
import { ConstraintViolation } from '../constraint-violation.ts'

/**
 * - `conflict`: a deadlock or the like; the whole transaction may succeed when it is run again.
 * - `locked`: another transaction held a row for too long.
 * - `away`: the server cannot do it now; the connection may still be good.
 * - `lost`: the connection is no longer to be used.
 */
export type Trouble = 'conflict' | 'locked' | 'away' | 'lost'

/** By code, else by its first two characters, which are its class. */
const TROUBLES: ReadonlyMap<string, Trouble> = new Map<string, Trouble>([
  ['40001', 'conflict'],
  ['40P01', 'conflict'],
  ['55P03', 'locked'],
  // A statement took too long, or an operator cancelled it.
  ['57014', 'away'],
  // Out of disk, memory, connections.
  ['53', 'away'],
  // Of the system, e.g. a disk that does not answer.
  ['58', 'away'],
  ['08', 'lost'],
  // Shutdown, crash, not started yet.
  ['57', 'lost'],
  // Idle for too long in a transaction: the server has closed the connection.
  ['25P03', 'lost'],
  // The server has become one that only follows another.
  ['25006', 'lost'],
  // Who connects is refused: a password that is being changed, a database that is being restored.
  ['28', 'lost'],
  ['3D', 'lost'],
  ['XX', 'lost'],
])

/** Undefined where it is no trouble of the surroundings but a mistake. */
export function troubleOf(error: unknown): Trouble | undefined {
  // What the driver itself throws is about the connection.
  if (!(error instanceof DatabaseError)) return error instanceof BadValue ? undefined : 'lost'
  const { code = '' } = error
  return TROUBLES.get(code) ?? TROUBLES.get(code.slice(0, 2))
}

/** Whether a COMMIT that ended like this has certainly recorded nothing. */
export function isCommitRefused(error: unknown): boolean {
  return error instanceof DatabaseError && /^(?:23|25|40|53)/.test(error.code ?? '')
}

/** A value that this program cannot represent: a mistake, not trouble with the connection. */
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

/** `Key (account_id, number)=(…) already exists.`, in whatever language the server speaks. */
function columnsOf({ table = '', detail = '' }: DatabaseError): string[] {
  const [, names = ''] = /\(([^()]*)\)=\(/.exec(detail) ?? []
  return names.split(', ').map((name) => `${table}.${name}`)
}
