/**
 * A clock that does not jump when the clock of the machine is set. If windows followed the clock of the machine,
 * setting it forward would end windows early, and their keys could make more calls than the limit allows.
 */

/**
 * `SteadyClock.toMachineTime` adds the difference between the machine's clock and the steady clock. It stores the
 * difference, and replaces it only after the actual difference has changed by more than this. Otherwise, small
 * corrections of the machine's clock would change the end of a window from one response to the next.
 */
const IGNORED_CHANGE_MS_MAX = 1_000

export interface SteadyClock {
  /**
   * Returns whole milliseconds since the epoch: what the clock of the machine showed when the process started, plus the
   * time since then.
   */
  now(): number
  /** Converts a time of this clock to milliseconds since the epoch, by the clock of the machine. */
  toMachineTime(time: number): number
}

export function createSteadyClock(): SteadyClock {
  const now = () => Math.round(performance.timeOrigin + performance.now())
  let machineAheadMs = 0
  return {
    now,
    toMachineTime(time) {
      const current = Date.now() - now()
      if (Math.abs(current - machineAheadMs) > IGNORED_CHANGE_MS_MAX) machineAheadMs = current
      return time + machineAheadMs
    },
  }
}
