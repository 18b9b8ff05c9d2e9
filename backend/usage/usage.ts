/**
 * How often keys are used and how that ended, by the hour. Counted in memory and added together: a
 * crash loses seconds of a chart, never a call.
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

/** What the longest chart shows, and the day that is passing. */
export const USAGE_DAYS = 30

export interface Usage extends GatheredWrites {
  /** `code` where it was answered with a problem. */
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
    const [taken, takenErrors] = [counts, errors]
    if (taken.size === 0 && takenErrors.size === 0) return false
    counts = new Map()
    errors = new Map()
    try {
      // A batch that is written is not among what is taken back.
      await inBatches([...taken], async (batch) => {
        await database.transaction((tx) =>
          addUsage(
            tx,
            batch.map(([, row]) => row),
          ),
        )
        for (const [name] of batch) taken.delete(name)
      })
      await inBatches([...takenErrors], async (batch) => {
        await database.transaction((tx) =>
          addErrors(
            tx,
            batch.map(([, row]) => row),
          ),
        )
        for (const [name] of batch) takenErrors.delete(name)
      })
      return true
    } catch (error) {
      for (const row of taken.values()) add(row)
      for (const row of takenErrors.values()) addError(row)
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

/** Adds to what is counted already. In one order, so that two at once do not lock each other out. */
export async function addUsage(tx: Transaction, rows: readonly KeyUsageRow[]): Promise<void> {
  const counted = summed(rows, (row) => `${row.key_id} ${row.hour} ${row.status_class}`)
  await inBatches(counted, (batch) =>
    tx
      .insertInto('key_usage')
      .values(batch)
      .onConflict((conflict) =>
        conflict.columns(['key_id', 'hour', 'status_class']).doUpdateSet((set) => ({
          calls: set('key_usage.calls', '+', set.ref('excluded.calls')),
        })),
      )
      .execute(),
  )
}

/** Calls of one hour or one day, by how they were answered. */
export interface UsageBar {
  /** When it begins. */
  readonly at: string
  readonly succeeded: number
  /** Refused: 4xx. */
  readonly refused: number
  /** Our fault: 5xx. */
  readonly failed: number
}

export interface KeyUsage {
  /** The current hour last. */
  readonly hours: readonly UsageBar[]
  /** UTC days, today last. */
  readonly days: readonly UsageBar[]
}

/** The last 24 hours and 30 days; one bar for each, also where nothing was called. */
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
