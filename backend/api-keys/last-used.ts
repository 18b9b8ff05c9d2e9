/**
 * When keys were last used, gathered in memory and written together: at most one write every few
 * seconds however many calls there are. A key's stamp only moves forward, whichever process writes.
 */
import type { Logger } from '../../shared/log.ts'
import type { Database } from '../database/database.ts'

/** With the time the write takes it stays under the 5 s that are promised. */
const FLUSH_MS = 4000

export interface LastUsed {
  stamp(keyId: string, at: Date): void
  /** How often that was done, and failed: for operators. */
  readonly writes: { readonly written: number; readonly failed: number }
  /** Writes what was gathered; throws what the database throws, keeping the stamps. */
  flush(): Promise<void>
  /** Flushes a last time. */
  close(): Promise<void>
}

export function createLastUsed(database: Database, log: Logger): LastUsed {
  let stamps = new Map<string, string>()
  let timer: NodeJS.Timeout | undefined
  let flushing = Promise.resolve()
  const writes = { written: 0, failed: 0 }

  function stamp(keyId: string, at: Date): void {
    const text = at.toISOString()
    const known = stamps.get(keyId)
    if (known === undefined || known < text) stamps.set(keyId, text)
    schedule()
  }

  function schedule(): void {
    timer ??= setTimeout(() => {
      timer = undefined
      flush().catch((error: unknown) => {
        log.warn({ err: error, keys: stamps.size }, 'last use of keys not written')
        schedule()
      })
    }, FLUSH_MS).unref()
  }

  function flush(): Promise<void> {
    flushing = flushing.catch(() => {}).then(write)
    return flushing
  }

  async function write(): Promise<void> {
    const taken = stamps
    if (taken.size === 0) return
    stamps = new Map()
    try {
      await database.transaction(async (tx) => {
        // In one order everywhere: two backends never wait for each other.
        for (const [id, at] of [...taken].sort()) {
          await tx
            .updateTable('api_keys')
            .set({ last_used_at: at })
            .where('id', '=', id)
            .where((where) =>
              where.or([where('last_used_at', 'is', null), where('last_used_at', '<', at)]),
            )
            .execute()
        }
      })
      writes.written++
    } catch (error) {
      writes.failed++
      // What was stamped meanwhile is newer.
      stamps = new Map([...taken, ...stamps])
      throw error
    }
  }

  return {
    stamp,
    writes,
    flush,
    async close() {
      clearTimeout(timer)
      await flush()
    },
  }
}
