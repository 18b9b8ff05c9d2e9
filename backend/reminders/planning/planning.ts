/**
 * Plans the reminders of several debtors in a few statements, so that a hundred thousand invoices are planned in
 * seconds.
 */
import type { Transaction } from '../../database/database.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { changeDebtor } from '../../debtors/change.ts'
import { lockDebtor } from '../../debtors/debtors.ts'
import { blockOf } from '../account-blocks.ts'
import { findRefusal, isPauseOver, type Refusal } from '../safety-rails.ts'
import { readLadder } from './ladder.ts'
import type { DebtorPlan } from './planned-message.ts'
import { type Plan, planDebtor } from './planner.ts'
import {
  type ChasedDebtor,
  type ChasingAccount,
  readChasedDebtors,
  readChasingAccounts,
} from './planning-data.ts'
import { writeDebtorPlans } from './write-debtor-plans.ts'

/**
 * Plans debtors that the caller has locked. `idsToReplan` are the ids of invoices whose message the caller has just
 * cancelled. If the next message about such an invoice is due by today, it is planned immediately, even if it can be
 * sent only later. Returns the number of messages written.
 */
export async function planDebtors(
  tx: Transaction,
  locked: readonly DebtorRow[],
  now: Date,
  idsToReplan: ReadonlySet<string> = new Set(),
): Promise<number> {
  if (locked.length === 0) return 0
  const debtors: DebtorRow[] = []
  for (const debtor of locked) debtors.push(await endPauseIfOver(tx, debtor, now))
  const accounts = await readChasingAccounts(tx, [...new Set(locked.map((row) => row.account_id))])
  const chasedDebtors = await readChasedDebtors(tx, debtors)
  const debtorPlans = debtors.flatMap((debtor): DebtorPlan[] => {
    const account = accounts.get(debtor.account_id)
    const chased = chasedDebtors.get(debtor.id)
    if (account === undefined || chased === undefined) return []
    const { refusal, plan } = decidePlan(debtor, account, chased, now, idsToReplan)
    const adjustedPlan = isBlockUnrecorded(account)
      ? planAgainNoLaterThan(plan, afterThisRun(now))
      : plan
    return [{ debtor, account, chased, refusal, plan: adjustedPlan }]
  })
  return writeDebtorPlans(tx, debtorPlans, now)
}

/**
 * Plans new messages about the invoices of the cancelled messages, except `excludedInvoiceIds`. The caller must
 * have locked the debtor. The debtor is read again, because the caller may have changed it after locking it.
 */
export async function replanInvoices(
  tx: Transaction,
  { id, account_id: accountId }: Pick<DebtorRow, 'id' | 'account_id'>,
  {
    cancelledMessageIds,
    excludedInvoiceIds = [],
  }: {
    readonly cancelledMessageIds: readonly string[]
    readonly excludedInvoiceIds?: readonly string[]
  },
  now: Date,
): Promise<void> {
  if (cancelledMessageIds.length === 0) return
  const messageInvoices = await tx
    .selectFrom('message_invoices')
    .select('invoice_id')
    .where('account_id', '=', accountId)
    .where('message_id', 'in', cancelledMessageIds)
    .execute()
  const invoiceIds = new Set(messageInvoices.map((row) => row.invoice_id))
  const idsToReplan = invoiceIds.difference(new Set(excludedInvoiceIds))
  if (idsToReplan.size === 0) return
  const debtor = await lockDebtor(tx, accountId, id)
  if (debtor !== undefined) await planDebtors(tx, [debtor], now, idsToReplan)
}

/** Returns the plan of one debtor, and the refusal if a safety rail blocks all messages to the debtor. */
export function decidePlan(
  debtor: DebtorRow,
  { row, settings, switches, workingTimeOf }: ChasingAccount,
  { invoices, suppressionReason, lastSentAt, hasScheduledMessage }: ChasedDebtor,
  now: Date,
  idsToReplan: ReadonlySet<string> = new Set(),
): { readonly refusal: Refusal | undefined; readonly plan: Plan } {
  const refusal = findRefusal({ now, account: { ...row, switches }, debtor, suppressionReason })
  const workingTime = workingTimeOf(debtor)
  const plan = planDebtor(
    {
      ladder: readLadder(debtor.ladder) ?? settings.ladder,
      workingTime,
      chaseFrom: settings.chaseFrom,
      refusal,
      lastSentOn: lastSentAt === null ? null : workingTime.dayOf(new Date(lastSentAt)),
      hasScheduledMessage,
      invoices: invoices.map((invoice) => ({
        ...invoice,
        isMessageCancelled: idsToReplan.has(invoice.id),
      })),
    },
    now,
  )
  const isPaused = debtor.chasing_status === 'paused' && !isPauseOver(debtor, now)
  const pauseEnds = isPaused ? debtor.chasing_until : null
  return {
    refusal,
    plan: pauseEnds === null ? plan : planAgainNoLaterThan(plan, new Date(pauseEnds)),
  }
}

/**
 * Whether all reminders of the account are blocked, but no planning run has recorded the block yet. The end of an
 * unrecorded block is not detected, so the debtor must be planned again in the next run.
 */
function isBlockUnrecorded(account: ChasingAccount): boolean {
  return blockOf(account) !== null && account.recordedBlock === null
}

/** Returns a time just after `now`: the debtor is planned again in the next run, but not a second time in this run. */
function afterThisRun(now: Date): Date {
  return new Date(now.getTime() + 1)
}

function planAgainNoLaterThan(plan: Plan, at: Date): Plan {
  return plan.planAgainAt !== null && plan.planAgainAt <= at ? plan : { ...plan, planAgainAt: at }
}

async function endPauseIfOver(tx: Transaction, debtor: DebtorRow, now: Date): Promise<DebtorRow> {
  if (!isPauseOver(debtor, now)) return debtor
  const active = { chasing_status: 'active', chasing_reason: null, chasing_until: null } as const
  return changeDebtor(tx, debtor, active, now)
}
