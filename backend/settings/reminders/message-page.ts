import type { InvoiceRow, MessageRow, MessageTransitionRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { maskRecipient } from '../../messages/shown-text.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import {
  labelOf,
  MESSAGE_STATUS_WORDS,
  reasonWords,
  renderMessageStatus,
  renderMoney,
} from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, timeAgo } from '../shell/words.ts'
import { messageName } from './message-table.ts'

export interface MessageView {
  readonly session: Session
  readonly now: Date
  readonly row: MessageRow
  readonly customerName: string
  readonly invoices: readonly InvoiceRow[]
  readonly history: readonly MessageTransitionRow[]
  readonly hasHtml: boolean
}

export function renderMessagePage(frame: Frame, view: MessageView): Html {
  const { row, session, history, now } = view
  const { timezone } = session.account
  const main = html`<p class="back"><a href="/settings/messages">Log</a></p>
<div class="heading"><h1>${messageName(row)}</h1><p class="total">${renderMessageStatus(row)}</p></div>
${row.suppression_reason !== null && html`<p class="lead">Not sent: ${reasonWords(row.suppression_reason)}${row.suppression_detail !== null && html` (${row.suppression_detail})`}.</p>`}
${row.status === 'awaiting_approval' && html`<p><a class="button primary" href="/settings/approvals/${row.id}">Review</a></p>`}
${
  row.status === 'approved' &&
  session.user.role === 'admin' &&
  html`<form method="post" action="/settings/approvals/${row.id}/take-back" data-once>${renderCommonHiddenFields(frame)}
<p><button>Take the approval back</button></p></form>`
}
${renderMessageFacts(view)}
${renderMessageText(row, { hasHtml: view.hasHtml })}
<section aria-labelledby="history"><h2 id="history">History</h2>
${renderHistory(history, timezone)}
<p class="hint">Created ${timeAgo(row.created_at, { now, timezone })}.</p></section>`
  return renderPage(frame, { title: messageName(row), section: '/settings/reminders', main })
}

export function renderMessageFacts({
  row,
  session,
  customerName,
  invoices,
}: Pick<MessageView, 'row' | 'session' | 'customerName' | 'invoices'>): Html {
  const { timezone } = session.account
  const isAdmin = session.user.role === 'admin'
  const to = row.recipient === null ? '–' : isAdmin ? row.recipient : maskRecipient(row.recipient)
  return html`<section class="card"><dl class="facts">
<div><dt>Customer</dt><dd><a href="/settings/customers/${row.debtor_id}" translate="no">${customerName}</a></dd></div>
${row.direction === 'outbound' && html`<div><dt>To</dt><dd translate="no">${to}</dd></div>`}
${row.amount_due !== null && row.currency !== null && html`<div><dt>Amount stated in the text</dt><dd>${renderMoney(row.amount_due, row.currency)}</dd></div>`}
${row.sent_at === null ? row.scheduled_for !== null && html`<div><dt>Scheduled for</dt><dd>${exactTime(row.scheduled_for, timezone)}</dd></div>` : html`<div><dt>Sent</dt><dd>${exactTime(row.sent_at, timezone)}</dd></div>`}
${row.delivered_at !== null && html`<div><dt>Delivered</dt><dd>${exactTime(row.delivered_at, timezone)}</dd></div>`}
${row.bounce_type !== null && html`<div><dt>Bounced</dt><dd>${row.bounce_type === 'hard' ? 'permanently' : 'temporarily'} <span translate="no">${row.bounce_code}</span></dd></div>`}
${row.approval_decided_by !== null && row.approval_decided_at !== null && html`<div><dt>Decided</dt><dd>${renderDecision(row.approval_status)}, <span translate="no">${labelOf(row.approval_decided_by)}</span>, ${exactTime(row.approval_decided_at, timezone)}</dd></div>`}
${invoices.length > 0 && html`<div class="whole"><dt>About</dt><dd>${invoices.map(({ id, number }, index) => html`${index > 0 && ', '}<a href="/settings/invoices/${id}" translate="no">${number}</a>`)}</dd></div>`}
</dl></section>`
}

/**
 * A person has decided, so `lapsed` means: approved, and then cancelled, or suppressed because of a payment. The words
 * do not say "not sent": an earlier hand-over, whose outcome is unknown, may have sent the reminder.
 */
function renderDecision(status: MessageRow['approval_status']): string {
  return status === 'lapsed' ? 'approved, but no longer applies' : (status ?? '')
}

interface WidthRange {
  /** The CSS class of the SVG, which the stylesheet shows while the width of the frame is in this range. */
  readonly name: string
  /** The number of characters of the plain text that fit into a line. */
  readonly chars: number
  /** The height of one line of the plain text, including its share of the margins, in pixels. */
  readonly linePx: number
  /** The height of the logo and of the space around the mail, and a reserve for other fonts, in pixels. */
  readonly basePx: number
}

/** Fitted to the heights of reminders of every stage and language in Chromium, with DejaVu Sans and Liberation Sans. */
const WIDTH_RANGES: readonly WidthRange[] = [
  { name: 'wide', chars: 52, linePx: 23, basePx: 275 },
  { name: 'medium', chars: 36, linePx: 23, basePx: 325 },
  { name: 'small', chars: 28, linePx: 27, basePx: 190 },
  { name: 'tiny', chars: 16, linePx: 22, basePx: 143 },
]

/**
 * A page cannot measure a document in a sandbox, and inline styles are forbidden. The height is therefore estimated
 * for each range of widths, and becomes the height of an empty SVG. The stylesheet shows only the SVG of the current
 * range, and the iframe gets the height of this SVG.
 */
function renderMailFrame(src: string, body: string): Html {
  return html`<div class="mail-frame">${WIDTH_RANGES.map(
    (range) =>
      html`<svg class="${range.name}" width="1" height="${heightOf(body, range)}" aria-hidden="true"></svg>`,
  )}<iframe class="mail-html" sandbox="" src="${src}" title="The message as the customer sees it"></iframe></div>`
}

function heightOf(body: string, { chars, linePx, basePx }: WidthRange): number {
  const lines = body
    // The HTML shows only the label of a link, not its URL.
    .replaceAll(/https?:\S+/g, '')
    .split('\n')
    .reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / chars)), 0)
  return basePx + lines * linePx
}

/**
 * The HTML is a separate document in a sandboxed iframe, in which no script runs. The plain text below it is
 * collapsed, unless `opensPlainText` is set or the message has no HTML.
 */
export function renderMessageText(
  row: MessageRow,
  {
    hasHtml,
    opensPlainText = false,
  }: { readonly hasHtml: boolean; readonly opensPlainText?: boolean },
): Html | undefined {
  if (row.subject === null && row.body === null) return undefined
  return html`<section class="card mail" aria-labelledby="subject">
<h2 id="subject">${row.subject ?? 'No subject'}</h2>
${hasHtml && renderMailFrame(`/settings/messages/${row.id}/html`, row.body ?? '')}
${row.body !== null && html`<details${(!hasHtml || opensPlainText) && html` open`}><summary>As plain text</summary><pre class="mail-text">${row.body}</pre></details>`}
</section>`
}

export function renderHistory(history: readonly MessageTransitionRow[], timezone: string): Html {
  if (history.length === 0) return html`<p class="card hint">There are no entries.</p>`
  return html`<ol class="history">${history.map(
    ({ status, detail, created_at }) =>
      html`<li><time datetime="${created_at}">${exactTime(created_at, timezone)}</time>
<strong>${MESSAGE_STATUS_WORDS[status]}</strong>${detail !== null && html` <span class="detail">${detail}</span>`}</li>`,
  )}</ol>`
}
