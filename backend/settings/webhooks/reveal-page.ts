/** Shows a new signing secret, only in the response to the request that created it. */
import type { WebhookEndpointRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderCopyField, renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'

export function renderSecret(frame: Frame, row: WebhookEndpointRow, secret: string): Html {
  const main = html`<div class="card reveal" role="dialog" aria-modal="true" aria-labelledby="reveal-title" aria-describedby="reveal-text" data-reveal>
<h1 id="reveal-title" tabindex="-1" autofocus data-focus>Copy the signing secret now</h1>
<p id="reveal-text">This is the only time that the secret of <strong translate="no">${row.url}</strong> is shown.
${row.old_secret !== null && 'For 24 hours, webhooks are also signed with the old secret: install the new one on your server within that time.'}</p>
${renderCopyField('secret', 'Signing secret', secret)}
<p class="hint">Verify the signature of every webhook with this secret. <a href="/docs/webhooks#verify-the-signature">How to verify</a></p>
<form method="get" action="/settings/webhook-endpoints/${row.id}" class="stack">
<label class="check"><input type="checkbox" id="stored" required> <span>I have stored the secret</span></label>
<p><button class="primary" data-done>Done</button></p>
</form>
</div>`
  return renderPage(frame, { title: 'Signing secret', hasNoNavigation: true, main })
}
