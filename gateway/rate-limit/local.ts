/** The account kept in this process: exact for one gateway with one worker. */
import type { Accounting, Allowance } from './limiter.ts'
import { createLocalWindows, type Window } from './windows.ts'

export function createLocalAccounting(): Accounting {
  const windows = createLocalWindows(Date.now)
  return {
    spend: async (keyId, limit) => spendIn(windows.open(keyId, limit), Date.now(), false),
    takeChanged: windows.takeChanged,
    state: () => 'exact',
    outage: () => undefined,
    counts: { outages: 0, localAdmissions: 0 },
    close: async () => windows.close(),
  }
}

/** Spends one call in an open window. A refused call is not counted. */
export function spendIn(window: Window, now: number, degraded: boolean): Allowance {
  const { limit, endsAt: windowEndsAt } = window
  const used = window.used + 1
  if (used <= limit) window.used = used
  return { limit, used, windowEndsAt, windowEndsInMs: windowEndsAt - now, degraded }
}
