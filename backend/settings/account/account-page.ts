import type { Problem } from '../../../shared/contract/problem.ts'
import { type AccountProfile, PROFILE_FIELDS } from '../../accounts/account-profile.ts'
import { type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderInitialValues,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'

const PATH = '/settings/account'

export const PROFILE_WORDS: Readonly<Record<keyof AccountProfile, string>> = {
  name: 'Name',
  timezone: 'Time zone',
  default_currency: 'Currency',
  payment_terms_days: 'Payment terms in days',
}

const HINTS: Readonly<Record<keyof AccountProfile, string>> = {
  name: 'Customers see this name in every reminder, unless you set another sender name.',
  timezone:
    'Decides when a day begins, and therefore when an invoice becomes overdue. It also decides when reminders are sent to customers without a time zone of their own. All times on these pages are in this time zone.',
  default_currency:
    'Three letters, e.g. EUR. The form for a new invoice proposes this currency, unless the customer has another one. GET /api/v1/me of the API returns the account’s currency.',
  payment_terms_days:
    'From 0 to 365. A new invoice without a due date is due this many days after its issue date, unless the customer has other terms.',
}

export type ProfileValues = Readonly<Record<keyof AccountProfile, string>>

interface ProfileForm {
  readonly stored: ProfileValues
  /** The values of the rejected form; empty if no form was rejected. */
  readonly entered: Partial<ProfileValues>
}

export function renderAccountPage(
  frame: Frame,
  session: Session,
  form: ProfileForm,
  problem?: Problem,
): Html {
  const isAdmin = session.user.role === 'admin'
  const main = html`<h1>Account</h1>
<p class="lead">These settings apply to the whole account. After a change, existing invoices keep their currency and due
date, and reminders that are already approved or sent keep their text.</p>
${isAdmin ? renderForm(frame, form, problem) : renderReadOnly(form.stored)}
<section class="card stack" aria-labelledby="elsewhere"><h2 id="elsewhere">Set on other pages</h2>
<ul><li><a href="/settings/schedule">When reminders are sent, where replies go, and how money on account is used</a></li>
<li><a href="/settings/payment-details">How customers pay</a></li>
<li><a href="/settings/login-details">Whether Admins must use two-factor authentication</a></li></ul></section>`
  return renderPage(frame, { title: 'Account', section: PATH, main })
}

function renderForm(
  frame: Frame,
  { stored, entered }: ProfileForm,
  problem: Problem | undefined,
): Html {
  const field = (name: keyof AccountProfile, attributes: Html) =>
    html`<div class="field"><label for="${name}">${PROFILE_WORDS[name]}</label>
<input id="${name}" name="${name}" value="${entered[name] ?? stored[name]}" required${attributes}${describedBy(problem, name, `${name}-hint`)}>
<p class="hint" id="${name}-hint">${HINTS[name]}</p>${renderFieldFaults(problem, name)}</div>`
  return html`${renderFaultSummary(problem)}
<form method="post" action="${PATH}" class="card stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderInitialValues({ ...stored })}
${field('name', html` maxlength="200" autocomplete="organization"`)}
${field('timezone', html` list="timezones" autocomplete="off" spellcheck="false" translate="no"`)}
<datalist id="timezones">${Intl.supportedValuesOf('timeZone').map((zone) => html`<option value="${zone}"></option>`)}</datalist>
${field('default_currency', html` maxlength="3" size="4" autocomplete="off" spellcheck="false"`)}
${field('payment_terms_days', html` inputmode="numeric" size="4" autocomplete="off"`)}
<p><button class="primary">Save</button></p></form>`
}

function renderReadOnly(values: ProfileValues): Html {
  return html`<section class="card stack" aria-label="The account"><dl class="facts">${PROFILE_FIELDS.map(
    (name) =>
      html`<div><dt>${PROFILE_WORDS[name]}</dt><dd translate="no">${values[name]}</dd></div>`,
  )}</dl><p class="hint">An Admin can change these settings.</p></section>`
}
