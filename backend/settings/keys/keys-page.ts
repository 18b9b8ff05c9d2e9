/** The page "API & webhooks": API keys, account-wide permissions, and webhook endpoints. */
import type { EndedCounts, KeyFilter } from '../../api-keys/key-list.ts'
import { keyStatus } from '../../api-keys/key-status.ts'
import type { ApiKeyRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import { type ListPage, renderNext } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'
import { agoWords, plural, SCOPE_WORDS, timeAgoExact } from '../shell/words.ts'
import type { EndpointWithAttempts } from '../webhooks/endpoint-attempts.ts'
import { renderEndpointTable } from '../webhooks/webhooks-page.ts'
import { allowedScopes, renderScopes, renderStatus } from './key-view.ts'

const PATH = '/settings/api-keys'

export interface KeysPage {
  /** If undefined, the page shows both active and ended keys. */
  readonly status: KeyFilter | undefined
  readonly active: ListPage<ApiKeyRow>
  /** Keys that are revoked or have expired. */
  readonly ended: ListPage<ApiKeyRow>
  readonly counts: EndedCounts
}

interface KeysView extends KeysPage {
  /** The parameter `limit` of the URL. */
  readonly limit: string | undefined
  readonly endpoints: readonly EndpointWithAttempts[]
  readonly session: Session
  readonly now: Date
  /** Whether the list of ended keys is open at first although `status` is undefined. */
  readonly showsEnded: boolean
}

export function renderKeys(frame: Frame, view: KeysView): Html {
  const { session, status, active, limit } = view
  const isAdmin = session.user.role === 'admin'
  const main = html`<h1>API &amp; webhooks</h1>
<p class="lead">Let your own systems read customers and invoices and record payments.
<a class="whole-line" href="/docs">API documentation</a></p>
<section aria-labelledby="keys-title">
<div class="heading"><h2 id="keys-title">API keys</h2>
${isAdmin && html`<a class="button primary" href="/settings/api-keys/new">Issue key</a>`}</div>
${status !== undefined && status !== 'active' ? undefined : active.rows.length === 0 ? renderEmpty(isAdmin, endedCountOf(view) > 0) : renderTable('Active API keys', active.rows, view)}
${active.next !== null && renderNext(PATH, { status: 'active', limit, cursor: active.next }, 'More active keys')}
${status === 'active' ? undefined : renderEnded(view)}
${status !== undefined && html`<p class="back"><a href="${PATH}">All keys</a></p>`}
</section>
${renderScopeAllowanceCard(session, isAdmin)}
<section aria-labelledby="webhooks-title">
<div class="heading"><h2 id="webhooks-title">Webhook endpoints</h2>
<span class="row"><a class="button" href="/settings/webhook-deliveries">Delivery log</a>
<a class="button" href="/settings/webhook-endpoints">Manage<span class="unseen"> webhook endpoints</span></a>
${isAdmin && html`<a class="button primary" href="/settings/webhook-endpoints/new">Add endpoint</a>`}</span></div>
<p class="hint">Signed events are sent to your server, so that it need not poll.</p>
${renderEndpointTable(view)}
</section>
${isAdmin && renderDialog(frame)}`
  return renderPage(frame, { title: 'API & webhooks', section: '/settings/api-keys', main })
}

const ENDED_STATUSES = ['expired', 'revoked'] as const

function endedCountOf({ counts }: KeysPage): number {
  return counts.revoked + counts.expired
}

function renderEnded(view: KeysView): Html | undefined {
  const { ended, counts, status, showsEnded, limit } = view
  const isOneStatus = status === 'revoked' || status === 'expired'
  const count = isOneStatus ? counts[status] : endedCountOf(view)
  if (count === 0) return undefined
  const isOpen = showsEnded || status !== undefined
  const statuses = isOneStatus ? [status] : ENDED_STATUSES.filter((each) => counts[each] > 0)
  const words = statuses.join(' or ')
  return html`<details${isOpen && html` open`}>
<summary>Show ${words} (${count})</summary>
${renderTable(`Keys that are ${words}`, ended.rows, view)}
${ended.next !== null && renderNext(PATH, { status: status ?? 'ended', limit, cursor: ended.next }, 'More of these keys')}
</details>`
}

function renderEmpty(isAdmin: boolean, hasEnded: boolean): Html {
  return html`<div class="card empty">
<p><strong>${hasEnded ? 'No key is active.' : 'There is no API key yet.'}</strong></p>
<p class="hint">${
    isAdmin
      ? 'Issue a key for each system that calls the API, so that you can revoke each key separately.'
      : 'An Admin of your account can issue a key.'
  }</p>
</div>`
}

function renderTable(caption: string, rows: readonly ApiKeyRow[], view: KeysView): Html {
  const isAdmin = view.session.user.role === 'admin'
  const hasActions = isAdmin && rows.some((row) => row.revoked_at === null)
  return html`<table class="records">
<caption class="unseen">${caption}</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Permissions</th><th scope="col">Last used</th>
<th scope="col">Prefix</th><th scope="col">Status</th>${hasActions && html`<th scope="col">Actions</th>`}</tr></thead>
<tbody>${rows.map((row) => renderRow(row, hasActions, view))}</tbody>
</table>`
}

function renderRow(row: ApiKeyRow, hasActions: boolean, { session, now }: KeysView): Html {
  const { timezone, scopeAllowance } = session.account
  const times = { now, timezone }
  const isEnded = keyStatus(row, now) !== 'active'
  return html`<tr id="${row.id}"${isEnded && html` class="is-ended"`}>
<th scope="row" data-label="Name"><a href="/settings/api-keys/${row.id}">${
    isEnded ? html`<s>${row.name}</s>` : row.name
  }</a></th>
<td data-label="Permissions">${renderScopes(row, scopeAllowance)}</td>
<td data-label="Last used">${row.last_used_at === null ? 'Never' : timeAgoExact(row.last_used_at, times)}</td>
<td data-label="Prefix"><code translate="no">${row.prefix}</code></td>
<td data-label="Status">${renderStatus(row, times)}</td>
${
  hasActions &&
  html`<td data-label="Actions">${row.revoked_at === null && renderRevokeLink(row, now)}</td>`
}
</tr>`
}

function renderRevokeLink(row: ApiKeyRow, now: Date): Html {
  return html`<a class="button danger" href="/settings/api-keys/${row.id}/revoke"
data-dialog="revoke-dialog" data-name="${row.name}" data-prefix="${row.prefix}"
data-warning="${revocationWarning(row, now)}">Revoke<span class="unseen"> ${row.name}</span></a>`
}

/**
 * Returns the warning before a key is revoked, with the last use of the key. Each backend buffers the times of such
 * uses for a few seconds. This backend stores its buffered times before it renders the warning; a use that another
 * backend has buffered may be missing.
 */
export function revocationWarning({ last_used_at }: ApiKeyRow, now: Date): string {
  return last_used_at === null
    ? 'No use of this key is recorded; a use in the last few seconds may not be recorded yet. If you revoke the key, calls with it fail immediately.'
    : `This key was used ${agoWords(last_used_at, now)}. If you revoke the key, calls with it fail immediately.`
}

function renderScopeAllowanceCard({ account }: Session, isAdmin: boolean): Html {
  const allowed = allowedScopes(account.scopeAllowance)
  return html`<section class="card" aria-labelledby="allowance-title">
<div class="heading"><h2 id="allowance-title">Account-wide permissions</h2>
<a class="button" href="/settings/scope-allowance">${isAdmin ? 'Change' : 'View'}<span class="unseen"> account-wide permissions</span></a></div>
${
  account.scopeAllowance === null
    ? html`<p>Not restricted: each key has the permissions that it was issued with.</p>`
    : html`<p>${
        allowed.length === 0
          ? 'None: keys can only call /api/v1/me.'
          : html`Keys are limited to ${plural(allowed.length, 'permission')}:`
      }</p><ul class="chips">${allowed.map((scope) => html`<li>${SCOPE_WORDS[scope]}</li>`)}</ul>`
}
</section>`
}

/** The script fills in the dialog from the link that opens it. */
function renderDialog(frame: Frame): Html {
  return html`<dialog id="revoke-dialog" role="alertdialog" aria-labelledby="revoke-title" aria-describedby="revoke-text">
<h2 id="revoke-title">Revoke <span data-fill="name" translate="no"></span>?</h2>
<div id="revoke-text"><p><code data-fill="prefix" translate="no"></code></p>
<p data-fill="warning"></p>
<p>A revoked key cannot be restored.</p></div>
<form method="post" class="row">
${renderCommonHiddenFields(frame)}
<button type="button" data-close autofocus>Cancel</button>
<button class="danger solid">Revoke key</button>
</form>
</dialog>`
}
