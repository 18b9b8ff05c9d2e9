/**
 * Contactability: the effects of a bounce, a complaint or an unsubscribe link on an address, and on every
 * debtor that has it.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { type Act, type Actor, recordAudit } from '../accounts/audit.ts'
import type { DebtorRow, Transaction } from '../database/tables.ts'
import { maskRecipient } from '../messages/shown-text.ts'
import { changeDebtor, type DebtorChange, getLockedDebtor } from './change.ts'
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

/** The reason for which a suppression pauses chasing until a person resumes it; null: it does not pause. */
const PAUSES: Readonly<Record<SuppressionReason, string | null>> = {
  bounced: 'bounced',
  complained: 'complained',
  unsubscribed: null,
}

/** Suppresses an address. Idempotent. */
export async function suppressAddress(
  tx: Transaction,
  suppression: Suppression,
  now: Date,
): Promise<void> {
  const { accountId, address, reason, messageId } = suppression
  if (!(await insertSuppression(tx, suppression, now))) return
  const pause = PAUSES[reason]
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

/** Reverts an unsubscribe at the recipient's request. */
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
 * Clears the bounce of the debtor's present address at the request of an Admin, and resumes chasing that it
 * paused. Throws `not_found`, and `address_suppressed` if the recipient has complained, which nobody can
 * revert, or unsubscribed, which only the recipient can.
 */
export async function clearSuppression(
  tx: Transaction,
  accountId: string,
  debtorId: string,
  act: Act,
): Promise<DebtorRow> {
  const debtor = await getLockedDebtor(tx, accountId, debtorId)
  const { email } = debtor
  if (email !== null) {
    await deleteSuppression(tx, accountId, email, 'bounced')
    const left = await findSuppression(tx, accountId, email)
    if (left !== undefined) throw notOurs(left.reason)
  }
  const contactability = await readContactability(tx, accountId, email)
  const rests = debtor.chasing_reason === PAUSES.bounced && debtor.chasing_status === 'paused'
  if (contactability === debtor.contactability_email && !rests) return debtor
  await recordAudit(tx, act, {
    accountId,
    action: 'debtor.contactability_cleared',
    subjectId: debtorId,
    detail: { name: debtor.name, before: debtor.contactability_email },
  })
  return changeDebtor(
    tx,
    debtor,
    {
      ...(contactability !== debtor.contactability_email && {
        contactability_email: contactability,
      }),
      ...(rests && { chasing_status: 'active', chasing_reason: null, chasing_until: null }),
    },
    act.now,
  )
}

function notOurs(reason: SuppressionReason): Problem {
  const what =
    reason === 'complained'
      ? 'has reported our mail as unwanted'
      : 'has unsubscribed from reminders'
  return new Problem(
    'address_suppressed',
    `The recipient at this address ${what}. Contact the customer in another way, or use another address.`,
    { members: { suppression_reason: reason } },
  )
}

/** Locks in the order of ids, as everywhere, to prevent deadlocks. */
async function changeDebtorsAt(
  tx: Transaction,
  accountId: string,
  address: string,
  now: Date,
  changeOf: (debtor: DebtorRow) => DebtorChange,
): Promise<void> {
  const debtors = await tx
    .selectFrom('debtors')
    .selectAll()
    .where('account_id', '=', accountId)
    .where(({ fn }) => fn('lower', ['email']), '=', address.toLowerCase())
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
  const contactability = await readContactability(tx, accountId, address)
  for (const debtor of debtors) {
    const change = changeOf(debtor)
    const isNew = debtor.contactability_email !== contactability
    if (!isNew && Object.keys(change).length === 0) continue
    const reached = isNew ? { contactability_email: contactability } : {}
    await changeDebtor(tx, debtor, { ...change, ...reached }, now)
  }
}
