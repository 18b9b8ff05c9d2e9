/**
 * The parts of pages that use passkeys. The script `passkeys.js` fills the field `credential` and submits the form.
 * Without the script, or if passkeys cannot be used, the form stays hidden.
 */
import { type Html, html } from '../../html/html.ts'
import type { RelyingParty } from '../../sessions/relying-party.ts'
import { renderCommonHiddenFields } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'

export function renderPasskeyLogin(frame: Frame, party: RelyingParty, path: string): Html {
  return html`<form method="post" action="${path}" class="stack" data-passkey="get" data-challenge="${path}/challenge" data-host="${party.id}" hidden>
${renderCommonHiddenFields(frame)}
<input type="hidden" name="credential">
<p><button class="wide">Log in with a passkey</button></p>
<p class="fault" role="alert" data-passkey-fault></p>
</form>
${renderPasskeyUnavailable(party)}`
}

/** Both texts are hidden; the script shows the applicable one instead of the form. */
export function renderPasskeyUnavailable({ origin }: RelyingParty): Html {
  return html`<p class="hint" data-passkey-unavailable="browser" hidden>This browser does not support passkeys, or is too old for them.</p>
<p class="hint" data-passkey-unavailable="address" hidden>Passkeys work at another address of this service: <a href="${origin}/settings">${origin}</a></p>`
}
