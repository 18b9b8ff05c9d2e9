import type { InvoiceRow, MessageRow, MessageTransitionRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { Language } from '../../mail/wording/languages.ts'
import type { DecidedOrLapsedMessage } from '../../messages/approval-log.ts'
import type { PendingApproval } from '../../reminders/approvals.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import { renderFaultSummary, renderPage } from '../shell/layout.ts'
import { dayOf, labelOf, reasonWords, renderMoney, STAGE_WORDS } from '../shell/ledger-words.ts'
import { renderListSection, renderNext } from '../shell/list-query.ts'
import {
  type PageAction,
  type RejectedAction,
  rejectionShownInForm,
  renderActionWithReason,
} from '../shell/page-actions.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, plural, timeAgo } from '../shell/words.ts'
import { renderHistory, renderMessageFacts, renderMessageText } from './message-page.ts'
import { messageName, renderMessageTable } from './message-table.ts'
import { renderMissingPaymentDetails } from './payment-details-page.ts'
import { renderReminderTabs } from './reminder-tabs.ts'

const PATH = '/settings/approvals'

interface ApprovalsView {
  readonly session: Session
  readonly approvals: readonly PendingApproval[]
  /** The parameter `limit` of the URL. */
  readonly limit: string | undefined
  readonly next: string | null
  /** The number of all reminders that wait for approval. */
  readonly awaitingApproval: number
  /** Reminders that were recently approved or rejected, or have lapsed. */
  readonly decided: readonly DecidedOrLapsedMessage[]
  /** Customer names by id. */
  readonly customers: ReadonlyMap<string, string>
  readonly now: Date
}

export function renderApprovals(frame: Frame, view: ApprovalsView): Html {
  const { approvals, limit, next, awaitingApproval, decided } = view
  const main = html`<h1>Reminders</h1>
${renderReminderTabs(PATH, awaitingApproval)}
<p class="lead">Firm and Final reminders are sent only after an Admin, or the operator of this service, has read and approved
them. A reminder lapses if it is not decided within seven days, or if a payment or a change makes it obsolete.</p>
${
  approvals.length === 0
    ? html`<div class="card empty"><p><strong>No reminder waits for approval.</strong></p></div>`
    : html`<ul class="messages">${approvals.map((approval) => renderApprovalCard(approval, view))}</ul>`
}
${awaitingApproval > approvals.length && approvals.length > 0 && html`<p class="hint">${awaitingApproval} reminders wait for approval. The oldest are shown first.</p>`}
${next !== null && renderNext(PATH, { limit, cursor: next }, 'More')}
${decided.length > 0 && renderDecided(view)}`
  return renderPage(frame, { title: 'Approvals', section: '/settings/reminders', main })
}

function renderApprovalCard(
  { message, debtorName, expiresAt, invoices }: PendingApproval,
  view: ApprovalsView,
): Html {
  const { timezone } = view.session.account
  const { amount_due: amount, currency } = message
  return html`<li class="card"><div><span class="stage ${message.stage}">${message.stage !== null && STAGE_WORDS[message.stage]}</span>
<strong><a href="${PATH}/${message.id}" translate="no">${debtorName}</a></strong>
<span class="detail">${plural(invoices.length, 'invoice')}, ${plural(message.days_past_due ?? 0, 'day')} late. Lapses ${dayOf(expiresAt, timezone)}.</span></div>
<div class="figure">${amount !== null && currency !== null && renderMoney(amount, currency)}</div></li>`
}

function renderDecided({ decided, customers, session, now }: ApprovalsView): Html {
  const times = { now, timezone: session.account.timezone }
  return html`<section aria-labelledby="decided"><h2 id="decided">Recently decided or lapsed</h2>
<table class="records ledger"><caption class="unseen">Recently decided or lapsed</caption>
<thead><tr><th scope="col">Customer</th><th scope="col">Reminder</th><th scope="col">Outcome</th><th scope="col">When</th></tr></thead>
<tbody>${decided.map(
    (
      row,
    ) => html`<tr><th scope="row" data-label="Customer"><a href="/settings/messages/${row.id}" translate="no">${customers.get(row.debtor_id)}</a></th>
<td data-label="Reminder">${messageName(row)}</td>
<td data-label="Outcome">${outcomeOf(row)}</td>
<td data-label="When">${timeAgo(row.approval_decided_at ?? row.updated_at, times)}</td></tr>`,
  )}</tbody></table></section>`
}

function outcomeOf(row: DecidedOrLapsedMessage): Html {
  const by = row.approval_decided_by === null ? '' : ` by ${labelOf(row.approval_decided_by)}`
  const reason =
    row.suppression_detail ?? (row.suppression_reason && reasonWords(row.suppression_reason))
  switch (row.approval_status) {
    case 'approved':
      return html`<span class="badge active">Approved</span><span class="detail" translate="no">${by}${reason && `, then not sent: ${reason}`}</span>`
    case 'rejected':
      return html`<span class="badge late">Rejected</span><span class="detail">${by}: ${row.suppression_detail}</span>`
    case 'expired':
      return html`<span class="badge warning">Lapsed</span><span class="detail">not decided in time</span>`
    // The status is `lapsed`: the reminder was cancelled or suppressed, so a decision has no effect.
    default:
      return html`<span class="badge warning">Lapsed</span><span class="detail">${reason ?? row.lastTransitionDetail ?? 'a payment or a change made the reminder obsolete'}</span>`
  }
}

/** The largest number of other messages of the customer that the page of a reminder shows. */
export const OTHER_MESSAGES_MAX = 10
const OTHER_MESSAGES_TITLE = 'Other messages of this customer'

export interface ApprovalView {
  readonly session: Session
  readonly now: Date
  readonly approval: PendingApproval
  readonly invoices: readonly InvoiceRow[]
  readonly history: readonly MessageTransitionRow[]
  readonly sender: {
    readonly name: string
    readonly replyTo: string | null
    /** Where all replies arrive, whether or not `replyTo` is set. */
    readonly replyInbox: string
  }
  readonly language: Language
  /**
   * Currencies for which the account has no payment details, but needs them: an invoice of the reminder in this
   * currency has no payment link.
   */
  readonly currenciesWithoutPaymentDetails: readonly string[]
  /**
   * The newest other messages to and from the same customer. If there are more than `OTHER_MESSAGES_MAX`, this list
   * also has more, so that the page links to all of them.
   */
  readonly otherMessages: readonly MessageRow[]
}

/** Omits the recipient: the facts above show it, masked for Members. */
function renderEnvelope(
  { name, replyTo, replyInbox }: ApprovalView['sender'],
  { subject }: MessageRow,
): Html {
  return html`<section class="card" aria-label="Sender and subject"><dl class="facts">
<div><dt>From</dt><dd translate="no">${name}</dd></div>
<div><dt>Replies go to</dt><dd translate="no">${replyTo === null ? replyInbox : html`${replyTo} and ${replyInbox}`}</dd></div>
<div class="whole"><dt>Subject</dt><dd translate="no">${subject}</dd></div></dl></section>`
}

const REJECT: PageAction = {
  name: 'reject',
  title: 'Reject',
  hint: 'The reminder is not sent, and no reminders about its invoices are sent until someone resumes them.',
  isDangerous: true,
}

/** `rejectedAction` is a decision of an Admin that could not be recorded, e.g. because the reason is missing. */
export function renderApproval(
  frame: Frame,
  view: ApprovalView,
  rejectedAction?: RejectedAction,
): Html {
  const {
    session,
    approval,
    invoices,
    history,
    otherMessages,
    currenciesWithoutPaymentDetails,
    sender,
    now,
  } = view
  const { message, debtorName, expiresAt, contentDigest } = approval
  const { timezone } = session.account
  const path = `${PATH}/${message.id}`
  const inForm = rejectionShownInForm(rejectedAction, [REJECT])
  const seenField = html`<input type="hidden" name="seen" value="${contentDigest}">`
  const allMessages = {
    name: 'messages',
    path: `/settings/messages?debtor_id=${message.debtor_id}`,
    shownMax: OTHER_MESSAGES_MAX,
  }
  const main = html`<p class="back"><a href="${PATH}">Approvals</a></p>
<div class="heading"><h1>${messageName(message)} to <span translate="no">${debtorName}</span></h1>
<p class="total">Lapses ${exactTime(expiresAt, timezone)}</p></div>
${inForm === undefined && renderFaultSummary(rejectedAction?.problem)}
${renderMissingPaymentDetails(currenciesWithoutPaymentDetails, session.user.role === 'admin')}
${renderMessageFacts({ row: message, session, customerName: debtorName, invoices })}
${renderEnvelope(sender, message)}
${renderMessageText(message, { hasHtml: true, opensPlainText: true })}
${
  session.user.role === 'admin'
    ? html`<div class="actions"><a class="button primary" href="${path}/approve?seen=${encodeURIComponent(contentDigest)}" data-dialog-page>Approve and send…</a>
<a class="button" href="/settings/wording/${message.stage}-${view.language}">Change the wording</a>
${renderActionWithReason(frame, path, { ...REJECT, fields: () => seenField }, inForm)}</div>`
    : html`<p class="hint">Only an Admin can approve or reject this reminder.</p>`
}
<section aria-labelledby="history"><h2 id="history">History</h2>${renderHistory(history, timezone)}</section>
${renderListSection(OTHER_MESSAGES_TITLE, otherMessages, allMessages, (rows) => renderMessageTable(OTHER_MESSAGES_TITLE, rows, { now, timezone }))}`
  return renderPage(frame, {
    title: `Approve: ${debtorName}`,
    section: '/settings/reminders',
    main,
  })
}

export interface ApproveConfirmationView
  extends Pick<ApprovalView, 'approval' | 'session' | 'now'> {
  /** When the reminder is sent, in business hours; undefined if no time is known, because every day is a holiday. */
  readonly sendsAt: Date | undefined
  /** The digest of the content that the Admin has read. */
  readonly seenDigest: string
}

export function renderApproveConfirmation(frame: Frame, view: ApproveConfirmationView): Html {
  const { approval, session, now, sendsAt, seenDigest } = view
  const { message, debtorName } = approval
  const { amount_due: amount, currency, recipient } = message
  const path = `/settings/approvals/${message.id}`
  const isSentNow = sendsAt?.getTime() === now.getTime()
  const when =
    sendsAt === undefined
      ? 'on the next business day'
      : isSentNow
        ? 'now'
        : html`on ${exactTime(sendsAt.toISOString(), session.account.timezone)}, when the customer’s business hours begin`
  return renderConfirmPage(frame, {
    title: 'Approve and send?',
    section: '/settings/reminders',
    back: { path, name: `${messageName(message)} to ${debtorName}` },
    consequences: html`<p>The ${messageName(message)} is sent to <strong translate="no">${recipient}</strong> ${when}${
      amount !== null &&
      currency !== null &&
      html`. It demands <strong>${renderMoney(amount, currency)}</strong>`
    }.</p>
<p>${isSentNow ? 'This cannot be undone.' : 'Until then you can take the approval back.'}</p>`,
    action: `${path}/approve`,
    button: 'Approve and send',
    fields: html`<input type="hidden" name="seen" value="${seenDigest}">`,
  })
}
