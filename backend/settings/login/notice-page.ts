import { type Html, html } from '../../html/html.ts'
import {
  OPTIONAL_NOTICES,
  type OptionalNotice,
  type SECURITY_NOTICES,
} from '../../mail/notice-choices.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'

export const NOTICES_PATH = '/settings/notices'

const OPTIONAL_NOTICE_WORDS: Readonly<
  Record<OptionalNotice, readonly [name: string, hint: string]>
> = {
  'api_key.expiring': ['An API key is about to expire', '14 days and 1 day before it expires.'],
  'api_key.issued': ['An API key was issued', 'Only if another person of your account issued it.'],
  'webhook_endpoint.disabled': [
    'A webhook endpoint was disabled',
    'No events are sent to the endpoint until someone resumes it.',
  ],
  'message.received': [
    'A customer replied to a reminder',
    'Only if no address for replies is set. Reminders to the customer are paused until someone resumes them.',
  ],
}

const SECURITY_NOTICE_WORDS: Readonly<Record<(typeof SECURITY_NOTICES)[number], string>> = {
  'payment_details.changed':
    'The payment details in reminders were changed, e.g. the bank account.',
  'second_factor.removed': 'Two-factor authentication of a user was turned off.',
}

export function renderNotices(
  frame: Frame,
  { user }: Session,
  chosen: readonly OptionalNotice[],
): Html {
  const isAdmin = user.role === 'admin'
  const main = html`<p class="back"><a href="/settings/login-details">Your login</a></p>
<h1>Notices by mail</h1>
<p class="lead">${isAdmin ? html`Choose which notices the service mails to <strong translate="no">${user.email}</strong>. Other Admins choose for themselves.` : 'Notices about the account are mailed to its Admins. You receive mail about your own login only.'}</p>
${
  isAdmin &&
  html`<form method="post" action="${NOTICES_PATH}" class="card stack" data-once>${renderCommonHiddenFields(frame)}
<fieldset class="stack"><legend class="title">Mail me when</legend>
${OPTIONAL_NOTICES.map((kind) => {
  const [name, hint] = OPTIONAL_NOTICE_WORDS[kind]
  const id = kind.replaceAll(/[._]/g, '-')
  return html`<label class="check"><input type="checkbox" name="kinds" value="${kind}" aria-describedby="${id}"${chosen.includes(kind) && html` checked`}> <span>${name}<br><span class="hint" id="${id}">${hint}</span></span></label>`
})}</fieldset>
<p><button class="primary">Save</button></p></form>
<section class="card stack" aria-labelledby="always-title"><h2 id="always-title">Always mailed</h2>
<p class="hint">These notices are mailed to every Admin except the one who made the change (and, for a login, its owner), so that no such change goes unnoticed.</p>
<ul>${Object.values(SECURITY_NOTICE_WORDS).map((words) => html`<li>${words}</li>`)}</ul></section>`
}
<section class="card stack" aria-labelledby="own-title"><h2 id="own-title">About your own login</h2>
<p class="hint">Always mailed to you, so that nobody uses or changes your login unnoticed.</p>
<ul><li>Someone logged in as you with a new browser.</li>
<li>An authenticator app or a passkey was added or removed.</li>
<li>Your password was changed, in Settings or with a mailed link.</li>
<li>Someone entered your password, and then five wrong codes of the second factor.</li></ul></section>`
  return renderPage(frame, { title: 'Notices by mail', section: '/settings/login-details', main })
}
