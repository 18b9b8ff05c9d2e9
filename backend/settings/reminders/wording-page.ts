import type { Problem } from '../../../shared/contract/problem.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import type { WordingKey } from '../../mail/wording/account-wordings.ts'
import { LANGUAGES } from '../../mail/wording/languages.ts'
import {
  trimLines,
  VARIABLES,
  type Variable,
  WORDING_FIELDS,
  type Wording,
  type WordingField,
} from '../../mail/wording/wording.ts'
import { STAGES } from '../../reminders/planning/ladder.ts'
import type { Session } from '../../sessions/sessions.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderInitialValues,
  renderPage,
} from '../shell/layout.ts'
import { LANGUAGE_WORDS, STAGE_WORDS } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'
import { renderReminderTabs } from './reminder-tabs.ts'

const PATH = '/settings/wording'

/** The name in paths, e.g. `firm-en`. */
export function nameOfWording({ stage, language }: WordingKey): string {
  return `${stage}-${language}`
}

/** `invoice` is the field for the invoice that the preview shows. */
export const FIELD_LABELS: Readonly<Record<WordingField | 'invoice', string>> = {
  subject: 'Subject',
  greeting: 'Greeting',
  opening: 'Before the invoice',
  opening_several: 'Before several invoices',
  closing: 'After the invoices',
  sign_off: 'Sign-off',
  invoice: 'Invoice number',
}

const HINTS: Readonly<Record<WordingField, string>> = {
  subject: 'Must contain {invoices}. The name of the sender is added at the end.',
  greeting: 'One line.',
  opening: 'For a reminder about one invoice. An empty line begins a new paragraph.',
  opening_several: 'For a reminder about several invoices.',
  closing: 'May be empty. After this text, the mail says where to send questions.',
  sign_off: 'The name of the sender follows on a line of its own.',
}

const VARIABLE_WORDS: Readonly<Record<Variable, string>> = {
  customer: 'The customer’s name',
  invoices: '“invoice INV-7”, or “3 invoices”',
  amount: 'The amount that is still due, with its currency',
  due_date: 'The due date; for several invoices, the earliest due date',
  overdue: '“12 days overdue”; before the due date, “in 3 days”',
  sender: 'The name of the sender',
}

interface WordingsView {
  readonly awaitingApproval: number
  /** The names of the wordings that the account has changed. */
  readonly changed: ReadonlySet<string>
}

export function renderWordings(frame: Frame, { awaitingApproval, changed }: WordingsView): Html {
  const main = html`<h1>Reminders</h1>
${renderReminderTabs(PATH, awaitingApproval)}
<p class="lead">What reminders say at each stage and in each language. Admins can change it. Customers with another language
receive reminders in English. Every mail also contains the invoices with their amounts, how to pay (if payment details are set up), and
a link to unsubscribe.</p>
<table class="records"><caption class="unseen">Wording by stage and language</caption>
<thead><tr><th scope="col">Stage</th>${LANGUAGES.map((language) => html`<th scope="col">${LANGUAGE_WORDS[language]}</th>`)}</tr></thead>
<tbody>${STAGES.map(
    (
      stage,
    ) => html`<tr><th scope="row"><span class="stage ${stage}">${STAGE_WORDS[stage]}</span></th>
${LANGUAGES.map((language) => {
  const name = nameOfWording({ stage, language })
  return html`<td data-label="${LANGUAGE_WORDS[language]}"><a href="${PATH}/${name}">${changed.has(name) ? 'Changed' : 'Default'}<span class="unseen">: ${STAGE_WORDS[stage]}, ${LANGUAGE_WORDS[language]}</span></a></td>`
})}</tr>`,
  )}</tbody></table>`
  return renderPage(frame, { title: 'Wording', section: '/settings/reminders', main })
}

export interface WordingView {
  readonly session: Session
  readonly key: WordingKey
  readonly values: Wording
  /** The saved wording. A hidden field of the form, `INITIAL_VALUES`, also contains it. */
  readonly stored: Wording
  /** Whether the account has a wording of its own. */
  readonly isChanged: boolean
  /**
   * Whether the form shows texts that were submitted but not saved: they were rejected, or only a test mail was
   * requested. `settings.js` then shows a preview of these texts instead of the saved wording.
   */
  readonly isUnsaved: boolean
  /** The number of the invoice in the preview, or '' for a made-up invoice. */
  readonly invoice: string
}

export function renderWording(frame: Frame, view: WordingView, problem?: Problem): Html {
  const { session, key, values, stored, isChanged, isUnsaved, invoice } = view
  const isAdmin = session.user.role === 'admin'
  const path = `${PATH}/${nameOfWording(key)}`
  const title = `${STAGE_WORDS[key.stage]}, ${LANGUAGE_WORDS[key.language]}`
  const line = (name: WordingField) =>
    field(
      name,
      problem,
      html`<input id="${name}" name="${name}" value="${values[name]}" autocomplete="off" lang="${key.language}"${attribute('disabled', !isAdmin)}${describedBy(problem, name, `${name}-hint`)}>`,
    )
  const lines = (name: WordingField, rows: number) =>
    field(
      name,
      problem,
      html`<textarea id="${name}" name="${name}" rows="${rows}" lang="${key.language}"${attribute('disabled', !isAdmin)}${describedBy(problem, name, `${name}-hint`)}>
${values[name]}</textarea>`,
    )
  const main = html`<p class="back"><a href="${PATH}">Wording</a></p>
<div class="heading"><h1>${title}</h1><p class="total">${isChanged ? html`<span class="badge active">Changed</span>` : 'Default'}</p></div>
${renderFaultSummary(problem)}
<div class="pair wording">
<form method="post" action="${path}" class="card stack" id="wording" data-once${isUnsaved && html` data-unsaved`} novalidate>${renderCommonHiddenFields(frame)}${renderInitialValues({ ...stored })}
${line('subject')}${line('greeting')}${lines('opening', 4)}${lines('opening_several', 4)}
<p class="hint fixed">Here the mail shows the invoices with their amounts and due dates, and how to pay.</p>
${lines('closing', 4)}${lines('sign_off', 2)}
<p class="hint fixed">Here the mail says on whose behalf it is sent, and how to unsubscribe.</p>
${isAdmin && renderActions(path, session, invoice, problem)}
</form>
<section aria-labelledby="preview-title" class="stack"><h2 id="preview-title">Preview</h2>
<p class="hint">${renderPreviewHint(view)}</p>
<div class="preview"><iframe class="mail-html" name="preview" sandbox="" src="${path}/preview" title="The reminder as the customer sees it" height="1100"></iframe></div></section>
</div>
${renderVariables()}
${
  isAdmin &&
  isChanged &&
  html`<section class="card stack" aria-labelledby="default-title"><h2 id="default-title">Default</h2>
<p class="hint">Deletes your wording of this stage in this language and uses the default again.</p>
<form method="post" action="${path}/reset" data-once>${renderCommonHiddenFields(frame)}<button class="danger">Restore the default</button></form></section>`
}`
  return renderPage(frame, { title: `Wording: ${title}`, section: '/settings/reminders', main })
}

function renderPreviewHint({ isUnsaved, invoice, values, stored }: WordingView): Html {
  if (isUnsaved) {
    const differs = WORDING_FIELDS.some((name) => trimLines(values[name]) !== stored[name])
    return html`${differs && 'The texts in the form are not saved.'}<noscript> The preview shows the saved wording until you press Preview.</noscript>`
  }
  return invoice === ''
    ? html`At first, the preview shows a made-up invoice, because nothing is owed to you at present.`
    : html`At first, the preview shows invoice <span translate="no">${invoice}</span>.`
}

function field(name: WordingField, problem: Problem | undefined, input: Html): Html {
  return html`<div class="field"><label for="${name}">${FIELD_LABELS[name]}</label>
${input}
<p class="hint" id="${name}-hint">${HINTS[name]}</p>${renderFieldFaults(problem, name)}</div>`
}

/** `settings.js` updates the preview after each change. Without scripts, only the button Preview updates it. */
function renderActions(
  path: string,
  { user }: Session,
  invoice: string,
  problem: Problem | undefined,
): Html {
  return html`<p class="row"><button class="primary">Save</button> <a class="button" href="${PATH}">Cancel</a></p>
<fieldset class="stack"><legend class="title">Try it</legend>
<div class="field"><label for="invoice">Invoice number</label>
<input id="invoice" name="invoice" value="${invoice}" autocomplete="off" translate="no"${describedBy(problem, 'invoice', 'invoice-hint')}>
<p class="hint" id="invoice-hint">The preview, and the test mail to <span translate="no">${user.email}</span>, use this invoice. Nothing is saved or sent to the customer.</p>${renderFieldFaults(problem, 'invoice')}</div>
<p class="row"><button formaction="${path}/preview" formtarget="preview" data-preview>Preview</button>
<button formaction="${path}/test">Send me a test</button></p></fieldset>`
}

function renderVariables(): Html {
  return html`<section class="card" aria-labelledby="variables-title"><h2 id="variables-title">Variables</h2>
<dl class="facts">${VARIABLES.map((name) => html`<div><dt><code translate="no">{${name}}</code></dt><dd>${VARIABLE_WORDS[name]}</dd></div>`)}</dl></section>`
}

/** Renders the document that the preview's iframe shows if the wording has faults. */
export function renderPreviewFaults(details: readonly string[]): string {
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>No preview</title>
<style>body{font:16px/1.5 system-ui,sans-serif;margin:1.5rem}</style></head>
<body><p><strong>There is no preview yet.</strong></p><ul>${details.map((detail) => html`<li>${detail}</li>`)}</ul></body></html>
`.text
}
