/**
 * Plans debtors that the transaction has locked. All of them take a few statements together, so that a
 * hundred thousand invoices are planned in seconds.
 */
import type { Transaction } from '../../database/database.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { changeDebtor } from '../../debtors/change.ts'
import { lockDebtor } from '../../debtors/debtors.ts'
import { blockOf } from '../account-blocks.ts'
import { findRefusal, isPauseOver, type Refusal } from '../rails.ts'
import { readLadder } from './ladder.ts'
import { writePlans } from './plan-writing.ts'
import type { Writing } from './planned-message.ts'
import { type Plan, planDebtor } from './planner.ts'
import {
  type ChasedDebtor,
  type ChasingAccount,
  readChasedDebtors,
  readChasingAccounts,
} from './situations.ts'

/**
 * Plans debtors that the caller has locked. `replaced`: invoices whose message was cancelled because of
 * another invoice, and which are planned again immediately. Returns the number of messages written.
 */
export async function planDebtors(
  tx: Transaction,
  held: readonly DebtorRow[],
  now: Date,
  replaced: ReadonlySet<string> = new Set(),
): Promise<number> {
  if (held.length === 0) return 0
  const debtors: DebtorRow[] = []
  for (const debtor of held) debtors.push(await endPause(tx, debtor, now))
  const accounts = await readChasingAccounts(tx, [...new Set(held.map((row) => row.account_id))])
  const situations = await readChasedDebtors(tx, debtors)
  const writings = debtors.flatMap((debtor): Writing[] => {
    const account = accounts.get(debtor.account_id)
    const chased = situations.get(debtor.id)
    if (account === undefined || chased === undefined) return []
    const { refusal, plan } = decide(debtor, account, chased, now, replaced)
    const kept = isBlockUnrecorded(account) ? lookingAgainBy(plan, afterThisRun(now)) : plan
    return [{ debtor, account, chased, refusal, plan: kept }]
  })
  return writePlans(tx, writings, now)
}

/**
 * Plans new messages for the invoices that the cancelled messages covered, except settled ones. The caller
 * has locked the debtor.
 */
export async function replanUnsettledInvoices(
  tx: Transaction,
  { id, account_id: accountId }: Pick<DebtorRow, 'id' | 'account_id'>,
  stoppedIds: readonly string[],
  settledIds: readonly string[],
  now: Date,
): Promise<void> {
  if (stoppedIds.length === 0) return
  const covered = await tx
    .selectFrom('message_invoices')
    .select('invoice_id')
    .where('account_id', '=', accountId)
    .where('message_id', 'in', stoppedIds)
    .execute()
  const rest = covered.map((row) => row.invoice_id).filter((one) => !settledIds.includes(one))
  if (rest.length === 0) return
  const debtor = await lockDebtor(tx, accountId, id)
  const replaced = new Set(rest)
  if (debtor !== undefined) await planDebtors(tx, [debtor], now, replaced)
}

/** Returns the plan for one debtor, and the rail that blocks its messages. */
export function decide(
  debtor: DebtorRow,
  { row, settings, switches, timeOf }: ChasingAccount,
  { invoices, suppressed, lastSentAt, hasScheduledMessage }: ChasedDebtor,
  now: Date,
  replaced: ReadonlySet<string> = new Set(),
): { readonly refusal: Refusal | undefined; readonly plan: Plan } {
  const refusal = findRefusal({ now, account: { ...row, switches }, debtor, suppressed })
  const time = timeOf(debtor)
  const plan = planDebtor(
    {
      ladder: readLadder(debtor.ladder) ?? settings.ladder,
      time,
      chaseFrom: settings.chaseFrom,
      refusal,
      lastSentOn: lastSentAt === null ? null : time.dayOf(new Date(lastSentAt)),
      hasScheduledMessage,
      invoices: invoices.map((invoice) => ({ ...invoice, isReplaced: replaced.has(invoice.id) })),
    },
    now,
  )
  const pauseEnds = debtor.chasing_status === 'paused' ? debtor.chasing_until : null
  return { refusal, plan: pauseEnds === null ? plan : lookingAgainBy(plan, new Date(pauseEnds)) }
}

/**
 * Whether the account is blocked as a whole and no planning run has noticed yet. If the block ended
 * unrecorded, this debtor would not be planned again.
 */
function isBlockUnrecorded(account: ChasingAccount): boolean {
  return blockOf(account) !== null && account.recordedBlock === null
}

/** The next run begins with recording blocks. One in progress at `now` must not plan the debtor forever. */
function afterThisRun(now: Date): Date {
  return new Date(now.getTime() + 1)
}

function lookingAgainBy(plan: Plan, at: Date): Plan {
  return plan.lookAgainAt !== null && plan.lookAgainAt <= at ? plan : { ...plan, lookAgainAt: at }
}

/** Ends a pause whose last day has passed. */
async function endPause(tx: Transaction, debtor: DebtorRow, now: Date): Promise<DebtorRow> {
  if (!isPauseOver(debtor, now)) return debtor
  const active = { chasing_status: 'active', chasing_reason: null, chasing_until: null } as const
  return changeDebtor(tx, debtor, active, now)
}
