/**
 * Collects in memory when keys were last used, and writes the timestamps in batches. A key's timestamp
 * never decreases, whichever process writes it.
 */
import { sql } from 'kysely'
import type { Logger } from '../../shared/process/log.ts'
import { writeInBatches } from '../background/batches.ts'
import { type DeferredWrites, deferWrites } from '../background/deferred-writes.ts'
import type { Database, Transaction } from '../database/database.ts'

export interface LastUsed extends DeferredWrites {
  record(keyId: string, at: Date): void
}

export function createLastUsed(database: Database, log: Logger): LastUsed {
  let timestamps = new Map<string, string>()
  const { scheduleWrite, ...deferred } = deferWrites({ subject: 'last use of keys', log, write })

  async function write(): Promise<boolean> {
    const pending = timestamps
    if (pending.size === 0) return false
    timestamps = new Map()
    try {
      // All backends write the keys in the same order, which prevents deadlocks.
      await writeInBatches([...pending].sort(), (batch) =>
        database.transaction((tx) => advanceTimestamps(tx, batch)),
      )
      return true
    } catch (error) {
      // Timestamps that were set in the meantime are newer, so they replace the pending ones. Batches that have been
      // written are written again, which changes nothing.
      timestamps = new Map([...pending, ...timestamps])
      throw error
    }
  }

  return {
    ...deferred,
    record(keyId, at) {
      const text = at.toISOString()
      const known = timestamps.get(keyId)
      if (known === undefined || known < text) timestamps.set(keyId, text)
      scheduleWrite()
    },
  }
}

/** In both databases, the columns of a `values` list have the names `column1` and `column2`. */
async function advanceTimestamps(
  tx: Transaction,
  batch: readonly (readonly [id: string, at: string])[],
): Promise<void> {
  const values = batch.map(([id, at]) => sql`(${id}, ${at})`)
  await sql`
    update api_keys set last_used_at = new.column2
    from (values ${sql.join(values)}) as new
    where api_keys.id = new.column1
      and (api_keys.last_used_at is null or api_keys.last_used_at < new.column2)
  `.execute(tx)
}
