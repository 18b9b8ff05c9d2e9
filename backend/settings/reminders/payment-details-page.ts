import type { Problem } from '../../../shared/contract/problem.ts'
import { formatIban, PAYMENT_FIELDS, type PaymentDetails } from '../../accounts/payment-details.ts'
import { type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import type { InitialValues } from '../shell/fields.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderInitialValues,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { renderReminderTabs } from './reminder-tabs.ts'

const PATH = '/settings/payment-details'

export const PAYMENT_WORDS: Readonly<Record<(typeof PAYMENT_FIELDS)[number] | 'currency', string>> =
  {
    currency: 'Currency',
    account_holder: 'Account holder',
    account_number: 'IBAN or account number',
    bank_code: 'BIC or bank code',
    bank_name: 'Bank',
    payment_link: 'Payment link',
  }

const HINTS: Readonly<Record<(typeof PAYMENT_FIELDS)[number] | 'currency', string>> = {
  currency: 'Three letters, e.g. EUR.',
  account_holder: 'As registered with the bank: banks compare the name with the account.',
  account_number: 'The check digits of an IBAN are verified.',
  bank_code:
    'Optional. The BIC for payments from other countries, or a sort code or routing number.',
  bank_name: 'Optional.',
  payment_link:
    'Optional. An https address where any invoice can be paid. An invoice’s own payment link takes precedence.',
}

interface PaymentDetailsView {
  readonly session: Session
  readonly awaitingApproval: number
  readonly details: readonly PaymentDetails[]
  /** Currencies for which no payment details are entered, although an open invoice has no payment link of its own. */
  readonly currenciesWithoutDetails: readonly string[]
}

export function renderPaymentDetails(frame: Frame, view: PaymentDetailsView): Html {
  const { session, awaitingApproval, details, currenciesWithoutDetails } = view
  const isAdmin = session.user.role === 'admin'
  const main = html`<h1>Reminders</h1>
${renderReminderTabs(PATH, awaitingApproval)}
<p class="lead">Every reminder shows the payment link of the invoice, if it has one, and the details that an Admin enters here
for its currency. If these details change, reminders that wait for approval are rewritten, and approved reminders need
approval again.</p>
${renderMissingPaymentDetails(currenciesWithoutDetails, isAdmin)}
${
  details.length === 0 &&
  currenciesWithoutDetails.length === 0 &&
  html`<div class="card empty"><p><strong>There are no payment details yet.</strong></p>
<p class="hint">Reminders show the payment link of an invoice if it has one, and otherwise do not say how to pay.</p></div>`
}
${details.map((entry) => renderCard(entry, isAdmin, frame))}
${isAdmin && html`<p><a class="button${details.length === 0 && ' primary'}" href="${PATH}/new">Add a currency</a></p>`}`
  return renderPage(frame, { title: 'How to pay', section: '/settings/reminders', main })
}

/** Warns about currencies in which reminders without a payment link do not say how to pay. */
export function renderMissingPaymentDetails(
  currenciesWithoutDetails: readonly string[],
  isAdmin: boolean,
): Html | undefined {
  if (currenciesWithoutDetails.length === 0) return undefined
  const currencies = new Intl.ListFormat('en').format(currenciesWithoutDetails)
  return html`<div class="card warning" role="region" aria-label="How to pay is missing"><p><strong>Some reminders in ${currencies} do not say how to pay.</strong>
They demand money without naming a bank account or a payment link.</p>
${isAdmin && html`<p class="row">${currenciesWithoutDetails.map((currency) => html`<a href="${PATH}/new?currency=${currency}">Enter how to pay in ${currency}</a>`)}</p>`}</div>`
}

function renderCard(entry: PaymentDetails, isAdmin: boolean, frame: Frame): Html {
  const { currency } = entry
  const path = `${PATH}/${currency}`
  const id = `in-${currency.toLowerCase()}`
  return html`<section class="card stack" aria-labelledby="${id}"><h2 id="${id}">In ${currency}</h2>
<dl class="facts">${PAYMENT_FIELDS.map((name) => {
    const value = entry[name]
    const shown = name === 'account_number' && value !== null ? (formatIban(value) ?? value) : value
    return (
      value !== null &&
      html`<div><dt>${PAYMENT_WORDS[name]}</dt><dd translate="no">${shown}</dd></div>`
    )
  })}</dl>
${
  isAdmin &&
  html`<div class="actions"><a class="button" href="${path}">Change<span class="unseen"> how to pay in ${currency}</span></a>
<details class="action"><summary class="button danger">Remove…</summary>
<form method="post" action="${path}/remove" class="stack" data-once>${renderCommonHiddenFields(frame)}
<p class="hint">Reminders in ${currency} then do not say how to pay, unless an invoice has its own payment link.</p>
<p><button class="danger solid">Remove how to pay in ${currency}</button></p></form></details></div>`
}</section>`
}

export type PaymentValues = Readonly<Record<(typeof PAYMENT_FIELDS)[number] | 'currency', string>>

export interface PaymentForm {
  readonly values: PaymentValues
  readonly stored: PaymentValues
  /** Whether the currency has no details yet. The form then has a field for the currency. */
  readonly isNew: boolean
}

/**
 * Returns the stored values, without the currency. A field that the user does not change counts as not sent (see
 * `INITIAL_VALUES`), but the currency must always count as sent, because it identifies the details.
 */
function initialValuesOf({ currency: _, ...details }: PaymentValues): InitialValues {
  return details
}

export function renderPaymentForm(
  frame: Frame,
  { values, stored, isNew }: PaymentForm,
  problem?: Problem,
): Html {
  const field = (name: keyof PaymentValues) => {
    const isLink = name === 'payment_link'
    return html`<div class="field"><label for="${name}">${PAYMENT_WORDS[name]}</label>
<input id="${name}" name="${name}" type="${isLink ? 'url' : 'text'}" value="${values[name]}" autocomplete="off" spellcheck="false"${name === 'currency' && html` maxlength="3" size="4"`}${describedBy(problem, name, `${name}-hint`)}>
<p class="hint" id="${name}-hint">${HINTS[name]}</p>${renderFieldFaults(problem, name)}</div>`
  }
  const title = isNew ? 'Enter how to pay' : `How to pay in ${values.currency}`
  const main = html`<p class="back"><a href="${PATH}">How to pay</a></p>
<h1>${title}</h1>
<p class="lead">Enter a bank account, a payment link, or both. Customers see them in reminders in this currency, so check them carefully.</p>
${renderFaultSummary(problem)}
<form method="post" action="${PATH}" class="card stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderInitialValues(initialValuesOf(stored))}
${isNew ? field('currency') : html`<input type="hidden" name="currency" value="${values.currency}">`}
<div class="pair"><fieldset class="stack"><legend class="title">Bank account</legend>
${field('account_holder')}${field('account_number')}${field('bank_code')}${field('bank_name')}</fieldset>
<fieldset class="stack"><legend class="title">Online</legend>${field('payment_link')}</fieldset></div>
<p class="row"><button class="primary">Save</button> <a class="button" href="${PATH}">Cancel</a></p></form>`
  return renderPage(frame, { title, section: '/settings/reminders', main })
}
