/**
 * The page on which an Admin confirms the revocation of a key. The page of the key links to it. The list of keys shows
 * a dialog instead if the browser runs JavaScript.
 */
import type { ApiKeyRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { revocationWarning } from './keys-page.ts'

export function renderRevoke(frame: Frame, row: ApiKeyRow, now: Date): Html {
  const main = html`<p class="back"><a href="/settings/api-keys">API &amp; webhooks</a></p>
<div class="narrow card">
<h1>Revoke <span translate="no">${row.name}</span>?</h1>
<p><code translate="no">${row.prefix}</code></p>
${
  row.revoked_at === null
    ? html`<p>${revocationWarning(row, now)}</p>
<p>A revoked key cannot be restored.</p>
<form method="post" action="/settings/api-keys/${row.id}/revoke" class="row">
${renderCommonHiddenFields(frame)}
<a class="button" href="/settings/api-keys">Cancel</a>
<button class="danger solid">Revoke key</button>
</form>`
    : html`<p>This key is already revoked.</p><p><a class="button" href="/settings/api-keys?show=revoked">Back</a></p>`
}
</div>`
  return renderPage(frame, { title: `Revoke ${row.name}`, section: '/settings/api-keys', main })
}
