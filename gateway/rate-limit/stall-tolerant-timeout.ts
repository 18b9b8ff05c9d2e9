/**
 * Timeouts that hardly count stalls of this process. After a stall of the event loop, Node runs timers before it reads
 * the data that has arrived: with a normal timer, the stall would look like a silent server.
 */

/** The time between two ticks. A stall of any length counts as one tick. */
const TICK_MS = 25

/**
 * Calls `onTimeout` after `ms`, rounded up to whole ticks. Between two ticks, the event loop reads the data that has
 * arrived. Returns a function that cancels the timeout.
 */
export function startStallTolerantTimeout(ms: number, onTimeout: () => void): () => void {
  let ticks = Math.ceil(ms / TICK_MS)
  const timer = setInterval(() => {
    if (--ticks > 0) return
    clearInterval(timer)
    onTimeout()
  }, TICK_MS)
  return () => clearInterval(timer)
}
