/**
 * Logs events that occur for every call during an outage. The first event of a kind is logged in full, with its
 * stack; the further events of this kind are counted, and one line per second shows their count. Without this, an
 * outage would cause a flood of lines that hides its cause and costs more than the calls.
 */
import type { Logger } from './log.ts'

const GATHERED_MS = 1_000

export interface CollapsingLog {
  /** Events of the same `kind` are counted together; the number of kinds must be bounded. */
  warn(kind: string, fields: LogFields, message: string): void
  error(kind: string, fields: LogFields, message: string): void
}

export type LogFields = Readonly<Record<string, unknown>>

export function createCollapsingLog(log: Logger): CollapsingLog {
  /** The number of events of each kind since its last line. A kind is deleted after a second without events. */
  const gathered = new Map<string, number>()

  function logOrCount(
    level: 'warn' | 'error',
    kind: string,
    fields: LogFields,
    message: string,
  ): void {
    const count = gathered.get(kind)
    if (count !== undefined) {
      gathered.set(kind, count + 1)
      return
    }
    log[level](fields, message)
    gathered.set(kind, 0)
    const timer = setInterval(() => {
      const more = gathered.get(kind) ?? 0
      gathered.set(kind, 0)
      if (more > 0) return log[level]({ kind, more, seconds: GATHERED_MS / 1000 }, message)
      clearInterval(timer)
      gathered.delete(kind)
    }, GATHERED_MS)
    timer.unref()
  }

  return {
    warn: (kind, fields, message) => logOrCount('warn', kind, fields, message),
    error: (kind, fields, message) => logOrCount('error', kind, fields, message),
  }
}
