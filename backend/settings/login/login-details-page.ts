import type { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import { browserName } from '../../sessions/browser-name.ts'
import type { ListedSession, Session } from '../../sessions/sessions.ts'
import { withFullStop } from '../../validation/full-stop.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, timeAgo } from '../shell/words.ts'

export interface LoginDetails {
  readonly session: Session
  readonly sessions: readonly ListedSession[]
  readonly now: Date
}

export function renderLoginDetails(frame: Frame, details: LoginDetails, problem?: Problem): Html {
  const { user, account } = details.session
  const main = html`<h1>Your login</h1>
<p class="lead">You are <strong translate="no">${user.email}</strong>,
${user.role === 'admin' ? 'an Admin' : 'a Member'} of <span translate="no">${withFullStop(account.name)}</span></p>
<section class="card" aria-labelledby="password-title">
<h2 id="password-title">Change your password</h2>
<p class="hint">You stay logged in here and are logged out everywhere else.</p>
${renderFaultSummary(problem)}
<form method="post" action="/settings/password" class="stack">
${renderCommonHiddenFields(frame)}
<input type="hidden" autocomplete="username" value="${user.email}">
<p class="field"><label for="current_password">Current password</label>
<input id="current_password" name="current_password" type="password"
autocomplete="current-password" required${describedBy(problem, 'current_password')}></p>
${renderFieldFaults(problem, 'current_password')}
<p class="field"><label for="new_password">New password</label>
<input id="new_password" name="new_password" type="password" autocomplete="new-password"
required${describedBy(problem, 'new_password', 'new-password-hint')}></p>
<p class="hint" id="new-password-hint">8 characters or more. Several words are safer than one word with symbols.</p>
${renderFieldFaults(problem, 'new_password')}
<p><button class="primary">Change password</button></p>
</form>
</section>
<section class="card" aria-labelledby="factor-title">
<div class="heading"><h2 id="factor-title">Two-factor authentication</h2>
<a class="button" href="/settings/two-factor">${user.hasSecondFactor ? 'Manage' : 'Set up'}<span class="unseen"> two-factor authentication</span></a></div>
<p>${user.hasSecondFactor ? (user.hasApp ? 'On: you log in with your password and a code from your app, or with a passkey if you have one.' : 'On: you log in with a passkey.') : 'Off: you log in with your password alone.'}</p>
</section>
<section class="card" aria-labelledby="notices-title">
<div class="heading"><h2 id="notices-title">Notices by mail</h2>
<a class="button" href="/settings/notices">${user.role === 'admin' ? 'Choose' : 'View'}<span class="unseen"> notices by mail</span></a></div>
<p>${user.role === 'admin' ? 'Choose which notices you receive about keys, webhooks and replies from customers. Notices about security are always mailed.' : 'You receive mail about your own login only.'}</p>
</section>
${renderSessions(frame, details)}`
  return renderPage(frame, { title: 'Your login', section: '/settings/login-details', main })
}

function renderSessions(frame: Frame, { sessions, session, now }: LoginDetails): Html {
  const times = { now, timezone: session.account.timezone }
  return html`<section aria-labelledby="sessions-title">
<div class="heading"><h2 id="sessions-title">Sessions</h2>
<form method="post" action="/settings/logout-everywhere">${renderCommonHiddenFields(frame)}
<button>Log out everywhere</button></form></div>
<p class="hint">A session ends after 30 minutes without use, and at the latest after 12 hours. Times are in
${times.timezone} time.</p>
<table class="records"><caption class="unseen">Your sessions</caption>
<thead><tr><th scope="col">Browser</th><th scope="col">IP address</th><th scope="col">Logged in</th><th scope="col">Last used</th><th scope="col">Actions</th></tr></thead>
<tbody>${sessions.map(
    (listed) => html`<tr>
<th scope="row" data-label="Browser">${browserName(listed.userAgent)}${listed.isCurrent && html` <span class="hint">this session</span>`}</th>
<td data-label="IP address" translate="no">${listed.address ?? 'Unknown'}</td>
<td data-label="Logged in">${exactTime(listed.createdAt, times.timezone)}</td>
<td data-label="Last used">${timeAgo(listed.lastSeenAt, times)}</td>
<td data-label="Actions">${!listed.isCurrent && renderEndSession(frame, listed, times)}</td></tr>`,
  )}</tbody></table>
</section>`
}

function renderEndSession(
  frame: Frame,
  { id, userAgent, createdAt }: ListedSession,
  { timezone }: { readonly timezone: string },
): Html {
  return html`<form method="post" action="/settings/sessions/${id}/end" data-once>${renderCommonHiddenFields(frame)}
<button class="small">End<span class="unseen"> the session in ${browserName(userAgent)} from ${exactTime(createdAt, timezone)}</span></button></form>`
}
