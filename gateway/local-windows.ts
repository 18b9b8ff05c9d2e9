/**
 * The windows as this process knows them. The whole account where no Redis is configured; otherwise
 * what is carried through an outage.
 */
import { WINDOW_MS } from './accounting.ts'

/** How often windows that have ended are forgotten. */
const SWEEP_MS = 60_000

export interface Window {
  /** Calls counted, by whoever did. */
  used: number
  /** Milliseconds since the epoch, by the clock given. */
  endsAt: number
  /** Of `used`, what this process admitted alone and the shared store does not know. */
  unreported: number
}

export interface LocalWindows {
  /** The window of a key, if one is open. */
  find(keyId: string): Window | undefined
  /** The open window of a key; a new one where there is none. */
  open(keyId: string): Window
  /** As the shared store knows it. */
  set(keyId: string, used: number, endsAt: number): void
  close(): void
}

/** `now` in milliseconds since the epoch. */
export function createLocalWindows(now: () => number): LocalWindows {
  // Not a bounded cache: to forget an open window would give back an hour that was spent. Only keys
  // that exist get here, so their number is the bound.
  const windows = new Map<string, Window>()

  const sweep = setInterval(() => {
    const at = now()
    for (const [keyId, { endsAt }] of windows) if (endsAt <= at) windows.delete(keyId)
  }, SWEEP_MS)
  sweep.unref()

  const find = (keyId: string) => {
    const window = windows.get(keyId)
    return window !== undefined && window.endsAt > now() ? window : undefined
  }
  const open = (keyId: string) => {
    const found = find(keyId)
    if (found !== undefined) return found
    const opened = { used: 0, endsAt: now() + WINDOW_MS, unreported: 0 }
    windows.set(keyId, opened)
    return opened
  }
  return {
    find,
    open,
    set(keyId, used, endsAt) {
      const known = windows.get(keyId)
      if (known === undefined) {
        windows.set(keyId, { used, endsAt, unreported: 0 })
      } else {
        known.used = used
        known.endsAt = endsAt
        known.unreported = 0
      }
    },
    close: () => clearInterval(sweep),
  }
}
