/**
 * A clock that does not jump when the clock of the machine is set. If windows followed the clock of the machine,
 * setting it forward would end windows early, and their keys could make more calls than the limit allows.
 */

/**
 * `SteadyClock.toMachineTime` adds the stored difference between the machine's clock and the steady clock. It replaces
 * the stored difference only when the actual one differs from it by more than this. Small corrections of the machine's
 * clock therefore do not change the end of a window from one response to the next.
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
