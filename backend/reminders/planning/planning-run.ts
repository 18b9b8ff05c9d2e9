/**
 * Plans the reminders of debtors that are due for planning. Several backends may do this at the same time: each skips
 * debtors that are locked.
 */
import type { Logger } from '../../../shared/process/log.ts'
import type { Database, Reader, Transaction } from '../../database/database.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { isRetryable } from '../../database/unavailable.ts'
import { recordAccountBlocks, scheduleDebtorsOfChangedAccounts } from '../account-blocks.ts'
import { planDebtors } from './planning.ts'
import { countOpenInvoices, selectOwingDebtors } from './planning-data.ts'

/**
 * The maximum number of debtors in one transaction. With ten open invoices each, the transaction takes some 15 ms on
 * SQLite, and payments must wait for it.
 */
const DEBTORS_MAX = 25

/**
 * The maximum number of open invoices in one transaction, unless a single debtor has more. Without this limit, payments
 * of all accounts would wait for seconds while debtors with thousands of invoices are planned.
 */
const INVOICES_MAX = 500

/** A debtor that cannot be planned because of a bug is retried after this time, so that it blocks no others. */
const RETRY_AFTER_ERROR_MS = 3_600_000

/** If the database was unavailable, or a row was locked for too long, the debtor is retried after this time. */
const RETRY_UNAVAILABLE_MS = 60_000

export interface PlanningDeps {
  readonly database: Database
  readonly clock: () => Date
  readonly log: Logger
}

/**
 * The debtors to plan: those that are due for planning or, with `allDebtors`, all that have open invoices. A rehearsal
 * (see rehearsal.ts) uses `allDebtors` in its first round.
 */
export interface PlanningScope {
  readonly allDebtors: boolean
  readonly accountId?: string | undefined
}

export interface PlannedCounts {
  readonly debtors: number
  readonly messages: number
}

/** Plans the debtors in `scope`. If `signal` is aborted, the run ends after the current batch of debtors. */
export async function runPlanning(
  deps: PlanningDeps,
  scope: PlanningScope = { allDebtors: false },
  signal?: AbortSignal,
): Promise<PlannedCounts> {
  const now = deps.clock()
  // After these calls, debtors are due for planning if their account was unblocked since the last run, or if its
  // chasing settings or time zone have changed.
  await recordAccountBlocks(deps.database, now, scope.accountId)
  await scheduleDebtorsOfChangedAccounts(deps.database, now, signal)
  let planned: PlannedCounts = { debtors: 0, messages: 0 }
  let after = ''
  while (!signal?.aborted) {
    const ids = await selectIds(deps.database.read, now, scope, after)
    const last = ids.at(-1)
    if (last === undefined) break
    // Planned debtors are no longer due, so they are not selected again. With `allDebtors`, the next selection must
    // begin after this one.
    if (scope.allDebtors) after = last
    const results: PlannedCounts[] = []
    for (const batch of await splitIntoBatches(deps.database.read, ids)) {
      if (!signal?.aborted) results.push(await planBatch(deps, batch, now, scope))
    }
    const done = sumOf(results)
    // If no debtor was planned, other transactions, e.g. of another backend, have locked or planned all selected
    // debtors. Locked debtors would be selected again, so the run ends.
    if (done.debtors === 0 && !scope.allDebtors) break
    planned = sumOf([planned, done])
  }
  return planned
}

/** Splits the debtors into batches with at most `INVOICES_MAX` open invoices. Each batch has at least one debtor. */
async function splitIntoBatches(reader: Reader, ids: readonly string[]): Promise<string[][]> {
  const counts = await countOpenInvoices(reader, ids, INVOICES_MAX)
  const batches: string[][] = []
  let invoices = 0
  for (const id of ids) {
    const count = counts.get(id) ?? 0
    const batch = batches.at(-1)
    if (batch === undefined || invoices + count > INVOICES_MAX) {
      batches.push([id])
      invoices = count
    } else {
      batch.push(id)
      invoices += count
    }
  }
  return batches
}

function sumOf(counts: readonly PlannedCounts[]): PlannedCounts {
  return {
    debtors: counts.reduce((sum, { debtors }) => sum + debtors, 0),
    messages: counts.reduce((sum, { messages }) => sum + messages, 0),
  }
}

/**
 * Returns the current time, which becomes `updated_at` of the changed invoices. With the time at which the run began,
 * perhaps minutes ago, clients that synchronize by `updated_at` could miss the last changes. If the clock was set back
 * during the run, returns the time at which the run began: with an earlier time, a planned debtor could be selected
 * again.
 */
function timeOfTransaction({ clock }: PlanningDeps, begunAt: Date): Date {
  return new Date(Math.max(clock().getTime(), begunAt.getTime()))
}

async function planBatch(
  deps: PlanningDeps,
  ids: readonly string[],
  begunAt: Date,
  scope: PlanningScope,
): Promise<PlannedCounts> {
  const { database, log } = deps
  const now = timeOfTransaction(deps, begunAt)
  try {
    return await database.transaction((tx) => lockAndPlan(tx, ids, now, scope))
  } catch (error) {
    const [id, ...others] = ids
    if (id === undefined) return { debtors: 0, messages: 0 }
    if (others.length === 0) {
      log.error({ err: error, debtor: id }, 'reminders cannot be planned')
      const retryMs = isRetryable(error) ? RETRY_UNAVAILABLE_MS : RETRY_AFTER_ERROR_MS
      const later = new Date(now.getTime() + retryMs).toISOString()
      await database.transaction((tx) =>
        tx.updateTable('debtors').set({ plan_at: later }).where('id', '=', id).execute(),
      )
      // The debtor counts as planned. Otherwise `runPlanning` would end before it reaches the other debtors.
      return { debtors: 1, messages: 0 }
    }
    // One debtor can make the whole batch fail, so each debtor is now planned in its own transaction.
    const results = []
    for (const each of ids) results.push(await planBatch(deps, [each], begunAt, scope))
    return sumOf(results)
  }
}

/** Plans the debtors that no other transaction has locked. Without `allDebtors`, skips those that are no longer due. */
async function lockAndPlan(
  tx: Transaction,
  ids: readonly string[],
  now: Date,
  { allDebtors }: PlanningScope,
): Promise<PlannedCounts> {
  const query = tx.selectFrom('debtors').selectAll().where('id', 'in', ids).orderBy('id')
  const due = allDebtors ? query : query.where('plan_at', '<=', now.toISOString())
  const locked: DebtorRow[] = await due.forNoKeyUpdate().skipLocked().execute()
  return { debtors: locked.length, messages: await planDebtors(tx, locked, now) }
}

async function selectIds(
  reader: Reader,
  now: Date,
  { allDebtors, accountId }: PlanningScope,
  after: string,
): Promise<string[]> {
  if (allDebtors) {
    const owing = selectOwingDebtors(reader, accountId, after).select('id').limit(DEBTORS_MAX)
    return (await owing.execute()).map(({ id }) => id)
  }
  const all = reader.selectFrom('debtors').select('id').limit(DEBTORS_MAX)
  const ofAccount = accountId === undefined ? all : all.where('account_id', '=', accountId)
  const query = ofAccount.where('plan_at', '<=', now.toISOString()).orderBy('plan_at')
  return (await query.execute()).map(({ id }) => id)
}
