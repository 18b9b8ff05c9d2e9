import { todayIn } from '../../calendar/calendar.ts'
import type {
  DebtorRow,
  InvoiceRow,
  MessageRow,
  PaymentRow,
  Reader,
} from '../../database/tables.ts'
import { listDirectory } from '../../debtors/directory.ts'
import { findDebtorsByWords } from '../../debtors/find-debtors.ts'
import { updateAccountTotals } from '../../debtors/ledger-totals.ts'
import { type Html, html } from '../../html/html.ts'
import { type InvoiceSearch, searchInvoices } from '../../invoices/search-invoices.ts'
import { listMessages } from '../../messages/messages.ts'
import { type PaymentSearch, searchPayments } from '../../payments/search-payments.ts'
import { renderInvoiceTable } from '../customers/invoice-table.ts'
import { renderPaymentTable } from '../customers/payment-table.ts'
import { renderMessageTable } from '../reminders/message-table.ts'
import { renderPage } from '../shell/layout.ts'
import { renderDebtorState } from '../shell/ledger-words.ts'
import { listPath, newestFirst, parseListQuery } from '../shell/list-query.ts'
import type { SessionPage } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { readBlockReasons, readCustomerNames } from '../shell/row-customers.ts'
import type { TimeContext } from '../shell/words.ts'

const PATH = '/settings/search'
/** The maximum number of results of each kind on the page. */
const SHOWN_MAX = 8
/**
 * The page shows messages about the first invoices and the first customers found: at most this many of each, because
 * each needs a query. The text of messages is not searched.
 */
const MESSAGE_SOURCES_MAX = 3

/** The search finds at most this many customers. The page shows the `SHOWN_MAX` of them with the oldest due dates. */
const CUSTOMERS_FOUND_MAX = 200

const ANY_AMOUNT = { min: undefined, max: undefined }
const ANY_INVOICE: InvoiceSearch = {
  ...{ view: 'all', sort: '-created', debtorId: undefined, number: undefined },
  ...{ currency: undefined, dueSince: undefined, dueBefore: undefined, amount: ANY_AMOUNT },
}
const ANY_PAYMENT: PaymentSearch = {
  ...{ debtorId: undefined, invoiceId: undefined, status: undefined, reference: undefined },
  ...{ receivedSince: undefined, receivedUntil: undefined, amount: ANY_AMOUNT },
}

export const searchPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session, query, now }, { database }) {
      const { id: accountId, timezone } = session.account
      const text = (parseListQuery(query, ['q']).value('q') ?? '').trim()
      const today = todayIn(timezone, now)
      // A worker updates the search terms of customers, and their oldest due dates (by which the results are sorted), a
      // few seconds after each change. This call immediately processes up to one batch of the changes that wait, so
      // that the search usually finds the latest.
      await updateAccountTotals(database, accountId)
      const found = text === '' ? NOTHING : await find(database.read, accountId, text, today)
      const names = await readCustomerNames(database.read, accountId, [
        ...found.invoices,
        ...found.payments,
        ...found.messages,
      ])
      const blockReasons = await readBlockReasons(database.read, accountId, found.invoices)
      const view = { text, found, names, blockReasons, today, times: { now, timezone } }
      const ids = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id)
      return {
        json: {
          object: 'search_results',
          customers: ids(found.customers),
          invoices: ids(found.invoices),
          payments: ids(found.payments),
          messages: ids(found.messages),
        },
        page: (frame) => renderSearch(frame, view),
      }
    },
  },
]

interface Found {
  readonly customers: readonly DebtorRow[]
  readonly invoices: readonly InvoiceRow[]
  readonly payments: readonly PaymentRow[]
  readonly messages: readonly MessageRow[]
}

const NOTHING: Found = { customers: [], invoices: [], payments: [], messages: [] }

async function find(read: Reader, accountId: string, text: string, today: string): Promise<Found> {
  const firstPage = { after: undefined, limit: SHOWN_MAX }
  const [debtors, invoices, payments] = await Promise.all([
    findDebtorsByWords(read, accountId, text, CUSTOMERS_FOUND_MAX),
    searchInvoices(read, accountId, { ...ANY_INVOICE, number: text }, today, firstPage),
    searchPayments(read, accountId, { ...ANY_PAYMENT, reference: text }, firstPage),
  ])
  // With `ids`, the view `active` is no filter: archived customers are found as well. `currency` is empty, because only
  // the sort by the amount owed uses it.
  const customers = await listDirectory(read, accountId, {
    ...{ view: 'active', sort: 'due', currency: '', ids: debtors.ids, today },
    ...firstPage,
  })
  const newest = newestFirst(SHOWN_MAX)
  const messages = await Promise.all([
    ...invoices.rows
      .slice(0, MESSAGE_SOURCES_MAX)
      .map(({ id }) => listMessages(read, accountId, { invoice_id: id }, newest)),
    ...customers.rows
      .slice(0, MESSAGE_SOURCES_MAX)
      .map(({ id }) => listMessages(read, accountId, { debtor_id: id }, newest)),
  ])
  const byId = new Map(messages.flat().map((row) => [row.id, row]))
  return {
    customers: customers.rows,
    invoices: invoices.rows,
    payments: payments.rows,
    messages: [...byId.values()]
      .sort((a, b) => (a.created_at < b.created_at ? 1 : -1))
      .slice(0, SHOWN_MAX),
  }
}

interface SearchView {
  readonly text: string
  readonly found: Found
  /** Customer names by id. */
  readonly names: ReadonlyMap<string, string>
  /** The reasons why no reminder reaches a customer, by customer id. */
  readonly blockReasons: ReadonlyMap<string, string>
  readonly today: string
  readonly times: TimeContext
}

function renderSearch(frame: Frame, view: SearchView): Html {
  const { text, found, names, blockReasons, today, times } = view
  const { customers, invoices, payments, messages } = found
  const hasNoResults = [customers, invoices, payments, messages].every((rows) => rows.length === 0)
  const renderSection = (title: string, listLink: string | undefined, count: number, table: Html) =>
    count > 0 &&
    html`<section aria-labelledby="found-${title.toLowerCase()}"><div class="heading"><h2 id="found-${title.toLowerCase()}">${title}</h2>
${listLink !== undefined && html`<a href="${listLink}">All<span class="unseen"> ${title.toLowerCase()} found</span></a>`}</div>${table}</section>`
  const main = html`<h1>Search</h1>
<p class="lead">${text === '' ? 'Enter the beginning of a name, a city, an e-mail address, an external ID, an invoice number or a payment reference in the field at the top of the page.' : html`Results for “<span translate="no">${text}</span>”`}</p>
${hasNoResults && text !== '' && html`<div class="card empty"><p><strong>There are no results.</strong></p><p class="hint">Enter the beginning of a name, a city, an e-mail address, an external ID, an invoice number or a payment reference.</p></div>`}
${renderSection('Customers', listPath('/settings/customers', { q: text }), customers.length, renderCustomers(customers))}
${renderSection('Invoices', listPath('/settings/invoices', { view: 'all', number: text }), invoices.length, renderInvoiceTable('Invoices found', invoices, { times, today, customerNames: names, blockReasons }))}
${renderSection('Payments', listPath('/settings/payments', { reference: text }), payments.length, renderPaymentTable('Payments found', payments, names))}
${renderSection('Messages', undefined, messages.length, renderMessageTable('Messages found', messages, times, names))}`
  return renderPage(frame, { title: `Search: ${text}`, search: text, main })
}

function renderCustomers(rows: readonly DebtorRow[]): Html {
  return html`<table class="records ledger dense"><caption class="unseen">Customers found</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Reminders</th></tr></thead>
<tbody>${rows.map(
    (
      row,
    ) => html`<tr><th scope="row" data-label="Name"><a href="/settings/customers/${row.id}" translate="no">${row.name}</a>
<span class="detail" translate="no">${row.email ?? row.external_id ?? ''}</span></th><td data-label="Reminders">${renderDebtorState(row)}</td></tr>`,
  )}</tbody></table>`
}
