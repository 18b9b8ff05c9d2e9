/** Estimates the duration of an import from the key's hourly limit. */
import type { RateLimitWindow } from './api.ts'

const WINDOW_SECONDS = 3600

/** Returns the seconds until the last of `calls` requests may be sent; 0 if the current window suffices. */
export function secondsAtLimit(calls: number, window: RateLimitWindow, nowMs: number): number {
  const { limit, remaining, resetAtMs } = window
  const laterCalls = calls - remaining
  if (laterCalls <= 0) return 0
  const untilReset = Math.min(Math.max((resetAtMs - nowMs) / 1000, 0), WINDOW_SECONDS)
  return untilReset + (Math.ceil(laterCalls / limit) - 1) * WINDOW_SECONDS
}

/** Formats `45 s`, `12 min 5 s`, `8 h 20 min`. */
export function formatDuration(seconds: number): string {
  const whole = Math.ceil(seconds)
  const minutes = Math.floor(whole / 60)
  if (minutes === 0) return `${whole} s`
  if (minutes < 60) return `${minutes} min ${whole % 60} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
