/** Applies what gateways report; each report once, whatever is repeated or comes late. */
import type {
  KeyWindow,
  RefusalCode,
  RefusedCalls,
  UsageReport,
} from '../../shared/contract/usage-report.ts'
import type { KeyWindowRow, Reader, Transaction } from '../database/tables.ts'
import { addErrors } from './key-errors.ts'
import { addUsage } from './usage.ts'

export async function applyUsageReport(
  tx: Transaction,
  { gateway, batch, refused, errors, windows }: UsageReport,
  now: Date,
): Promise<void> {
  if (!(await claimBatch(tx, gateway, batch, now))) return
  const known = await knownKeys(tx, [...refused, ...errors, ...windows])
  const isKnown = ({ key_id }: OfKey) => known.has(key_id)
  await addUsage(tx, refused.filter(isKnown))
  await addErrors(tx, errors.filter(isKnown))
  for (const window of windows.filter(isKnown).sort(byKey)) await moveWindow(tx, window)
}

/** The hour a key is in, as gateways last said it; undefined where none did. */
export async function findWindow(reader: Reader, keyId: string): Promise<KeyWindowRow | undefined> {
  return reader.selectFrom('key_windows').selectAll().where('key_id', '=', keyId).executeTakeFirst()
}

/** False where this report, or a later one of this gateway, was applied before. */
async function claimBatch(tx: Transaction, gateway: string, batch: number, now: Date) {
  const reported = { batch, reported_at: now.toISOString() }
  const claimed = await tx
    .insertInto('usage_reports')
    .values({ gateway, ...reported })
    .onConflict((conflict) =>
      conflict.column('gateway').doUpdateSet(reported).where('usage_reports.batch', '<', batch),
    )
    .returning('gateway')
    .executeTakeFirst()
  return claimed !== undefined
}

type OfKey = RefusedCalls | RefusalCode | KeyWindow

async function knownKeys(tx: Transaction, entries: readonly OfKey[]) {
  const ids = [...new Set(entries.map(({ key_id }) => key_id))]
  if (ids.length === 0) return new Set<string>()
  const rows = await tx.selectFrom('api_keys').select('id').where('id', 'in', ids).execute()
  return new Set(rows.map(({ id }) => id))
}

/** Forward only: gateways' reports overtake each other. */
async function moveWindow(tx: Transaction, { key_id, used, limit, ends_at }: KeyWindow) {
  const row = { used, rate_limit: limit, ends_at: new Date(ends_at).toISOString() }
  await tx
    .insertInto('key_windows')
    .values({ key_id, ...row })
    .onConflict((conflict) =>
      conflict
        .column('key_id')
        .doUpdateSet(row)
        .where((where) =>
          where.or([
            where('key_windows.ends_at', '<', row.ends_at),
            where.and([
              where('key_windows.ends_at', '=', row.ends_at),
              where('key_windows.used', '<', used),
            ]),
          ]),
        ),
    )
    .execute()
}

/** Two reports at once lock the same rows in the same order. */
function byKey(a: KeyWindow, b: KeyWindow): number {
  return a.key_id < b.key_id ? -1 : 1
}
