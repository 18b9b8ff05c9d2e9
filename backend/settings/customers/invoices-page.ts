/** Invoices, as a list and as a table in other pages. */
import type { InvoiceRow, InvoiceStatus } from '../../database/tables.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import { renderPage, renderTabs } from '../shell/layout.ts'
import {
  dateWords,
  INVOICE_STATUS_WORDS,
  invoiceChasing,
  renderInvoiceStatus,
  renderMoney,
} from '../shell/ledger-words.ts'
import { renderNext } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'
import type { TimeContext } from '../shell/words.ts'
import { CUSTOMER_TABS } from './customers-page.ts'

const PATH = '/settings/invoices'

export const INVOICE_STATUSES: readonly InvoiceStatus[] = [
  'draft',
  'open',
  'partially_paid',
  'paid',
  'void',
  'written_off',
]

interface TableContext {
  readonly times: TimeContext
  readonly today: string
  /** By id, where they are of several customers. */
  readonly customers?: ReadonlyMap<string, string>
}

export interface InvoicesView extends TableContext {
  readonly rows: readonly InvoiceRow[]
  readonly next: string | null
  readonly filters: {
    readonly debtor_id: string | undefined
    readonly status: InvoiceStatus | undefined
    readonly number: string | undefined
  }
}

export function renderInvoices(frame: Frame, view: InvoicesView): Html {
  const { rows, next, filters } = view
  const whose = filters.debtor_id && view.customers?.get(filters.debtor_id)
  const option = (value: InvoiceStatus | '', text: string) =>
    html`<option value="${value}"${attribute('selected', value === (filters.status ?? ''))}>${text}</option>`
  const main = html`<h1>Invoices</h1>
${renderTabs('Customers', CUSTOMER_TABS, PATH)}
${whose && html`<p class="lead">Of <a href="/settings/customers/${filters.debtor_id}" translate="no">${whose}</a>. <a href="${PATH}">Of every customer</a></p>`}
<form method="get" action="${PATH}" class="search">
${filters.debtor_id && html`<input type="hidden" name="debtor_id" value="${filters.debtor_id}">`}
<span class="row"><label for="number">Number</label> <input id="number" name="number" value="${filters.number}" maxlength="64"></span>
<span class="row"><label for="status">Status</label> <select id="status" name="status">${option('', 'All')}${INVOICE_STATUSES.map((status) => option(status, INVOICE_STATUS_WORDS[status]))}</select></span>
<button>Show</button></form>
${rows.length === 0 ? html`<div class="card empty"><p>There is no such invoice.</p></div>` : renderInvoiceTable('Invoices, the newest first', rows, view)}
${renderNext(PATH, filters, next, 'Older')}`
  return renderPage(frame, { title: 'Invoices', place: '/settings/customers', main })
}

export function renderInvoiceTable(
  caption: string,
  rows: readonly InvoiceRow[],
  { times, today, customers }: TableContext,
): Html {
  return html`<table class="keys ledger"><caption class="unseen">${caption}</caption>
<thead><tr><th scope="col">Invoice</th>${customers && html`<th scope="col">Customer</th>`}<th scope="col">Status</th><th scope="col">Due on</th>
<th scope="col">Next reminder</th><th scope="col" class="amount">Due</th></tr></thead>
<tbody>${rows.map(
    (
      row,
    ) => html`<tr><th scope="row" data-label="Invoice"><a href="${PATH}/${row.id}" translate="no">${row.number}</a></th>
${customers && html`<td data-label="Customer"><a href="/settings/customers/${row.debtor_id}" translate="no">${customers.get(row.debtor_id)}</a></td>`}
<td data-label="Status">${renderInvoiceStatus(row, today)}</td>
<td data-label="Due on"><time datetime="${row.due_date}">${dateWords(row.due_date)}</time></td>
<td data-label="Next">${invoiceChasing(row, times.timezone)}</td>
<td data-label="Due" class="amount">${renderMoney(row.amount_due, row.currency)}</td></tr>`,
  )}</tbody></table>`
}
