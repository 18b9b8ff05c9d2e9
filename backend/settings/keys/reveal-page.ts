/**
 * Shows the secret of a new key. The page is the direct response to the form, without a redirect, because the secret
 * is not stored and must be in no URL. The secret cannot be shown again.
 */
import type { ApiKeyRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderCopyField, renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'

interface RevealView {
  readonly row: ApiKeyRow
  readonly secret: string
  readonly baseUrl: string
  /** Further information, e.g. when the replaced key expires. */
  readonly note?: Html
}

export function renderReveal(frame: Frame, { row, secret, baseUrl, note }: RevealView): Html {
  const curl = `curl ${baseUrl}/api/v1/me -H "Authorization: Bearer ${secret}"`
  const main = html`<div class="card reveal" role="dialog" aria-modal="true" aria-labelledby="reveal-title" aria-describedby="reveal-text" data-reveal>
<h1 id="reveal-title" tabindex="-1" autofocus data-focus>Copy the key now</h1>
<p id="reveal-text">This is the only time that the secret of <strong translate="no">${row.name}</strong>
is shown. Only its hash is stored, so it cannot be shown again.</p>
${note}
${renderCopyField('secret', 'API key', secret)}
${renderCopyField('curl', 'Try it', curl)}
<p class="hint">Use the key on a server that you control. Never put it into a web page, a ticket or a chat.</p>
<form method="get" action="/settings/api-keys" class="stack">
<input type="hidden" name="show" value="active">
<label class="check"><input type="checkbox" id="stored" required> <span>I have stored the key</span></label>
<p><button class="primary" data-done>Done</button></p>
</form>
</div>`
  return renderPage(
    { ...frame, flash: 'key_issued' },
    { title: 'Key issued', hasNoNavigation: true, main },
  )
}
