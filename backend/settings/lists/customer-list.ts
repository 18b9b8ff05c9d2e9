/**
 * The list of customers. By default, the oldest due date comes first; paused and archived customers are sorted by name.
 * The results of a search are always sorted by the oldest due date, and then by name.
 */
import { daysBetween, todayIn } from '../../calendar/calendar.ts'
import type { DebtorRow, Reader } from '../../database/tables.ts'
import { type Balance, readBalances } from '../../debtors/balances.ts'
import {
  countSearchResults,
  DIRECTORY_SORTS,
  DIRECTORY_VIEWS,
  type DirectoryQuery,
  type DirectorySort,
  type DirectoryView,
  directorySortsOf,
  listDirectory,
} from '../../debtors/directory.ts'
import {
  type DueByAge,
  readArchivedDueByAge,
  readDueByAge,
  readOldestDueDates,
} from '../../debtors/due-totals.ts'
import { findDebtorsByWords } from '../../debtors/find-debtors.ts'
import { updateAccountTotals } from '../../debtors/ledger-totals.ts'
import { representDebtor } from '../../debtors/representation.ts'
import { type Html, html } from '../../html/html.ts'
import { findDebtorsByInvoiceNumber } from '../../invoices/search-invoices.ts'
import { moneyDecimal } from '../../money/money-text.ts'
import { CUSTOMER_TABS, renderArchivedDue } from '../customers/customer-parts.ts'
import { renderPage, renderTabs } from '../shell/layout.ts'
import { CONTACT_WORDS, dateWords, renderDebtorState, renderSums } from '../shell/ledger-words.ts'
import {
  choiceOf,
  type Filters,
  type ListQuery,
  listOf,
  listPath,
  parseListQuery,
  renderPager,
} from '../shell/list-query.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { plural } from '../shell/words.ts'
import { type Cell, CSV_ROWS_PER_QUERY, respondWithCsv } from './csv.ts'
import { renderSortHeader, renderSummary, renderViewLink } from './list-parts.ts'

const PATH = '/settings/customers'
/** The maximum number of search results. */
const FOUND_MAX = 500

export const customerListPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle(request, deps) {
      // The list reads totals, which a worker would update only after a delay.
      await updateAccountTotals(deps.database, request.session.account.id)
      const view = await readList(request, deps)
      const { rows, balances, next } = view
      return {
        json: listOf(
          rows.map((row) => representDebtor(row, balances.get(row.id) ?? [])),
          next,
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
      await updateAccountTotals(deps.database, account.id)
      const parsed = await parse(request, read)
      const csv = { name: 'customers', today: parsed.query.today, head: CSV_HEAD } as const
      return respondWithCsv(request, deps, csv, async (after) => {
        const query = { ...parsed.query, after, limit: CSV_ROWS_PER_QUERY }
        const { rows, next } = await listDirectory(read, account.id, query)
        const ids = rows.map(({ id }) => id)
        const balances = await readBalances(read, account.id, ids, query.today)
        return { rows: rows.flatMap((row) => cellsOf(row, balances.get(row.id) ?? [])), next }
      })
    },
  },
]

const CSV_HEAD = [
  ...['Name', 'External ID', 'E-mail', 'Contact', 'Status', 'Currency', 'Overdue', 'Owes'],
  ...['On account', 'ID'],
]

/** Returns one line of the CSV file per currency, or one line without amounts if the customer has no balance. */
function cellsOf(row: DebtorRow, balances: readonly Balance[]): Cell[][] {
  const identity = [row.name, row.external_id, row.email, CONTACT_WORDS[row.contactability_email]]
  const status = row.status === 'archived' ? 'Archived' : 'Active'
  if (balances.length === 0) return [[...identity, status, null, null, null, null, row.id]]
  return balances.map((balance) => {
    const money = (amount: number) => moneyDecimal(amount, balance.currency)
    const { overdue, outstanding, unapplied } = balance
    const sums = [money(overdue), money(outstanding), money(unapplied)]
    return [...identity, status, balance.currency, ...sums, row.id]
  })
}

interface ParsedQuery {
  readonly list: ListQuery
  readonly filters: Filters
  readonly search: string | undefined
  /** Whether more customers may match than were found. */
  readonly isTruncated: boolean
  readonly query: DirectoryQuery
}

/** Throws `Problem` 400. */
async function parse({ session, query, now }: SessionRequest, read: Reader): Promise<ParsedQuery> {
  const { id: accountId, timezone } = session.account
  const list = parseListQuery(query, ['q', 'view', 'sort', 'currency'])
  const view = choiceOf(list, 'view', DIRECTORY_VIEWS) ?? 'active'
  const chosen = choiceOf(list, 'sort', DIRECTORY_SORTS)
  const [defaultSort = 'name', ...others] = directorySortsOf(view)
  const sort = chosen !== undefined && others.includes(chosen) ? chosen : defaultSort
  const today = todayIn(timezone, now)
  const search = list.value('q')
  const found = search === undefined ? undefined : await findIds(read, accountId, search)
  // Amounts in different currencies cannot be compared, so the list sorts by the amounts in one currency. Other sorts
  // do not use the currency.
  const currency =
    list.value('currency') ??
    (sort === '-owes' ? await mainCurrency(read, accountId, today) : 'EUR')
  const filters = {
    view,
    q: search,
    ...(sort !== defaultSort && { sort }),
    ...(sort === '-owes' && { currency }),
  }
  const { cursor: after, limit } = list
  return {
    ...{ list, filters, search, isTruncated: found?.isTruncated ?? false },
    query: { view, sort, currency, ids: found?.ids, after, today, limit },
  }
}

/**
 * Finds customers by words such as name and city, and by the numbers of their invoices. If there are too many, those
 * that match by words are preferred.
 */
async function findIds(read: Reader, accountId: string, search: string) {
  const [byWords, byInvoice] = await Promise.all([
    findDebtorsByWords(read, accountId, search, FOUND_MAX),
    findDebtorsByInvoiceNumber(read, accountId, search, FOUND_MAX),
  ])
  const ids = [...new Set([...byWords.ids, ...byInvoice.ids])]
  return {
    ids: ids.slice(0, FOUND_MAX),
    isTruncated: byWords.isTruncated || byInvoice.isTruncated || ids.length > FOUND_MAX,
  }
}

/** Returns the currency with the most open invoices; EUR if no invoice is open. */
async function mainCurrency(read: Reader, accountId: string, today: string): Promise<string> {
  const due = await readDueByAge(read, accountId, today)
  const [first] = due.sort((a, b) => b.outstanding.invoices - a.outstanding.invoices)
  return first?.currency ?? 'EUR'
}

interface ListView extends ParsedQuery {
  readonly rows: readonly DebtorRow[]
  readonly balances: ReadonlyMap<string, readonly Balance[]>
  /** The oldest due dates by customer id. */
  readonly oldest: ReadonlyMap<string, string>
  readonly next: string | null
  readonly summary: Html | undefined
}

async function readList(
  request: SessionRequest,
  { database: { read } }: SettingsDeps,
): Promise<ListView> {
  const { id: accountId } = request.session.account
  const parsed = await parse(request, read)
  const { today, view, ids: found } = parsed.query
  const { rows, next } = await listDirectory(read, accountId, parsed.query)
  const ids = rows.map(({ id }) => id)
  const [balances, oldest] = await Promise.all([
    readBalances(read, accountId, ids, today),
    readOldestDueDates(read, ids),
  ])
  const hasTotals = found === undefined && ['active', 'owing', 'overdue'].includes(view)
  const summary = hasTotals
    ? renderTotals(
        await readDueByAge(read, accountId, today),
        await readArchivedDueByAge(read, accountId, today),
      )
    : found !== undefined
      ? renderFound(await countSearchResults(read, accountId, parsed.query, found))
      : undefined
  return { ...parsed, rows, balances, oldest, next, summary }
}

function renderFound(count: number): Html {
  return html`<p class="summary">${plural(count, 'customer')} found</p>`
}

/** `due` includes the archived customers, which the totals omit. */
function renderTotals(due: readonly DueByAge[], archived: readonly DueByAge[]): Html {
  const archivedByCurrency = new Map(archived.map((entry) => [entry.currency, entry]))
  const sums = (kind: 'outstanding' | 'overdue') =>
    due
      .map(({ currency, [kind]: total }) => {
        const omitted = archivedByCurrency.get(currency)?.[kind] ?? { amount: 0, invoices: 0 }
        const count = total.invoices - omitted.invoices
        return { currency, count, amount: total.amount - omitted.amount }
      })
      .filter(({ count }) => count > 0)
  // A total has no link if its list of invoices also contains invoices of archived customers, which the total omits.
  const pathOf = (kind: 'outstanding' | 'overdue', view: 'unpaid' | 'overdue') =>
    archived.some(({ [kind]: { invoices } }) => invoices > 0)
      ? undefined
      : listPath('/settings/invoices', { view })
  return html`<div>${renderSummary(sums('outstanding'), 'open invoice', { path: pathOf('outstanding', 'unpaid') })}
${renderSummary(sums('overdue'), 'overdue invoice', { path: pathOf('overdue', 'overdue') })}
${archived.length > 0 && html`<p class="summary">Not counted: ${renderArchivedDue(archived)}</p>`}</div>`
}

const VIEW_WORDS: Readonly<Record<DirectoryView, string>> = {
  active: 'All',
  owing: 'Owing',
  overdue: 'Overdue',
  unreachable: 'Owing, unreachable',
  paused: 'Paused',
  archived: 'Archived',
}

function renderList(frame: Frame, view: ListView): Html {
  const { rows, filters, search, query, next } = view
  const isAdmin = frame.session?.user.role === 'admin'
  const isEmptyAccount = rows.length === 0 && query.view === 'active' && search === undefined
  const main = html`<div class="heading"><h1>Customers</h1>${!isEmptyAccount && view.summary}
${
  isAdmin &&
  html`<span class="row"><a class="button small" href="/settings/import">Import</a>
<a class="button small primary" href="${PATH}/new">Add a customer</a></span>`
}</div>
${renderTabs('Customers', CUSTOMER_TABS, PATH)}
<div class="heading">
<form method="get" action="${PATH}" class="search">
<input type="hidden" name="view" value="${query.view}">
<label for="q" class="unseen">Search customers</label>
<input id="q" name="q" type="search" value="${search}" placeholder="Name, city, invoice…" maxlength="200">
<button class="small">Search</button>
<a class="button small" href="${listPath(`${PATH}.csv`, filters)}" download>CSV</a></form>
<ul class="filters" aria-label="Which customers">${DIRECTORY_VIEWS.map((name) =>
    renderViewLink(
      PATH,
      { view: name, q: search },
      { name: VIEW_WORDS[name], isChosen: name === query.view },
    ),
  )}</ul>
</div>
${view.isTruncated && html`<p class="hint">There may be more matching customers than are shown. To narrow the search, add a word, or enter more of the invoice number.</p>`}
${rows.length === 0 ? renderEmpty(view, isAdmin) : renderTable(view)}
${renderPager(PATH, filters, view.list, next)}`
  return renderPage(frame, { title: 'Customers', section: PATH, main })
}

function renderEmpty({ search, query: { view } }: ListView, isAdmin: boolean): Html {
  if (search !== undefined) {
    return html`<div class="card empty"><p><strong>No customer matches “${search}”.</strong></p>
<p class="hint">Enter the beginning of a word in the name, city, e-mail address or external ID, or an invoice number.</p></div>`
  }
  const emptyTexts: Readonly<Record<DirectoryView, string>> = {
    active: 'There are no customers yet.',
    owing: 'No customer owes anything.',
    overdue: 'No customer is overdue.',
    unreachable: 'Every customer who owes something can be reached.',
    paused: 'No customer is paused.',
    archived: 'No customer is archived.',
  }
  return html`<div class="card empty"><p><strong>${emptyTexts[view]}</strong></p>
${view === 'active' && html`<p class="hint">${isAdmin ? html`<a href="${PATH}/new">Add a customer</a> or <a href="/settings/import">import customers</a> from a file.` : 'An Admin can add or import customers.'} Your own systems can create customers through the <a href="/docs">API</a>.</p>`}</div>`
}

function renderTable({ rows, balances, oldest, filters, query }: ListView): Html {
  const sorts = directorySortsOf(query.view)
  const header = (
    name: string,
    sort: DirectorySort,
    order: 'ascending' | 'descending',
    isAmount = false,
  ) =>
    renderSortHeader(
      PATH,
      filters,
      name,
      {
        sort:
          sorts.includes(sort) && query.sort !== sort && query.ids === undefined ? sort : undefined,
        sorted: query.sort === sort && query.ids === undefined ? order : undefined,
      },
      isAmount,
    )
  const owes = query.sort === '-owes' ? `Owes (${query.currency})` : 'Owes'
  return html`<table class="records ledger dense"><caption class="unseen">Customers: ${VIEW_WORDS[query.view]}</caption>
<thead><tr>${header('Name', 'name', 'ascending')}<th scope="col">Reminders</th>${header('Oldest due', 'due', 'ascending')}<th scope="col" class="amount">Overdue</th>${header(owes, '-owes', 'descending', true)}</tr></thead>
<tbody>${rows.map((row) => {
    const owed = balances.get(row.id) ?? []
    const isOwing = owed.some(({ outstanding }) => outstanding > 0)
    return html`<tr><th scope="row" data-label="Name"><a href="${PATH}/${row.id}" translate="no">${row.name}</a>
<span class="detail" translate="no">${row.email ?? row.external_id ?? ''}</span></th>
<td data-label="Reminders">${renderDebtorState(row, isOwing)}</td>
<td data-label="Oldest due">${renderOldest(oldest.get(row.id), query.today)}</td>
<td data-label="Overdue" class="amount">${renderSums(owed, 'overdue')}</td>
<td data-label="Owes" class="amount">${renderSums(owed, 'outstanding')}</td></tr>`
  })}</tbody></table>`
}

function renderOldest(date: string | undefined, today: string): Html {
  if (date === undefined) return html`<span class="hint">–</span>`
  const late = date < today ? daysBetween(date, today) : 0
  return html`<time datetime="${date}">${dateWords(date)}</time>${late > 0 && html` <span class="late">${plural(late, 'day')} late</span>`}`
}
