/**
 * The body of `POST /internal/usage`, a signed request. A gateway reports the calls to which it responded itself, and
 * the rate-limit windows that have changed. It numbers its reports, and sends a report again, unchanged, until a
 * backend accepts or rejects it; the backends apply each report once.
 *
 * A call is included in `refused` and `errors` only if its key was found, and the rate limit was applied or the key
 * does not allow the client's address. A call that got 401 is not included.
 */

export interface UsageReport {
  /** The id of the gateway process, which is new after each start. */
  readonly gateway: string
  /** 1 for the first report of the process, increased by one for each further report. */
  readonly batch: number
  /**
   * Calls to which the gateway itself responded, and which no backend can have in its usage counts: rejected calls, and
   * OPTIONS.
   */
  readonly refused: readonly CallsNotForwarded[]
  /** How often the gateway itself responded with each problem code, also to calls that a backend had received. */
  readonly errors: readonly ErrorCount[]
  /** The windows that have changed, as the last responses showed them. */
  readonly windows: readonly KeyWindow[]
}

export interface CallsNotForwarded {
  readonly key_id: string
  /** The hour in UTC, e.g. `2026-11-21T10`. */
  readonly hour: string
  /** 4 for 400 to 499, 5 for 500 to 599, 2 for OPTIONS. */
  readonly status_class: number
  readonly calls: number
}

export interface ErrorCount {
  readonly key_id: string
  /** The day in UTC, e.g. `2026-11-21`. */
  readonly day: string
  /** A code of the catalog in `problem.ts`. */
  readonly code: string
  readonly calls: number
}

export interface KeyWindow {
  readonly key_id: string
  readonly used: number
  readonly limit: number
  /** In milliseconds since the epoch. */
  readonly ends_at: number
}

export const USAGE_REPORT_PATH = '/internal/usage'

/** The maximum number of entries of each list in one report. */
export const USAGE_REPORT_ENTRIES_MAX = 1000
