/**
 * The list of payments. The payment that was recorded last comes first; with a filter by reference, the list is sorted
 * by reference instead.
 */
import { todayIn } from '../../calendar/calendar.ts'
import type { InvoiceRow, PaymentRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { findInvoice } from '../../invoices/invoices.ts'
import { moneyDecimal } from '../../money/money-text.ts'
import { readAllocations } from '../../payments/payment-list.ts'
import { representPayment } from '../../payments/representation.ts'
import {
  COUNTED_MAX,
  countPayments,
  type PaymentCounts,
  type PaymentSearch,
  searchPayments,
} from '../../payments/search-payments.ts'
import { fullStopAfter } from '../../validation/full-stop.ts'
import { CUSTOMER_TABS } from '../customers/customer-parts.ts'
import { renderPaymentTable } from '../customers/payment-table.ts'
import { renderOption, renderPage, renderTabs } from '../shell/layout.ts'
import { METHOD_WORDS } from '../shell/ledger-words.ts'
import {
  amountRangeOf,
  choiceOf,
  dateOf,
  type Filters,
  type ListQuery,
  listOf,
  listPath,
  parseListQuery,
  renderPager,
} from '../shell/list-query.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { readCustomerNames } from '../shell/row-customers.ts'
import { type Cell, CSV_ROWS_PER_QUERY, respondWithCsv } from './csv.ts'
import { renderAmountFields, renderPartialHint, renderSummary } from './list-parts.ts'

const PATH = '/settings/payments'
const FILTERS = [
  ...['debtor_id', 'invoice_id', 'status', 'reference', 'received_since', 'received_until'],
  ...['amount_min', 'amount_max'],
]
const STATUSES = ['recorded', 'reversed'] as const

export const paymentListPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle(request, { database: { read } }) {
      const { id: accountId } = request.session.account
      const { list, search, filters } = parse(request)
      const paging = { after: list.cursor, limit: list.limit }
      const found = await searchPayments(read, accountId, search, paging)
      const { debtorId, invoiceId } = search
      // The page shows the name of the customer in the filter even if it lists no payment of this customer.
      const rowsWithDebtor =
        debtorId === undefined ? found.rows : [...found.rows, { debtor_id: debtorId }]
      const [counted, customers, invoice, allocations] = await Promise.all([
        countPayments(read, accountId, search),
        readCustomerNames(read, accountId, rowsWithDebtor),
        invoiceId === undefined ? undefined : findInvoice(read, accountId, invoiceId),
        readAllocations(
          read,
          accountId,
          found.rows.map(({ id }) => id),
        ),
      ])
      return {
        json: listOf(
          found.rows.map((row) => representPayment(row, allocations.get(row.id) ?? [])),
          found.next,
        ),
        page: (frame) =>
          renderList(frame, { ...found, counted, list, search, filters, customers, invoice }),
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}.csv`,
    async handle(request, deps) {
      const { read } = deps.database
      const { account } = request.session
      const { search } = parse(request)
      const today = todayIn(account.timezone, request.now)
      const csv = { name: 'payments', today, head: CSV_HEAD } as const
      return respondWithCsv(request, deps, csv, async (after) => {
        const found = await searchPayments(read, account.id, search, {
          after,
          limit: CSV_ROWS_PER_QUERY,
        })
        const names = await readCustomerNames(read, account.id, found.rows)
        return { rows: found.rows.map((row) => cellsOf(row, names)), next: found.next }
      })
    },
  },
]

const CSV_HEAD = [
  ...['Received on', 'Customer', 'Method', 'Reference', 'Status', 'Currency', 'Amount'],
  ...['On account', 'External ID', 'ID'],
]

function cellsOf(row: PaymentRow, names: ReadonlyMap<string, string>): Cell[] {
  return [
    ...[row.received_on, names.get(row.debtor_id) ?? '', METHOD_WORDS[row.method], row.reference],
    ...[row.status === 'recorded' ? 'Recorded' : 'Reversed', row.currency],
    ...[moneyDecimal(Number(row.amount), row.currency)],
    ...[moneyDecimal(Number(row.unapplied_amount), row.currency), row.external_id, row.id],
  ]
}

interface ParsedQuery {
  readonly list: ListQuery
  readonly search: PaymentSearch
  readonly filters: Filters
}

/** Throws `Problem` 400. */
function parse({ query }: SessionRequest): ParsedQuery {
  const list = parseListQuery(query, FILTERS)
  const search = {
    debtorId: list.value('debtor_id'),
    invoiceId: list.value('invoice_id'),
    status: choiceOf(list, 'status', STATUSES),
    reference: list.value('reference'),
    receivedSince: dateOf(list, 'received_since'),
    receivedUntil: dateOf(list, 'received_until'),
    amount: amountRangeOf(list),
  }
  const filters = Object.fromEntries(FILTERS.map((name) => [name, list.value(name)]))
  return { list, search, filters }
}

interface ListView extends ParsedQuery {
  readonly rows: readonly PaymentRow[]
  readonly next: string | null
  /** Whether the search stopped early, to limit how long it takes. The page may then be incomplete, or empty. */
  readonly isPartial: boolean
  readonly counted: PaymentCounts
  /** Customer names by id. */
  readonly customers: ReadonlyMap<string, string>
  /** The invoice in the filter. */
  readonly invoice: InvoiceRow | undefined
}

function renderList(frame: Frame, view: ListView): Html {
  const { rows, filters, search, customers, invoice } = view
  const customerName = search.debtorId && customers.get(search.debtorId)
  const isFiltered = Object.values(filters).some((value) => value !== undefined)
  const isAdmin = frame.session?.user.role === 'admin'
  const main = html`<div class="heading"><h1>Payments</h1>${renderCounts(view.counted)}
${isAdmin && html`<a class="button small primary" href="${PATH}/new">Record a payment</a>`}</div>
${renderTabs('Customers', CUSTOMER_TABS, PATH)}
${customerName && html`<p class="lead">Only payments of <a href="/settings/customers/${search.debtorId}" translate="no">${customerName}</a>${fullStopAfter(customerName)} <a href="${PATH}">Show the payments of all customers</a></p>`}
${invoice && html`<p class="lead">Only payments of invoice <a href="/settings/invoices/${invoice.id}" translate="no">${invoice.number}</a>. <a href="${PATH}">Show the payments of all invoices</a></p>`}
<form method="get" action="${PATH}" class="filter-form">
${search.debtorId && html`<input type="hidden" name="debtor_id" value="${search.debtorId}">`}
${search.invoiceId && html`<input type="hidden" name="invoice_id" value="${search.invoiceId}">`}
<span class="row"><label for="reference">Reference</label> <input id="reference" name="reference" value="${filters['reference']}" maxlength="200" class="short"></span>
<span class="row"><label for="received_since">Date received: from</label> <input id="received_since" name="received_since" type="date" value="${filters['received_since']}"></span>
<span class="row"><label for="received_until">to</label> <input id="received_until" name="received_until" type="date" value="${filters['received_until']}"></span>
${renderAmountFields(filters)}
<span class="row"><label for="status">Status</label> <select id="status" name="status">${renderOption('', 'All', filters['status'])}${renderOption('recorded', 'Recorded', filters['status'])}${renderOption('reversed', 'Reversed', filters['status'])}</select></span>
<button class="small">Filter</button> <a class="button small" href="${PATH}">Clear</a>
<a class="button small" href="${listPath(`${PATH}.csv`, filters)}" download>CSV</a></form>
${rows.length === 0 ? !view.isPartial && html`<div class="card empty"><p><strong>${isFiltered ? 'No payment matches the filters.' : 'There is no payment yet.'}</strong></p></div>` : renderPaymentTable(filters['reference'] ? 'Payments, by reference' : 'Payments, newest first', rows, customers)}
${renderPartialHint(view.isPartial, rows.length)}
${renderPager(PATH, filters, view.list, view.next)}`
  return renderPage(frame, { title: 'Payments', section: '/settings/customers', main })
}

function renderCounts({ counts, hasMore }: PaymentCounts): Html {
  const sums = counts.map(({ currency, payments, amount }) => ({
    currency,
    count: payments,
    amount,
  }))
  return renderSummary(sums, 'payment', { moreThan: hasMore ? COUNTED_MAX : undefined })
}
