import { todayIn } from '../../calendar/calendar.ts'
import type { Database } from '../../database/database.ts'
import { readBalances } from '../../debtors/balances.ts'
import { listDirectory } from '../../debtors/directory.ts'
import { findDebtorsByWords } from '../../debtors/find-debtors.ts'
import { updateAccountTotals } from '../../debtors/ledger-totals.ts'
import { html } from '../../html/html.ts'
import { renderPage } from '../shell/layout.ts'
import { renderSums } from '../shell/ledger-words.ts'
import type { SessionRequest } from '../shell/page-request.ts'
import type { PageResponse } from '../shell/response.ts'

/** The maximum number of customers on the page. */
const SHOWN_MAX = 20

/**
 * The maximum number of customers that a search finds. Of these, the page shows the `SHOWN_MAX` with the oldest due
 * dates.
 */
const FOUND_MAX = 200

export interface CustomerPicker {
  readonly title: string
  /** The label of the search field. */
  readonly question: string
  /**
   * The path of this page. Each customer links to this path with the parameter `debtor_id`, which leads to the form.
   */
  readonly path: string
}

export async function renderPickCustomer(
  database: Database,
  { session, now }: SessionRequest,
  search: string,
  { title, question, path }: CustomerPicker,
): Promise<PageResponse> {
  const { id: accountId, timezone } = session.account
  const today = todayIn(timezone, now)
  const reader = database.read
  // The directory reads totals, which a worker would update only after a delay.
  await updateAccountTotals(database, accountId)
  const found =
    search === '' ? undefined : await findDebtorsByWords(reader, accountId, search, FOUND_MAX)
  // Only the sort by the amount owed needs a currency.
  const { rows, next } = await listDirectory(reader, accountId, {
    view: 'active',
    sort: 'due',
    currency: '',
    ids: found?.ids,
    after: undefined,
    today,
    limit: SHOWN_MAX,
  })
  const ids = rows.map(({ id }) => id)
  const balances = await readBalances(reader, accountId, ids, today)
  return {
    page: (frame) =>
      renderPage(frame, {
        title,
        section: '/settings/customers',
        main: html`<p class="back"><a href="/settings/customers">Customers</a></p>
<h1>${title}</h1>
<form method="get" action="${path}" class="search" role="search" aria-label="${question}"><label for="q">${question}</label>
<input id="q" name="q" value="${search}" type="search" maxlength="200" autocomplete="off"> <button>Find</button></form>
${
  rows.length === 0
    ? html`<div class="card empty"><p>No customer ${search === '' ? 'found' : html`matches “${search}”`}. <a href="/settings/customers/new">Add a customer</a></p></div>`
    : html`<table class="records ledger"><caption class="unseen">Customers</caption>
<thead><tr><th scope="col">Customer</th><th scope="col">E-mail</th><th scope="col" class="amount">Owes</th></tr></thead>
<tbody>${rows.map(
        (
          row,
        ) => html`<tr><th scope="row" data-label="Customer"><a href="${path}?debtor_id=${row.id}" translate="no">${row.name}</a></th>
<td data-label="E-mail" translate="no">${row.email ?? '–'}</td><td data-label="Owes" class="amount">${renderSums(balances.get(row.id) ?? [], 'outstanding')}</td></tr>`,
      )}</tbody></table>
${next !== null && html`<p class="hint">There are more customers. Enter more of the name to find them.</p>`}`
}`,
      }),
  }
}
