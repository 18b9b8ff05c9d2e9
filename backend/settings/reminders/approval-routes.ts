/** The routes of the approval queue, and of the decision on a reminder. */
import { getAccount } from '../../accounts/accounts.ts'
import { readPaymentDetails } from '../../accounts/payment-details.ts'
import { findInvoices } from '../../invoices/invoices.ts'
import { countWaiting, listDecided } from '../../messages/approval-log.ts'
import { findMessage } from '../../messages/message.ts'
import { listMessages, readCoveredInvoices } from '../../messages/messages.ts'
import { renderMessage } from '../../messages/representation.ts'
import {
  type Approval,
  type Decision,
  decideApproval,
  findApproval,
  listApprovals,
  readHistory,
} from '../../reminders/approvals.ts'
import { setFlash } from '../../sessions/sessions.ts'
import type { FailedAct } from '../shell/acts.ts'
import { notFound } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import { listOf, newestFrom } from '../shell/list-query.ts'
import { readNames } from '../shell/names.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import { type ApprovalView, renderApproval, renderApprovals } from './approvals-page.ts'

const PATH = '/settings/approvals'
const ADMINS_ONLY = 'Only an Admin can approve and reject reminders.'
const SHOWN_MAX = 100
const DECIDED_MAX = 20

export const approvalPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session, now }, { database: { read } }) {
      const { id: accountId } = session.account
      const approvals = await listApprovals(read, accountId, SHOWN_MAX)
      const [waiting, decided] = await Promise.all([
        countWaiting(read, accountId),
        listDecided(read, accountId, DECIDED_MAX),
      ])
      const customers = await readNames(read, accountId, decided)
      return {
        json: listOf(approvals.map(represent), null),
        page: (frame) =>
          renderApprovals(frame, { session, approvals, waiting, decided, customers, now }),
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    async handle(request, deps) {
      const view = await readView(request, deps)
      // A reminder that was decided in the meantime is shown as a message.
      if (view === undefined)
        return {
          location: `/settings/messages/${request.id}`,
          json: await decidedJson(request, deps),
        }
      return { json: represent(view.approval), page: (frame) => renderApproval(frame, view) }
    },
  },
  decisionPage('approve', 'message_approved', (fields) => ({ approve: true, ...seenOf(fields) })),
  decisionPage('reject', 'message_rejected', (fields) => ({
    approve: false,
    reason: fields.text('reason'),
    ...seenOf(fields),
  })),
]

/** Scripts may omit `seen`, and then decide on the current text. */
function seenOf(fields: Fields): Pick<Decision, 'seen'> {
  return fields.has('seen') ? { seen: fields.text('seen') } : {}
}

function decisionPage(
  name: 'approve' | 'reject',
  flash: string,
  decisionOf: (fields: Fields) => Decision,
): SessionPage {
  return {
    method: 'POST',
    path: `${PATH}/{id}/${name}`,
    admins: ADMINS_ONLY,
    expected: { texts: name === 'approve' ? ['seen'] : ['seen', 'reason'] },
    async handle(request, deps) {
      const { session, id, fields, act } = request
      await deps.database.transaction(async (tx) => {
        if (!request.wantsJson) await setFlash(tx, session.token, flash)
        await decideApproval(tx, session.account.id, id, decisionOf(fields), act)
      })
      return { json: await decidedJson(request, deps), location: PATH }
    },
    async redraw(request, problem, deps) {
      const view = await readView(request, deps)
      if (view === undefined) return undefined
      const failed: FailedAct = { name, reason: request.fields.text('reason'), problem }
      return (frame) => renderApproval(frame, view, failed)
    },
  }
}

async function readView(
  { session, id, now }: SessionRequest,
  { database: { read } }: SettingsDeps,
): Promise<ApprovalView | undefined> {
  const { id: accountId } = session.account
  const approval = await findApproval(read, accountId, id)
  if (approval === undefined) return undefined
  const { debtor_id } = approval.message
  const newest = await newestFrom(undefined, 10, async () => undefined)
  const ids = approval.invoices.map((invoice) => invoice.id)
  const [invoices, history, earlier, payment, account] = await Promise.all([
    findInvoices(read, accountId, ids),
    readHistory(read, accountId, id),
    listMessages(read, accountId, { debtor_id }, newest),
    readPaymentDetails(read, accountId),
    getAccount(read, accountId),
  ])
  const payable = payment.map(({ currency }) => currency)
  const unpayable = invoices.filter(
    (row) => row.payment_url === null && !payable.includes(row.currency),
  )
  return {
    session,
    now,
    approval,
    invoices,
    history,
    sender: { name: account.name, replyTo: account.reply_to },
    unpayable: [...new Set(unpayable.map(({ currency }) => currency))],
    earlier: earlier.filter((row) => row.id !== id),
  }
}

async function decidedJson({ session, id }: SessionRequest, { database: { read } }: SettingsDeps) {
  const { id: accountId } = session.account
  const row = (await findMessage(read, accountId, id)) ?? notFound('message', id)
  return renderMessage(row, (await readCoveredInvoices(read, accountId, [id])).get(id) ?? [])
}

function represent({ message, invoices, expiresAt, seen }: Approval) {
  const ids = invoices.map(({ id }) => id)
  return { ...renderMessage(message, ids), body: message.body, expires_at: expiresAt, seen }
}
