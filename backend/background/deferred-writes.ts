/**
 * Defers writes: data about calls (e.g. the last use of a key) is collected in memory and written together every few
 * seconds. A crash loses the data that is not written yet.
 */
import type { Logger } from '../../shared/process/log.ts'

/** According to the documentation, `last_used_at` is accurate to 5 s. One second remains for the write itself. */
const WRITE_EVERY_MS = 4000

export interface DeferredWrites {
  /** The number of successful and of failed writes, for metrics. */
  readonly writes: { readonly written: number; readonly failed: number }
  /** Throws the database's error; the data is then kept for the next write. */
  flush(): Promise<void>
  /** Cancels the scheduled write and flushes one last time; no more writes are scheduled. Throws as `flush` does. */
  close(): Promise<void>
}

interface DeferredWritesOptions {
  /** The subject of log messages, e.g. `last use of keys`. */
  readonly subject: string
  readonly log: Logger
  /** Writes the collected data, or keeps the data and throws. Resolves to false if there was no data. */
  write(): Promise<boolean>
}

/** `scheduleWrite` does nothing if a write is already scheduled. A scheduled write that fails is scheduled again. */
export function deferWrites({
  subject,
  log,
  write,
}: DeferredWritesOptions): DeferredWrites & { scheduleWrite(): void } {
  const writes = { written: 0, failed: 0 }
  let timer: NodeJS.Timeout | undefined
  let flushing = Promise.resolve()
  let isClosed = false

  function scheduleWrite(): void {
    if (isClosed) return
    timer ??= setTimeout(() => {
      timer = undefined
      flush().catch((error: unknown) => {
        log.warn({ err: error }, `writing the ${subject} failed`)
        scheduleWrite()
      })
    }, WRITE_EVERY_MS).unref()
  }

  /** Flushes run one after the other. */
  function flush(): Promise<void> {
    flushing = flushing.catch(() => {}).then(writeOnce)
    return flushing
  }

  async function writeOnce(): Promise<void> {
    try {
      if (await write()) writes.written++
    } catch (error) {
      writes.failed++
      throw error
    }
  }

  return {
    scheduleWrite,
    writes,
    flush,
    async close() {
      isClosed = true
      clearTimeout(timer)
      await flush()
    },
  }
}
