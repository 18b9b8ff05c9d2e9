/**
 * Logs events that occur for every call during an outage. The first event is logged in full, with its
 * stack; equal events within the next second are combined into one line with their number. An outage then
 * writes one line per second, instead of a flood that hides its cause and costs more than the calls.
 */
import type { Logger } from './log.ts'

const GATHERED_MS = 1_000

export interface RepeatedLog {
  /** Events of the same `kind` are counted together; the number of kinds must be bounded. */
  warn(kind: string, fields: LogFields, message: string): void
  error(kind: string, fields: LogFields, message: string): void
}

export type LogFields = Readonly<Record<string, unknown>>

export function createRepeatedLog(log: Logger): RepeatedLog {
  /** Events of each kind since its last line; kinds without events are deleted. */
  const gathered = new Map<string, number>()

  function note(level: 'warn' | 'error', kind: string, fields: LogFields, message: string): void {
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
    warn: (kind, fields, message) => note('warn', kind, fields, message),
    error: (kind, fields, message) => note('error', kind, fields, message),
  }
}
