/** The list of customers: found by a part of their name, or by what is the matter with them. */
import type { DebtorRow } from '../../database/tables.ts'
import type { Balance } from '../../debtors/balances.ts'
import { DIRECTORY_VIEWS, type DirectoryView } from '../../debtors/directory.ts'
import { type Html, html } from '../../html/html.ts'
import { renderPage, renderTabs } from '../shell/layout.ts'
import { renderDebtorState, renderMoney } from '../shell/ledger-words.ts'
import { renderNext } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'

const PATH = '/settings/customers'

export const CUSTOMER_TABS = [
  { path: PATH, name: 'Customers' },
  { path: '/settings/invoices', name: 'Invoices' },
  { path: '/settings/payments', name: 'Payments' },
]

const VIEW_WORDS: Readonly<Record<DirectoryView, string>> = {
  active: 'All',
  overdue: 'Overdue',
  paused: 'Paused',
  unreachable: 'Unreachable',
  archived: 'Archived',
}

interface CustomersView {
  readonly rows: readonly DebtorRow[]
  readonly balances: ReadonlyMap<string, readonly Balance[]>
  readonly next: string | null
  readonly view: DirectoryView
  readonly search: string | undefined
}

export function renderCustomers(frame: Frame, view: CustomersView): Html {
  const { rows, search, next } = view
  const main = html`<h1>Customers</h1>
${renderTabs('Customers', CUSTOMER_TABS, PATH)}
<div class="heading">
<form method="get" action="${PATH}" class="search" role="search">
<input type="hidden" name="view" value="${view.view}">
<label for="q" class="unseen">Name or e-mail address</label>
<input id="q" name="q" type="search" value="${search}" placeholder="Name or e-mail" maxlength="200">
<button>Search</button></form>
<ul class="filters" aria-label="Which customers">${DIRECTORY_VIEWS.map((name) => renderFilter(name, view))}</ul>
</div>
${rows.length === 0 ? renderEmpty(view) : renderTable(view)}
${renderNext(PATH, { view: view.view, q: search }, next, 'More customers')}`
  return renderPage(frame, { title: 'Customers', place: PATH, main })
}

function renderFilter(name: DirectoryView, { view, search }: CustomersView): Html {
  const query = new URLSearchParams({ view: name, ...(search !== undefined && { q: search }) })
  const isChosen = name === view
  return html`<li><a href="${PATH}?${query.toString()}"${isChosen && html` aria-current="true"`}>${VIEW_WORDS[name]}</a></li>`
}

function renderEmpty({ search, view }: CustomersView): Html {
  if (search !== undefined) {
    return html`<div class="card empty"><p><strong>No customer is found by “${search}”.</strong></p>
<p class="hint">A part of the name is enough, or the beginning of the e-mail address.</p></div>`
  }
  const nobody: Readonly<Record<DirectoryView, string>> = {
    active: 'There is no customer yet.',
    overdue: 'Nobody is late.',
    paused: 'Nobody is paused.',
    unreachable: 'Everybody can be reached.',
    archived: 'Nobody is archived.',
  }
  return html`<div class="card empty"><p><strong>${nobody[view]}</strong></p>
${view === 'active' && html`<p class="hint">Your own systems create them by the <a href="/docs">API</a>.</p>`}</div>`
}

function renderTable({ rows, balances, view }: CustomersView): Html {
  return html`<table class="keys ledger"><caption class="unseen">Customers: ${VIEW_WORDS[view]}</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Reminders</th><th scope="col" class="amount">Overdue</th><th scope="col" class="amount">Owes</th></tr></thead>
<tbody>${rows.map((row) => {
    const owed = balances.get(row.id) ?? []
    return html`<tr><th scope="row" data-label="Name"><a href="${PATH}/${row.id}" translate="no">${row.name}</a>
<span class="detail" translate="no">${row.email ?? 'no e-mail address'}</span></th>
<td data-label="Reminders">${renderDebtorState(row)}</td>
<td data-label="Overdue" class="amount">${renderSums(owed, 'overdue')}</td>
<td data-label="Owes" class="amount">${renderSums(owed, 'outstanding')}</td></tr>`
  })}</tbody></table>`
}

/** One for each currency; never added up. */
export function renderSums(
  balances: readonly Balance[],
  of: 'outstanding' | 'overdue' | 'unapplied',
): Html {
  const some = balances.filter((balance) => balance[of] > 0)
  if (some.length === 0) return html`<span class="hint">–</span>`
  return html`${some.map((balance) => html`<span class="sum${of === 'overdue' && ' late'}">${renderMoney(balance[of], balance.currency)}</span>`)}`
}
