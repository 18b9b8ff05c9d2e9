/** A rate limiter that counts in this process only: exact if there is one gateway with one worker. */
import { type Allowance, type RateLimiter, WINDOW_MS } from './limiter.ts'
import { createLocalWindows, type Window } from './windows.ts'

type Accuracy = Pick<Allowance, 'degraded'>

const EXACT: Accuracy = { degraded: false }

export function createLocalRateLimiter(): RateLimiter {
  const windows = createLocalWindows(Date.now)
  return {
    consume: async (keyId, limit) => consumeIn(windows.open(keyId, limit), Date.now(), EXACT),
    peek: (keyId, limit) => allowanceIn(windows.find(keyId), limit, Date.now(), EXACT),
    takeChanged: windows.takeChanged,
    state: () => 'exact',
    outage: () => undefined,
    counts: { outages: 0, localAdmissions: 0, countersReplaced: 0 },
    close: async () => windows.close(),
  }
}

/**
 * Returns the allowance of a window without counting a call. If no window is open, returns the allowance of a
 * window that would open now.
 */
export function allowanceIn(
  window: Window | undefined,
  limit: number,
  now: number,
  { degraded }: Accuracy,
): Allowance {
  const { used, endsAt: windowEndsAt } = window ?? { used: 0, endsAt: now + WINDOW_MS }
  return { limit, used, windowEndsAt, windowEndsInMs: windowEndsAt - now, degraded }
}

/** Counts one call in an open window. A rejected call is not counted. */
export function consumeIn(window: Window, now: number, { degraded }: Accuracy): Allowance {
  const { limit, endsAt: windowEndsAt } = window
  const used = window.used + 1
  if (used <= limit) window.used = used
  return { limit, used, windowEndsAt, windowEndsInMs: windowEndsAt - now, degraded }
}
