/**
 * Names of statements that PostgreSQL keeps parsed and planned for each connection. Parsing and planning
 * cost the server more than most of our statements themselves.
 */
import { DatabaseError } from 'pg'

/** Bounds the server's memory: each connection keeps up to this many plans. */
const NAMES_MAX = 250

export class StatementNames {
  readonly #names = new Map<string, string>()
  readonly #max: number
  #issued = 0

  /** Issues no names if a pooler may run each statement on another session. */
  constructor({ hasPooler }: { readonly hasPooler: boolean }) {
    this.#max = hasPooler ? 0 : NAMES_MAX
  }

  /** Returns undefined once there are too many names: the statement is then parsed each time. */
  nameOf(sql: string): string | undefined {
    const known = this.#names.get(sql)
    if (known !== undefined || this.#names.size >= this.#max) return known
    return this.#issue(sql)
  }

  /**
   * If `error` reports that the statement prepared as `name` is outdated, issues a new name for it and
   * returns true: the statement can then be run again.
   */
  renewAfter(error: unknown, sql: string, name: string | undefined): boolean {
    if (name === undefined || !isStale(error)) return false
    // Another run may have got the same error and already issued a new name.
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
 * 0A000: a migration changed the columns, so the server rejects the prepared plan; `pg` would send the same
 * name forever. 26000: the name was never parsed, because of an earlier error.
 */
function isStale(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '0A000' || error.code === '26000')
}
