/**
 * Firm and final reminders are sent only after a person has approved them. An approval is bound to the text, logo,
 * recipient, stage, invoices and amounts that the person saw: later changes of the wording or the logo do not apply to
 * an approved message. If an amount, the recipient, a due date or the payment details have changed, the message is not
 * sent.
 */

import { createHash } from 'node:crypto'
import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { checkReason } from '../accounts/reason.ts'
import { announce } from '../database/announcements.ts'
import type { Reader, Transaction } from '../database/database.ts'
import { nextRevision } from '../database/revision.ts'
import type { MessageHtmlRow, MessageRow, MessageTransitionRow } from '../database/tables.ts'
import { lockDebtor, replanDebtor } from '../debtors/debtors.ts'
import type { KeysetPage } from '../lists/keyset.ts'
import { changeMessage, REMINDER_TIMES_CHANGED } from '../messages/lifecycle.ts'
import { amountDemanded, type Facts, readFacts } from './planning/facts.ts'
import { AWAITING_APPROVAL } from './planning/planner.ts'

/** A message that awaits approval, with the content that is shown to the person who decides. */
export interface PendingApproval {
  readonly message: MessageRow
  readonly debtorName: string
  readonly html: string
  /** The sender's name with which the text was written; null stands for the account's name. */
  readonly senderName: string | null
  readonly invoices: Facts['invoices']
  /** The end of the approval period: after it, the message cannot be approved or rejected. */
  readonly expiresAt: string
  /** A digest of the shown content. A decision repeats the digest, so that it cannot apply to other content. */
  readonly contentDigest: string
}

/**
 * `seenDigest` is the `contentDigest` of the content that the person saw. Without it, e.g. in the CLI, the decision
 * applies to the current content.
 */
export type Decision =
  | { readonly approve: true; readonly seenDigest?: string | undefined }
  | { readonly approve: false; readonly reason: string; readonly seenDigest?: string | undefined }

/**
 * Returns the next messages that await approval and have a text, oldest first. By default, returns as many as the CLI
 * lists.
 */
export async function listPendingApprovals(
  reader: Reader,
  accountId: string,
  { rowsMax, after }: Pick<KeysetPage, 'rowsMax' | 'after'> = { rowsMax: 200, after: undefined },
): Promise<PendingApproval[]> {
  const query = selectPendingApprovals(reader, accountId)
  const following =
    after === undefined
      ? query
      : query.where(
          sql<SqlBool>`(messages.created_at, messages.id) > (${after.value}, ${after.id})`,
        )
  const rows = await following
    .orderBy('messages.created_at')
    .orderBy('messages.id')
    .limit(rowsMax)
    .execute()
  return rows.map(pendingApprovalOf)
}

/** Returns undefined if the message does not await a decision, or has no text yet. */
export async function findPendingApproval(
  reader: Reader,
  accountId: string,
  messageId: string,
): Promise<PendingApproval | undefined> {
  const row = await selectPendingApprovals(reader, accountId)
    .where('messages.id', '=', messageId)
    .executeTakeFirst()
  return row && pendingApprovalOf(row)
}

/** Returns the transitions of the message, oldest first. */
export async function readStatusHistory(
  reader: Reader,
  accountId: string,
  messageId: string,
): Promise<MessageTransitionRow[]> {
  return reader
    .selectFrom('message_transitions')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('message_id', '=', messageId)
    .orderBy('id')
    .execute()
}

/**
 * Records the decision on a message that awaits approval. After a rejection, the invoices are not chased until a person
 * resumes chasing. Throws `not_found`; `validation_failed` if the reason of a rejection is invalid; `approval_decided`
 * if the message does not await approval or its approval period has ended; and `approval_outdated` if the message has
 * changed or has no text yet.
 */
export async function decideApproval(
  tx: Transaction,
  accountId: string,
  messageId: string,
  decision: Decision,
  actionContext: ActionContext,
): Promise<void> {
  const reason = decision.approve ? null : checkReason(decision.reason)
  const found = await findMessage(tx, accountId, messageId)
  if (found === undefined) throw new Problem('not_found', `There is no message ${messageId}.`)
  await lockDebtor(tx, accountId, found.debtor_id)
  const approval = await findPendingApproval(tx, accountId, messageId)
  if (approval === undefined) throw await undecidableProblem(tx, accountId, messageId)
  if (approval.expiresAt <= actionContext.now.toISOString()) {
    throw new Problem(
      'approval_decided',
      'The reminder can no longer be approved or rejected: there was no decision in time.',
    )
  }
  if (decision.seenDigest !== undefined && decision.seenDigest !== approval.contentDigest) {
    throw new Problem(
      'approval_outdated',
      'The reminder has changed since you opened it, so nothing was decided. Review it again.',
    )
  }
  await (reason === null
    ? approve(tx, approval, actionContext)
    : reject(tx, approval, reason, actionContext))
  await recordAudit(tx, actionContext, {
    accountId,
    action: reason === null ? 'message.approved' : 'message.rejected',
    subjectId: messageId,
    detail: { stage: approval.message.stage, ...(reason === null ? {} : { reason }) },
  })
}

/** Returns a digest of the content to which an approval is bound. */
export function contentDigestOf(
  { stage, recipient, invoices }: Facts,
  {
    subject,
    body,
    logo_id: logo,
  }: Pick<MessageRow, 'subject' | 'body'> & Pick<MessageHtmlRow, 'logo_id'>,
): string {
  const content = [
    stage,
    recipient,
    invoices.map((invoice) => [invoice.id, amountDemanded(invoice)]),
    subject,
    body,
    // Digests of content without a logo are the same as in earlier versions, which had no logos.
    ...(logo === null ? [] : [logo]),
  ]
  return createHash('sha256').update(JSON.stringify(content)).digest('base64url')
}

async function approve(
  tx: Transaction,
  { message, invoices, contentDigest }: PendingApproval,
  actionContext: ActionContext,
): Promise<void> {
  const now = actionContext.now.toISOString()
  const change = {
    status: 'approved',
    approval_status: 'approved',
    ...decisionFields(actionContext),
  } as const
  await changeMessage(tx, message, change, actionContext.actor.label, actionContext.now)
  await tx
    .updateTable('reminders')
    .set({ approved_hash: contentDigest, run_at: now })
    .where('message_id', '=', message.id)
    .execute()
  await setBlockedByApproval(tx, message.account_id, invoices, false, actionContext.now)
  announce(tx, REMINDER_TIMES_CHANGED)
}

/** Sets whether the invoices of a firm or final reminder show that they wait for the approval of the reminder. */
export async function setBlockedByApproval(
  tx: Transaction,
  accountId: string,
  invoices: Facts['invoices'],
  isBlocked: boolean,
  now: Date,
): Promise<void> {
  const [before, after] = isBlocked ? [null, AWAITING_APPROVAL] : [AWAITING_APPROVAL, null]
  await tx
    .updateTable('invoices')
    .set({ chasing_blocked_reason: after, ...nextRevision(tx, now.toISOString()) })
    .where('account_id', '=', accountId)
    .where(
      'id',
      'in',
      invoices.map(({ id }) => id),
    )
    .where('status', 'in', ['open', 'partially_paid'])
    .where('chasing_status', '=', 'active')
    .where('chasing_blocked_reason', before === null ? 'is' : '=', before)
    .execute()
}

async function reject(
  tx: Transaction,
  { message, invoices }: PendingApproval,
  reason: string,
  actionContext: ActionContext,
): Promise<void> {
  const change = {
    status: 'suppressed',
    suppression_reason: 'approval_rejected',
    suppression_detail: reason,
    approval_status: 'rejected',
    ...decisionFields(actionContext),
  } as const
  await changeMessage(tx, message, change, reason, actionContext.now)
  await tx
    .updateTable('invoices')
    .set({
      chasing_status: 'paused',
      chasing_next_action_at: null,
      chasing_blocked_reason: 'approval_rejected',
      ...nextRevision(tx, actionContext.now.toISOString()),
    })
    .where('account_id', '=', message.account_id)
    .where(
      'id',
      'in',
      invoices.map(({ id }) => id),
    )
    .execute()
  await replanDebtor(tx, message.account_id, message.debtor_id, actionContext.now)
}

function decisionFields({ actor: { type, id, label }, now }: ActionContext) {
  return {
    approval_decided_by: JSON.stringify({ type, id, label }),
    approval_decided_at: now.toISOString(),
  }
}

function selectPendingApprovals(reader: Reader, accountId: string) {
  return reader
    .selectFrom('messages')
    .innerJoin('reminders', 'reminders.message_id', 'messages.id')
    .innerJoin('debtors', 'debtors.id', 'messages.debtor_id')
    .innerJoin('message_html', 'message_html.message_id', 'messages.id')
    .selectAll('messages')
    .select(['reminders.facts', 'debtors.name as debtor_name'])
    .select(['message_html.html', 'message_html.sender_name', 'message_html.logo_id'])
    .where('messages.account_id', '=', accountId)
    .where('messages.status', '=', 'awaiting_approval')
}

type ApprovalRow = MessageRow & {
  readonly facts: string
  readonly debtor_name: string
  readonly html: string
  readonly sender_name: string | null
  readonly logo_id: string | null
}

function pendingApprovalOf({
  facts: text,
  debtor_name,
  html,
  sender_name,
  logo_id,
  ...message
}: ApprovalRow): PendingApproval {
  const facts = readFacts(text)
  return {
    message,
    debtorName: debtor_name,
    html,
    senderName: sender_name,
    invoices: facts.invoices,
    expiresAt: facts.expiresAt,
    contentDigest: contentDigestOf(facts, { ...message, logo_id }),
  }
}

function findMessage(reader: Reader, accountId: string, id: string) {
  return reader
    .selectFrom('messages')
    .select(['debtor_id', 'status', 'approval_status'])
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

async function undecidableProblem(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<Problem> {
  const message = await findMessage(tx, accountId, id)
  // The message has no text yet: `findPendingApproval` finds every other message that awaits approval.
  if (message?.status === 'awaiting_approval') {
    return new Problem(
      'approval_outdated',
      'The text of the reminder is not written yet, so nothing was decided. Review it in a minute.',
    )
  }
  const decision = message?.approval_status
  // `lapsed` does not say what happened to the message.
  const state = decision === 'lapsed' || decision === null ? message?.status : decision
  return new Problem(
    'approval_decided',
    `The reminder does not await a decision, because it is ${state}.`,
    {
      members: { message_status: message?.status, approval_status: message?.approval_status },
    },
  )
}
