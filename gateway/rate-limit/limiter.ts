/**
 * The hourly account of each key: a fixed window that opens with the key's first call and takes
 * `limit` calls. Terms: a *window* ends at one instant, the same for every gateway; a call is
 * *spent* in it; an account is *degraded* while its shared store cannot be asked.
 */

export const WINDOW_MS = 3_600_000

/** What one call did to the account of its key. */
export interface Allowance {
  /** Calls a window. */
  readonly limit: number
  /** The number of this call in its window, from 1. Over `limit`: refused, and not counted. */
  readonly used: number
  /** Milliseconds since the epoch, by the clock of the store. */
  readonly windowEndsAt: number
  /** How long until then. Not a difference of clocks of two machines. */
  readonly windowEndsInMs: number
  /** Counted by this gateway alone, on top of the last shared numbers it knows. */
  readonly degraded: boolean
}

/** The hour that a key is in, as far as this process knows. */
export interface KeyWindow {
  readonly keyId: string
  readonly used: number
  readonly limit: number
  /** Milliseconds since the epoch, by the clock of the store. */
  readonly endsAt: number
}

/** `starting`: the shared store has not been seen yet. */
export type AccountingState = 'exact' | 'starting' | 'degraded'

export interface Accounting {
  /**
   * Spends one call of the key. A refusal is a value: `used > limit`. Throws `Problem` 503 where the
   * store is away and the policy is to deny.
   */
  spend(keyId: string, limit: number): Promise<Allowance>
  /** Windows in which calls were spent since they were last given, `max` of them. */
  takeChanged(max: number): readonly KeyWindow[]
  state(): AccountingState
  /** Why it is not exact, for operators; undefined where it is. */
  outage(): string | undefined
  readonly counts: AccountingCounts
  close(): Promise<void>
}

/** Since the start, for operators. */
export interface AccountingCounts {
  /** How often the shared store went away. */
  readonly outages: number
  /** Calls counted in this process alone meanwhile. */
  readonly localAdmissions: number
}

export function isOverLimit(allowance: Allowance): boolean {
  return allowance.used > allowance.limit
}

/** Whole seconds until the window ends, at least 1. */
export function secondsToReset(allowance: Allowance): number {
  return Math.max(1, Math.ceil(allowance.windowEndsInMs / 1000))
}
