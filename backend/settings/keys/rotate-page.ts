import type { Problem } from '../../../shared/contract/problem.ts'
import type { GracePeriod } from '../../api-keys/key-changes.ts'
import type { ApiKeyRow } from '../../database/tables.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime } from '../shell/words.ts'
import { renderExpiryField } from './restriction-fields.ts'

export interface RotateView {
  /** The old key. */
  readonly row: ApiKeyRow
  /** The name of the new key. */
  readonly name: string
  readonly expiresOn: string
  readonly timezone: string
  readonly grace: string
  /** Identifies this form, so that a repeated submission does not issue a second key. */
  readonly submission: string
}

/** `24h` comes first, because the form preselects it. */
const GRACE_WORDS: readonly (readonly [grace: GracePeriod, words: string])[] = [
  ['24h', 'In 24 hours'],
  ['1h', 'In 1 hour'],
  ['7d', 'In 7 days'],
  ['now', 'Now: calls with the old key fail immediately'],
]

export function renderRotate(frame: Frame, view: RotateView, problem?: Problem): Html {
  const { row } = view
  const path = `/settings/api-keys/${row.id}`
  const main = html`<p class="back"><a href="${path}" translate="no">${row.name}</a></p>
<h1>Rotate key</h1>
<p class="lead">This issues a new key with the same permissions, limit and allowed addresses as
<span translate="no">${row.name}</span> (<code translate="no">${row.prefix}</code>), which it replaces.</p>
${renderFaultSummary(problem)}
<form method="post" action="${path}/rotate" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}
<input type="hidden" name="submission" value="${view.submission}">
<div class="card stack">
<p class="field"><label for="name">Name of the new key</label>
<input id="name" name="name" value="${view.name}" autocomplete="off" required data-count="80"${describedBy(problem, 'name', 'name-hint')}></p>
<p class="hint" id="name-hint">At most 80 characters. <span data-counter="name"></span></p>
${renderFieldFaults(problem, 'name')}
${renderExpiryField(view, problem)}
</div>
<fieldset class="card" id="grace" tabindex="-1"${describedBy(problem, 'grace')}><legend class="title">The old key stops working</legend>
${renderFieldFaults(problem, 'grace')}
${GRACE_WORDS.map(
  ([grace, words]) =>
    html`<label class="check"><input type="radio" name="grace" value="${grace}"${attribute('checked', view.grace === grace)}> <span>${words}</span></label>`,
)}
</fieldset>
<p class="row"><button class="primary">Rotate key</button> <a class="button" href="${path}">Cancel</a></p>
</form>`
  return renderPage(frame, { title: `Rotate ${row.name}`, section: '/settings/api-keys', main })
}

export function renderOldKeyNote(
  { prefix, expires_at: endsAt, revoked_at: revokedAt }: ApiKeyRow,
  timezone: string,
): Html {
  const old = html`<code translate="no">${prefix}</code>`
  // During a grace period, the old key has an expiry and is not revoked.
  return endsAt === null || revokedAt !== null
    ? html`<p>The old key ${old} no longer works. Calls fail until your integration uses the new key.</p>`
    : html`<p>The old key ${old} works until <strong>${exactTime(endsAt, timezone)}</strong>. Switch your integration to the new
key before then.</p>`
}
