/**
 * A clock that does not change when the clock of the machine is set. With the clock of the machine, each step forward
 * would end all windows, and their calls would be allowed again.
 */

/**
 * A smaller change of the difference between the two clocks is not followed, so that the end of a window is the same in
 * every response.
 */
const DIFFERENCE_MS_MAX = 1_000

export interface SteadyClock {
  /** Returns whole milliseconds since a fixed time near the epoch. */
  now(): number
  /** Converts a time of this clock to milliseconds since the epoch, by the clock of the machine. */
  toMachineTime(time: number): number
}

export function createSteadyClock(): SteadyClock {
  const now = () => Math.round(performance.timeOrigin + performance.now())
  let aheadMs = 0
  return {
    now,
    toMachineTime(time) {
      const current = Date.now() - now()
      if (Math.abs(current - aheadMs) > DIFFERENCE_MS_MAX) aheadMs = current
      return time + aheadMs
    },
  }
}
