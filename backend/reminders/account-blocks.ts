import { isReadOnly } from '../accounts/accounts.ts'
import { announce } from '../database/announcements.ts'
import type { Database, Transaction } from '../database/database.ts'
import type { ChasingSettingsRow } from '../database/tables.ts'
import { REMINDER_TIMES_CHANGED } from '../messages/lifecycle.ts'
import { type ChasingAccount, readChasingAccounts } from './planning/planning-data.ts'

/** The largest number of accounts or debtors in one batch. */
const ROWS_MAX = 500

/**
 * Detects accounts in which all reminders were blocked or unblocked, no matter by which process; with `accountId`,
 * checks only this account. After a block, waiting messages become due now, so that the send check suppresses them
 * immediately. After an unblock, all debtors are planned again.
 */
export async function recordAccountBlocks(
  database: Database,
  now: Date,
  accountId?: string,
): Promise<void> {
  let after = ''
  for (;;) {
    const all = database.read.selectFrom('accounts')
    const selected = accountId === undefined ? all : all.where('accounts.id', '=', accountId)
    const rows = await selected
      .leftJoin('chasing_settings', 'chasing_settings.account_id', 'accounts.id')
      .select(['accounts.id', 'chasing_settings.blocked_by'])
      .where('accounts.id', '>', after)
      .orderBy('accounts.id')
      .limit(ROWS_MAX)
      .execute()
    const ids = rows.map(({ id }) => id)
    const last = ids.at(-1)
    if (last === undefined) return
    const accounts = await readChasingAccounts(database.read, ids)
    for (const { id, blocked_by: recorded } of rows) {
      const account = accounts.get(id)
      const blockedBy = account === undefined ? null : blockOf(account)
      if (blockedBy === recorded) continue
      await database.transaction((tx) => recordBlock(tx, id, blockedBy, now))
    }
    after = last
  }
}

/** Returns the reason that now blocks all reminders of the account, a value of `blocked_by`; null if there is none. */
export function blockOf({ row, switches }: ChasingAccount): ChasingSettingsRow['blocked_by'] {
  if (switches.some(({ isOn }) => isOn)) return 'kill_switch'
  // A demo account sends no reminders either. This reason is not recorded, because it never changes.
  return isReadOnly(row.status) ? 'account_read_only' : null
}

async function recordBlock(
  tx: Transaction,
  accountId: string,
  blockedBy: ChasingSettingsRow['blocked_by'],
  now: Date,
): Promise<void> {
  await changeSettingsRow(tx, accountId, {
    blocked_by: blockedBy,
    ...(blockedBy === null ? PLAN_ALL : {}),
  })
  if (blockedBy === null) return
  await tx
    .updateTable('reminders')
    .set({ run_at: now.toISOString() })
    .where('account_id', '=', accountId)
    .where('run_at', '>', now.toISOString())
    .where('lease', 'is', null)
    .execute()
  announce(tx, REMINDER_TIMES_CHANGED)
}

/**
 * The next planning run plans all debtors of the account again, e.g. because a new time zone moves the send windows.
 */
export async function requestPlanning(tx: Transaction, accountId: string): Promise<void> {
  await changeSettingsRow(tx, accountId, PLAN_ALL)
}

/**
 * With this change of an account's settings row, `scheduleDebtorsOfChangedAccounts` schedules planning of all debtors
 * of the account. `replan_after` is the id of the last debtor that it has scheduled; the empty id precedes all ids.
 */
const PLAN_ALL = { replan_after: '' } as const

async function changeSettingsRow(
  tx: Transaction,
  accountId: string,
  change: Partial<Pick<ChasingSettingsRow, 'blocked_by' | 'replan_after'>>,
): Promise<void> {
  const defaults = { ladder: null, holidays: '[]', chase_from: null }
  await tx
    .insertInto('chasing_settings')
    .values({ account_id: accountId, ...defaults, blocked_by: null, replan_after: null, ...change })
    .onConflict((conflict) => conflict.column('account_id').doUpdateSet(change))
    .execute()
}

/** Schedules planning of all debtors of the accounts in which `replan_after` is set. */
export async function scheduleDebtorsOfChangedAccounts(
  database: Database,
  now: Date,
  signal?: AbortSignal,
): Promise<void> {
  const rows = await database.read
    .selectFrom('chasing_settings')
    .select('account_id')
    .where('replan_after', 'is not', null)
    .execute()
  for (const { account_id: id } of rows) {
    while (!signal?.aborted && (await database.transaction((tx) => scheduleBatch(tx, id, now)))) {
      // Repeats until all debtors of the account are scheduled.
    }
  }
}

/** Returns whether there may be more debtors. */
async function scheduleBatch(tx: Transaction, accountId: string, now: Date): Promise<boolean> {
  const settings = await tx
    .selectFrom('chasing_settings')
    .select('replan_after')
    .where('account_id', '=', accountId)
    .forNoKeyUpdate()
    .executeTakeFirst()
  const after = settings?.replan_after
  if (after === null || after === undefined) return false
  const rows = await tx
    .selectFrom('debtors')
    .select('id')
    .where('account_id', '=', accountId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(ROWS_MAX)
    .execute()
  const ids = rows.map(({ id }) => id)
  if (ids.length > 0) {
    await tx
      .updateTable('debtors')
      .set({ plan_at: now.toISOString() })
      .where('id', 'in', ids)
      .execute()
  }
  const last = ids.length < ROWS_MAX ? undefined : ids.at(-1)
  await tx
    .updateTable('chasing_settings')
    .set({ replan_after: last ?? null })
    .where('account_id', '=', accountId)
    .execute()
  return last !== undefined
}
