/** The form of the scopes that keys of the account may have. */
import { readScopes, type Scope } from '../../accounts/scopes.ts'
import type { ApiKeyRow } from '../../database/tables.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import { csrfField, renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { plural, SCOPE_GROUPS, SCOPE_WORDS } from '../shell/words.ts'

interface AllowanceView {
  readonly session: Session
  readonly scopes: readonly Scope[]
  readonly rows: readonly ApiKeyRow[]
}

export function renderAllowance(frame: Frame, view: AllowanceView): Html {
  const isAdmin = view.session.user.role === 'admin'
  const main = html`<p class="back"><a href="/settings/api-keys">API &amp; webhooks</a></p>
<h1>What keys may do at most</h1>
<p class="lead">What you remove here, no key of the account can do from the next call on. If you
allow it again, the keys that were issued with it can do it again.</p>
<form method="post" action="/settings/scope-allowance" class="stack">
${csrfField(frame)}
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
  return renderPage(frame, { title: 'What keys may do', place: '/settings/api-keys', main })
}

function renderChoice(scope: Scope, { scopes, rows }: AllowanceView): Html {
  const holders = rows.filter((row) => {
    return row.revoked_at === null && readScopes(row.granted_scopes).includes(scope)
  }).length
  return html`<label class="check"><input type="checkbox" name="scopes" value="${scope}"${attribute('checked', scopes.includes(scope))}>
<span>${SCOPE_WORDS[scope]} <span class="hint">${plural(holders, 'key')}</span></span></label>`
}
