/**
 * Shows the secret of a new key, in the response to the form and on a page without navigation. The secret is in
 * no address and is not stored, so a reload does not show it again.
 */
import type { ApiKeyRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderPage } from './layout.ts'
import type { Frame } from './response.ts'

interface RevealView {
  readonly row: ApiKeyRow
  readonly secret: string
  readonly baseUrl: string
  /** Further information, e.g. when a replaced key ends. */
  readonly next?: Html
}

export function renderReveal(frame: Frame, { row, secret, baseUrl, next }: RevealView): Html {
  const curl = `curl ${baseUrl}/api/v1/me -H "Authorization: Bearer ${secret}"`
  const main = html`<div class="card reveal" role="dialog" aria-modal="true" aria-labelledby="reveal-title" aria-describedby="reveal-text" data-reveal>
<h1 id="reveal-title" tabindex="-1" autofocus data-focus>Copy the key now</h1>
<p id="reveal-text">This is the only time that the secret of <strong translate="no">${row.name}</strong>
is shown. Only its hash is stored, so it cannot be shown again.</p>
${next}
${renderCopy('secret', 'API key', secret)}
${renderCopy('curl', 'Try it', curl)}
<p class="hint">Use it from a server that you control. Never put it in a page, a ticket or a chat.</p>
<form method="get" action="/settings/api-keys" class="stack">
<input type="hidden" name="show" value="active">
<label class="check"><input type="checkbox" id="stored" required> <span>I have stored it</span></label>
<p><button class="primary" data-done>Done</button></p>
</form>
</div>`
  return renderPage({ ...frame, flash: 'key_issued' }, { title: 'Key issued', isAlone: true, main })
}

/** The button needs the script and is hidden without it. */
function renderCopy(id: string, label: string, text: string): Html {
  return html`<div class="field"><label for="${id}">${label}</label>
<div class="copy"><input id="${id}" class="secret" value="${text}" readonly spellcheck="false"
autocomplete="off" translate="no"><button type="button" data-copy="${id}" hidden>Copy<span class="unseen"> ${label}</span></button></div></div>`
}
