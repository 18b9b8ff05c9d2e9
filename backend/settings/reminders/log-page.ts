import { REMINDER_STAGES } from '../../database/tables/messages.ts'
import type { InvoiceRow, MessageRow, MessageStatus, ReminderStage } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { fullStopAfter } from '../../validation/full-stop.ts'
import { renderOption, renderPage } from '../shell/layout.ts'
import { reasonWords, STAGE_WORDS } from '../shell/ledger-words.ts'
import { renderNext } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'
import type { TimeContext } from '../shell/words.ts'
import { renderMessageTable } from './message-table.ts'
import { renderReminderTabs } from './reminder-tabs.ts'

const PATH = '/settings/messages'

/** The groups of statuses by which the log can be filtered. */
export const LOG_VIEWS = ['sent', 'not_sent', 'waiting', 'failed', 'received'] as const
/** The log can be filtered by these reasons for not sending a message. */
export const LOG_REASONS = [
  ...['kill_switch', 'account_read_only', 'demo', 'debtor_paused', 'disputed', 'bounced'],
  ...['complained', 'unsubscribed', 'no_contact', 'invoice_paid', 'payment_received'],
  ...['credit_on_account', 'approval_rejected', 'approval_expired'],
] as const

type LogView = (typeof LOG_VIEWS)[number]

const VIEW_WORDS: Readonly<Record<LogView, string>> = {
  sent: 'Sent',
  not_sent: 'Not sent',
  waiting: 'Waiting',
  failed: 'Failed',
  received: 'Received',
}

export const STATUSES_OF_VIEW: Readonly<Record<LogView, readonly MessageStatus[]>> = {
  sent: ['sent', 'delivered'],
  not_sent: ['suppressed', 'cancelled'],
  waiting: ['scheduled', 'awaiting_approval', 'approved', 'queued', 'sending'],
  failed: ['bounced', 'failed'],
  received: ['received'],
}

export interface LogPage {
  readonly rows: readonly MessageRow[]
  /** The parameter `limit` of the URL. */
  readonly limit: string | undefined
  readonly next: string | null
  readonly filters: {
    readonly view: LogView | undefined
    readonly stage: ReminderStage | undefined
    readonly reason: string | undefined
    readonly debtor_id: string | undefined
    readonly invoice_id: string | undefined
  }
  /** Customer names by id. */
  readonly customers: ReadonlyMap<string, string>
  /** The invoice in the filter. */
  readonly invoice: InvoiceRow | undefined
  readonly awaitingApproval: number
  readonly times: TimeContext
}

export function renderLog(frame: Frame, page: LogPage): Html {
  const { rows, limit, next, filters, customers, invoice, awaitingApproval, times } = page
  const customerName = filters.debtor_id && customers.get(filters.debtor_id)
  const main = html`<h1>Reminders</h1>
${renderReminderTabs(PATH, awaitingApproval)}
${frame.session?.account.isDemo && html`<p class="lead">Sample messages: none of them was mailed.</p>`}
${customerName && html`<p class="lead">Only messages to and from <a href="/settings/customers/${filters.debtor_id}" translate="no">${customerName}</a>${fullStopAfter(customerName)} <a href="${PATH}">Show the messages of all customers</a></p>`}
${invoice && html`<p class="lead">Only messages about invoice <a href="/settings/invoices/${invoice.id}" translate="no">${invoice.number}</a>. <a href="${PATH}">Show the messages about all invoices</a></p>`}
${renderFilters(page)}
${rows.length === 0 ? renderEmpty(filters) : renderMessageTable('Messages, newest first', rows, times, customers)}
${next !== null && renderNext(PATH, { ...filters, limit, cursor: next }, 'Older')}`
  return renderPage(frame, { title: 'Message log', section: '/settings/reminders', main })
}

function renderEmpty(filters: LogPage['filters']): Html {
  if (Object.values(filters).some((value) => value !== undefined)) {
    return html`<div class="card empty"><p><strong>No message matches the filters.</strong></p></div>`
  }
  return html`<div class="card empty"><p><strong>There is no message yet.</strong></p>
<p class="hint">The log lists reminders, and the replies of customers. <a href="/settings/reminders">Reminders of the next 14 days</a></p></div>`
}

function renderFilters({ filters }: LogPage): Html {
  const select = (
    name: 'view' | 'stage' | 'reason',
    label: string,
    options: readonly (readonly [value: string, text: string])[],
  ) =>
    html`<span class="row"><label for="${name}">${label}</label> <select id="${name}" name="${name}">${[
      ['', 'All'] as const,
      ...options,
    ].map(([value, text]) => renderOption(value, text, filters[name]))}</select></span>`
  return html`<form method="get" action="${PATH}" class="filter-form">
${filters.debtor_id && html`<input type="hidden" name="debtor_id" value="${filters.debtor_id}">`}
${filters.invoice_id && html`<input type="hidden" name="invoice_id" value="${filters.invoice_id}">`}
${select(
  'view',
  'Status',
  LOG_VIEWS.map((view) => [view, VIEW_WORDS[view]] as const),
)}
${select(
  'stage',
  'Stage',
  REMINDER_STAGES.map((stage) => [stage, STAGE_WORDS[stage]] as const),
)}
${select(
  'reason',
  'Not sent because',
  LOG_REASONS.map((reason) => [reason, reasonWords(reason)] as const),
)}
<button class="small">Filter</button> <a class="button small" href="${PATH}">Clear</a></form>`
}
