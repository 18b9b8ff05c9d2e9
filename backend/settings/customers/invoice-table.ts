import type { InvoiceRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import {
  dateWords,
  nextReminderText,
  renderInvoiceStatus,
  renderMoney,
} from '../shell/ledger-words.ts'
import type { TimeContext } from '../shell/words.ts'

const PATH = '/settings/invoices'

interface TableContext {
  readonly times: TimeContext
  readonly today: string
  /** Customer names by id, if the invoices belong to several customers. */
  readonly customerNames?: ReadonlyMap<string, string>
  /** The reasons why no reminder reaches a customer, by customer id. */
  readonly blockReasons: ReadonlyMap<string, string>
  /** The header of the column “Due on” with a link that sorts the list. */
  readonly dueHeader?: Html
}

export function renderInvoiceTable(
  caption: string,
  rows: readonly InvoiceRow[],
  { times, today, customerNames, blockReasons, dueHeader }: TableContext,
): Html {
  return html`<table class="records ledger dense"><caption class="unseen">${caption}</caption>
<thead><tr><th scope="col">Invoice</th>${customerNames && html`<th scope="col">Customer</th>`}<th scope="col">Status</th>${dueHeader ?? html`<th scope="col">Due on</th>`}
<th scope="col">Next reminder</th><th scope="col" class="amount">Amount</th><th scope="col" class="amount">Amount due</th></tr></thead>
<tbody>${rows.map(
    (
      row,
    ) => html`<tr><th scope="row" data-label="Invoice"><a href="${PATH}/${row.id}" translate="no">${row.number}</a></th>
${customerNames && html`<td data-label="Customer"><a href="/settings/customers/${row.debtor_id}" translate="no">${customerNames.get(row.debtor_id)}</a></td>`}
<td data-label="Status">${renderInvoiceStatus(row, today)}</td>
<td data-label="Due on"><time datetime="${row.due_date}">${dateWords(row.due_date)}</time></td>
<td data-label="Next">${nextReminderText(row, times.timezone, blockReasons.get(row.debtor_id))}</td>
<td data-label="Amount" class="amount">${renderMoney(row.amount, row.currency)}</td>
<td data-label="Amount due" class="amount">${renderMoney(row.amount_due, row.currency)}</td></tr>`,
  )}</tbody></table>`
}
