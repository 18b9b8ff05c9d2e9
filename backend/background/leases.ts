/**
 * Rows that workers share. A row is due at `run_at`. A worker claims due rows for a limited time, the lease: the claim
 * stores the id of the lease in the column `lease`, and moves `run_at` to the end of the lease, so that a row is due
 * again if its worker is killed. Each row is therefore processed at least once, but only the worker with the current
 * lease records an outcome.
 */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Expression } from 'kysely'
import { readAnyTable, writeAnyTable } from '../database/any-table.ts'
import type { Reader, Tables, Transaction } from '../database/tables.ts'

/** The work on a claimed row starts within this time after the claim, or not at all. */
const START_MS_MAX = 5000

/**
 * The time between the end of the work and the end of the lease: 10 s for recording the outcome, and 20 s for clocks,
 * because each backend's clock may differ from the database's by 10 s (`CLOCK_DIFFERENCE_MS_MAX` in
 * `../database/postgres/primary.ts`).
 */
const MARGIN_MS = 30_000

type Leased = {
  [T in keyof Tables]: Tables[T] extends { run_at: string | null; lease: string | null } ? T : never
}[keyof Tables]

type Change<T extends Leased> = {
  readonly [C in keyof Omit<Tables[T], 'run_at' | 'lease'>]?:
    | Tables[T][C]
    | Expression<Tables[T][C]>
}

export interface LeasedTable<T extends Leased> {
  readonly table: T
  readonly key: keyof Tables[T] & string
  /** The maximum duration of the work on a row, from its start. */
  readonly workMsMax: number
  /** Whether rows that are due at the same instant are sorted by their keys. */
  readonly sortsTiesByKey?: boolean
}

export interface Claim {
  /** Only the rows of this claim have this lease. */
  readonly lease: string
  /** The caller must not start to work on the rows later than this. */
  readonly startBefore: Date
}

export interface DueOptions<T extends Leased> {
  readonly limit: number
  readonly where?: Partial<Tables[T]>
}

export function leasesOf<T extends Leased>({
  table,
  workMsMax,
  sortsTiesByKey = false,
  ...columns
}: LeasedTable<T>) {
  const leaseMs = START_MS_MAX + workMsMax + MARGIN_MS
  const key: string = columns.key
  const update = (tx: Transaction) => writeAnyTable(tx).updateTable<string>(table)
  return {
    leaseMs,

    /** Returns the keys of due rows, the longest due first. */
    async findDue(reader: Reader, now: Date, { limit, where = {} }: DueOptions<T>) {
      const due = readAnyTable(reader)
        .selectFrom<string>(table)
        .select(key)
        .where('run_at', '<=', now.toISOString())
        .where((row) => row.and(where))
        .orderBy('run_at')
        .limit(limit)
      const rows = await (sortsTiesByKey ? due.orderBy(key) : due).execute()
      return rows.map((row) => String(row[key]))
    },

    /** Returns undefined if no row becomes due within `horizonMs`. */
    async findNextRun(reader: Reader, now: Date, horizonMs: number): Promise<Date | undefined> {
      const row = await readAnyTable(reader)
        .selectFrom<string>(table)
        .select('run_at')
        .where('run_at', '>', now.toISOString())
        .where('run_at', '<=', new Date(now.getTime() + horizonMs).toISOString())
        .orderBy('run_at')
        .limit(1)
        .executeTakeFirst()
      return row === undefined ? undefined : new Date(String(row['run_at']))
    },

    /** Claims the rows of `ids` that are still due. The caller finds the claimed rows by the lease. */
    async claim(
      tx: Transaction,
      ids: readonly string[],
      now: Date,
      change: Change<T> = {},
    ): Promise<Claim> {
      const lease = createLease()
      await update(tx)
        .set({ ...change, lease, run_at: new Date(now.getTime() + leaseMs).toISOString() })
        .where(key, 'in', ids)
        .where('run_at', '<=', now.toISOString())
        .execute()
      return { lease, startBefore: new Date(now.getTime() + START_MS_MAX) }
    },

    /**
     * Ends a lease; the row is due again at `runAt`, or never if `runAt` is null. If the row no longer has the lease,
     * e.g. because another worker has claimed it, resolves with false and changes nothing.
     */
    async finish(
      tx: Transaction,
      { id, lease }: { readonly id: string; readonly lease: string | null },
      runAt: Date | null,
      change: Change<T> = {},
    ): Promise<boolean> {
      const { numUpdatedRows } = await update(tx)
        .set({ ...change, lease: null, run_at: runAt?.toISOString() ?? null })
        .where(key, '=', id)
        .where('lease', '=', lease)
        .executeTakeFirstOrThrow()
      return numUpdatedRows > 0n
    },

    /** Makes leased rows due now, instead of at the end of their lease, if `isOrphaned` returns true for the lease. */
    async makeOrphansDue(
      tx: Transaction,
      now: Date,
      isOrphaned: (lease: string) => boolean,
    ): Promise<void> {
      const rows = await readAnyTable(tx)
        .selectFrom<string>(table)
        .select('lease')
        .distinct()
        .where('run_at', 'is not', null)
        .where('lease', 'is not', null)
        .execute()
      const orphaned = rows.map(({ lease }) => String(lease)).filter(isOrphaned)
      if (orphaned.length === 0) return
      await update(tx)
        .set({ run_at: now.toISOString() })
        .where('lease', 'in', orphaned)
        .where('run_at', 'is not', null)
        .execute()
    },
  }
}

/**
 * A lease names its process, so that other processes on the machine can check whether that process still runs.
 */
function createLease(): string {
  return `${hostname()}:${process.pid}:${randomUUID()}`
}

/**
 * Whether the process of a lease has certainly ended. False for a process on another machine, whose state is
 * unknown.
 */
export function isOrphaned(lease: string): boolean {
  const [host, pid] = lease.split(':')
  if (host !== hostname()) return false
  try {
    // Signal 0 only tests whether the process exists.
    process.kill(Number(pid), 0)
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}
