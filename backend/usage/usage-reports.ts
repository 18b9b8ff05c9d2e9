import type {
  CallsNotForwarded,
  ErrorCount,
  KeyWindow,
  UsageReport,
} from '../../shared/contract/usage-report.ts'
import type { KeyWindowRow, Reader, Transaction } from '../database/tables.ts'
import { addErrors } from './key-errors.ts'
import { addUsage } from './usage.ts'

/**
 * The clock that determines windows, such as that of Redis, may be ahead of the backend's clock, by at most this time.
 * A window that ends within this time is therefore treated as ended: otherwise, the key's next window could be ignored.
 */
const CLOCK_DIFFERENCE_MS_MAX = 60_000

/**
 * Adds the numbers of calls and of errors in a report, unless this report, or a later report of the same gateway, was
 * applied before. `refused` counts only calls that no backend has counted, so that no call is counted twice.
 */
export async function addReportedCalls(
  tx: Transaction,
  { gateway, batch, refused, errors }: UsageReport,
  now: Date,
): Promise<void> {
  if (!(await claimReport(tx, gateway, batch, now))) return
  const keyIds = await findKeyIds(tx, [...refused, ...errors])
  await addUsage(tx, refused.filter(hasKeyIn(keyIds)))
  await addErrors(tx, errors.filter(hasKeyIn(keyIds)))
}

/**
 * Stores one of the reported windows of each key. Reports may arrive out of order or twice, but a key never returns to
 * a window that has ended, or to a lower count of the same window. If gateways that could not share their counts have
 * opened two windows of a key, the window with the higher count is stored until it ends: otherwise, the page of the key
 * would alternate between the two. The rows are sorted by key, so that concurrent reports lock rows in the same order.
 */
export async function updateWindows(
  tx: Transaction,
  windows: readonly KeyWindow[],
  now: Date,
): Promise<void> {
  const endedBy = new Date(now.getTime() + CLOCK_DIFFERENCE_MS_MAX).toISOString()
  const keyIds = await findKeyIds(tx, windows)
  const rows = new Map<string, KeyWindowRow>()
  const knownWindows = windows.filter(hasKeyIn(keyIds))
  for (const { key_id, used, limit, ends_at } of knownWindows.toSorted(byKey)) {
    const row = { key_id, used, rate_limit: limit, ends_at: new Date(ends_at).toISOString() }
    const existing = rows.get(key_id)
    if (existing === undefined || isReplacedBy(existing, row, endedBy)) rows.set(key_id, row)
  }
  if (rows.size === 0) return
  await tx
    .insertInto('key_windows')
    .values([...rows.values()])
    .onConflict((conflict) =>
      conflict
        .column('key_id')
        .doUpdateSet(({ ref }) => ({
          used: ref('excluded.used'),
          rate_limit: ref('excluded.rate_limit'),
          ends_at: ref('excluded.ends_at'),
        }))
        .where(({ eb, or, and, ref }) =>
          // The same condition as in `isReplacedBy`.
          or([
            and([
              eb('key_windows.ends_at', '<=', endedBy),
              eb('key_windows.ends_at', '<', ref('excluded.ends_at')),
            ]),
            and([
              eb('key_windows.used', '<', ref('excluded.used')),
              or([
                eb('excluded.ends_at', '>', endedBy),
                eb('excluded.ends_at', '>=', ref('key_windows.ends_at')),
              ]),
            ]),
          ]),
        ),
    )
    .execute()
}

/** Returns the stored window of a key, which may have ended. */
export async function findWindow(reader: Reader, keyId: string): Promise<KeyWindowRow | undefined> {
  return reader.selectFrom('key_windows').selectAll().where('key_id', '=', keyId).executeTakeFirst()
}

async function claimReport(tx: Transaction, gateway: string, batch: number, now: Date) {
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

type KeyEntry = CallsNotForwarded | ErrorCount | KeyWindow

/** Omits the ids of keys that do not exist. */
async function findKeyIds(tx: Transaction, entries: readonly KeyEntry[]) {
  const ids = [...new Set(entries.map(({ key_id }) => key_id))]
  if (ids.length === 0) return new Set<string>()
  const rows = await tx.selectFrom('api_keys').select('id').where('id', 'in', ids).execute()
  return new Set(rows.map(({ id }) => id))
}

function hasKeyIn(keyIds: ReadonlySet<string>): (entry: KeyEntry) => boolean {
  return ({ key_id }) => keyIds.has(key_id)
}

/**
 * `b` replaces `a` if `a` has ended and `b` ends later. `b` also replaces `a` if `b` has the higher count, unless `b`
 * has ended and ends before `a`. Windows that end at `endedBy` or earlier are treated as ended.
 */
function isReplacedBy(a: KeyWindowRow, b: KeyWindowRow, endedBy: string): boolean {
  if (a.ends_at <= endedBy && a.ends_at < b.ends_at) return true
  return a.used < b.used && (b.ends_at > endedBy || b.ends_at >= a.ends_at)
}

function byKey(a: KeyWindow, b: KeyWindow): number {
  return a.key_id < b.key_id ? -1 : 1
}
