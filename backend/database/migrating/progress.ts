import type { Logger } from '../../../shared/process/log.ts'

export interface MigrationProgress {
  /** Reports an event, or what the migration waits for. */
  note(line: string): void
  /** `total` is the number of units, e.g. rows, that `advance` will count; undefined if it is not known. */
  begin(label: string, total?: number): void
  advance(count: number): void
  end(): void
}

const LOG_INTERVAL_MS = 10_000

/** Logs each note and, between `begin` and `end`, a line every ten seconds. */
export function createLoggedProgress(log: Logger): MigrationProgress {
  let work: { readonly label: string; readonly total: number | undefined; done: number } | undefined
  let timer: NodeJS.Timeout | undefined
  return {
    note: (line) => log.info(line),
    begin(label, total) {
      work = { label, total, done: 0 }
      timer = setInterval(() => log.info({ ...work }, 'migrating'), LOG_INTERVAL_MS)
    },
    advance(count) {
      if (work !== undefined) work.done += count
    },
    end() {
      clearInterval(timer)
    },
  }
}
