import { type ActionContext, listActionsOn } from '../../accounts/audit.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { InvoiceRow, Reader, Transaction } from '../../database/tables.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import {
  disputeInvoice,
  finalizeInvoice,
  resolveDispute,
  resumeInvoice,
  voidInvoice,
  writeOffInvoice,
} from '../../invoices/actions.ts'
import { findInvoice } from '../../invoices/invoices.ts'
import { representInvoice } from '../../invoices/representation.ts'
import { listMessages } from '../../messages/messages.ts'
import { listPayments } from '../../payments/payment-list.ts'
import { findStageWithUnknownOutcome } from '../../reminders/unknown-outcome.ts'
import { notFound, rejectIfReadOnly } from '../shell/faults.ts'
import type { FlashName } from '../shell/flash-words.ts'
import { blockReasonOf } from '../shell/ledger-words.ts'
import { newestFirst } from '../shell/list-query.ts'
import type { RejectedAction } from '../shell/page-actions.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import type { RenderPage } from '../shell/response.ts'
import { renderFinalise } from './finalise-page.ts'
import { HISTORY_MAX, type InvoicePageView, renderInvoicePage, SHOWN_MAX } from './invoice-page.ts'

const PATH = '/settings/invoices'
const ADMINS_ONLY = 'Only an Admin can change invoices.'
/**
 * `dispute`, `resolve` and `resume` remain allowed, because they only decide about which invoices reminders are sent.
 * People must be able to decide this in advance: as soon as the account is no longer read-only, due reminders are sent.
 */
const REJECTED_IF_READ_ONLY: readonly string[] = ['finalise', 'void', 'write-off']

export const invoicePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    handle: async (request, { database }) => responseOf(await readInvoice(database.read, request)),
  },
  {
    method: 'GET',
    path: `${PATH}/{id}/finalise`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle(request, { database }) {
      rejectIfReadOnly(request.session)
      const { row, customerName, today } = await readInvoice(database.read, request)
      // If the invoice was finalized or voided in the meantime, there is nothing to confirm.
      if (row.status !== 'draft') return { location: `${PATH}/${row.id}` }
      return { page: (frame) => renderFinalise(frame, row, customerName, today) }
    },
  },
  actionPage('finalise', () => 'invoice_finalised', finalizeInvoice),
  actionPage('resume', () => 'invoice_resumed', resumeInvoice),
  actionWithReasonPage('void', () => 'invoice_voided', voidInvoice),
  actionWithReasonPage('write-off', () => 'invoice_written_off', writeOffInvoice),
  actionWithReasonPage('dispute', () => 'invoice_disputed', disputeInvoice, 'resolve'),
  actionWithReasonPage('resolve', resolvedFlash, resolveDispute, 'dispute'),
]

type FlashOf = (changed: InvoiceRow) => FlashName

function resolvedFlash({ chasing_status }: InvoiceRow): FlashName {
  return chasing_status === 'active' ? 'invoice_resolved' : 'invoice_resolved_blocked'
}

function actionWithReasonPage(
  name: string,
  flashOf: FlashOf,
  perform: typeof voidInvoice,
  undoneBy?: ActionOptions['undoneBy'],
): SessionPage {
  return actionPage(
    name,
    flashOf,
    (tx, accountId, id, actionContext, reason) => perform(tx, accountId, id, reason, actionContext),
    { texts: ['reason'], undoneBy },
  )
}

interface ActionOptions {
  readonly texts?: readonly string[]
  /** The action that undoes this action. Both require a reason. */
  readonly undoneBy?: 'dispute' | 'resolve' | undefined
}

function actionPage(
  name: string,
  flashOf: FlashOf,
  perform: (
    tx: Transaction,
    accountId: string,
    id: string,
    actionContext: ActionContext,
    reason: string,
  ) => Promise<InvoiceRow>,
  { texts = [], undoneBy }: ActionOptions = {},
): SessionPage {
  return {
    method: 'POST',
    path: `${PATH}/{id}/${name}`,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: { texts },
    async handle({ session, id, actionContext, fields, now, performAction }) {
      if (REJECTED_IF_READ_ONLY.includes(name)) rejectIfReadOnly(session)
      const { id: accountId, timezone } = session.account
      const undo = undoneBy && {
        path: `${PATH}/${id}/${undoneBy}`,
        fields: [['reason', 'Undone']] as const,
      }
      const row = await performAction(
        (changed: InvoiceRow) => ({ name: flashOf(changed), undo }),
        (tx) => perform(tx, accountId, id, actionContext, fields.text('reason')),
      )
      return { json: representInvoice(row, todayIn(timezone, now)), location: `${PATH}/${id}` }
    },
    async rerender(request, problem, { database }) {
      if (problem.code === 'not_found') return undefined
      const rejected = { name, fields: request.fields, problem }
      return responseOf(await readInvoice(database.read, request), rejected).page
    },
  }
}

function responseOf(view: InvoicePageView, rejected?: RejectedAction) {
  const page: RenderPage = (frame) => renderInvoicePage(frame, view, rejected)
  return { json: representInvoice(view.row, view.today), page }
}

async function readInvoice(
  reader: Reader,
  { session, id, now }: Pick<SessionRequest, 'session' | 'id' | 'now'>,
): Promise<InvoicePageView> {
  const { id: accountId, timezone } = session.account
  const row = (await findInvoice(reader, accountId, id)) ?? notFound('invoice', id)
  const newest = newestFirst(SHOWN_MAX)
  const ofInvoice = { invoice_id: id }
  const [debtor, stageOfUnconfirmedReminder, payments, messages, history] = await Promise.all([
    findDebtor(reader, accountId, row.debtor_id),
    findStageWithUnknownOutcome(reader, accountId, id),
    listPayments(reader, accountId, ofInvoice, newest),
    listMessages(reader, accountId, ofInvoice, newest),
    // One more than the page shows, so that the page can say that there are more.
    listActionsOn(reader, accountId, id, { limit: HISTORY_MAX + 1 }),
  ])
  const today = todayIn(timezone, now)
  const blockReason = debtor && blockReasonOf(debtor)
  const customerName = debtor?.name ?? ''
  return {
    ...{ session, now, today, row, customerName, blockReason, stageOfUnconfirmedReminder },
    ...{ payments, messages, history },
  }
}
