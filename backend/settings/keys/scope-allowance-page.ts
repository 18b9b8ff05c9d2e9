/**
 * The account-wide permissions are the scopes that keys of the account may use. This file renders the form that changes
 * them, and the page that asks for confirmation before keys lose scopes.
 */
import { effectiveScopes, readScopes, type Scope } from '../../accounts/scopes.ts'
import { keyStatus } from '../../api-keys/key-status.ts'
import type { ApiKeyRow } from '../../database/tables.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import { renderCommonHiddenFields, renderInitialValues, renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { plural, SCOPE_GROUPS, SCOPE_WORDS, timeAgoExact } from '../shell/words.ts'

interface ScopeAllowanceView {
  readonly session: Session
  /** The scopes that the account allows now. */
  readonly scopes: readonly Scope[]
  readonly rows: readonly ApiKeyRow[]
  readonly now: Date
}

export function renderScopeAllowance(frame: Frame, view: ScopeAllowanceView): Html {
  const isAdmin = view.session.user.role === 'admin'
  const main = html`<p class="back"><a href="/settings/api-keys">API &amp; webhooks</a></p>
<h1>Account-wide permissions</h1>
<p class="lead">If you remove a permission here, every key of the account loses it from the next call on. If you
allow the permission again, the keys that were issued with it can use it again.</p>
<form method="post" action="/settings/scope-allowance" class="stack">
${renderCommonHiddenFields(frame)}${renderInitialValues({ scopes: view.scopes })}
<fieldset class="card"${attribute('disabled', !isAdmin)}>
<legend class="title">Keys may</legend>
<div class="groups">${SCOPE_GROUPS.map(
    ([group, scopes]) => html`<fieldset class="group"><legend>${group}</legend>
${scopes.map((scope) => renderChoice(scope, view))}
</fieldset>`,
  )}</div>
</fieldset>
${
  isAdmin
    ? html`<p class="row"><button class="primary">Save</button> <a class="button" href="/settings/api-keys">Cancel</a></p>`
    : html`<p class="hint">Only an Admin can change this.</p>`
}
</form>`
  return renderPage(frame, {
    title: 'Account-wide permissions',
    section: '/settings/api-keys',
    main,
  })
}

function renderChoice(scope: Scope, { scopes, rows, now }: ScopeAllowanceView): Html {
  const holderCount = rows.filter(
    (row) => keyStatus(row, now) === 'active' && readScopes(row.granted_scopes).includes(scope),
  ).length
  return html`<label class="check"><input type="checkbox" name="scopes" value="${scope}"${attribute('checked', scopes.includes(scope))}>
<span>${SCOPE_WORDS[scope]} <span class="hint">${plural(holderCount, 'key')}</span></span></label>`
}

/** An active key, and the scopes that it would lose. */
export interface ScopeLoss {
  readonly row: ApiKeyRow
  readonly lost: readonly Scope[]
}

/** `allowance` is what the account allows now, as it is stored; null allows all scopes. */
export function listScopeLosses(
  rows: readonly ApiKeyRow[],
  allowance: string | null,
  newScopes: readonly Scope[],
  now: Date,
): ScopeLoss[] {
  return rows.flatMap((row) => {
    if (keyStatus(row, now) !== 'active') return []
    const effective = effectiveScopes(readScopes(row.granted_scopes), allowance)
    const lost = effective.filter((scope) => !newScopes.includes(scope))
    return lost.length === 0 ? [] : [{ row, lost }]
  })
}

interface ScopeLossesView {
  readonly session: Session
  /** The hidden fields with the values of the form that is to be confirmed. */
  readonly keptFields: Html
  readonly losses: readonly ScopeLoss[]
  readonly now: Date
}

export function renderScopeLosses(
  frame: Frame,
  { session, keptFields, losses, now }: ScopeLossesView,
): Html {
  const times = { now, timezone: session.account.timezone }
  const keys = losses.map(
    ({
      row,
      lost,
    }) => html`<li><strong translate="no">${row.name}</strong> (<code translate="no">${row.prefix}</code>) can no longer:
${lost.map((scope) => SCOPE_WORDS[scope].toLowerCase()).join(', ')}. Last used: ${
      row.last_used_at === null ? 'never' : timeAgoExact(row.last_used_at, times)
    }.</li>`,
  )
  return renderConfirmPage(frame, {
    title: `Remove permissions from ${plural(losses.length, 'active key')}?`,
    section: '/settings/api-keys',
    back: { path: '/settings/scope-allowance', name: 'Account-wide permissions' },
    consequences: html`<p>From the next call on, calls with these keys fail with status 403 if they need a removed permission:</p>
<ul>${keys}</ul>`,
    action: '/settings/scope-allowance',
    button: 'Remove permissions',
    isDangerous: true,
    fields: html`<input type="hidden" name="confirmed" value="yes">${keptFields}`,
  })
}
