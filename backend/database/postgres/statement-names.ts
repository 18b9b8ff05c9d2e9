/**
 * Names of statements that PostgreSQL keeps parsed and planned, for each connection. Parsing and
 * planning cost the server more than most of our statements themselves.
 */
import { DatabaseError } from 'pg'

/** Bounds the server's memory: each connection keeps up to this many plans. */
const NAMES_MAX = 250

export class StatementNames {
  readonly #names = new Map<string, string>()
  #issued = 0

  /** Undefined once there are too many: the statement is then parsed each time. */
  nameOf(sql: string): string | undefined {
    const known = this.#names.get(sql)
    if (known !== undefined || this.#names.size >= NAMES_MAX) return known
    return this.#issue(sql)
  }

  /**
   * Gives the statement a new name where `error` says that what `name` stands for is out of date on
   * that connection. Returns whether it does, so that the statement is worth another run.
   */
  renewAfter(error: unknown, sql: string, name: string | undefined): boolean {
    if (name === undefined || !isStale(error)) return false
    // Another run may have met the same error before.
    if (this.#names.get(sql) === name) this.#issue(sql)
    return true
  }

  #issue(sql: string): string {
    this.#issued += 1
    const name = `statement_${this.#issued}`
    this.#names.set(sql, name)
    return name
  }
}

/**
 * 0A000: a migration changed the columns, so the kept plan has another result; `pg` would send the
 * same name for ever. 26000: the name was never parsed, since an earlier error came in between.
 */
function isStale(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '0A000' || error.code === '26000')
}
