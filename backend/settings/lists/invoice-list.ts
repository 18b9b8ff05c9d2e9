import { todayIn } from '../../calendar/calendar.ts'
import type { InvoiceRow } from '../../database/tables.ts'
import { readDueByAge } from '../../debtors/due-totals.ts'
import { updateAccountTotals } from '../../debtors/ledger-totals.ts'
import { type Html, html } from '../../html/html.ts'
import { fromExternalId } from '../../import/external-ids.ts'
import { daysPastDue } from '../../invoices/overdue.ts'
import { representInvoice } from '../../invoices/representation.ts'
import {
  COUNTED_MAX,
  countInvoices,
  INVOICE_SORTS,
  INVOICE_VIEWS,
  type InvoiceSearch,
  type InvoiceSort,
  type InvoiceView,
  searchInvoices,
  sortsOf,
} from '../../invoices/search-invoices.ts'
import { moneyDecimal } from '../../money/money-text.ts'
import { fullStopAfter } from '../../validation/full-stop.ts'
import { CUSTOMER_TABS } from '../customers/customer-parts.ts'
import { renderInvoiceTable } from '../customers/invoice-table.ts'
import { renderPage, renderTabs } from '../shell/layout.ts'
import { INVOICE_STATUS_WORDS } from '../shell/ledger-words.ts'
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
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import {
  type Customer,
  readBlockReasons,
  readCustomerNames,
  readCustomers,
} from '../shell/row-customers.ts'
import { type Cell, CSV_ROWS_PER_QUERY, respondWithCsv } from './csv.ts'
import {
  type CurrencySum,
  renderAmountFields,
  renderPartialHint,
  renderSortHeader,
  renderSummary,
  renderViewLink,
} from './list-parts.ts'

const PATH = '/settings/invoices'
const FILTERS = [
  ...['debtor_id', 'number', 'currency'],
  ...['due_since', 'due_before', 'amount_min', 'amount_max'],
]
/** `status` is an alias of `view`. */
const PARAMETERS = ['view', 'status', 'sort', ...FILTERS]

export const invoiceListPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle(request, deps) {
      const parsed = parse(request)
      const view = await readList(request, deps, parsed)
      return {
        json: listOf(
          view.rows.map((row) => representInvoice(row, view.today)),
          view.next,
        ),
        page: (frame) => renderList(frame, view),
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
      const csv = { name: 'invoices', today, head: CSV_HEAD } as const
      return respondWithCsv(request, deps, csv, async (after) => {
        const found = await searchInvoices(read, account.id, search, today, {
          after,
          limit: CSV_ROWS_PER_QUERY,
        })
        const customers = await readCustomers(read, account.id, found.rows)
        const byId = new Map(customers.map((customer) => [customer.id, customer]))
        const rows = found.rows.map((row) => cellsOf(row, byId.get(row.debtor_id), today))
        return { rows, next: found.next }
      })
    },
  },
]

const CSV_HEAD = [
  ...['Number', 'Customer', 'Status', 'Issued on', 'Due on', 'Days late', 'Currency', 'Amount'],
  ...['Paid', 'Credited', 'Due', 'External ID', 'ID', 'Customer number'],
]

function cellsOf(row: InvoiceRow, customer: Customer | undefined, today: string): Cell[] {
  const money = (amount: number) => moneyDecimal(Number(amount), row.currency)
  return [
    ...[row.number, customer?.name ?? '', INVOICE_STATUS_WORDS[row.status]],
    ...[row.issue_date, row.due_date, daysPastDue(row, today), row.currency, money(row.amount)],
    ...[money(row.amount_paid), money(row.amount_credited), money(row.amount_due)],
    ...[row.external_id, row.id, customerNumberOf(customer)],
  ]
}

/**
 * Returns the number of the customer as in an import file. Imports store this number, with spaces and "%" encoded, as
 * the external id.
 */
function customerNumberOf(customer: Customer | undefined): string | null {
  return customer?.external_id ? fromExternalId(customer.external_id) : null
}

interface ParsedQuery {
  readonly list: ListQuery
  readonly search: InvoiceSearch
  readonly filters: Filters
}

/**
 * Throws `Problem` 400. By default, JSON contains all invoices, because scripts may expect this. The page and the CSV
 * file, by default, contain unpaid invoices or, if the query has a customer or a number, invoices of every status.
 */
function parse({ query, wantsJson }: SessionRequest): ParsedQuery {
  const list = parseListQuery(query, PARAMETERS)
  const { value } = list
  const chosenView =
    choiceOf(list, 'view', INVOICE_VIEWS) ?? choiceOf(list, 'status', INVOICE_VIEWS)
  const isSpecific = value('debtor_id') !== undefined || value('number') !== undefined
  const view: InvoiceView = chosenView ?? (wantsJson || isSpecific ? 'all' : 'unpaid')
  const debtorId = value('debtor_id')
  const sorts = sortsOf({ view, debtorId })
  const chosenSort = choiceOf(list, 'sort', INVOICE_SORTS)
  const isUnpaid = view === 'unpaid' || view === 'overdue'
  const defaultSort: InvoiceSort = isUnpaid ? 'due' : '-created'
  // A sort that would be slow in this view is ignored.
  const sort = chosenSort !== undefined && sorts.includes(chosenSort) ? chosenSort : defaultSort
  const search = {
    ...{ view, sort, debtorId, number: value('number'), currency: value('currency') },
    ...{ dueSince: dateOf(list, 'due_since'), dueBefore: dateOf(list, 'due_before') },
    amount: amountRangeOf(list),
  }
  const filters = {
    view,
    ...(sort !== defaultSort && { sort }),
    ...Object.fromEntries(FILTERS.map((name) => [name, value(name)])),
  }
  return { list, search, filters }
}

interface ListView extends ParsedQuery {
  readonly rows: readonly InvoiceRow[]
  readonly next: string | null
  /** Whether the search stopped early, to limit how long it takes. The page may then be incomplete, or empty. */
  readonly isPartial: boolean
  readonly summary: Html
  /** Customer names by id. */
  readonly customers: ReadonlyMap<string, string>
  /** The reasons why no reminder reaches a customer, by customer id. */
  readonly blockReasons: ReadonlyMap<string, string>
  readonly today: string
  readonly now: Date
  readonly timezone: string
}

async function readList(
  { session, now, wantsJson }: SessionRequest,
  { database }: SettingsDeps,
  parsed: ParsedQuery,
): Promise<ListView> {
  const { id: accountId, timezone } = session.account
  const { read } = database
  const { list, search } = parsed
  const today = todayIn(timezone, now)
  const { cursor: after, limit } = list
  const found = await searchInvoices(read, accountId, search, today, { after, limit })
  // The summary of the page reads totals, which a worker would update only after a delay.
  if (!wantsJson) await updateAccountTotals(database, accountId)
  const summary = wantsJson ? html`` : await summarize(database, accountId, search, today)
  const { debtorId } = search
  // The page shows the name of the filter's customer even if the list contains no invoice of this customer.
  const rowsWithDebtor =
    debtorId === undefined ? found.rows : [...found.rows, { debtor_id: debtorId }]
  const [customers, blockReasons] = await Promise.all([
    readCustomerNames(read, accountId, rowsWithDebtor),
    readBlockReasons(read, accountId, found.rows),
  ])
  return { ...parsed, ...found, summary, customers, blockReasons, today, now, timezone }
}

async function summarize(
  { read }: SettingsDeps['database'],
  accountId: string,
  search: InvoiceSearch,
  today: string,
): Promise<Html> {
  const { view, currency } = search
  const hasStoredTotals = view === 'unpaid' || view === 'overdue'
  if (hasStoredTotals && !isFilteredFurther(search)) {
    const due = await readDueByAge(read, accountId, today)
    const sums = due
      .filter((entry) => currency === undefined || entry.currency === currency)
      .map((entry): CurrencySum => {
        const { amount, invoices } = view === 'unpaid' ? entry.outstanding : entry.overdue
        return { currency: entry.currency, count: invoices, amount }
      })
      .filter(({ count }) => count > 0)
    return renderSummary(sums, 'invoice')
  }
  const { counts, hasMore } = await countInvoices(read, accountId, search, today)
  const sums = counts.map(({ currency, invoices, amountDue }) => ({
    ...{ currency, count: invoices, amount: amountDue },
  }))
  return html`${renderSummary(sums, 'invoice', { moreThan: hasMore ? COUNTED_MAX : undefined })}`
}

/** Whether a filter other than the view and the currency is set. */
function isFilteredFurther({
  debtorId,
  number,
  dueSince,
  dueBefore,
  amount,
}: InvoiceSearch): boolean {
  const filters = [debtorId, number, dueSince, dueBefore, amount.min, amount.max]
  return filters.some((value) => value !== undefined)
}

const VIEW_WORDS: Readonly<Record<InvoiceView, string>> = {
  unpaid: 'Unpaid',
  overdue: 'Overdue',
  all: 'All',
  ...INVOICE_STATUS_WORDS,
}

function renderList(frame: Frame, view: ListView): Html {
  const { rows, filters, search, customers, blockReasons, isPartial, today, now, timezone } = view
  const customerName = search.debtorId && customers.get(search.debtorId)
  const table = {
    ...{ times: { now, timezone }, today, customerNames: customers, blockReasons },
    dueHeader: renderDueHeader(view),
  }
  const isAdmin = frame.session?.user.role === 'admin'
  const main = html`<div class="heading"><h1>Invoices</h1>${view.summary}
${
  isAdmin &&
  html`<span class="row"><a class="button small" href="/settings/import">Import</a>
<a class="button small primary" href="${PATH}/new">Enter an invoice</a></span>`
}</div>
${renderTabs('Customers', CUSTOMER_TABS, PATH)}
${customerName && html`<p class="lead">Only invoices of <a href="/settings/customers/${search.debtorId}" translate="no">${customerName}</a>${fullStopAfter(customerName)} <a href="${PATH}">Show the invoices of all customers</a></p>`}
<ul class="filters" aria-label="Which invoices">${INVOICE_VIEWS.map((name) => {
    const { sort: _, ...others } = filters
    return renderViewLink(
      PATH,
      { ...others, view: name },
      { name: VIEW_WORDS[name], isChosen: name === search.view },
    )
  })}</ul>
${renderFilters(filters)}
${rows.length === 0 ? !isPartial && renderEmpty(search, isAdmin) : renderInvoiceTable(`Invoices: ${VIEW_WORDS[search.view]}`, rows, table)}
${renderPartialHint(isPartial, rows.length)}
${renderPager(PATH, filters, view.list, view.next)}`
  return renderPage(frame, { title: 'Invoices', section: '/settings/customers', main })
}

function renderEmpty(search: InvoiceSearch, isAdmin: boolean): Html {
  const { view, currency } = search
  const isFiltered = isFilteredFurther(search) || currency !== undefined
  if (view === 'all' && !isFiltered) {
    return html`<div class="card empty"><p><strong>There is no invoice yet.</strong></p>
<p class="hint">${isAdmin ? html`<a href="${PATH}/new">Enter an invoice</a> or <a href="/settings/import">import invoices</a> from a file.` : 'An Admin can enter or import invoices.'} Your own systems can create invoices through the <a href="/docs">API</a>.</p></div>`
  }
  const isUnpaid = view === 'unpaid' || view === 'overdue'
  const text =
    isUnpaid && !isFiltered ? `No invoice is ${view}.` : 'No invoice matches the filters.'
  return html`<div class="card empty"><p><strong>${text}</strong></p><p class="hint"><a href="${PATH}?view=all">Show all invoices</a></p></div>`
}

function renderFilters(filters: Filters): Html {
  return html`<form method="get" action="${PATH}" class="filter-form">
<input type="hidden" name="view" value="${filters['view']}">
${filters['debtor_id'] && html`<input type="hidden" name="debtor_id" value="${filters['debtor_id']}">`}
<span class="row"><label for="number">Number</label> <input id="number" name="number" value="${filters['number']}" maxlength="64" class="short"></span>
<span class="row"><label for="due_since">Due from</label> <input id="due_since" name="due_since" type="date" value="${filters['due_since']}"></span>
<span class="row"><label for="due_before">before</label> <input id="due_before" name="due_before" type="date" value="${filters['due_before']}"></span>
${renderAmountFields(filters)}
<span class="row"><label for="currency">Currency</label> <input id="currency" name="currency" value="${filters['currency']}" maxlength="3" class="tiny"></span>
<button class="small">Filter</button> <a class="button small" href="${PATH}">Clear</a>
<a class="button small" href="${listPath(`${PATH}.csv`, filters)}" download>CSV</a></form>`
}

/**
 * The header “Due on” has no link if sorting the list by due date would be slow (`sortsOf`). With the filter `number`,
 * the list is sorted by number, so the header has no link and no arrow.
 */
function renderDueHeader({ search, filters }: ListView): Html {
  const sorts = sortsOf(search)
  const isByDue = search.number === undefined && search.sort !== '-created'
  const other = search.sort === 'due' ? '-due' : 'due'
  return renderSortHeader(PATH, filters, 'Due on', {
    sort: search.number === undefined && sorts.includes(other) ? other : undefined,
    sorted: isByDue ? (search.sort === 'due' ? 'ascending' : 'descending') : undefined,
  })
}
