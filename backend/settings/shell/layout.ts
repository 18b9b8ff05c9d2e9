/** The layout of all pages. */

import type { Problem } from '../../../shared/contract/problem.ts'
import { isReadOnly } from '../../accounts/accounts.ts'
import type { AccountStatus } from '../../database/tables.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import { assetPath } from './assets.ts'
import { SHOWN, type ShownValues } from './fields.ts'
import type { Frame } from './response.ts'
import { readFlash, renderUndo } from './undo.ts'

export interface PageContent {
  readonly title: string
  /** The path of the section's entry in the navigation; undefined if the page belongs to no section. */
  readonly section?: string
  readonly main: Html
  /** The text of the last search, which the search field in the header shows. */
  readonly search?: string
  /** Omits the navigation, for pages that must be completed first. */
  readonly hasNoNavigation?: boolean
  /** Loads the script for passkeys. */
  readonly hasPasskeys?: boolean
}

/** The messages that the next page shows after an action. */
const FLASHES: Readonly<Record<string, string>> = {
  account_resumed:
    'Account resumed. Reminders that are due are sent in business hours, and API keys can write again.',
  key_issued: 'Key issued. It cannot be shown again.',
  key_rotated: 'Key rotated. Switch your integration to the new key before the old key expires.',
  key_replaced: 'Key rotated. The old key no longer works.',
  key_changed: 'Key changed. The change applies from the next call on.',
  key_revoked: 'Key revoked. Calls with it are rejected from now on.',
  scopes_changed: 'Permissions changed. The change applies from the next call on.',
  webhook_changed: 'Endpoint changed.',
  webhook_deleted: 'Endpoint deleted. No more events are sent to it.',
  webhook_paused: 'Endpoint paused. Events wait until you resume it.',
  webhook_resumed: 'Endpoint resumed. Events that waited are being sent.',
  webhook_secret_expired: 'The old secret has expired. Webhooks are signed with the new one only.',
  webhook_being_sent: 'The event is already being sent, so it is not sent again.',
  webhook_redelivered: 'The event is being sent again.',
  webhooks_redelivered: 'Failed deliveries are being sent again.',
  customer_created: 'Customer added.',
  invoice_edited: 'Invoice changed.',
  invoice_created: 'Invoice entered.',
  customer_changed: 'Customer changed.',
  customer_paused: 'Reminders paused. No reminder is sent to this customer during the pause.',
  customer_resumed: 'Reminders resumed. They continue from where they stopped.',
  customer_chased: 'Reminders about the blocked invoices are sent again.',
  old_invoices_chased: 'Reminders about the old invoices are sent in business hours.',
  customer_archived: 'Customer archived. No more reminders are sent.',
  customer_restored: 'Customer restored. Reminders continue from where they stopped.',
  customer_cleared: 'Confirmed. Mail can be sent to the customer again.',
  customer_schedule: 'The customer’s schedule was changed.',
  invoice_finalised: 'Invoice finalized. The customer now owes it.',
  invoice_voided: 'The invoice is void.',
  invoice_written_off: 'Invoice written off. No more reminders are sent about it.',
  invoice_disputed: 'Dispute recorded. No reminder is sent about the invoice until it is resolved.',
  invoice_resolved: 'Dispute resolved. Reminders about the invoice are sent again.',
  invoice_resolved_blocked:
    'Dispute resolved. Reminders are blocked again for the reason that applied before the dispute.',
  invoice_resumed: 'Reminders about the invoice are sent again.',
  payment_recorded: 'Payment recorded.',
  payment_allocated: 'Money allocated.',
  payment_taken_back: 'Allocation taken back. The money is on account again.',
  invoice_credited: 'Credit recorded.',
  payment_reversed: 'Payment reversed. The invoices that it paid are owed again.',
  reminders_stopped: 'Reminders are stopped.',
  account_changed: 'Saved.',
  reminders_resumed:
    'Reminders resumed. Reminders that were waiting at the time of the stop are not sent.',
  schedule_changed:
    'Schedule changed. The change applies to reminders that are scheduled from now on.',
  payment_details_changed: 'Saved. Reminders in this currency say how to pay from now on.',
  wording_changed: 'Saved. Reminders that wait for approval are rewritten.',
  sender_changed: 'Saved. Reminders that wait for approval are rewritten.',
  logo_removed: 'Logo removed. Reminders show your name instead.',
  wording_reset: 'The default wording was restored.',
  test_mail_sent: 'The test mail is on its way to you.',
  test_mail_file:
    'The test mail was written to a file, because this service has no mail server. Ask the operator of the service for the directory.',
  test_mail_dropped:
    'No test mail was sent: the domain of your address is reserved for examples and receives no mail.',
  test_mail_waiting:
    'The test mail is waiting, because this service does not send mail at present.',
  payment_details_removed:
    'Payment details removed. Reminders in this currency no longer say how to pay.',
  message_approved: 'Approved. The reminder is sent when the customer’s business hours begin.',
  message_approved_now: 'Approved. The reminder is being sent.',
  message_rejected: 'Rejected. The reminder is not sent, and reminders about its invoices stop.',
  decision_taken_back:
    'Decision taken back. The reminder waits for approval again, or is rewritten in business hours.',
  invitation_withdrawn: 'Invitation withdrawn.',
  role_changed: 'Role changed.',
  user_deactivated: 'Login deactivated. This person can no longer log in.',
  user_reactivated: 'Login reactivated. This person can log in again.',
  second_factor_disabled: 'The authenticator app is turned off. Its codes can no longer be used.',
  second_factor_policy: 'Rule changed. It applies to each Admin from the next page that they open.',
  passkey_added: 'Passkey added. You can log in with it.',
  passkey_renamed: 'Passkey renamed.',
  passkey_removed: 'Passkey removed. It can no longer be used to log in.',
  notices_changed: 'Saved. The choice applies from the next notice on.',
  session_ended: 'Session ended.',
  logged_out: 'You are logged out.',
  logged_out_everywhere: 'You are logged out everywhere.',
  password_changed: 'Password changed. You are logged out everywhere else.',
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
  const { title, main, hasNoNavigation, hasPasskeys } = content
  const { session } = frame
  const flash = readFlash(frame.flash)
  const flashText = flash && FLASHES[flash.name]
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
${hasPasskeys && html`<script type="module" src="${assetPath('passkeys.js')}"></script>`}
</head>
<body>
${session !== undefined && !hasNoNavigation && html`<a class="skip" href="#main">Skip to content</a>`}
${renderNotice(frame)}
${session === undefined || hasNoNavigation ? renderBrand() : renderHeader(frame, content)}
<main id="main">
<div class="flash-row"><div class="flash" role="status" id="flash">${flashText}</div>
${flash?.undo !== undefined && renderUndo(flash.undo, csrfField(frame))}</div>
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
  /** The number of waiting items; 0 is not shown. */
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

/** Renders the faults for the top of a form. The list receives the focus, and each fault links to its field. */
export function renderFaults(problem: Problem | undefined): Html | undefined {
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

/** Renders all faults of a field beside it; the field refers to them by `describedBy`. */
export function renderFault(problem: Problem | undefined, field: string): Html | undefined {
  const faults = faultsOf(problem).filter((candidate) => candidate.field === field)
  if (faults.length === 0) return undefined
  return html`<p class="fault" id="${field}-fault">${faults.map(({ detail }, index) => html`${index > 0 && html`<br>`}${detail}`)}</p>`
}

/** Returns the attributes that link a field to its hint and its fault. */
export function describedBy(problem: Problem | undefined, field: string, hintId?: string): Html {
  const isFaulty = faultsOf(problem).some((fault) => fault.field === field)
  const ids = [hintId, isFaulty ? `${field}-fault` : undefined].filter((id) => id !== undefined)
  const described = ids.length > 0 && html` aria-describedby="${ids.join(' ')}"`
  return html`${isFaulty && html` aria-invalid="true"`}${described}`
}

export function renderHidden(name: string, value: string | number): Html {
  return html`<input type="hidden" name="${name}" value="${value}">`
}

/** Renders the first values of a form. They are the stored values, even if the form shows rejected ones. */
export function renderShown(values: ShownValues): Html {
  return renderHidden(SHOWN, JSON.stringify(values))
}

/** Renders an option of a `select`. An undefined choice is the option with an empty value. */
export function renderOption(value: string, text: string, chosen: string | undefined): Html {
  return html`<option value="${value}"${attribute('selected', value === (chosen ?? ''))}>${text}</option>`
}

export function csrfField({ csrfToken }: Frame): Html {
  return renderHidden('csrf_token', csrfToken)
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
${csrfField(frame)}
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

/** Renders the notice at the top of every page while all reminders are stopped or the account is read-only. */
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
  html`<p><strong>This account is read-only.</strong> ${READ_ONLY_WORDS[session.account.status]} No reminder is sent, and API
calls that write are rejected with status 423; calls that read succeed. Keys can still be issued and revoked.
<a href="/settings/account-state">${session.account.status === 'trial_paused' && session.user.role === 'admin' ? 'Resume' : 'Details'}<span class="unseen"> of the account</span></a></p>`
}
</div>`
}
