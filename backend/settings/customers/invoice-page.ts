/** The page of an invoice: the amount due, the state of its reminders, and the available actions. */
import type { AuditRow, InvoiceRow, MessageRow, PaymentRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { isDisputed, isHeld, isOpen, isVoidable } from '../../invoices/acts.ts'
import { chasingUnder, holdOf } from '../../invoices/holds.ts'
import type { Session } from '../../sessions/sessions.ts'
import { auditWords, readActDetail } from '../audit/audit-words.ts'
import { renderMessageTable } from '../reminders/messages-page.ts'
import { type FailedAct, type PageAct, renderPlainAct, renderReasonedAct } from '../shell/acts.ts'
import { renderFaults, renderPage } from '../shell/layout.ts'
import {
  dateWords,
  invoiceChasing,
  renderInvoiceStatus,
  renderMoney,
  STAGE_WORDS,
} from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, timeAgo } from '../shell/words.ts'
import { renderPaymentTable } from './payments-page.ts'

export interface InvoiceView {
  readonly session: Session
  readonly now: Date
  /** The current date in the account's time zone. */
  readonly today: string
  readonly row: InvoiceRow
  readonly customer: string
  /** Why no reminder reaches the customer. */
  readonly block: string | undefined
  readonly payments: readonly PaymentRow[]
  readonly messages: readonly MessageRow[]
  /** What people and integrations did to it, the latest first. */
  readonly acts: readonly AuditRow[]
}

const VOID: PageAct = {
  name: 'void',
  title: 'Void',
  hint: 'As if it had never been sent: for a mistake on which nothing was paid. This cannot be undone.',
  isDangerous: true,
}
const WRITE_OFF: PageAct = {
  name: 'write-off',
  title: 'Write off',
  hint: 'Nobody expects the money any more. No reminder is sent; it can still be paid. This cannot be undone.',
  isDangerous: true,
}
const DISPUTE: PageAct = {
  name: 'dispute',
  title: 'Note a dispute',
  hint: 'The customer objects. No reminder is sent for this invoice until it is settled.',
}
const RESOLVE: PageAct = {
  name: 'resolve',
  title: 'Resolve the dispute',
  hint: 'What was agreed? Reminders continue from where they stopped.',
}

function resolveAct(row: InvoiceRow, { now, session }: InvoiceView): PageAct {
  const { chasing_status: status, ...next } = chasingUnder(holdOf(row), now)
  if (status === 'active') return RESOLVE
  const after = invoiceChasing(
    { ...row, ...next, chasing_status: status },
    session.account.timezone,
  )
  return {
    ...RESOLVE,
    hint: `What was agreed? The dispute has covered another block, which then applies again. ${after}.`,
  }
}

export function renderInvoicePage(frame: Frame, view: InvoiceView, failed?: FailedAct): Html {
  const { session, row, customer, today, payments, messages, acts, now } = view
  const { timezone } = session.account
  const times = { now, timezone }
  const isOfForm = failed?.problem.code === 'validation_failed'
  const main = html`<p class="back"><a href="/settings/customers/${row.debtor_id}" translate="no">${customer}</a></p>
<div class="heading"><h1>Invoice <span translate="no">${row.number}</span></h1><p class="total">${renderInvoiceStatus(row, today)}</p></div>
${!isOfForm && renderFaults(failed?.problem)}
<dl class="figures">
<div><dt>Amount</dt><dd>${renderMoney(row.amount, row.currency)}</dd></div>
<div><dt>Paid</dt><dd>${renderMoney(row.amount_paid, row.currency)}</dd></div>
${row.amount_credited > 0 && html`<div><dt>Credited</dt><dd>${renderMoney(row.amount_credited, row.currency)}</dd></div>`}
<div><dt>Due</dt><dd>${renderMoney(row.amount_due, row.currency)}</dd></div></dl>
<section class="card"><dl class="facts">
<div><dt>Issued on</dt><dd>${dateWords(row.issue_date)}</dd></div>
<div><dt>Due on</dt><dd>${dateWords(row.due_date)}</dd></div>
<div><dt>Last reminder</dt><dd>${row.chasing_stage === null ? 'None' : STAGE_WORDS[row.chasing_stage]}${
    row.chasing_last_message_at !== null && html`, ${timeAgo(row.chasing_last_message_at, times)}`
  }</dd></div>
<div><dt>Next reminder</dt><dd>${invoiceChasing(row, timezone, view.block)}</dd></div>
${stamp('Paid', row.paid_at, timezone)}${stamp('Voided', row.voided_at, timezone)}${stamp('Written off', row.written_off_at, timezone)}
${row.external_id !== null && html`<div><dt>Your own id</dt><dd translate="no">${row.external_id}</dd></div>`}
${row.po_number !== null && html`<div><dt>Purchase order</dt><dd translate="no">${row.po_number}</dd></div>`}
${row.notes !== null && html`<div class="whole"><dt>Notes</dt><dd>${row.notes}</dd></div>`}
</dl></section>
${session.user.role === 'admin' && renderActs(frame, view, isOfForm ? failed : undefined)}
${acts.length > 0 && renderHistory(acts, timezone)}
${payments.length > 0 && html`<section aria-labelledby="payments"><h2 id="payments">Payments</h2>${renderPaymentTable('Payments', payments)}</section>`}
<section aria-labelledby="messages"><h2 id="messages">Messages</h2>
${messages.length === 0 ? html`<p class="card hint">Nothing was sent about it.</p>` : renderMessageTable('Messages', messages, times)}</section>`
  return renderPage(frame, { title: `Invoice ${row.number}`, place: '/settings/customers', main })
}

/** Renders the acts on the invoice, such as each of its credits with amount and reason. */
function renderHistory(acts: readonly AuditRow[], timezone: string): Html {
  return html`<section aria-labelledby="history"><h2 id="history">History</h2>
<table class="keys ledger dense"><caption class="unseen">What was done to the invoice, the latest first</caption>
<thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Reason</th><th scope="col">Who</th><th scope="col" class="amount">Amount</th></tr></thead>
<tbody>${acts.map((act) => {
    const { reason, amount } = readActDetail(act)
    return html`<tr><td data-label="When"><time datetime="${act.created_at}">${exactTime(act.created_at, timezone)}</time></td>
<th scope="row" data-label="What">${auditWords(act)}</th>
<td data-label="Reason">${reason ?? '–'}</td>
<td data-label="Who" translate="no">${act.actor_label}</td>
<td data-label="Amount" class="amount">${amount ?? '–'}</td></tr>`
  })}</tbody></table></section>`
}

function stamp(name: string, at: string | null, timezone: string): Html | undefined {
  return at === null
    ? undefined
    : html`<div><dt>${name}</dt><dd>${exactTime(at, timezone)}</dd></div>`
}

function renderActs(
  frame: Frame,
  view: InvoiceView,
  failed: FailedAct | undefined,
): Html | undefined {
  const { row } = view
  const path = `/settings/invoices/${row.id}`
  const reasoned = [
    ...(isOpen(row) ? [isDisputed(row) ? resolveAct(row, view) : DISPUTE, WRITE_OFF] : []),
    ...(isVoidable(row) ? [VOID] : []),
  ]
  const isPayable = isOpen(row) || row.status === 'written_off'
  if (reasoned.length === 0 && !isPayable) return undefined
  return html`<div class="acts">
${isPayable && html`<a class="button primary" href="/settings/payments/new?invoice_id=${row.id}">Record a payment</a>`}
${isOpen(row) && html`<a class="button" href="${path}/credit">Credit</a>`}
${(isOpen(row) || row.status === 'draft') && html`<a class="button" href="${path}/edit">Change</a>`}
${row.status === 'draft' && html`<a class="button primary" href="${path}/finalise" data-dialog-page>Finalise…</a>`}
${isHeld(row) && renderPlainAct(frame, path, { name: 'resume', title: 'Chase again' })}
${reasoned.map((act) => renderReasonedAct(frame, path, act, failed))}</div>`
}
