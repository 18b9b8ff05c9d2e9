/**
 * A gateway's report of the calls that it rejected itself and of the current window of each key: `POST
 * /internal/usage`, signed. A gateway numbers its reports and sends a report again, unchanged, until it
 * is acknowledged; the backend applies each number once.
 */

export interface UsageReport {
  /** The gateway's process: another one after each start. */
  readonly gateway: string
  /** 1 for its first report, then one more each time. */
  readonly batch: number
  /** Calls of known keys that were not forwarded. */
  readonly refused: readonly RefusedCalls[]
  /** The codes with which the gateway rejected calls. */
  readonly errors: readonly RefusalCode[]
  /** As the last responses reported them. */
  readonly windows: readonly KeyWindow[]
}

export interface RefusedCalls {
  readonly key_id: string
  /** UTC, `2026-11-21T10`. */
  readonly hour: string
  /** 4 for 400 to 499, 5 for 500 to 599, 2 for OPTIONS. */
  readonly status_class: number
  readonly calls: number
}

export interface RefusalCode {
  readonly key_id: string
  /** UTC, `2026-11-21`. */
  readonly day: string
  /** Of the catalogue of problems, so that there are never more than a few dozen. */
  readonly code: string
  readonly calls: number
}

/** The current window of a key, which opened with its first call. */
export interface KeyWindow {
  readonly key_id: string
  readonly used: number
  readonly limit: number
  /** Epoch milliseconds. */
  readonly ends_at: number
}

export const USAGE_REPORT_PATH = '/internal/usage'

/** Entries of each list that one report may have. */
export const USAGE_REPORT_ENTRIES_MAX = 1000
