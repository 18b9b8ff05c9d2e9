import type { Problem } from '../../../shared/contract/problem.ts'
import { checkReason } from '../../accounts/reason.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { InvoiceRow, Reader } from '../../database/tables.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { type Html, html } from '../../html/html.ts'
import { invoiceStateConflict, isOpen } from '../../invoices/actions.ts'
import { type Credit, creditInvoice } from '../../invoices/credit-invoice.ts'
import { findInvoice } from '../../invoices/invoices.ts'
import { representInvoice } from '../../invoices/representation.ts'
import { moneyText } from '../../money/money-text.ts'
import { amount as amountRule } from '../../validation/fields.ts'
import { check, Rejection } from '../../validation/rejections.ts'
import { renderIdempotencyKey } from '../forms/perform-once.ts'
import { notFound, rejectField } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import { renderMoney } from '../shell/ledger-words.ts'
import type { SessionPage, SessionRequest } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { readAmountText } from './amount-field.ts'
import type { PreviewContext } from './effects.ts'
import { type MoneyAction, moneyActionPages, type Preview } from './money-action.ts'
import { renderPreviewPage } from './preview-page.ts'

const PATH = '/settings/invoices'

interface LoadedInvoice extends PreviewContext {
  readonly invoice: InvoiceRow
  readonly customerName: string
  readonly timezone: string
}

const action: MoneyAction<LoadedInvoice, Credit, InvoiceRow> = {
  paths: {
    form: `${PATH}/{id}/credit`,
    preview: `${PATH}/{id}/credit/preview`,
    edit: `${PATH}/{id}/credit/edit`,
    action: `${PATH}/{id}/credit`,
  },
  operation: 'settings.creditInvoice',
  adminsOnlyMessage: 'Only an Admin can change invoices.',
  flash: 'invoice_credited',
  expected: { texts: ['reason'], numbers: ['amount'] },
  load: loadInvoice,
  defaults: () => ({}),
  renderForm,
  parse: parseCredit,
  perform: (tx, { actionContext }, { accountId, invoice }, input) =>
    creditInvoice(tx, accountId, invoice.id, input, actionContext),
  renderPreview,
  represent: ({ today }, row) => representInvoice(row, today),
  location: (id) => `${PATH}/${id}`,
}

export const creditPages: readonly SessionPage[] = moneyActionPages(action)

async function loadInvoice(
  reader: Reader,
  { session, id, now }: SessionRequest,
): Promise<LoadedInvoice> {
  const { id: accountId, timezone } = session.account
  const invoice = (await findInvoice(reader, accountId, id)) ?? notFound('invoice', id)
  const debtor = await findDebtor(reader, accountId, invoice.debtor_id)
  return {
    ...{ accountId, debtorId: invoice.debtor_id, invoice, timezone, now },
    today: todayIn(timezone, now),
    customerName: debtor?.name ?? '',
  }
}

function parseCredit({ invoice }: LoadedInvoice, fields: Fields): Credit {
  const { currency, amount_due: due } = invoice
  const text = fields.text('amount')
  const amountOrFault = fields.isJson ? parseJsonAmount(text) : readAmountText(text, currency)
  if (typeof amountOrFault === 'string') {
    rejectField('amount', text === '' ? 'Enter the amount.' : `The amount ${amountOrFault}.`)
  }
  const amount = amountOrFault
  // If the invoice is not open, its amount due does not matter: the action rejects the credit with an error that names
  // the status of the invoice.
  if (isOpen(invoice) && amount > due) {
    rejectField('amount', `The credit must not exceed the amount due, ${moneyText(due, currency)}.`)
  }
  return { amount, reason: checkReason(fields.text('reason')) }
}

/** Like `readAmountText`, but for an amount in JSON, which is in minor units. */
function parseJsonAmount(text: string): number | string {
  const amount = check(amountRule, text === '' ? undefined : Number(text))
  return amount instanceof Rejection ? amount.detail : amount
}

function renderForm(
  frame: Frame,
  { invoice, customerName }: LoadedInvoice,
  entered: Fields,
  problem: Problem | undefined,
): Html {
  if (!isOpen(invoice)) throw invoiceStateConflict(invoice, 'credited')
  const path = `${PATH}/${invoice.id}`
  const main = html`<p class="back"><a href="${path}">Invoice <span translate="no">${invoice.number}</span></a></p>
<h1>Credit invoice <span translate="no">${invoice.number}</span></h1>
<p class="lead"><span translate="no">${customerName}</span> owes ${renderMoney(invoice.amount_due, invoice.currency)} on this invoice. A credit reduces this amount, in part or in full, and cannot be undone.</p>
${renderFaultSummary(problem)}
<form method="post" action="${path}/credit/preview" class="card stack" novalidate>${renderCommonHiddenFields(frame)}${renderIdempotencyKey(entered)}
<div class="field"><label for="amount">Amount in <span translate="no">${invoice.currency}</span></label>
<input id="amount" name="amount" value="${entered.text('amount')}" inputmode="decimal" autocomplete="off" required class="sum-field"${describedBy(problem, 'amount')}>${renderFieldFaults(problem, 'amount')}</div>
<div class="field"><label for="reason">Reason</label>
<input id="reason" name="reason" value="${entered.text('reason')}" maxlength="500" autocomplete="off" required${describedBy(problem, 'reason', 'reason-hint')}>
<p class="hint" id="reason-hint">Recorded in the audit log. The customer does not see the reason.</p>${renderFieldFaults(problem, 'reason')}</div>
<p class="row"><button class="primary">Preview</button> <a class="button" href="${path}">Cancel</a></p></form>`
  return renderPage(frame, {
    title: `Credit invoice ${invoice.number}`,
    section: '/settings/customers',
    main,
  })
}

function renderPreview(
  frame: Frame,
  { loaded, input, effects, hidden }: Preview<LoadedInvoice, Credit>,
): Html {
  const { invoice, customerName, timezone } = loaded
  const path = `${PATH}/${invoice.id}`
  return renderPreviewPage(frame, {
    title: 'Credit this invoice?',
    back: { path, name: `Invoice ${invoice.number}` },
    facts: [
      ['Customer', customerName],
      ['Invoice', invoice.number],
      ['Credit', renderMoney(input.amount, invoice.currency)],
      ['Reason', input.reason],
    ],
    effects,
    timezone,
    action: `${path}/credit`,
    editAction: `${path}/credit/edit`,
    button: 'Credit',
    hidden,
  })
}
