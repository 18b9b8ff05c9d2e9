/**
 * Logs events that occur for every call during an outage. The first event of a kind is logged in full, with its stack;
 * the further events of this kind are counted, and one line per second shows their count. A line for each event would
 * hide the cause of the outage, and take more CPU time than the calls themselves.
 */
import type { Logger } from './log.ts'

const COUNTED_MS = 1_000

export interface CollapsingLog {
  /** Events of the same `kind` are counted together; the number of kinds must be bounded. */
  warn(kind: string, fields: LogFields, message: string): void
  error(kind: string, fields: LogFields, message: string): void
}

export type LogFields = Readonly<Record<string, unknown>>

export function createCollapsingLog(log: Logger): CollapsingLog {
  /** The number of events of each kind since its last line. A kind is deleted after a second without events. */
  const counts = new Map<string, number>()

  function logOrCount(
    level: 'warn' | 'error',
    kind: string,
    fields: LogFields,
    message: string,
  ): void {
    const count = counts.get(kind)
    if (count !== undefined) {
      counts.set(kind, count + 1)
      return
    }
    log[level](fields, message)
    counts.set(kind, 0)
    const timer = setInterval(() => {
      const more = counts.get(kind) ?? 0
      counts.set(kind, 0)
      if (more > 0) return log[level]({ kind, more, seconds: COUNTED_MS / 1000 }, message)
      clearInterval(timer)
      counts.delete(kind)
    }, COUNTED_MS)
    timer.unref()
  }

  return {
    warn: (kind, fields, message) => logOrCount('warn', kind, fields, message),
    error: (kind, fields, message) => logOrCount('error', kind, fields, message),
  }
}
