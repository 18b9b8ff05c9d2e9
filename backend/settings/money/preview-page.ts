import { type Html, html } from '../../html/html.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import { dateWords, nextReminderText, renderMoney } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'
import { plural } from '../shell/words.ts'
import type { ChangedInvoice, Effects } from './effects.ts'

/** The maximum number of invoices that a page lists. */
const SHOWN_MAX = 40

export interface PreviewPage {
  readonly title: string
  /** The page to which Cancel and the link at the top lead. */
  readonly back: { readonly path: string; readonly name: string }
  /** The entered values, and what the action applies to. */
  readonly facts: readonly (readonly [name: string, value: Html | string])[]
  readonly warning?: Html | undefined
  readonly effects: Effects
  readonly timezone: string
  readonly action: string
  /** The path that shows the form again with the entered values. */
  readonly editAction: string
  readonly button: string
  /** The entered values and an idempotency key, as hidden fields. */
  readonly hidden: Html
}

export function renderPreviewPage(frame: Frame, page: PreviewPage): Html {
  const { title, back, facts, warning, effects, timezone } = page
  const main = html`<p class="back"><a href="${back.path}" translate="no">${back.name}</a></p>
<h1>${title}</h1>
${warning !== undefined && html`<div class="faults" role="note"><p>${warning}</p></div>`}
<section class="card"><dl class="facts">${facts.map(
    ([name, value]) => html`<div><dt>${name}</dt><dd translate="no">${value}</dd></div>`,
  )}</dl></section>
<section aria-labelledby="outcome"><h2 id="outcome">What changes</h2>
${renderSentences(effects)}
${effects.invoices.length > 0 && renderInvoices(effects.invoices, timezone)}</section>
<form method="post" action="${page.action}" class="confirm" data-once>${renderCommonHiddenFields(frame)}${page.hidden}
<p class="row"><button class="primary">${page.button}</button>
<button formaction="${page.editAction}" formnovalidate>Change</button>
<a class="button" href="${back.path}">Cancel</a></p></form>`
  return renderPage(frame, { title, section: '/settings/customers', main })
}

/** Renders the effects as lists of sentences, for confirmation pages that request a reason. */
export function renderEffects(effects: Effects, timezone: string): Html {
  const shown = effects.invoices.slice(0, SHOWN_MAX)
  const notShown = effects.invoices.length - shown.length
  const lines = shown.map(
    ({ after }) =>
      html`<li><span translate="no">${after.number}</span>: ${renderMoney(after.amount_due, after.currency)} will be due. Next reminder: ${nextReminderText(after, timezone)}.</li>`,
  )
  return html`${renderSentences(effects)}
${shown.length > 0 && html`<ul class="consequences">${lines}${notShown > 0 && html`<li>And ${plural(notShown, 'other invoice')}.</li>`}</ul>`}`
}

function renderSentences(effects: Effects): Html {
  const { invoices, onAccount, messagesCancelled, messagesInFlight } = effects
  const sentences = [
    ...onAccount.map(({ currency, before, after }) =>
      after > before
        ? html`${renderMoney(after - before, currency)} more is on account: ${renderMoney(after, currency)} in total. This money is not allocated to an invoice.`
        : html`${renderMoney(before - after, currency)} less is on account: ${renderMoney(after, currency)} is left.`,
    ),
    ...(messagesCancelled === 0
      ? []
      : [
          html`${plural(messagesCancelled, 'waiting reminder')} ${messagesCancelled === 1 ? 'is' : 'are'} cancelled.${invoices.length > 0 && ' The next reminders about the invoices that change are shown below.'}`,
        ]),
    ...(messagesInFlight === 0
      ? []
      : [
          html`${plural(messagesInFlight, 'reminder')} ${messagesInFlight === 1 ? 'is' : 'are'} being sent at this moment and can still arrive.`,
        ]),
  ]
  // No sentence is needed, because the caller lists the invoices that change.
  if (sentences.length === 0 && invoices.length > 0) return html``
  if (sentences.length === 0)
    return html`<p class="card hint">No invoice and no reminder changes.</p>`
  return html`<ul class="consequences">${sentences.map((sentence) => html`<li>${sentence}</li>`)}</ul>`
}

function renderInvoices(invoices: readonly ChangedInvoice[], timezone: string): Html {
  const notShown = invoices.length - SHOWN_MAX
  return html`<table class="records ledger"><caption class="unseen">Invoices that change</caption>
<thead><tr><th scope="col">Invoice</th><th scope="col">Due on</th><th scope="col" class="amount">Amount due now</th>
<th scope="col" class="amount">Amount due afterwards</th><th scope="col">Next reminder afterwards</th></tr></thead>
<tbody>${invoices.slice(0, SHOWN_MAX).map(
    ({
      before,
      after,
    }) => html`<tr><th scope="row" data-label="Invoice" translate="no">${after.number}</th>
<td data-label="Due on">${dateWords(after.due_date)}</td>
<td data-label="Due now" class="amount">${renderMoney(before.amount_due, before.currency)}</td>
<td data-label="Due afterwards" class="amount">${
      after.status === 'paid'
        ? html`<span class="badge active">Paid</span>`
        : renderMoney(after.amount_due, after.currency)
    }</td>
<td data-label="Next reminder">${after.status === 'paid' ? 'None' : nextReminderText(after, timezone)}</td></tr>`,
  )}</tbody></table>
${notShown > 0 && html`<p class="hint">And ${plural(notShown, 'other invoice')}.</p>`}`
}
