import type { AuditRow, InvoiceRow, MessageRow, PaymentRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { canResumeChasing, isDisputed, isOpen, isVoidable } from '../../invoices/actions.ts'
import { chasingFieldsFor, holdOf } from '../../invoices/holds.ts'
import type { LadderStage } from '../../reminders/planning/ladder.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderAuditLink } from '../audit/audit-link.ts'
import { auditWords, readReasonAndAmount } from '../audit/audit-words.ts'
import { renderMessageTable } from '../reminders/message-table.ts'
import { renderFaultSummary, renderPage } from '../shell/layout.ts'
import {
  dateWords,
  nextReminderText,
  renderInvoiceStatus,
  renderMoney,
  STAGE_WORDS,
} from '../shell/ledger-words.ts'
import { type FullList, renderListSection } from '../shell/list-query.ts'
import {
  type PageAction,
  type RejectedAction,
  rejectionShownInForm,
  renderActionButton,
  renderActionWithReason,
} from '../shell/page-actions.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, type TimeContext, timeAgo } from '../shell/words.ts'
import { renderPaymentTable } from './payment-table.ts'

/** The largest number of payments and of messages that the page shows. */
export const SHOWN_MAX = 50
/** The largest number of audit entries that the page shows. */
export const HISTORY_MAX = 100

/** Each list contains at most one row more than the page shows. This row tells the page that the list is longer. */
export interface InvoicePageView {
  readonly session: Session
  readonly now: Date
  /** The current date in the account's time zone. */
  readonly today: string
  readonly row: InvoiceRow
  readonly customerName: string
  /**
   * Why no reminder reaches the customer: the customer is archived, paused, or not reachable by mail. Otherwise
   * undefined.
   */
  readonly blockReason: string | undefined
  /** The stage of the last reminder if it is unknown whether the mail server accepted it, otherwise undefined. */
  readonly stageOfUnconfirmedReminder: LadderStage | undefined
  readonly payments: readonly PaymentRow[]
  readonly messages: readonly MessageRow[]
  /** The newest audit entries about the invoice. */
  readonly history: readonly AuditRow[]
}

const VOID: PageAction = {
  name: 'void',
  title: 'Void',
  hint: 'For an invoice that was created by mistake and on which nothing was paid or credited. This cannot be undone.',
  isDangerous: true,
}
const WRITE_OFF: PageAction = {
  name: 'write-off',
  title: 'Write off',
  hint: 'You no longer expect this invoice to be paid. No more reminders are sent; a payment can still be recorded. This cannot be undone.',
  isDangerous: true,
}
const DISPUTE: PageAction = {
  name: 'dispute',
  title: 'Record a dispute',
  hint: 'The customer objects to this invoice. No reminder is sent about it until the dispute is resolved.',
}
const RESOLVE: PageAction = {
  name: 'resolve',
  title: 'Resolve the dispute',
  hint: 'As the reason, enter what was agreed. Reminders continue where they stopped.',
}

/**
 * When the dispute is resolved, reminders may still be blocked: for a week after a partial payment, or by an earlier
 * decision of a person.
 */
function resolveAction(row: InvoiceRow, { now, session }: InvoicePageView): PageAction {
  const storedHold = holdOf(row)
  const { chasing_status: status, ...otherFields } = chasingFieldsFor(storedHold, now)
  if (status === 'active') return RESOLVE
  const textAfterwards = nextReminderText(
    { ...row, ...otherFields, chasing_status: status },
    session.account.timezone,
  )
  return {
    ...RESOLVE,
    hint: `As the reason, enter what was agreed. Reminders do not continue immediately, because something else blocks them, too. ${textAfterwards}.`,
  }
}

export function renderInvoicePage(
  frame: Frame,
  view: InvoicePageView,
  rejected?: RejectedAction,
): Html {
  const { session, row, customerName, today, payments, messages, history, now } = view
  const { timezone } = session.account
  const times = { now, timezone }
  const inForm = rejectionShownInForm(rejected, actionsWithReason(view))
  const main = html`<p class="back"><a href="/settings/customers/${row.debtor_id}" translate="no">${customerName}</a></p>
<div class="heading"><h1>Invoice <span translate="no">${row.number}</span></h1><p class="total">${renderInvoiceStatus(row, today)}</p></div>
${inForm === undefined && renderFaultSummary(rejected?.problem)}
<dl class="figures">
<div><dt>Amount</dt><dd>${renderMoney(row.amount, row.currency)}</dd></div>
<div><dt>Paid</dt><dd>${renderMoney(row.amount_paid, row.currency)}</dd></div>
${row.amount_credited > 0 && html`<div><dt>Credited</dt><dd>${renderMoney(row.amount_credited, row.currency)}</dd></div>`}
<div><dt>Amount due</dt><dd>${renderMoney(row.amount_due, row.currency)}</dd></div></dl>
<section class="card"><dl class="facts">
<div><dt>Issued on</dt><dd>${dateWords(row.issue_date)}</dd></div>
<div><dt>Due on</dt><dd>${dateWords(row.due_date)}</dd></div>
<div><dt>Last reminder</dt><dd>${renderLastReminder(view, times)}</dd></div>
<div><dt>Next reminder</dt><dd>${nextReminderText(row, timezone, view.blockReason)}</dd></div>
${renderTimeFact('Paid', row.paid_at, timezone)}${renderTimeFact('Voided', row.voided_at, timezone)}${renderTimeFact('Written off', row.written_off_at, timezone)}
${row.external_id !== null && html`<div><dt>External ID</dt><dd translate="no">${row.external_id}</dd></div>`}
${row.po_number !== null && html`<div><dt>Purchase order</dt><dd translate="no">${row.po_number}</dd></div>`}
${row.notes !== null && html`<div class="whole"><dt>Notes</dt><dd>${row.notes}</dd></div>`}
</dl></section>
${session.user.role === 'admin' && renderActions(frame, view, inForm)}
${history.length > 0 && renderHistory(view)}
${payments.length > 0 && renderListSection('Payments', payments, fullList('payments', row), (rows) => renderPaymentTable('Payments', rows))}
${renderListSection('Messages', messages, fullList('messages', row), (rows) => renderMessageTable('Messages', rows, times))}`
  return renderPage(frame, { title: `Invoice ${row.number}`, section: '/settings/customers', main })
}

/** After a courtesy reminder, the stage is null, so only the time is shown. */
function renderLastReminder(
  { row, stageOfUnconfirmedReminder }: InvoicePageView,
  times: TimeContext,
): Html {
  const { chasing_stage: stage, chasing_last_message_at: at } = row
  if (stageOfUnconfirmedReminder !== undefined && at !== null) {
    return html`${STAGE_WORDS[stageOfUnconfirmedReminder]}, ${timeAgo(at, times)} (may not have arrived)`
  }
  if (at === null) return html`${stage === null ? 'None' : STAGE_WORDS[stage]}`
  return html`${stage !== null && `${STAGE_WORDS[stage]}, `}${timeAgo(at, times)}`
}

function fullList(name: 'payments' | 'messages', { id }: InvoiceRow): FullList {
  return { name, path: `/settings/${name}?invoice_id=${id}`, shownMax: SHOWN_MAX }
}

function renderHistory({ session, row, history }: InvoicePageView): Html {
  const { timezone } = session.account
  return html`<section aria-labelledby="history"><h2 id="history">History</h2>
<table class="records ledger dense"><caption class="unseen">Actions on the invoice, newest first</caption>
<thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Reason</th><th scope="col">Who</th><th scope="col" class="amount">Amount</th></tr></thead>
<tbody>${history.slice(0, HISTORY_MAX).map((entry) => {
    const { reason, amount } = readReasonAndAmount(entry)
    return html`<tr><td data-label="When"><time datetime="${entry.created_at}">${exactTime(entry.created_at, timezone)}</time></td>
<th scope="row" data-label="What">${auditWords(entry)}</th>
<td data-label="Reason">${reason ?? '–'}</td>
<td data-label="Who" translate="no">${entry.actor_label}</td>
<td data-label="Amount" class="amount">${amount ?? '–'}</td></tr>`
  })}</tbody></table>
${history.length > HISTORY_MAX && html`<p class="hint">Only the newest ${HISTORY_MAX} actions are shown.</p>${renderAuditLink(session, row.id)}`}</section>`
}

function renderTimeFact(name: string, at: string | null, timezone: string): Html | undefined {
  return at === null
    ? undefined
    : html`<div><dt>${name}</dt><dd>${exactTime(at, timezone)}</dd></div>`
}

function actionsWithReason(view: InvoicePageView): readonly PageAction[] {
  const { row } = view
  return [
    ...(isOpen(row) ? [isDisputed(row) ? resolveAction(row, view) : DISPUTE, WRITE_OFF] : []),
    ...(isVoidable(row) ? [VOID] : []),
  ]
}

function renderActions(
  frame: Frame,
  view: InvoicePageView,
  rejected: RejectedAction | undefined,
): Html | undefined {
  const { row } = view
  const path = `/settings/invoices/${row.id}`
  const withReason = actionsWithReason(view)
  const isPayable = isOpen(row) || row.status === 'written_off'
  if (withReason.length === 0 && !isPayable) return undefined
  return html`<div class="actions">
${isPayable && html`<a class="button primary" href="/settings/payments/new?invoice_id=${row.id}">Record a payment</a>`}
${isOpen(row) && html`<a class="button" href="${path}/credit">Credit</a>`}
${(isOpen(row) || row.status === 'draft') && html`<a class="button" href="${path}/edit">Change</a>`}
${row.status === 'draft' && html`<a class="button primary" href="${path}/finalise" data-dialog-page>Finalize…</a>`}
${canResumeChasing(row) && renderActionButton(frame, path, { name: 'resume', title: 'Resume reminders' })}
${withReason.map((action) => renderActionWithReason(frame, path, action, rejected))}</div>`
}
