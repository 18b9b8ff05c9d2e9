/**
 * Names of statements that PostgreSQL keeps parsed and planned for each connection. For most of our statements, parsing
 * and planning take the server longer than running them.
 */
import { DatabaseError } from 'pg'

/** Bounds the server's memory: each connection keeps the plans of up to this many statements. */
const NAMES_MAX = 250

export class StatementNames {
  readonly #names = new Map<string, string>()
  readonly #max: number
  #issued = 0

  /** Issues no names if a pooler may run each statement on another session. */
  constructor({ hasPooler }: { readonly hasPooler: boolean }) {
    this.#max = hasPooler ? 0 : NAMES_MAX
  }

  /** Returns undefined if the maximum number of names is in use: the server then parses the statement each time. */
  nameOf(sql: string): string | undefined {
    const known = this.#names.get(sql)
    if (known !== undefined || this.#names.size >= this.#max) return known
    return this.#issue(sql)
  }

  /**
   * If `error` reports that the server can no longer run the statement under `name`, issues a new name for it and
   * returns true: the statement can then be run again.
   */
  replaceUnusableName(error: unknown, sql: string, name: string | undefined): boolean {
    if (name === undefined || !requiresNewName(error)) return false
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
 * 0A000: a migration has changed the columns, so the server rejects the prepared plan. 26000: the server does not know
 * the name, because an earlier error kept it from parsing the statement.
 */
function requiresNewName(error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '0A000' || error.code === '26000')
}
