import type { Problem } from '../../../shared/contract/problem.ts'
import { isReadOnly } from '../../accounts/accounts.ts'
import type { AccountStatus } from '../../database/tables.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import { readFlash, type Undo } from '../../sessions/flash.ts'
import { assetPath } from './assets.ts'
import { FORM_USER_ID, INITIAL_VALUES, type InitialValues } from './fields.ts'
import { FLASH_WORDS } from './flash-words.ts'
import type { Frame } from './response.ts'

export interface PageContent {
  readonly title: string
  /** The path of the section's entry in the navigation; undefined if the page belongs to no section. */
  readonly section?: string
  readonly main: Html
  /** The text in the search field of the header. */
  readonly search?: string
  /** Omits the navigation, for pages with a secret that is shown only once: the user must store it before leaving. */
  readonly hasNoNavigation?: boolean
  /** Whether the page needs the script for passkeys. */
  readonly needsPasskeyScript?: boolean
}

const SECTIONS = [
  { path: '/settings', name: 'Home', adminsOnly: false },
  { path: '/settings/customers', name: 'Customers', adminsOnly: false },
  { path: '/settings/reminders', name: 'Reminders', adminsOnly: false },
  { path: '/settings/api-keys', name: 'API & webhooks', adminsOnly: false },
  { path: '/settings/account', name: 'Account', adminsOnly: false },
  { path: '/settings/people', name: 'People', adminsOnly: true },
  { path: '/settings/audit-log', name: 'Audit log', adminsOnly: true },
  { path: '/settings/login-details', name: 'Your login', adminsOnly: false },
]

export function renderPage(frame: Frame, content: PageContent): Html {
  const { title, main, hasNoNavigation, needsPasskeyScript } = content
  const { session } = frame
  const flash = readFlash(frame.flash)
  const flashText = flash && FLASH_WORDS.get(flash.name)
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Receivables</title>
<link rel="icon" type="image/svg+xml" href="${assetPath('icon.svg')}">
<link rel="stylesheet" href="${assetPath('settings.css')}">
<link rel="stylesheet" href="${assetPath('ledger.css')}">
<link rel="stylesheet" href="${assetPath('home.css')}">
<link rel="stylesheet" href="${assetPath('lists.css')}">
<script type="module" src="${assetPath('settings.js')}"></script>
<script type="module" src="${assetPath('dialogs.js')}"></script>
${needsPasskeyScript && html`<script type="module" src="${assetPath('passkeys.js')}"></script>`}
</head>
<body>
${session !== undefined && !hasNoNavigation && html`<a class="skip" href="#main">Skip to content</a>`}
${renderNotice(frame)}
${session === undefined || hasNoNavigation ? renderBrand() : renderHeader(frame, content)}
<main id="main">
<div class="flash-row"><div class="flash" role="status" id="flash">${flashText}</div>
${flash?.undo !== undefined && renderUndo(frame, flash.undo)}</div>
${main}
</main>
${
  session !== undefined &&
  !hasNoNavigation &&
  html`<footer class="zone">Times are in the account’s time zone, <span translate="no">${session.account.timezone}</span>.</footer>`
}
</body>
</html>
`
}

interface Tab {
  readonly path: string
  readonly name: string
  /** The number of items on the page that wait for the user; 0 is not shown. */
  readonly count?: number
}

/** Renders links to the pages of one section as tabs; `path` is the path of the current page. */
export function renderTabs(label: string, tabs: readonly Tab[], path: string): Html {
  return html`<nav class="tabs" aria-label="${label}"><ul>${tabs.map(
    (tab) =>
      html`<li><a href="${tab.path}"${tab.path === path && html` aria-current="page"`}>${tab.name}${
        tab.count !== undefined && tab.count > 0 && html` <span class="count">${tab.count}</span>`
      }</a></li>`,
  )}</ul></nav>`
}

/**
 * Renders the faults for the top of a form, or the message of a problem without faults. The box receives the focus, and
 * each fault links to its field.
 */
export function renderFaultSummary(problem: Problem | undefined): Html | undefined {
  if (problem === undefined) return undefined
  const faults = faultsOf(problem)
  return html`<div class="faults" role="alert" tabindex="-1" autofocus data-focus>
${
  faults.length === 0
    ? html`<p>${problem.message}</p>`
    : html`<ul>${faults.map(({ field, detail }) => html`<li><a href="#${field}">${detail}</a></li>`)}</ul>`
}
</div>`
}

export interface Fault {
  readonly field: string
  readonly detail: string
}

export function faultsOf(problem: Problem | undefined): readonly Fault[] {
  const errors = problem?.members['errors']
  if (!Array.isArray(errors)) return []
  return errors.map(({ pointer, detail }) => ({
    field: String(pointer).slice(1),
    detail: String(detail),
  }))
}

/** Renders the faults of a field. The attributes from `describedBy` link the field to them. */
export function renderFieldFaults(problem: Problem | undefined, field: string): Html | undefined {
  const faults = faultsOf(problem).filter((candidate) => candidate.field === field)
  if (faults.length === 0) return undefined
  return html`<p class="fault" id="${field}-fault">${faults.map(({ detail }, index) => html`${index > 0 && html`<br>`}${detail}`)}</p>`
}

/** Returns the attributes that mark a field with faults as invalid, and link it to its hint and its faults. */
export function describedBy(problem: Problem | undefined, field: string, hintId?: string): Html {
  const isFaulty = faultsOf(problem).some((fault) => fault.field === field)
  const ids = [hintId, isFaulty ? `${field}-fault` : undefined].filter((id) => id !== undefined)
  const described = ids.length > 0 && html` aria-describedby="${ids.join(' ')}"`
  return html`${isFaulty && html` aria-invalid="true"`}${described}`
}

export function renderHidden(name: string, value: string | number): Html {
  return html`<input type="hidden" name="${name}" value="${value}">`
}

/** Renders a text that is shown once, with a Copy button. The button needs the script, and is hidden without it. */
export function renderCopyField(id: string, label: string, text: string): Html {
  return html`<div class="field"><label for="${id}">${label}</label>
<div class="copy"><input id="${id}" class="secret" value="${text}" readonly spellcheck="false" autocomplete="off" translate="no"><button type="button" data-copy="${id}" hidden>Copy<span class="unseen"> ${label}</span></button></div></div>`
}

/** Renders the hidden field `INITIAL_VALUES` with the values that are stored when the form is rendered. */
export function renderInitialValues(values: InitialValues): Html {
  return renderHidden(INITIAL_VALUES, JSON.stringify(values))
}

/** Renders an option of a `select`. If `chosen` is undefined, the option with an empty value is selected. */
export function renderOption(value: string, text: string, chosen: string | undefined): Html {
  return html`<option value="${value}"${attribute('selected', value === (chosen ?? ''))}>${text}</option>`
}

/**
 * Renders the hidden fields of every POST form: the CSRF token and, in a session, the id of the user for whom the form
 * is rendered. The id shows whether another user has logged in with the same browser since.
 */
export function renderCommonHiddenFields({ csrfToken, session }: Frame): Html {
  return html`${renderHidden('csrf_token', csrfToken)}${session && renderHidden(FORM_USER_ID, session.user.id)}`
}

function renderUndo(frame: Frame, { path, fields }: Undo): Html {
  return html`<form method="post" action="${path}" class="undo" data-once>${renderCommonHiddenFields(frame)}${fields.map(
    ([name, value]) => renderHidden(name, value),
  )}<button class="small">Undo<span class="unseen"> what was just done</span></button></form>`
}

function renderBrand(): Html {
  return html`<header class="top"><span class="brand">Receivables</span></header>`
}

function renderHeader(frame: Frame, { section, search }: PageContent): Html {
  const { session } = frame
  if (session === undefined) return renderBrand()
  const sections = SECTIONS.filter(({ adminsOnly }) => !adminsOnly || session.user.role === 'admin')
  return html`<header class="top">
<span class="brand">Receivables</span>
<span class="account" translate="no">${session.account.name}</span>
<form method="get" action="/settings/search" class="find" role="search">
<label for="find" class="unseen">Find customers, invoices, payments and messages</label>
<input id="find" name="q" type="search" value="${search}" placeholder="Find…" maxlength="200" autocomplete="off"></form>
<form method="post" action="/settings/logout" class="logout">
<span class="who" translate="no">${session.user.email}</span>
${renderCommonHiddenFields(frame)}
<button class="quiet">Log out</button>
</form>
</header>
<nav aria-label="Settings"><ul>
${sections.map(
  ({ path, name }) =>
    html`<li><a href="${path}"${path === section && html` aria-current="page"`}>${name}</a></li>`,
)}
</ul></nav>`
}

const READ_ONLY_WORDS: Readonly<Partial<Record<AccountStatus, string>>> = {
  trial_paused: 'The trial is paused.',
  suspended: 'The account is suspended.',
  cancelled: 'The account is cancelled.',
}

function renderNotice({ session, killSwitch }: Frame): Html | undefined {
  const isReadOnlyAccount = session !== undefined && isReadOnly(session.account.status)
  if (!isReadOnlyAccount && killSwitch === undefined) return undefined
  return html`<div class="halt" role="region" aria-label="Notice">
${
  killSwitch !== undefined &&
  html`<p><strong>${killSwitch.scope === 'account' ? 'Reminders are stopped.' : 'Reminders are stopped by the operator of this service.'}</strong>
${killSwitch.reason} <a href="/settings/kill-switch">Details<span class="unseen"> of the kill switch</span></a></p>`
}
${
  isReadOnlyAccount &&
  html`<p><strong>This account is read-only.</strong> ${READ_ONLY_WORDS[session.account.status]} No reminder is sent, and
customers, invoices and payments can be read, but not changed: API calls that write are rejected with status 423. Reminders
can still be paused, disputes recorded, and keys issued and revoked.
<a href="/settings/account-state">${session.account.status === 'trial_paused' && session.user.role === 'admin' ? 'Resume the account' : html`Details<span class="unseen"> of the account</span>`}</a></p>`
}
</div>`
}
