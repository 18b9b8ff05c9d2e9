/**
 * When keys were last used, gathered in memory and written together. A key's stamp only moves
 * forward, whichever process writes.
 */
import type { Logger } from '../../shared/process/log.ts'
import { type GatheredWrites, gatherWrites } from '../background/coalesced-writes.ts'
import type { Database } from '../database/database.ts'

export interface LastUsed extends GatheredWrites {
  stamp(keyId: string, at: Date): void
}

export function createLastUsed(database: Database, log: Logger): LastUsed {
  let stamps = new Map<string, string>()
  const { soon, ...gathered } = gatherWrites({ what: 'last use of keys', log, write })

  async function write(): Promise<boolean> {
    const taken = stamps
    if (taken.size === 0) return false
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
      return true
    } catch (error) {
      // What was stamped meanwhile is newer.
      stamps = new Map([...taken, ...stamps])
      throw error
    }
  }

  return {
    ...gathered,
    stamp(keyId, at) {
      const text = at.toISOString()
      const known = stamps.get(keyId)
      if (known === undefined || known < text) stamps.set(keyId, text)
      soon()
    },
  }
}
