import { getAccount } from '../../accounts/accounts.ts'
import { readPaymentDetails } from '../../accounts/payment-details.ts'
import type { MessageRow, Reader, Transaction } from '../../database/tables.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { findInvoices } from '../../invoices/invoices.ts'
import { chooseLanguage } from '../../mail/wording/languages.ts'
import { countAwaitingApproval, listDecidedOrLapsed } from '../../messages/approval-log.ts'
import { findMessage, listMessages, readInvoiceIdsByMessage } from '../../messages/messages.ts'
import { representMessage } from '../../messages/representation.ts'
import {
  type Decision,
  decideApproval,
  findPendingApproval,
  listPendingApprovals,
  type PendingApproval,
  readStatusHistory,
} from '../../reminders/approvals.ts'
import { earliestSendingTime } from '../../reminders/sending-time.ts'
import { takeBackDecision } from '../../reminders/take-back-decision.ts'
import { setFlash } from '../../sessions/flash.ts'
import { notFound } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import { listOf, newestFirst, oldestFirstAfter, parseListQuery } from '../shell/list-query.ts'
import type { RejectedAction } from '../shell/page-actions.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import { readCustomerNames } from '../shell/row-customers.ts'
import {
  type ApprovalView,
  OTHER_MESSAGES_MAX,
  renderApproval,
  renderApprovals,
  renderApproveConfirmation,
} from './approvals-page.ts'

const PATH = '/settings/approvals'
const ADMINS_ONLY = 'Only an Admin can approve and reject reminders.'
/** The maximum number of pending approvals on the page, unless the URL has a limit. */
const SHOWN_MAX = 100

/** The maximum number of recently decided or lapsed reminders on the page. */
const DECIDED_MAX = 20

export const approvalPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session, now, query }, { database: { read } }) {
      const { id: accountId } = session.account
      const list = parseListQuery(query, [])
      const limit = list.limitOr(SHOWN_MAX)
      const page = await oldestFirstAfter(list.cursor, limit, (id) =>
        findMessage(read, accountId, id),
      )
      const found = await listPendingApprovals(read, accountId, page)
      const approvals = found.slice(0, limit)
      const next = found.length > limit ? (approvals.at(-1)?.message.id ?? null) : null
      const [awaitingApproval, decided] = await Promise.all([
        countAwaitingApproval(read, accountId),
        list.cursor === undefined ? listDecidedOrLapsed(read, accountId, DECIDED_MAX) : [],
      ])
      const customers = await readCustomerNames(read, accountId, decided)
      const view = {
        ...{ session, approvals, limit: list.value('limit'), next },
        ...{ awaitingApproval, decided, customers, now },
      }
      return {
        json: listOf(approvals.map(represent), next),
        page: (frame) => renderApprovals(frame, view),
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    async handle(request, deps) {
      const view = await readView(request, deps)
      // If the reminder does not wait for approval, or has no text yet, the page of the message is shown instead.
      if (view === undefined)
        return {
          location: `/settings/messages/${request.id}`,
          json: await messageJson(request, deps),
        }
      return { json: represent(view.approval), page: (frame) => renderApproval(frame, view) }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}/approve`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session, id, query, now }, { database: { read } }) {
      const approval = await findPendingApproval(read, session.account.id, id)
      if (approval === undefined) return { location: `/settings/messages/${id}` }
      const sendsAt = await sendingTime(read, approval.message, now)
      const view = {
        session,
        now,
        approval,
        sendsAt,
        seenDigest: query.get('seen') ?? approval.contentDigest,
      }
      return { page: (frame) => renderApproveConfirmation(frame, view) }
    },
  },
  decisionPage('approve', (fields) => ({ approve: true, ...seenDigestOf(fields) })),
  decisionPage('reject', (fields) => ({
    approve: false,
    reason: fields.text('reason'),
    ...seenDigestOf(fields),
  })),
  {
    method: 'POST',
    path: `${PATH}/{id}/take-back`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle(request, deps) {
      const { session, id, actionContext } = request
      await request.performAction('decision_taken_back', (tx) =>
        takeBackDecision(tx, session.account.id, id, actionContext),
      )
      return { json: await messageJson(request, deps), location: PATH }
    },
  },
]

async function sendingTime(
  reader: Reader,
  message: MessageRow,
  now: Date,
): Promise<Date | undefined> {
  const { account_id: accountId, debtor_id: debtorId } = message
  const debtor = (await findDebtor(reader, accountId, debtorId)) ?? notFound('customer', debtorId)
  return earliestSendingTime(reader, message, debtor, now)
}

/** The flash message offers no Undo after an approval if the reminder can be sent immediately. */
async function setDecisionFlash(
  tx: Transaction,
  { session, id, now }: SessionRequest,
  { approve }: Decision,
): Promise<void> {
  const { id: accountId } = session.account
  const undo = { path: `${PATH}/${id}/take-back`, fields: [] }
  if (!approve) return setFlash(tx, session.token, 'message_rejected', undo)
  const message = (await findMessage(tx, accountId, id)) ?? notFound('message', id)
  const sendsAt = await sendingTime(tx, message, now)
  const isSentNow = sendsAt?.getTime() === now.getTime()
  await (isSentNow
    ? setFlash(tx, session.token, 'message_approved_now')
    : setFlash(tx, session.token, 'message_approved', undo))
}

/**
 * The field `seen` is the digest of the content that the Admin has read. If a JSON client omits it, the decision
 * applies to the current content.
 */
function seenDigestOf(fields: Fields): Pick<Decision, 'seenDigest'> {
  return fields.has('seen') ? { seenDigest: fields.text('seen') } : {}
}

function decisionPage(
  name: 'approve' | 'reject',
  decisionOf: (fields: Fields) => Decision,
): SessionPage {
  return {
    method: 'POST',
    path: `${PATH}/{id}/${name}`,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: { texts: name === 'approve' ? ['seen'] : ['seen', 'reason'] },
    async handle(request, deps) {
      const { session, id, fields, actionContext } = request
      await deps.database.transaction(async (tx) => {
        const decision = decisionOf(fields)
        if (!request.wantsJson) await setDecisionFlash(tx, request, decision)
        await decideApproval(tx, session.account.id, id, decision, actionContext)
      })
      return { json: await messageJson(request, deps), location: PATH }
    },
    async rerender(request, problem, deps) {
      const view = await readView(request, deps)
      if (view === undefined) return undefined
      const rejected: RejectedAction = { name, fields: request.fields, problem }
      return (frame) => renderApproval(frame, view, rejected)
    },
  }
}

async function readView(
  { session, id, now }: SessionRequest,
  { database: { read }, receivesReplies }: SettingsDeps,
): Promise<ApprovalView | undefined> {
  const { id: accountId } = session.account
  const approval = await findPendingApproval(read, accountId, id)
  if (approval === undefined) return undefined
  const { debtor_id } = approval.message
  const ids = approval.invoices.map((invoice) => invoice.id)
  const [invoices, history, otherMessages, details, account, debtor] = await Promise.all([
    findInvoices(read, accountId, ids),
    readStatusHistory(read, accountId, id),
    // This fetches one message more, because this reminder itself may be one of the newest messages.
    listMessages(read, accountId, { debtor_id }, newestFirst(OTHER_MESSAGES_MAX + 1)),
    readPaymentDetails(read, accountId),
    getAccount(read, accountId),
    findDebtor(read, accountId, debtor_id),
  ])
  const currenciesWithDetails = details.map(({ currency }) => currency)
  const withoutDetails = invoices.filter(
    (row) => row.payment_url === null && !currenciesWithDetails.includes(row.currency),
  )
  return {
    session,
    now,
    approval,
    invoices,
    history,
    sender: {
      name: approval.senderName ?? account.name,
      replyTo: account.reply_to,
      replyInbox: receivesReplies ? 'the message log' : 'the address from which reminders are sent',
    },
    language: chooseLanguage(debtor?.language),
    currenciesWithoutPaymentDetails: [...new Set(withoutDetails.map(({ currency }) => currency))],
    otherMessages: otherMessages.filter((row) => row.id !== id),
  }
}

async function messageJson({ session, id }: SessionRequest, { database: { read } }: SettingsDeps) {
  const { id: accountId } = session.account
  const row = (await findMessage(read, accountId, id)) ?? notFound('message', id)
  return representMessage(row, (await readInvoiceIdsByMessage(read, accountId, [id])).get(id) ?? [])
}

function represent({ message, invoices, expiresAt, contentDigest }: PendingApproval) {
  const ids = invoices.map(({ id }) => id)
  return {
    ...representMessage(message, ids),
    body: message.body,
    expires_at: expiresAt,
    seen: contentDigest,
  }
}
