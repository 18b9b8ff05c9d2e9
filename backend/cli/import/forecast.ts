import type { RateLimitWindow } from './api.ts'

const WINDOW_SECONDS = 3600

/**
 * Returns the seconds until the hourly limit of the key allows the last of `calls` calls; 0 if the current window
 * suffices.
 */
export function secondsUntilLastCall(
  calls: number,
  window: RateLimitWindow,
  nowMs: number,
): number {
  const { limit, remaining, resetAtMs } = window
  const laterCalls = calls - remaining
  if (laterCalls <= 0) return 0
  // The window may have ended already. If the clock of this machine is slow, the window seems to last more than an
  // hour.
  const untilReset = Math.min(Math.max((resetAtMs - nowMs) / 1000, 0), WINDOW_SECONDS)
  return untilReset + (Math.ceil(laterCalls / limit) - 1) * WINDOW_SECONDS
}

/** Returns a text such as `45 s`, `12 min 5 s` or `8 h 20 min`; fractions of a second are rounded up. */
export function formatDuration(seconds: number): string {
  const whole = Math.ceil(seconds)
  const minutes = Math.floor(whole / 60)
  if (minutes === 0) return `${whole} s`
  if (minutes < 60) return `${minutes} min ${whole % 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
