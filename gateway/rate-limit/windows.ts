/**
 * The windows as this process knows them: the only ones if no Redis is configured, otherwise those that
 * are carried through an outage.
 */
import { WINDOW_MS } from './limiter.ts'

/** How often ended windows are deleted. */
const SWEEP_MS = 60_000

export interface Window {
  readonly keyId: string
  /** Calls counted by all gateways. */
  used: number
  /** The limit when a call was last counted. */
  limit: number
  /** Milliseconds since the epoch, by the clock given. */
  endsAt: number
  /** Of `used`, the calls that this process admitted alone and has not reported to the store. */
  unreported: number
  /** Whether `takeChanged` will return it. */
  isChanged: boolean
}

export interface LocalWindows {
  /** The open window of a key. */
  find(keyId: string): Window | undefined
  /** The open window of a key, or a new one, to count a call in. */
  open(keyId: string, limit: number): Window
  /**
   * Takes over the count of the shared store. Calls that were admitted here since the store was asked are
   * not in it; they stay unreported.
   */
  set(keyId: string, used: number, limit: number, endsAt: number): void
  /** Removes and returns at most `max` of the windows that changed since they were last returned. */
  takeChanged(max: number): readonly Window[]
  close(): void
}

/** `now` in milliseconds since the epoch. */
export function createLocalWindows(now: () => number): LocalWindows {
  // Not a bounded cache: to evict an open window would admit its calls again. Only existing keys have
  // windows, so that their number is the bound.
  const windows = new Map<string, Window>()
  /** An array, since a second map of all windows would double the memory. */
  let changed: Window[] = []

  const sweep = setInterval(() => {
    const at = now()
    for (const [keyId, { endsAt }] of windows) if (endsAt <= at) windows.delete(keyId)
    // Ended windows need no report, and while no report succeeds they would pile up.
    changed = changed.filter(({ endsAt }) => endsAt > at)
  }, SWEEP_MS)
  sweep.unref()

  const find = (keyId: string) => {
    const window = windows.get(keyId)
    return window !== undefined && window.endsAt > now() ? window : undefined
  }
  const add = (keyId: string, used: number, limit: number, endsAt: number) => {
    const window = { keyId, used, limit, endsAt, unreported: 0, isChanged: false }
    windows.set(keyId, window)
    return window
  }
  const noteChange = (window: Window) => {
    if (!window.isChanged) changed.push(window)
    window.isChanged = true
  }
  return {
    find,
    open(keyId, limit) {
      const window = find(keyId) ?? add(keyId, 0, limit, now() + WINDOW_MS)
      window.limit = limit
      noteChange(window)
      return window
    },
    set(keyId, used, limit, endsAt) {
      const window = windows.get(keyId) ?? add(keyId, used, limit, endsAt)
      if (window.unreported > 0 && window.endsAt <= now()) window.unreported = 0
      window.used = used + window.unreported
      window.limit = limit
      window.endsAt = endsAt
      noteChange(window)
    },
    takeChanged(max) {
      const taken = changed.splice(0, max)
      for (const window of taken) window.isChanged = false
      return taken
    },
    close: () => clearInterval(sweep),
  }
}
