import type { PaymentRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { Allocation } from '../../payments/payment-list.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderAuditLink } from '../audit/audit-link.ts'
import { renderPage } from '../shell/layout.ts'
import { dateWords, labelOf, METHOD_WORDS, renderMoney } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime } from '../shell/words.ts'
import { renderPaymentStatus } from './payment-table.ts'

export interface PaymentView {
  readonly session: Session
  readonly row: PaymentRow
  readonly allocations: readonly Allocation[]
  /** The numbers of the invoices in `allocations`, by invoice id. */
  readonly invoiceNumbers: ReadonlyMap<string, string>
  readonly customerName: string
  /** Undefined if the payment is not reversed. */
  readonly reversedAt: string | undefined
  readonly isInAuditLog: boolean
}

const SOURCE_WORDS = {
  api: 'through the API',
  app: 'in Settings',
  import: 'by an import',
} as const

export function renderPaymentPage(frame: Frame, view: PaymentView): Html {
  const { session, row, allocations, invoiceNumbers, customerName } = view
  const { reversedAt, isInAuditLog } = view
  const { timezone } = session.account
  const canChange = session.user.role === 'admin' && row.status === 'recorded'
  const path = `/settings/payments/${row.id}`
  const main = html`<p class="back"><a href="/settings/customers/${row.debtor_id}" translate="no">${customerName}</a></p>
<div class="heading"><h1>Payment of ${renderMoney(row.amount, row.currency)}</h1><p class="total">${renderPaymentStatus(row)}</p></div>
<section class="card"><dl class="facts">
<div><dt>Received on</dt><dd>${dateWords(row.received_on)}</dd></div>
<div><dt>Method</dt><dd>${METHOD_WORDS[row.method]}</dd></div>
<div><dt>Recorded</dt><dd>${exactTime(row.created_at, timezone)} ${SOURCE_WORDS[row.source]}, <span translate="no">${labelOf(row.recorded_by)}</span></dd></div>
${reversedAt !== undefined && html`<div><dt>Reversed</dt><dd>${exactTime(reversedAt, timezone)}</dd></div>`}
${row.reference !== null && html`<div><dt>Reference</dt><dd translate="no">${row.reference}</dd></div>`}
${row.external_id !== null && html`<div><dt>External ID</dt><dd translate="no">${row.external_id}</dd></div>`}
<div><dt>On account</dt><dd>${renderMoney(row.unapplied_amount, row.currency)}</dd></div>
</dl></section>
<section aria-labelledby="allocations"><h2 id="allocations">${row.status === 'reversed' ? 'Allocations before the reversal' : 'Allocations'}</h2>
${
  allocations.length === 0
    ? html`<p class="card hint">The payment is not allocated to an invoice.</p>`
    : html`<table class="records ledger"><caption class="unseen">Allocations</caption>
<thead><tr><th scope="col">Invoice</th><th scope="col" class="amount">Amount</th>${canChange && html`<th scope="col"><span class="unseen">Actions</span></th>`}</tr></thead>
<tbody>${allocations.map(
        ({ invoice_id, amount }) =>
          html`<tr><th scope="row" data-label="Invoice"><a href="/settings/invoices/${invoice_id}" translate="no">${invoiceNumbers.get(invoice_id) ?? invoice_id}</a></th>
<td data-label="Amount" class="amount">${renderMoney(amount, row.currency)}</td>
${canChange && html`<td class="amount"><a class="button small" href="${path}/take-back?invoice_id=${invoice_id}" data-dialog-page>Take back…<span class="unseen"> from ${invoiceNumbers.get(invoice_id)}</span></a></td>`}</tr>`,
      )}</tbody></table>`
}</section>
${
  canChange &&
  html`<div class="actions">${row.unapplied_amount > 0 && html`<a class="button primary" href="${path}/allocate">Allocate ${renderMoney(row.unapplied_amount, row.currency)}</a>`}
<a class="button danger" href="${path}/reverse" data-dialog-page>Reverse…</a></div>`
}
${isInAuditLog && renderAuditLink(session, row.id)}`
  return renderPage(frame, { title: 'Payment', section: '/settings/customers', main })
}
