/**
 * Plans everyone who is to be looked at, a few in each transaction, so that payments never wait for
 * it. Any number of backends may run it: each takes debtors that nobody else holds.
 */
import type { Logger } from '../../../shared/process/log.ts'
import type { Database, Reader, Transaction } from '../../database/database.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { markAccounts, noticeAccounts } from '../account-blocks.ts'
import { planDebtors } from './planning.ts'
import { selectOwing } from './situations.ts'

/** Held together: with ten open invoices each some 15 ms on SQLite, for which a payment waits. */
const DEBTORS_MAX = 25

/** One that cannot be planned for a fault of ours must not keep the others from it. */
const AFTER_FAULT_MS = 3_600_000

export interface PlanningDeps {
  readonly database: Database
  readonly log: Logger
}

/** All that is due, or, for a rehearsal, everyone who owes something. */
export interface PlanningScope {
  readonly everyone: boolean
  readonly accountId?: string | undefined
}

export interface Planned {
  readonly debtors: number
  readonly messages: number
}

/** `signal` ends it between two transactions. */
export async function runPlanning(
  deps: PlanningDeps,
  now: Date,
  scope: PlanningScope = { everyone: false },
  signal?: AbortSignal,
): Promise<Planned> {
  await noticeAccounts(deps.database, now, scope.accountId)
  await markAccounts(deps.database, now, signal)
  let planned: Planned = { debtors: 0, messages: 0 }
  let after = ''
  while (!signal?.aborted) {
    const ids = await selectIds(deps.database.read, now, scope, after)
    const last = ids.at(-1)
    if (last === undefined) break
    if (scope.everyone) after = last
    const done = await planBatch(deps, ids, now, scope)
    // The rest is held by others, who plan it.
    if (done.debtors === 0 && !scope.everyone) break
    planned = {
      debtors: planned.debtors + done.debtors,
      messages: planned.messages + done.messages,
    }
  }
  return planned
}

async function planBatch(
  { database, log }: PlanningDeps,
  ids: readonly string[],
  now: Date,
  scope: PlanningScope,
): Promise<Planned> {
  try {
    return await database.transaction((tx) => planHeld(tx, ids, now, scope))
  } catch (error) {
    const [id, ...others] = ids
    if (id === undefined) return { debtors: 0, messages: 0 }
    if (others.length === 0) {
      log.error({ err: error, debtor: id }, 'reminders cannot be planned')
      const later = new Date(now.getTime() + AFTER_FAULT_MS).toISOString()
      await database.transaction((tx) =>
        tx.updateTable('debtors').set({ plan_at: later }).where('id', '=', id).execute(),
      )
      return { debtors: 1, messages: 0 }
    }
    const each = []
    for (const one of ids) each.push(await planBatch({ database, log }, [one], now, scope))
    return {
      debtors: each.reduce((sum, { debtors }) => sum + debtors, 0),
      messages: each.reduce((sum, { messages }) => sum + messages, 0),
    }
  }
}

async function planHeld(
  tx: Transaction,
  ids: readonly string[],
  now: Date,
  { everyone }: PlanningScope,
): Promise<Planned> {
  const query = tx.selectFrom('debtors').selectAll().where('id', 'in', ids).orderBy('id')
  const due = everyone ? query : query.where('plan_at', '<=', now.toISOString())
  const held: DebtorRow[] = await due.forNoKeyUpdate().skipLocked().execute()
  return { debtors: held.length, messages: await planDebtors(tx, held, now) }
}

async function selectIds(
  reader: Reader,
  now: Date,
  { everyone, accountId }: PlanningScope,
  after: string,
): Promise<string[]> {
  if (everyone) {
    const owing = selectOwing(reader, accountId, after).select('id').limit(DEBTORS_MAX)
    return (await owing.execute()).map(({ id }) => id)
  }
  const all = reader.selectFrom('debtors').select('id').limit(DEBTORS_MAX)
  const ofAccount = accountId === undefined ? all : all.where('account_id', '=', accountId)
  const query = ofAccount.where('plan_at', '<=', now.toISOString()).orderBy('plan_at')
  return (await query.execute()).map(({ id }) => id)
}
