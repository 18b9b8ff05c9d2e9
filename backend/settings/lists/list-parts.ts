import { type Html, html } from '../../html/html.ts'
import { renderMoney } from '../shell/ledger-words.ts'
import { type Filters, listPath } from '../shell/list-query.ts'
import { plural } from '../shell/words.ts'

/** Renders a column header. An arrow shows the order; a link changes it, if the list supports this. */
export function renderSortHeader(
  path: string,
  filters: Filters,
  name: string,
  {
    sort,
    sorted,
  }: {
    /** The value of the parameter `sort` in the link; undefined for a header without a link. */
    readonly sort: string | undefined
    /** The current order of this column; undefined if the list is sorted by another column. */
    readonly sorted?: 'ascending' | 'descending' | undefined
  },
  isAmount = false,
): Html {
  const classAttribute = isAmount ? html` class="amount"` : undefined
  if (sorted !== undefined && sort === undefined) {
    return html`<th scope="col"${classAttribute} aria-sort="${sorted}">${name} <span aria-hidden="true">${sorted === 'ascending' ? '↑' : '↓'}</span></th>`
  }
  if (sort === undefined) return html`<th scope="col"${classAttribute}>${name}</th>`
  const arrow = sorted === 'ascending' ? '↑' : sorted === 'descending' ? '↓' : '↕'
  return html`<th scope="col"${classAttribute}${sorted !== undefined && html` aria-sort="${sorted}"`}><a class="sort" href="${listPath(path, { ...filters, sort })}">${name} <span aria-hidden="true">${arrow}</span></a></th>`
}

export interface CurrencySum {
  readonly currency: string
  readonly count: number
  readonly amount: number
}

/**
 * Renders the number of rows and the sum for each currency, e.g. `12 invoices · €1,234.50 · ¥880,000`. `moreThan` is
 * the number of rows after which counting stopped; undefined if all rows were counted. `path` leads to the list of
 * these rows; undefined if no other page lists exactly them.
 */
export function renderSummary(
  sums: readonly CurrencySum[],
  noun: string,
  {
    moreThan,
    path,
  }: { readonly moreThan?: number | undefined; readonly path?: string | undefined } = {},
): Html {
  if (moreThan !== undefined) {
    return html`<p class="summary">More than ${plural(moreThan, noun)}. Add a filter to see totals.</p>`
  }
  const count = sums.reduce((total, sum) => total + sum.count, 0)
  const words = plural(count, noun)
  return html`<p class="summary">${path === undefined ? words : html`<a href="${path}">${words}</a>`}${sums.map((sum) => html` · <strong>${renderMoney(sum.amount, sum.currency)}</strong>`)}</p>`
}

/** Renders a link above a list to one of its views, e.g. overdue invoices. */
export function renderViewLink(
  path: string,
  filters: Filters,
  { name, isChosen }: { readonly name: string; readonly isChosen: boolean },
): Html {
  return html`<li><a href="${listPath(path, filters)}"${isChosen && html` aria-current="true"`}>${name}</a></li>`
}

export function renderAmountFields(filters: Filters): Html {
  return html`<span class="row"><label for="amount_min">Amount from</label> <input id="amount_min" name="amount_min" inputmode="decimal" value="${filters['amount_min']}" class="short"></span>
<span class="row"><label for="amount_max">to</label> <input id="amount_max" name="amount_max" inputmode="decimal" value="${filters['amount_max']}" class="short"></span>`
}

/** Explains why a page is not full although more rows may match: the search stopped, to limit how long it takes. */
export function renderPartialHint(isPartial: boolean, count: number): Html | undefined {
  if (!isPartial) return undefined
  return html`<p class="hint">${plural(count, 'match', 'matches')} on this page. Only a part of the list has been searched so far. “Next” continues the search.</p>`
}
