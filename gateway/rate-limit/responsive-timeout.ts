/**
 * Timeouts that do not expire while this process itself is stalled. The timers of Node fire before it reads
 * what has arrived meanwhile, so that a stall of the event loop would look like a silent server.
 */

/** A stall, however long, counts as one tick. */
const TICK_MS = 25

/**
 * Calls `onTimeout` once the event loop has turned for `ms`: between two ticks it reads what has arrived.
 * Returns a function that cancels the timeout.
 */
export function startResponsiveTimeout(ms: number, onTimeout: () => void): () => void {
  let ticks = Math.ceil(ms / TICK_MS)
  const timer = setInterval(() => {
    if (--ticks > 0) return
    clearInterval(timer)
    onTimeout()
  }, TICK_MS)
  return () => clearInterval(timer)
}
