/**
 * Keeps three counts for each key: calls by hour and class of status (2xx to 5xx), calls by hour and operation, and
 * errors by day and code. A crash loses the counts that are not written yet. This is acceptable: the counts are only
 * shown in charts and tables, and limit no calls.
 */

import type { ProblemCode } from '../../shared/contract/problem.ts'
import type { Logger } from '../../shared/process/log.ts'
import { writeInBatches } from '../background/batches.ts'
import { type DeferredWrites, deferWrites } from '../background/deferred-writes.ts'
import type { Database, Reader, Transaction } from '../database/database.ts'
import type { KeyErrorRow, KeyOperationRow, KeyUsageRow } from '../database/tables.ts'
import { addErrors } from './key-errors.ts'
import { addOperations, rowKeyOfOperation } from './key-operations.ts'
import { sumByRowKey } from './sum-by-row-key.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The days of the longest chart, including the current day. */
const USAGE_DAYS = 30

/** A call to which the backend has responded. */
export interface CountedCall {
  readonly keyId: string
  readonly status: number
  readonly at: Date
  /** The operationId of the contract. */
  readonly operation: string
  /** The code of the problem document, if the response was one. */
  readonly code?: ProblemCode | undefined
}

export interface Usage extends DeferredWrites {
  count(call: CountedCall): void
}

export function createUsage(database: Database, log: Logger): Usage {
  const calls = createCounter<KeyUsageRow>(
    database,
    (row) => `${row.key_id} ${row.hour} ${row.status_class}`,
    addUsage,
  )
  const errors = createCounter<KeyErrorRow>(
    database,
    (row) => `${row.key_id} ${row.day} ${row.code}`,
    addErrors,
  )
  const operations = createCounter<KeyOperationRow>(database, rowKeyOfOperation, addOperations)

  async function write(): Promise<boolean> {
    const wrote = [await calls.write(), await errors.write(), await operations.write()]
    return wrote.includes(true)
  }

  const { scheduleWrite, ...deferred } = deferWrites({ subject: 'usage of keys', log, write })
  return {
    ...deferred,
    count({ keyId, status, at, operation, code }) {
      const statusClass = Math.floor(status / 100)
      // The table `key_usage` accepts only the classes 2 to 5.
      if (statusClass < 2 || statusClass > 5) return
      const hour = hourOf(at)
      calls.add({ key_id: keyId, hour, status_class: statusClass, calls: 1 })
      const isError = statusClass >= 4
      operations.add({ key_id: keyId, hour, operation, calls: 1, errors: isError ? 1 : 0 })
      const day = hour.slice(0, 'YYYY-MM-DD'.length)
      if (code !== undefined) errors.add({ key_id: keyId, day, code, calls: 1 })
      scheduleWrite()
    },
  }
}

interface Counter<Row> {
  add(row: Row): void
  write(): Promise<boolean>
}

function createCounter<Row extends { calls: number; errors?: number }>(
  database: Database,
  rowKeyOf: (row: Row) => string,
  store: (tx: Transaction, rows: readonly Row[]) => Promise<void>,
): Counter<Row> {
  let counted = new Map<string, Row>()
  function add(row: Row): void {
    const sum = counted.get(rowKeyOf(row))
    if (sum === undefined) {
      counted.set(rowKeyOf(row), { ...row })
      return
    }
    sum.calls += row.calls
    if (sum.errors !== undefined) sum.errors += row.errors ?? 0
  }
  return {
    add,
    async write() {
      const pending = counted
      if (pending.size === 0) return false
      counted = new Map()
      try {
        // After an error, only the rows that are still in `pending` are counted again.
        await writeInBatches([...pending], async (batch) => {
          await database.transaction((tx) =>
            store(
              tx,
              batch.map(([, row]) => row),
            ),
          )
          for (const [rowKey] of batch) pending.delete(rowKey)
        })
        return true
      } catch (error) {
        for (const row of pending.values()) add(row)
        throw error
      }
    },
  }
}

/** Adds to the stored counts in one statement: the caller must limit the number of rows. */
export async function addUsage(tx: Transaction, rows: readonly KeyUsageRow[]): Promise<void> {
  const counted = sumByRowKey(rows, (row) => `${row.key_id} ${row.hour} ${row.status_class}`)
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
  /** Responses with 4xx. The name is a part of the public JSON of a key. */
  readonly refused: number
  /** Responses with 5xx. */
  readonly failed: number
}

export interface KeyUsage {
  /** UTC hours; the current hour is the last. */
  readonly hours: readonly UsageBar[]
  /** UTC days; today is the last. */
  readonly days: readonly UsageBar[]
}

/** Returns a bar for each of the last 24 hours and each of the last 30 days, even if there were no calls. */
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
  const bars = Array.from({ length: count }, (_, index) => ({
    at: new Date(first + index * widthMs).toISOString(),
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
