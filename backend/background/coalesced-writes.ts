/**
 * What calls leave behind in memory is written together: one write every few seconds however many
 * calls there are. A crash loses seconds of it.
 */
import type { Logger } from '../../shared/process/log.ts'

/** With the time that a write takes, what is read of it is less than 5 s old, as is promised of keys. */
const EVERY_MS = 4000

export interface GatheredWrites {
  /** How often that was done, and failed: for operators. */
  readonly writes: { readonly written: number; readonly failed: number }
  /** Writes what was gathered; throws what the database throws, which loses nothing. */
  flush(): Promise<void>
  /** Flushes a last time. */
  close(): Promise<void>
}

interface GatheredWritesOptions {
  /** For the log. */
  readonly what: string
  readonly log: Logger
  /** Takes what was gathered, or takes it back and throws. Resolves to false where there was nothing. */
  write(): Promise<boolean>
}

/** `soon` has it written before long, and once more where that fails. */
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

  /** One after the other. */
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
