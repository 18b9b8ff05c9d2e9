import type { Problem } from '../../../shared/contract/problem.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import type { NewPayment } from '../../payments/payments.ts'
import { renderIdempotencyKey } from '../forms/perform-once.ts'
import type { Fields } from '../shell/fields.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import { dateWords, METHOD_WORDS, renderMoney } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'
import { renderAllocationFields } from './allocation-fields.ts'
import type { Preview } from './money-action.ts'
import { renderPreviewPage } from './preview-page.ts'
import type { AllocationMode, LoadedDebtor } from './record-form.ts'

const PATH = '/settings/payments'

const ALLOCATION_MODE_WORDS: Readonly<
  Record<AllocationMode, readonly [label: string, hint: string]>
> = {
  oldest_first: ['Oldest invoices first', 'The rest of the payment stays on account.'],
  chosen: [
    'These invoices',
    'Enter an amount for each invoice. The rest of the payment stays on account.',
  ],
  on_account: ['Keep the money on account', 'You can allocate it to invoices later.'],
}

export function renderRecordForm(
  frame: Frame,
  loaded: LoadedDebtor,
  entered: Fields,
  problem: Problem | undefined,
): Html {
  const { debtor, currency, invoices, today } = loaded
  const main = html`<p class="back"><a href="/settings/customers/${debtor.id}" translate="no">${debtor.name}</a></p>
<h1>Record a payment</h1>
${renderCurrencyLinks(loaded)}
${renderFaultSummary(problem)}
<form method="post" action="${PATH}/preview" class="stack" novalidate>${renderCommonHiddenFields(frame)}${renderIdempotencyKey(entered)}
<input type="hidden" name="debtor_id" value="${debtor.id}">
<input type="hidden" name="invoice_id" value="${loaded.invoice?.id ?? ''}">
<div class="card stack"><div class="fields">
${renderAmount(loaded, entered, problem)}
<div class="field"><label for="received_on">Received on</label>
<input id="received_on" name="received_on" type="date" value="${entered.text('received_on')}" required${describedBy(problem, 'received_on')}>${renderFieldFaults(problem, 'received_on')}</div>
<div class="field"><label for="method">Method</label>
<select id="method" name="method"${describedBy(problem, 'method')}>${Object.entries(
    METHOD_WORDS,
  ).map(
    ([name, words]) =>
      html`<option value="${name}"${attribute('selected', entered.text('method') === name)}>${words}</option>`,
  )}</select>${renderFieldFaults(problem, 'method')}</div>
<div class="field"><label for="reference">Reference <span class="hint">(optional)</span></label>
<input id="reference" name="reference" value="${entered.text('reference')}" maxlength="140" autocomplete="off"${describedBy(problem, 'reference', 'reference-hint')}>
<p class="hint" id="reference-hint">The text that the payer entered, or the number of the cheque.</p>${renderFieldFaults(problem, 'reference')}</div>
</div></div>
${
  invoices.length === 0
    ? html`<p class="card hint">This customer owes nothing in ${currency}. The payment stays on account.</p><input type="hidden" name="put_to" value="on_account">`
    : renderAllocation(loaded, entered, problem, today)
}
<p class="row"><button class="primary">Preview</button> <a class="button" href="/settings/customers/${debtor.id}">Cancel</a></p>
</form>`
  return renderPage(frame, {
    title: `Record a payment from ${debtor.name}`,
    section: '/settings/customers',
    main,
  })
}

/**
 * The currency can be entered only if nothing determines it: the form is not for one invoice, and the customer owes
 * nothing.
 */
function renderAmount(
  { currency, currencies, invoice }: LoadedDebtor,
  entered: Fields,
  problem: Problem | undefined,
): Html {
  const isFixed = invoice !== undefined || currencies.length > 0
  return html`<div class="field"><label for="amount">Amount${isFixed && html` in <span translate="no">${currency}</span>`}</label>
<input id="amount" name="amount" value="${entered.text('amount')}" inputmode="decimal" autocomplete="off" required class="sum-field"${describedBy(problem, 'amount')}>${renderFieldFaults(problem, 'amount')}
${isFixed && html`<input type="hidden" name="currency" value="${currency}">`}</div>
${
  !isFixed &&
  html`<div class="field"><label for="currency">Currency</label>
<input id="currency" name="currency" value="${entered.text('currency') || currency}" maxlength="3" size="4" autocomplete="off" spellcheck="false"${describedBy(problem, 'currency')}>${renderFieldFaults(problem, 'currency')}</div>`
}`
}

function renderCurrencyLinks({
  currencies,
  currency,
  debtor,
  invoice,
}: LoadedDebtor): Html | undefined {
  if (currencies.length < 2 || invoice !== undefined) return undefined
  return html`<nav class="filters" aria-label="Currency"><span>Currency</span> ${currencies.map(
    (code) =>
      html`<a href="${PATH}/new?debtor_id=${debtor.id}&amp;currency=${code}"${code === currency && html` aria-current="page"`}>${code}</a> `,
  )}</nav>`
}

function renderAllocation(
  { invoices }: LoadedDebtor,
  entered: Fields,
  problem: Problem | undefined,
  today: string,
): Html {
  const selectedMode = entered.text('put_to') || 'oldest_first'
  return html`<fieldset class="card put-to" id="put_to"${describedBy(problem, 'put_to')}><legend class="title">Allocation</legend>
${renderFieldFaults(problem, 'put_to')}${renderFieldFaults(problem, 'allocations')}
${Object.entries(ALLOCATION_MODE_WORDS).map(
  ([mode, [label, hint]]) =>
    html`<label class="check" for="put-${mode}"><input type="radio" id="put-${mode}" name="put_to" value="${mode}"${attribute('checked', selectedMode === mode)}> <span>${label} <span class="hint">${hint}</span></span></label>
${mode === 'chosen' && html`<div class="chosen">${renderAllocationFields(invoices, today, entered, problem)}</div>`}`,
)}</fieldset>`
}

export function renderRecordPreview(
  frame: Frame,
  { loaded, input, effects, hidden }: Preview<LoadedDebtor, NewPayment>,
): Html {
  const { debtor, timezone } = loaded
  return renderPreviewPage(frame, {
    title: 'Record this payment?',
    back: { path: `/settings/customers/${debtor.id}`, name: debtor.name },
    facts: [
      ['Customer', debtor.name],
      ['Amount', renderMoney(input.amount, input.currency)],
      ['Received on', dateWords(input.receivedOn ?? loaded.today)],
      ['Method', METHOD_WORDS[input.method]],
      ...(input.reference === null ? [] : [['Reference', input.reference] as const]),
    ],
    warning: renderDuplicateWarning(loaded, input),
    effects,
    timezone,
    action: PATH,
    editAction: `${PATH}/edit`,
    button: 'Record payment',
    hidden,
  })
}

/** Warns if a recent payment has the same amount and date: the most likely mistake is to record a payment twice. */
function renderDuplicateWarning({ recent }: LoadedDebtor, input: NewPayment): Html | undefined {
  const similar = recent.find(
    (row) =>
      row.status === 'recorded' &&
      row.amount === input.amount &&
      row.currency === input.currency &&
      row.received_on === input.receivedOn,
  )
  return (
    similar &&
    html`<a href="${PATH}/${similar.id}">A payment with the same amount and date</a> is already recorded. Continue only if the customer paid twice.`
  )
}
