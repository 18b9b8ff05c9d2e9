/**
 * Plans debtors that the transaction holds. Many cost few statements: a ledger of a hundred thousand
 * invoices is planned in seconds.
 */
import type { Transaction } from '../../database/database.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { changeDebtor } from '../../debtors/change.ts'
import { lockDebtor } from '../../debtors/debtors.ts'
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
 * Plans debtors that the caller holds. `replaced`: invoices whose message was stopped because of
 * another's; what it said of them is planned again in the same breath. Returns how many messages
 * were written.
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
    return [{ debtor, account, chased, ...decide(debtor, account, chased, now, replaced) }]
  })
  return writePlans(tx, writings, now)
}

/**
 * Plans new messages for the invoices that the stopped messages covered, except the settled ones.
 * The caller holds the debtor's lock.
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

/** The plan for one debtor, and what would hold back its messages. */
export function decide(
  debtor: DebtorRow,
  { row, settings, switches, timeOf }: ChasingAccount,
  { invoices, suppressed, lastSentAt, isLeaving }: ChasedDebtor,
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
      isLeaving,
      invoices: invoices.map((invoice) => ({ ...invoice, isReplaced: replaced.has(invoice.id) })),
    },
    now,
  )
  const pauseEnds = debtor.chasing_status === 'paused' ? debtor.chasing_until : null
  return { refusal, plan: pauseEnds === null ? plan : lookingAgainBy(plan, new Date(pauseEnds)) }
}

function lookingAgainBy(plan: Plan, at: Date): Plan {
  return plan.lookAgainAt !== null && plan.lookAgainAt <= at ? plan : { ...plan, lookAgainAt: at }
}

/** A pause until a day is over on it, without anybody's doing. */
async function endPause(tx: Transaction, debtor: DebtorRow, now: Date): Promise<DebtorRow> {
  if (!isPauseOver(debtor, now)) return debtor
  const active = { chasing_status: 'active', chasing_reason: null, chasing_until: null } as const
  return changeDebtor(tx, debtor, active, now)
}
