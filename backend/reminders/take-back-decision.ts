import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { announce } from '../database/announcements.ts'
import { nextRevision } from '../database/revision.ts'
import type { MessageRow, ReminderRow, Transaction } from '../database/tables.ts'
import { lockDebtor, replanDebtor } from '../debtors/debtors.ts'
import { changeMessage, REMINDER_TIMES_CHANGED } from '../messages/lifecycle.ts'
import { findMessage } from '../messages/messages.ts'
import { setBlockedByApproval } from './approvals.ts'
import { readFacts } from './planning/facts.ts'

/**
 * Takes back a decision: an approved reminder awaits approval again; the invoices of a rejected one are chased again.
 * Throws `not_found` if there is no such message. Throws `approval_decided`, the code of all conflicts about decisions,
 * if nothing was decided, or if the decision can no longer be taken back, e.g. because the reminder is being sent.
 */
export async function takeBackDecision(
  tx: Transaction,
  accountId: string,
  messageId: string,
  actionContext: ActionContext,
): Promise<void> {
  const found = await findMessage(tx, accountId, messageId)
  if (found === undefined) throw new Problem('not_found', `There is no message ${messageId}.`)
  await lockDebtor(tx, accountId, found.debtor_id)
  const { message, reminder } = await readMessageAndReminder(tx, accountId, messageId)
  if (message.status === 'approved') return withdrawApproval(tx, message, reminder, actionContext)
  const isResumed =
    message.approval_status === 'rejected' &&
    !(await isFollowedByRejection(tx, message)) &&
    (await resumeRejected(tx, message, reminder, actionContext))
  if (isResumed) return
  const { status: message_status, approval_status } = message
  const detail =
    message.approval_decided_at === null
      ? 'There is no decision to take back: this message is neither approved nor rejected at present.'
      : 'This decision can no longer be taken back, or was already taken back.'
  throw new Problem('approval_decided', detail, { members: { message_status, approval_status } })
}

async function readMessageAndReminder(
  tx: Transaction,
  accountId: string,
  messageId: string,
): Promise<{ message: MessageRow; reminder: ReminderRow | undefined }> {
  const message = await tx
    .selectFrom('messages')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', messageId)
    .executeTakeFirstOrThrow()
  const reminder = await tx
    .selectFrom('reminders')
    .selectAll()
    .where('message_id', '=', messageId)
    .executeTakeFirst()
  return { message, reminder }
}

async function withdrawApproval(
  tx: Transaction,
  message: MessageRow,
  reminder: ReminderRow | undefined,
  actionContext: ActionContext,
): Promise<void> {
  const { id, account_id: accountId, debtor_id: debtorId, stage } = message
  await changeMessage(
    tx,
    message,
    {
      status: 'awaiting_approval',
      approval_status: 'pending',
      approval_decided_by: null,
      approval_decided_at: null,
    },
    `${actionContext.actor.label} took the approval back`,
    actionContext.now,
  )
  // The send check runs soon. For a message that awaits approval, as this one does now, it sends nothing, but writes
  // the text again, because the wording may have changed.
  await tx
    .updateTable('reminders')
    .set({ approved_hash: null, run_at: actionContext.now.toISOString() })
    .where('message_id', '=', id)
    .execute()
  if (reminder !== undefined) {
    const { invoices } = readFacts(reminder.facts)
    await setBlockedByApproval(tx, accountId, invoices, true, actionContext.now)
  }
  // An approved message delays other reminders to the debtor, which are planned after it has been sent. A message that
  // awaits approval delays none, so they can be planned now.
  await replanDebtor(tx, accountId, debtorId, actionContext.now)
  announce(tx, REMINDER_TIMES_CHANGED)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'message.approval_taken_back',
    subjectId: id,
    detail: { stage },
  })
}

/**
 * Whether another message to the debtor was rejected at the same time or later. The other rejection may block the same
 * invoices, and must then remain in force. It counts even if it was taken back, because its message keeps the
 * `approval_status` `rejected`.
 */
async function isFollowedByRejection(
  tx: Transaction,
  { id, account_id, debtor_id, approval_decided_at: decidedAt }: MessageRow,
): Promise<boolean> {
  const later = await tx
    .selectFrom('messages')
    .select('id')
    .where('account_id', '=', account_id)
    .where('debtor_id', '=', debtor_id)
    .where('approval_status', '=', 'rejected')
    .where('id', '!=', id)
    .where('approval_decided_at', '>=', decidedAt)
    .limit(1)
    .executeTakeFirst()
  return later !== undefined
}

/** Resumes chasing of the invoices that the rejection still blocks. Returns false if it blocks no invoice. */
async function resumeRejected(
  tx: Transaction,
  { account_id: accountId, debtor_id: debtorId }: MessageRow,
  reminder: ReminderRow | undefined,
  actionContext: ActionContext,
): Promise<boolean> {
  const ids = reminder === undefined ? [] : readFacts(reminder.facts).invoices.map(({ id }) => id)
  if (ids.length === 0) return false
  const resumed = await tx
    .updateTable('invoices')
    .set({
      chasing_status: 'active',
      chasing_blocked_reason: null,
      ...nextRevision(tx, actionContext.now.toISOString()),
    })
    .where('account_id', '=', accountId)
    .where('id', 'in', ids)
    .where('status', 'in', ['open', 'partially_paid'])
    .where('chasing_blocked_reason', '=', 'approval_rejected')
    .returning(['id', 'number'])
    .execute()
  for (const { id, number } of resumed) {
    const entry = { accountId, action: 'invoice.chasing_resumed', subjectId: id } as const
    await recordAudit(tx, actionContext, { ...entry, detail: { number } })
  }
  if (resumed.length > 0) await replanDebtor(tx, accountId, debtorId, actionContext.now)
  return resumed.length > 0
}
