import { hasActionsOn } from '../../accounts/audit.ts'
import { todayIn } from '../../calendar/calendar.ts'
import { REMINDER_STAGES } from '../../database/tables/messages.ts'
import type {
  DebtorRow,
  InvoiceRow,
  MessageRow,
  PaymentRow,
  Reader,
} from '../../database/tables.ts'
import { type Balance, readBalances } from '../../debtors/balances.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { addressOf } from '../../debtors/details.ts'
import { type Html, html } from '../../html/html.ts'
import { hasResumableInvoices } from '../../invoices/actions.ts'
import { listInvoices } from '../../invoices/invoice-list.ts'
import { listMessages } from '../../messages/messages.ts'
import { listPayments } from '../../payments/payment-list.ts'
import { type Ladder, readLadder } from '../../reminders/planning/ladder.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderAuditLink } from '../audit/audit-link.ts'
import { renderMessageTable } from '../reminders/message-table.ts'
import { notFound } from '../shell/faults.ts'
import { describedBy, renderFaultSummary, renderFieldFaults, renderPage } from '../shell/layout.ts'
import {
  blockReasonOf,
  CONTACT_WORDS,
  languageText,
  reasonWords,
  renderSums,
  renderUntil,
  STAGE_WORDS,
} from '../shell/ledger-words.ts'
import { type FullList, newestFirst, renderListSection } from '../shell/list-query.ts'
import {
  type RejectedAction,
  rejectionShownInForm,
  renderActionButton,
  renderActionWithReason,
} from '../shell/page-actions.ts'
import type { SessionRequest } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, plural, type TimeContext } from '../shell/words.ts'
import { renderInvoiceTable } from './invoice-table.ts'
import { renderPaymentTable } from './payment-table.ts'

/** The page shows at most this many rows of each list. `readCustomerView` reads one more, to detect a longer list. */
const SHOWN_MAX = 10

export interface CustomerView {
  readonly session: Session
  readonly now: Date
  readonly row: DebtorRow
  readonly balances: readonly Balance[]
  /** The open invoices with the earliest due dates, in this order. */
  readonly open: readonly InvoiceRow[]
  /** The newest invoices that are not open, newest first. */
  readonly others: readonly InvoiceRow[]
  /** Whether a person can resume reminders about at least one open invoice, which may be missing in `open`. */
  readonly hasResumable: boolean
  readonly payments: readonly PaymentRow[]
  readonly messages: readonly MessageRow[]
  readonly isInAuditLog: boolean
}

/** Throws `not_found`. */
export async function readCustomerView(
  reader: Reader,
  { session, id, now }: Pick<SessionRequest, 'session' | 'id' | 'now'>,
): Promise<CustomerView> {
  const { id: accountId, timezone } = session.account
  const row = (await findDebtor(reader, accountId, id)) ?? notFound('customer', id)
  const today = todayIn(timezone, now)
  const newest = newestFirst(SHOWN_MAX)
  const byDueDate = { ...newest, sort: 'due_date', direction: 'asc' } as const
  const ofDebtor = { debtor_id: id }
  const [balances, open, others, hasResumable, payments, messages, isInAuditLog] =
    await Promise.all([
      readBalances(reader, accountId, [id], today),
      listInvoices(
        reader,
        accountId,
        { ...ofDebtor, status: ['open', 'partially_paid'] },
        today,
        byDueDate,
      ),
      listInvoices(
        reader,
        accountId,
        { ...ofDebtor, status: ['draft', 'paid', 'void', 'written_off'] },
        today,
        newest,
      ),
      hasResumableInvoices(reader, accountId, id),
      listPayments(reader, accountId, ofDebtor, newest),
      listMessages(reader, accountId, ofDebtor, newest),
      hasActionsOn(reader, accountId, id),
    ])
  return {
    ...{ session, now, row, balances: balances.get(id) ?? [] },
    ...{ open, others, hasResumable, payments, messages, isInAuditLog },
  }
}

export function renderCustomer(
  frame: Frame,
  customer: CustomerView,
  rejected?: RejectedAction,
): Html {
  const { session, row, now, open, others, payments, messages } = customer
  const times: TimeContext = { now, timezone: session.account.timezone }
  const today = todayIn(session.account.timezone, now)
  const path = `/settings/customers/${row.id}`
  const blockReason = blockReasonOf(row)
  const blockReasons = new Map(blockReason === undefined ? [] : [[row.id, blockReason]])
  const canPause = canChange(customer) && row.status !== 'archived'
  const rejectedPause = rejectionShownInForm(rejected, canPause ? [{ name: 'pause' }] : [])
  const main = html`<p class="back"><a href="/settings/customers">Customers</a></p>
<div class="heading"><h1 translate="no">${row.name}</h1>
${
  canChange(customer) &&
  html`<p class="row"><a class="button primary" href="/settings/payments/new?debtor_id=${row.id}">Record a payment</a>
<a class="button" href="/settings/invoices/new?debtor_id=${row.id}">Enter an invoice</a>
<a class="button" href="${path}/edit">Change<span class="unseen"> customer</span></a></p>`
}</div>
${rejectedPause === undefined && renderFaultSummary(rejected?.problem)}
${renderBalances(customer)}
<div class="pair">
${renderContact(frame, customer, path)}
${renderChasing(frame, customer, path, rejectedPause)}
</div>
${renderListSection('Open invoices', open, fullList('open invoices', `invoices?view=unpaid&debtor_id=${row.id}`), (rows) => renderInvoiceTable('Open invoices', rows, { times, today, blockReasons }))}
${others.length > 0 && renderListSection('Other invoices', others, fullList('invoices', `invoices?debtor_id=${row.id}`), (rows) => renderInvoiceTable('Other invoices', rows, { times, today, blockReasons }))}
${renderListSection('Payments', payments, fullList('payments', `payments?debtor_id=${row.id}`), (rows) => renderPaymentTable('Payments', rows))}
${renderListSection('Messages', messages, fullList('messages', `messages?debtor_id=${row.id}`), (rows) => renderMessageTable('Messages', rows, times))}
${customer.isInAuditLog && renderAuditLink(session, row.id)}`
  return renderPage(frame, { title: row.name, section: '/settings/customers', main })
}

function fullList(name: string, path: string): FullList {
  return { name, path: `/settings/${path}`, shownMax: SHOWN_MAX }
}

function canChange({ session, row }: CustomerView): boolean {
  return session.user.role === 'admin' && row.erased_at === null
}

function renderBalances({ balances }: CustomerView): Html {
  return html`<dl class="figures">
<div><dt>Owes</dt><dd>${renderSums(balances, 'outstanding')}</dd></div>
<div><dt>Overdue</dt><dd>${renderSums(balances, 'overdue')}</dd></div>
<div><dt>On account</dt><dd>${renderSums(balances, 'unapplied')}</dd></div></dl>`
}

function renderContact(frame: Frame, { row, session }: CustomerView, path: string): Html {
  const { contactability_email: contact } = row
  const isAdmin = session.user.role === 'admin'
  const address = Object.values(addressOf(row)).filter((part) => part !== null)
  const fact = (name: string, value: string | null) =>
    value !== null && html`<div><dt>${name}</dt><dd translate="no">${value}</dd></div>`
  return html`<section class="card" aria-labelledby="contact"><h2 id="contact">Contact</h2>
<dl class="facts">
<div class="whole"><dt>E-mail</dt><dd><span translate="no">${row.email ?? '–'}</span>
<span class="badge${contact === 'ok' ? html` active` : html` late`}">${CONTACT_WORDS[contact]}</span></dd></div>
${fact('Telephone', row.phone)}${fact('Language', row.language && languageText(row.language))}${fact('Time zone', row.timezone)}
${address.length > 0 && html`<div class="whole"><dt>Address</dt><dd translate="no">${address.join(', ')}</dd></div>`}
${fact('External ID', row.external_id)}
<div><dt>Added</dt><dd>${exactTime(row.created_at, session.account.timezone)}</dd></div>
</dl>
${
  contact === 'bounced' &&
  html`<p class="hint">Mail to this customer bounced. Nothing is sent until an Admin confirms that the address works.</p>
${isAdmin && renderConfirmation(frame, path, 'The address works')}`
}
${contact === 'complained' && html`<p class="hint">The recipient reported our mail as unwanted. Contact the customer in another way, or enter another address.</p>`}
${contact === 'unsubscribed' && html`<p class="hint">The recipient unsubscribed from reminders. The customer still owes the money; contact them in another way.</p>`}
${
  (contact === 'complained' || contact === 'unsubscribed') &&
  isAdmin &&
  html`<p class="hint">After you have entered another address, confirm here that it works.</p>
${renderConfirmation(frame, path, 'The new address works')}`
}
</section>`
}

function renderConfirmation(frame: Frame, path: string, title: string): Html {
  return html`<p class="hint">A confirmation applies to all customers with the same address.</p>
${renderActionButton(frame, path, { name: 'clear-contact', title })}`
}

function renderChasing(
  frame: Frame,
  customer: CustomerView,
  path: string,
  rejectedPause: RejectedAction | undefined,
): Html {
  const { row, session } = customer
  const { timezone } = session.account
  const ladder = readLadder(row.ladder)
  // `chase-held` resumes reminders about single invoices. While the customer is paused or stopped, this would send
  // none.
  const hasInvoicesToResume = row.chasing_status === 'active' && customer.hasResumable
  return html`<section class="card" aria-labelledby="chasing"><h2 id="chasing">Reminders</h2>
${row.is_demo === 1 && html`<p class="hint">Sample data: no mail is sent to this customer. Messages shown as delivered are made up.</p>`}
<p>${renderChasingState(row, timezone)}</p>
<p class="hint">${ladder === undefined ? '' : describeLadder(ladder)}</p>
${hasInvoicesToResume && html`<p class="hint">No reminders are sent about some open invoices, because a payment came in, a reminder was rejected, or the invoice was past due when it was created.</p>`}
${canChange(customer) && html`<div class="actions">${hasInvoicesToResume && renderActionButton(frame, path, { name: 'chase-held', title: 'Resume these reminders' })}${renderActions(frame, row, path, rejectedPause)}</div>`}
</section>`
}

function describeLadder(ladder: Ladder): string {
  const { courtesy } = ladder
  return [
    ...(courtesy === null
      ? []
      : [`${STAGE_WORDS.courtesy} ${plural(-courtesy, 'day')} before the due date`]),
    ...REMINDER_STAGES.map(
      (stage) => `${STAGE_WORDS[stage]} after ${plural(ladder[stage], 'day')}`,
    ),
  ].join(', ')
}

function renderChasingState(row: DebtorRow, timezone: string): Html {
  if (row.status === 'archived') {
    return html`<strong>Archived.</strong> No reminder is sent. Invoices stay open and can be paid.`
  }
  if (row.chasing_status !== 'active') {
    const reason = row.chasing_reason === null ? '' : `: ${reasonWords(row.chasing_reason)}`
    return html`<strong>${row.chasing_status === 'paused' ? 'Paused' : 'Stopped'}</strong> ${row.chasing_status === 'paused' && renderUntil(row.chasing_until, timezone)}${reason}`
  }
  const blockReason = blockReasonOf(row)
  if (blockReason !== undefined) {
    return html`<strong>No reminder is sent:</strong> ${reasonWords(blockReason)}.`
  }
  return html`<strong>Active.</strong> Reminders follow ${readLadder(row.ladder) === undefined ? 'the account’s schedule' : 'the customer’s own schedule'}.`
}

function renderActions(
  frame: Frame,
  row: DebtorRow,
  path: string,
  rejectedPause: RejectedAction | undefined,
): Html {
  if (row.status === 'archived') {
    return renderActionButton(frame, path, { name: 'restore', title: 'Restore customer' })
  }
  const pause = {
    name: 'pause',
    title: row.chasing_status === 'paused' ? 'Change the pause' : 'Pause reminders',
    hint: 'No reminder is sent during the pause. Afterwards, reminders continue where they stopped.',
    fields: (rejection: RejectedAction | undefined) =>
      html`<p class="field"><label for="until">Until</label>
<input id="until" name="until" type="date" value="${rejection?.fields.text('until')}"${describedBy(rejection?.problem, 'until', 'until-hint')}></p>
<p class="hint" id="until-hint">Leave empty to pause until someone resumes reminders.</p>${renderFieldFaults(rejection?.problem, 'until')}`,
  }
  return html`${row.chasing_status !== 'active' && renderActionButton(frame, path, { name: 'resume', title: 'Resume reminders' })}
${renderActionWithReason(frame, path, pause, rejectedPause)}
<a class="button" href="${path}/schedule">Schedule<span class="unseen"> of this customer</span></a>
<a class="button danger" href="${path}/archive" data-dialog-page>Archive…</a>`
}
