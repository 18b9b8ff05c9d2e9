/**
 * Counts the calls of keys by hour and status. Counts are gathered in memory and written together: a crash
 * loses seconds of a chart, but never a call.
 */

import type { ProblemCode } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'
import { inBatches } from '../background/batches.ts'
import { type GatheredWrites, gatherWrites } from '../background/coalesced-writes.ts'
import type { Database, Reader, Transaction } from '../database/database.ts'
import type { KeyErrorRow, KeyUsageRow } from '../database/tables.ts'
import { summed } from './counted-rows.ts'
import { addErrors } from './key-errors.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The days of the longest chart, including the current day. */
export const USAGE_DAYS = 30

export interface Usage extends GatheredWrites {
  /** `code` is the problem's code, if the response was a problem. */
  count(keyId: string, status: number, at: Date, code?: ProblemCode): void
}

export function createUsage(database: Database, log: Logger): Usage {
  let counts = new Map<string, KeyUsageRow>()
  let errors = new Map<string, KeyErrorRow>()
  const { soon, ...gathered } = gatherWrites({ what: 'usage of keys', log, write })

  function add(row: KeyUsageRow): void {
    addTo(counts, `${row.key_id} ${row.hour} ${row.status_class}`, row)
  }

  function addError(row: KeyErrorRow): void {
    addTo(errors, `${row.key_id} ${row.day} ${row.code}`, row)
  }

  async function write(): Promise<boolean> {
    const [pending, pendingErrors] = [counts, errors]
    if (pending.size === 0 && pendingErrors.size === 0) return false
    counts = new Map()
    errors = new Map()
    try {
      // Batches that were written are not put back after an error.
      await inBatches([...pending], async (batch) => {
        await database.transaction((tx) =>
          addUsage(
            tx,
            batch.map(([, row]) => row),
          ),
        )
        for (const [name] of batch) pending.delete(name)
      })
      await inBatches([...pendingErrors], async (batch) => {
        await database.transaction((tx) =>
          addErrors(
            tx,
            batch.map(([, row]) => row),
          ),
        )
        for (const [name] of batch) pendingErrors.delete(name)
      })
      return true
    } catch (error) {
      for (const row of pending.values()) add(row)
      for (const row of pendingErrors.values()) addError(row)
      throw error
    }
  }

  return {
    ...gathered,
    count(keyId, status, at, code) {
      const statusClass = Math.floor(status / 100)
      if (statusClass < 2 || statusClass > 5) return
      const hour = hourOf(at)
      add({ key_id: keyId, hour, status_class: statusClass, calls: 1 })
      const day = hour.slice(0, 'YYYY-MM-DD'.length)
      if (code !== undefined) addError({ key_id: keyId, day, code, calls: 1 })
      soon()
    },
  }
}

function addTo<Row extends { calls: number }>(
  counted: Map<string, Row>,
  name: string,
  row: Row,
): void {
  const known = counted.get(name)
  if (known === undefined) counted.set(name, { ...row })
  else known.calls += row.calls
}

/**
 * Adds to the stored counts, in one statement of at most a thousand rows. The rows are sorted, so that two
 * concurrent calls do not deadlock.
 */
export async function addUsage(tx: Transaction, rows: readonly KeyUsageRow[]): Promise<void> {
  const counted = summed(rows, (row) => `${row.key_id} ${row.hour} ${row.status_class}`)
  if (counted.length === 0) return
  await tx
    .insertInto('key_usage')
    .values(counted)
    .onConflict((conflict) =>
      conflict.columns(['key_id', 'hour', 'status_class']).doUpdateSet((set) => ({
        calls: set('key_usage.calls', '+', set.ref('excluded.calls')),
      })),
    )
    .execute()
}

/** The calls of one hour or one day, by status. */
export interface UsageBar {
  /** When the hour or day begins. */
  readonly at: string
  readonly succeeded: number
  /** Responses with 4xx. */
  readonly refused: number
  /** Responses with 5xx. */
  readonly failed: number
}

export interface KeyUsage {
  /** The current hour is the last. */
  readonly hours: readonly UsageBar[]
  /** UTC days; today is the last. */
  readonly days: readonly UsageBar[]
}

/** Returns the last 24 hours and 30 days, with a bar for each, even without calls. */
export async function readUsage(reader: Reader, keyId: string, now: Date): Promise<KeyUsage> {
  const firstDay = startOf(now, DAY_MS) - (USAGE_DAYS - 1) * DAY_MS
  const rows = await reader
    .selectFrom('key_usage')
    .selectAll()
    .where('key_id', '=', keyId)
    .where('hour', '>=', hourOf(new Date(firstDay)))
    .execute()
  const firstHour = startOf(now, HOUR_MS) - 23 * HOUR_MS
  return {
    hours: barsOf(rows, firstHour, HOUR_MS, 24),
    days: barsOf(rows, firstDay, DAY_MS, USAGE_DAYS),
  }
}

function barsOf(rows: readonly KeyUsageRow[], first: number, widthMs: number, count: number) {
  const bars = Array.from({ length: count }, (_, at) => ({
    at: new Date(first + at * widthMs).toISOString(),
    succeeded: 0,
    refused: 0,
    failed: 0,
  }))
  for (const { hour, status_class, calls } of rows) {
    const bar = bars[Math.floor((Date.parse(`${hour}:00:00Z`) - first) / widthMs)]
    if (bar === undefined) continue
    if (status_class < 4) bar.succeeded += calls
    else if (status_class === 4) bar.refused += calls
    else bar.failed += calls
  }
  return bars
}

function hourOf(at: Date): string {
  return at.toISOString().slice(0, 'YYYY-MM-DDTHH'.length)
}

function startOf(at: Date, widthMs: number): number {
  return Math.floor(at.getTime() / widthMs) * widthMs
}
