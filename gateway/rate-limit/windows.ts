/**
 * The windows as this process knows them. The whole account where no Redis is configured; otherwise
 * what is carried through an outage.
 */
import { WINDOW_MS } from './limiter.ts'

/** How often windows that have ended are forgotten. */
const SWEEP_MS = 60_000

export interface Window {
  readonly keyId: string
  /** Calls counted, by whoever did. */
  used: number
  /** That it took when a call was last counted. */
  limit: number
  /** Milliseconds since the epoch, by the clock given. */
  endsAt: number
  /** Of `used`, what this process admitted alone and the shared store does not know. */
  unreported: number
  /** It is among those that `takeChanged` gives. */
  isChanged: boolean
}

export interface LocalWindows {
  /** The window of a key, if one is open. */
  find(keyId: string): Window | undefined
  /** The open window of a key, to spend in; a new one where there is none. */
  open(keyId: string, limit: number): Window
  /** As the shared store knows it. */
  set(keyId: string, used: number, limit: number, endsAt: number): void
  /** Windows that changed since they were last given, `max` of them. */
  takeChanged(max: number): readonly Window[]
  close(): void
}

/** `now` in milliseconds since the epoch. */
export function createLocalWindows(now: () => number): LocalWindows {
  // Not a bounded cache: to forget an open window would give back an hour that was spent. Only keys
  // that exist get here, so their number is the bound.
  const windows = new Map<string, Window>()
  /** Not a map: they are as many, and it would take as much again. */
  let changed: Window[] = []

  const sweep = setInterval(() => {
    const at = now()
    for (const [keyId, { endsAt }] of windows) if (endsAt <= at) windows.delete(keyId)
    // Nobody asks about an hour that is over, and where nobody takes them they would not end.
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
      window.used = used
      window.limit = limit
      window.endsAt = endsAt
      window.unreported = 0
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
