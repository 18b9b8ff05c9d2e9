import type { Problem } from '../../../shared/contract/problem.ts'
import type { Scope } from '../../accounts/scopes.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { READ_SCOPES, SCOPE_GROUPS, SCOPE_WORDS } from '../shell/words.ts'
import {
  type ExpiryAndAddresses,
  renderAddressField,
  renderExpiryField,
} from './restriction-fields.ts'

/** The error code if another active key already has the name. */
export const NAME_IN_USE = 'name_in_use'

interface IssueView extends ExpiryAndAddresses {
  readonly name: string
  readonly scopes: readonly string[]
  /** Identifies this form, so that a repeated submission does not issue a second key. */
  readonly submission: string
  /** Whether the user has confirmed that a second key gets the same name. */
  readonly isSameNameConfirmed: boolean
  /** The scopes that the account allows its keys to use. */
  readonly allowed: readonly Scope[]
}

export function renderIssueForm(frame: Frame, view: IssueView, problem?: Problem): Html {
  const main = html`<p class="back"><a href="/settings/api-keys">API &amp; webhooks</a></p>
<h1>Issue key</h1>
<p class="lead">The permissions of a key cannot be changed later. If your integration needs other permissions, issue a new
key, switch the integration to it, and then revoke the old key.</p>
${renderFaultSummary(problem)}
<form method="post" action="/settings/api-keys" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}
<input type="hidden" name="submission" value="${view.submission}">
<div class="card stack">
<p class="field"><label for="name">Name</label>
<input id="name" name="name" value="${view.name}" autocomplete="off" required
data-count="80"${describedBy(problem, 'name', 'name-hint')}></p>
<p class="hint" id="name-hint">Helps you recognize the key. For example, enter the name of the system that uses it. At most
80 characters. <span data-counter="name"></span></p>
${renderFieldFaults(problem, 'name')}
${
  (view.isSameNameConfirmed || isNameInUse(problem)) &&
  html`<p><label class="check"><input type="checkbox" name="same_name" value="yes"${attribute('checked', view.isSameNameConfirmed)}>
<span>Issue a second key with this name</span></label></p>`
}
</div>
<fieldset class="card" id="scopes" tabindex="-1"${describedBy(problem, 'scopes', 'scopes-hint')}>
<legend class="title">What the key may do</legend>
<p class="hint" id="scopes-hint">Writing does not include reading. Select only what the key needs.</p>
${renderFieldFaults(problem, 'scopes')}
<p class="row">
<a class="button small" href="/settings/api-keys/new?preset=read" data-preset="${READ_SCOPES.join(' ')}">Read everything</a>
<a class="button small" href="/settings/api-keys/new?preset=payments" data-preset="payments:write">Record payments only</a>
</p>
<div class="groups">${SCOPE_GROUPS.map(([group, scopes]) => renderGroup(group, scopes, view))}</div>
</fieldset>
<div class="card stack">
${renderExpiryField(view, problem)}
${renderAddressField(view, problem)}
</div>
<p class="row"><button class="primary">Issue key</button>
<a class="button" href="/settings/api-keys">Cancel</a></p>
</form>`
  return renderPage(frame, { title: 'Issue key', section: '/settings/api-keys', main })
}

function renderGroup(group: string, scopes: readonly Scope[], view: IssueView): Html {
  return html`<fieldset class="group"><legend>${group}</legend>
${scopes.map(
  (
    scope,
  ) => html`<label class="check"><input type="checkbox" name="scopes" value="${scope}"${attribute('checked', view.scopes.includes(scope))}>
<span>${SCOPE_WORDS[scope]}${
    !view.allowed.includes(scope) && html` <span class="hint">disabled account-wide</span>`
  }</span></label>`,
)}
</fieldset>`
}

function isNameInUse(problem: Problem | undefined): boolean {
  const errors = problem?.members['errors']
  return Array.isArray(errors) && errors.some(({ code }) => code === NAME_IN_USE)
}
