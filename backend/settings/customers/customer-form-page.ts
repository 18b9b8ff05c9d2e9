import type { Problem } from '../../../shared/contract/problem.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { DETAIL_LABELS, type DebtorDetails } from '../../debtors/details.ts'
import { type Html, html } from '../../html/html.ts'
import { LANGUAGES } from '../../mail/wording/languages.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderInitialValues,
  renderOption,
  renderPage,
} from '../shell/layout.ts'
import { languageText } from '../shell/ledger-words.ts'
import type { Frame } from '../shell/response.ts'

interface CustomerForm {
  readonly row: DebtorRow
  /**
   * The details in `row` as texts. The form sends them too, so that saving it changes only the fields that the person
   * has edited.
   */
  readonly stored: DebtorDetails
  /** The values that were entered, if the form was rejected; otherwise empty. */
  readonly entered: DebtorDetails
}

export interface Field {
  readonly name: string
  readonly hint?: string | undefined
  /** `lines` is a text of several lines. */
  readonly type?: 'email' | 'tel' | 'date' | 'lines' | undefined
}

export const CONTACT_FIELDS: readonly (Field & { readonly name: keyof DebtorDetails })[] = [
  { name: 'name' },
  { name: 'email', type: 'email' },
  {
    name: 'phone',
    type: 'tel',
    hint: 'With the country code, e.g. +31205550142.',
  },
  { name: 'language', hint: 'The language of reminders.' },
  {
    name: 'timezone',
    hint: 'Reminders are sent in the customer’s business hours. Leave empty to use your account’s time zone.',
  },
]

export const ADDRESS_FIELDS: typeof CONTACT_FIELDS = [
  { name: 'line1' },
  { name: 'line2' },
  { name: 'postal_code' },
  { name: 'city' },
  { name: 'region' },
  { name: 'country', hint: 'Two letters, e.g. NL.' },
]

export function renderCustomerForm(
  frame: Frame,
  { row, stored, entered }: CustomerForm,
  problem?: Problem,
): Html {
  const path = `/settings/customers/${row.id}`
  const renderDetail = (field: (typeof CONTACT_FIELDS)[number]) =>
    renderField(
      field,
      DETAIL_LABELS[field.name],
      entered[field.name] ?? stored[field.name] ?? '',
      problem,
    )
  const bounced = row.contactability_email === 'bounced'
  const main = html`<p class="back"><a href="${path}" translate="no">${row.name}</a></p>
<h1>Change customer</h1>
${bounced && html`<p class="lead">Mail to this customer bounced. After you enter another address, confirm on the customer’s page that it works.</p>`}
${renderFaultSummary(problem)}
<form method="post" action="${path}" class="card stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderInitialValues(stored)}
<div class="pair">
<fieldset class="stack"><legend class="title">Contact</legend>${CONTACT_FIELDS.map(renderDetail)}</fieldset>
<fieldset class="stack"><legend class="title">Address</legend>${ADDRESS_FIELDS.map(renderDetail)}</fieldset>
</div>
<p class="row"><button class="primary">Save</button> <a class="button" href="${path}">Cancel</a></p>
</form>`
  return renderPage(frame, { title: `Change ${row.name}`, section: '/settings/customers', main })
}

/** The options include the customer's language even if reminders cannot be written in this language. */
function renderLanguages(value: string): Html {
  const other = LANGUAGES.some((language) => language === value) ? [] : [value].filter(Boolean)
  return html`${renderOption('', 'Unknown: reminders in English', value)}${[...LANGUAGES, ...other].map((tag) => renderOption(tag, languageText(tag), value))}`
}

export function renderField(
  { name, hint, type }: Field,
  label: string,
  value: string,
  problem: Problem | undefined,
): Html {
  const hintId = hint === undefined ? undefined : `${name}-hint`
  const described = describedBy(problem, name, hintId)
  // HTML ignores the line break directly after `<textarea>`. Without it, the first line break of a value that begins
  // with a line break would be lost.
  const input =
    name === 'language'
      ? html`<select id="${name}" name="${name}"${described}>${renderLanguages(value)}</select>`
      : type === 'lines'
        ? html`<textarea id="${name}" name="${name}" rows="4"${described}>
${value}</textarea>`
        : html`<input id="${name}" name="${name}" type="${type ?? 'text'}" value="${value}" autocomplete="off"${described}>`
  return html`<div class="field"><label for="${name}">${label}</label>
${input}
${hint !== undefined && html`<p class="hint" id="${hintId}">${hint}</p>`}${renderFieldFaults(problem, name)}</div>`
}
