/**
 * Gathers data of calls in memory and writes it every few seconds, however many calls there are. A crash
 * loses the data of a few seconds.
 */
import type { Logger } from '../../shared/process/log.ts'

/** With the duration of a write added, readers see data that is less than 5 s old, as documented for keys. */
const EVERY_MS = 4000

export interface GatheredWrites {
  /** The number of successful and of failed writes, for metrics. */
  readonly writes: { readonly written: number; readonly failed: number }
  /**
   * Writes the gathered data. Throws the database's error, in which case the data is kept for the next
   * write.
   */
  flush(): Promise<void>
  /** Flushes a last time. */
  close(): Promise<void>
}

interface GatheredWritesOptions {
  /** A name for the log. */
  readonly what: string
  readonly log: Logger
  /** Writes the gathered data, or puts it back and throws. Resolves to false if there was none. */
  write(): Promise<boolean>
}

/** `soon` schedules a write, and another one if that fails. */
export function gatherWrites({
  what,
  log,
  write,
}: GatheredWritesOptions): GatheredWrites & { soon(): void } {
  const writes = { written: 0, failed: 0 }
  let timer: NodeJS.Timeout | undefined
  let flushing = Promise.resolve()

  function soon(): void {
    timer ??= setTimeout(() => {
      timer = undefined
      flush().catch((error: unknown) => {
        log.warn({ err: error }, `${what} not written`)
        soon()
      })
    }, EVERY_MS).unref()
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
    soon,
    writes,
    flush,
    async close() {
      clearTimeout(timer)
      await flush()
    },
  }
}
