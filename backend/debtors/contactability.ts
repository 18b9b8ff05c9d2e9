/**
 * Whether debtors can be written to: what a bounce, a complaint or the link to unsubscribe changes
 * about an address, and about every debtor that has it.
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

/** Why chasing rests, until a person has looked. Who opted out of mail is still owed an answer. */
const PAUSES: Readonly<Record<SuppressionReason, string | null>> = {
  bounced: 'bounced',
  complained: 'complained',
  unsubscribed: null,
}

/** Nothing is sent there any more. What it was already changes nothing. */
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

/** Whoever reads there has thought better of it. */
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
 * An Admin's word that the debtor's present address works: it is written to again, and chasing that
 * rested because of a bounce goes on. Throws `not_found`, and `address_suppressed` where whoever reads
 * there has opted out or complained: that is theirs to take back.
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
    `Whoever reads at this address ${what}. Reach them in another way, or use another address.`,
    { members: { suppression_reason: reason } },
  )
}

/** In the order of their ids, as everyone locks them. */
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
