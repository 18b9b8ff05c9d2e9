/**
 * A rate limiter for installations without Redis. It counts only the calls of this process, so the limit is exact only
 * with one gateway that has one worker. It always reports itself as exact, because it does not know of other gateways.
 */
import { type Allowance, type RateLimiter, WINDOW_MS } from './limiter.ts'
import { createSteadyClock } from './steady-clock.ts'
import { createLocalWindows, type Window } from './windows.ts'

type Accuracy = Pick<Allowance, 'degraded'>

const EXACT: Accuracy = { degraded: false }

export function createLocalRateLimiter(): RateLimiter {
  // `windows` uses a clock that does not jump. The times that this limiter returns are by the machine's clock.
  const { now, toMachineTime } = createSteadyClock()
  const windows = createLocalWindows(now)
  const withMachineTime = (allowance: Allowance) => {
    return { ...allowance, windowEndsAt: toMachineTime(allowance.windowEndsAt) }
  }
  return {
    consume: async (keyId, limit) =>
      withMachineTime(consumeIn(windows.open(keyId, limit), now(), EXACT)),
    peek: (keyId, limit) => withMachineTime(allowanceIn(windows.find(keyId), limit, now(), EXACT)),
    takeChanged: (max) =>
      windows
        .takeChanged(max)
        .map((window) => ({ ...window, endsAt: toMachineTime(window.endsAt) })),
    state: () => 'exact',
    outage: () => undefined,
    counts: { outages: 0, callsCountedLocally: 0, countersReplaced: 0 },
    close: async () => windows.close(),
  }
}

/** Returns the allowance without counting a call. If no window is open, assumes that one opens now. */
export function allowanceIn(
  window: Window | undefined,
  limit: number,
  now: number,
  { degraded }: Accuracy,
): Allowance {
  const { used, endsAt: windowEndsAt } = window ?? { used: 0, endsAt: now + WINDOW_MS }
  return { limit, used, windowEndsAt, windowEndsInMs: windowEndsAt - now, degraded }
}

/**
 * Counts one call in an open window, unless the window has no calls left: `used` in the result is then greater than
 * `limit`.
 */
export function consumeIn(window: Window, now: number, { degraded }: Accuracy): Allowance {
  const { limit, endsAt: windowEndsAt } = window
  const used = window.used + 1
  if (used <= limit) window.used = used
  return { limit, used, windowEndsAt, windowEndsInMs: windowEndsAt - now, degraded }
}
