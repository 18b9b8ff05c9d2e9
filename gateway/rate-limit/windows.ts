/**
 * The windows of keys in the memory of this process. Without Redis, the gateway counts calls in them. With Redis, they
 * contain the last known counts, and the gateway counts calls in them only during an outage.
 */
import { WINDOW_MS } from './limiter.ts'

const SWEEP_MS = 60_000
/**
 * How much more time than `WINDOW_MS` a window may have left. A window with even more time was opened before a clock
 * was set back. If it still applied, a key that has reached its limit could be rejected for days. The tolerance is
 * larger than `SHIFT_MS` in consume.lua, and larger than the error with which this process estimates the clock of
 * Redis.
 */
const TOLERANCE_MS = 10_000

export interface Window {
  readonly keyId: string
  /** As far as this process knows, the number of calls that all gateways have counted. Includes `unreported`. */
  used: number
  /** The limit that applied to the last call. */
  limit: number
  /** In milliseconds, by the clock `now` of `createLocalWindows`. */
  endsAt: number
  /** The part of `used` that this process counted by itself and has not yet reported to the store. */
  unreported: number
  /** Whether the window has changed since `takeChanged` last returned it. */
  isChanged: boolean
}

export interface LocalWindows {
  find(keyId: string): Window | undefined
  /**
   * Returns the open window of a key, in which the caller counts a call; opens a window if there is none. Sets the
   * limit of the window, and marks the window as changed.
   */
  open(keyId: string, limit: number): Window
  /**
   * Sets the limit and the end of the window, and its count: `used`, the count of the shared store, plus the window's
   * `unreported` calls. The caller must first subtract from `unreported` the calls that `used` includes.
   */
  set(keyId: string, used: number, limit: number, endsAt: number): void
  /** See `RateLimiter.takeChanged`. */
  takeChanged(max: number): readonly Window[]
  close(): void
}

/** `now` returns milliseconds; with Redis, by the clock of the store. */
export function createLocalWindows(now: () => number): LocalWindows {
  // This map is not a bounded cache: if an open window were evicted, its calls would be allowed again.
  const windows = new Map<string, Window>()
  /**
   * The windows whose `isChanged` is true, in an array: all windows may have changed, and another map would double the
   * memory.
   */
  let changed: Window[] = []

  const sweep = setInterval(() => {
    const time = now()
    for (const [keyId, { endsAt }] of windows) if (endsAt <= time) windows.delete(keyId)
    // While no usage report succeeds, ended windows would otherwise accumulate.
    changed = changed.filter(({ endsAt }) => endsAt > time)
  }, SWEEP_MS)
  sweep.unref()

  const find = (keyId: string) => {
    const window = windows.get(keyId)
    const endsInMs = (window?.endsAt ?? 0) - now()
    return endsInMs > 0 && endsInMs <= WINDOW_MS + TOLERANCE_MS ? window : undefined
  }
  const add = (keyId: string, used: number, limit: number, endsAt: number) => {
    const window = { keyId, used, limit, endsAt, unreported: 0, isChanged: false }
    windows.set(keyId, window)
    return window
  }
  const markChanged = (window: Window) => {
    if (!window.isChanged) changed.push(window)
    window.isChanged = true
  }
  return {
    find,
    open(keyId, limit) {
      const window = find(keyId) ?? add(keyId, 0, limit, now() + WINDOW_MS)
      window.limit = limit
      markChanged(window)
      return window
    },
    set(keyId, used, limit, endsAt) {
      const window = find(keyId) ?? add(keyId, used, limit, endsAt)
      window.used = used + window.unreported
      window.limit = limit
      window.endsAt = endsAt
      markChanged(window)
    },
    takeChanged(max) {
      const taken = changed.splice(0, max)
      for (const window of taken) window.isChanged = false
      return taken
    },
    close: () => clearInterval(sweep),
  }
}
