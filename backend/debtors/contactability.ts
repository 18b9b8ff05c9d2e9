/**
 * A bounce, a complaint or an unsubscribe suppresses an e-mail address, and thereby changes every debtor that has this
 * address.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, type Actor, recordAudit } from '../accounts/audit.ts'
import type { DebtorRow, Transaction } from '../database/tables.ts'
import { maskRecipient } from '../messages/shown-text.ts'
import { changeDebtor, type DebtorChange, getLockedDebtor } from './change.ts'
import { findDebtor } from './debtors.ts'
import {
  deleteSuppression,
  findSuppression,
  insertSuppression,
  readContactability,
  type Suppression,
  type SuppressionReason,
} from './suppressed-addresses.ts'

const MAIL: Actor = { type: 'system', id: null, label: 'mail', address: null }
const RECIPIENT: Actor = { type: 'system', id: null, label: 'recipient', address: null }

/**
 * The reason that is stored when a suppression pauses chasing. Only a person can then resume chasing. Null if the
 * suppression does not pause chasing.
 */
const PAUSE_REASONS: Readonly<Record<SuppressionReason, string | null>> = {
  bounced: 'bounced',
  complained: 'complained',
  unsubscribed: null,
}

/**
 * Suppresses an address and updates its debtors. Does nothing if the address is already suppressed for the same reason.
 */
export async function suppressAddress(
  tx: Transaction,
  suppression: Suppression,
  now: Date,
): Promise<void> {
  const { accountId, address, reason, messageId } = suppression
  if (!(await insertSuppression(tx, suppression, now))) return
  const pause = PAUSE_REASONS[reason]
  const change: DebtorChange =
    pause === null ? {} : { chasing_status: 'paused', chasing_reason: pause, chasing_until: null }
  await changeDebtorsAt(tx, accountId, address, now, ({ chasing_status }) =>
    chasing_status === 'active' ? change : {},
  )
  const actor = reason === 'unsubscribed' ? RECIPIENT : MAIL
  await recordAudit(
    tx,
    { actor, now },
    {
      accountId,
      action: `address.${reason}`,
      subjectId: messageId,
      detail: { address: maskRecipient(address) },
    },
  )
}

/** Subscribes an address to reminders again, at the recipient's request. */
export async function resubscribeAddress(
  tx: Transaction,
  accountId: string,
  address: string,
  now: Date,
): Promise<void> {
  if (!(await deleteSuppression(tx, accountId, address, 'unsubscribed'))) return
  await changeDebtorsAt(tx, accountId, address, now, () => ({}))
  await recordAudit(
    tx,
    { actor: RECIPIENT, now },
    {
      accountId,
      action: 'address.resubscribed',
      subjectId: null,
      detail: { address: maskRecipient(address) },
    },
  )
}

/**
 * Deletes the suppression that a bounce of the debtor's current address has caused, at the request of an Admin or an
 * operator. Every debtor with this address becomes contactable. If a bounce paused chasing of a debtor, chasing
 * resumes. Throws `not_found`, `debtor_state_conflict` if the debtor's personal data was erased, and
 * `address_suppressed` if the recipient complained or unsubscribed.
 */
export async function clearSuppression(
  tx: Transaction,
  accountId: string,
  debtorId: string,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  // Locks all debtors with the address in the order of their ids. If this debtor were locked first, two transactions
  // could deadlock.
  const found = await findDebtor(tx, accountId, debtorId)
  if (found !== undefined && found.email !== null) {
    await lockDebtorsAt(tx, accountId, found.email)
  }
  const debtor = await getLockedDebtor(tx, accountId, debtorId)
  const { email } = debtor
  if (email === null) return resetContactability(tx, debtor, actionContext)
  await deleteSuppression(tx, accountId, email, 'bounced')
  const remaining = await findSuppression(tx, accountId, email)
  if (remaining !== undefined) throw suppressedByRecipient(remaining.reason)
  // The address may have changed between `findDebtor` and the locks, so the debtors with this address are locked again.
  for (const other of await lockDebtorsAt(tx, accountId, email)) {
    if (other.id !== debtorId) await resetContactability(tx, other, actionContext)
  }
  return resetContactability(tx, debtor, actionContext)
}

/**
 * To be called if the address of the debtor is no longer suppressed, or the debtor has none. The contactability becomes
 * `ok` or `missing`, and a pause that a bounce caused ends.
 */
async function resetContactability(
  tx: Transaction,
  debtor: DebtorRow,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  const contactability = debtor.email === null ? 'missing' : 'ok'
  const endsPause = isPausedByBounce(debtor)
  if (contactability === debtor.contactability_email && !endsPause) return debtor
  await recordAudit(tx, actionContext, {
    accountId: debtor.account_id,
    action: 'debtor.contactability_cleared',
    subjectId: debtor.id,
    detail: { name: debtor.name, before: debtor.contactability_email },
  })
  return changeDebtor(
    tx,
    debtor,
    {
      ...(contactability !== debtor.contactability_email && {
        contactability_email: contactability,
      }),
      ...(endsPause && {
        chasing_status: 'active',
        chasing_reason: null,
        chasing_until: null,
      }),
    },
    actionContext.now,
  )
}

/** Whether a bounce has paused chasing. If so, `clearSuppression` resumes it. */
export function isPausedByBounce({
  chasing_status: status,
  chasing_reason: reason,
}: Pick<DebtorRow, 'chasing_status' | 'chasing_reason'>): boolean {
  return status === 'paused' && reason === PAUSE_REASONS.bounced
}

function suppressedByRecipient(reason: SuppressionReason): Problem {
  const cause =
    reason === 'complained'
      ? 'has reported our mail as unwanted'
      : 'has unsubscribed from reminders'
  return new Problem(
    'address_suppressed',
    `The recipient at this address ${cause}. Contact the customer in another way, or use another address.`,
    { members: { suppression_reason: reason } },
  )
}

/**
 * Updates the contactability of all debtors with the address, and makes the further changes that `changeOf` returns.
 */
async function changeDebtorsAt(
  tx: Transaction,
  accountId: string,
  address: string,
  now: Date,
  changeOf: (debtor: DebtorRow) => DebtorChange,
): Promise<void> {
  const debtors = await lockDebtorsAt(tx, accountId, address)
  const contactability = await readContactability(tx, accountId, address)
  for (const debtor of debtors) {
    const change = { ...changeOf(debtor) }
    if (debtor.contactability_email !== contactability) change.contactability_email = contactability
    if (Object.keys(change).length === 0) continue
    await changeDebtor(tx, debtor, change, now)
  }
}

/** Locks and returns all debtors with the address, in the order of their ids, which prevents deadlocks. */
async function lockDebtorsAt(
  tx: Transaction,
  accountId: string,
  address: string,
): Promise<DebtorRow[]> {
  return await tx
    .selectFrom('debtors')
    .selectAll()
    .where('account_id', '=', accountId)
    .where(({ fn }) => fn('lower', ['email']), '=', address.toLowerCase())
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
}
