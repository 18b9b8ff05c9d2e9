import type { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import type { RelyingParty } from '../../sessions/relying-party.ts'
import { renderCommonHiddenFields, renderFaultSummary, renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { renderPasskeyLogin } from './passkey-form.ts'

/**
 * `relyingParty` is undefined if passkeys cannot be used, because the service has an IP address instead of a host name.
 */
export function renderLogin(
  frame: Frame,
  relyingParty: RelyingParty | undefined,
  email: string,
  problem?: Problem,
): Html {
  const main = html`<div class="narrow card stack">
<h1>Log in to Settings</h1>
${renderFaultSummary(problem)}
<form method="post" action="/settings/login" class="stack">
${renderCommonHiddenFields(frame)}
<p class="field"><label for="email">E-mail</label>
<input id="email" name="email" type="email" value="${email}" autocomplete="username" required></p>
<p class="field"><label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required></p>
<p><button class="primary wide">Log in</button></p>
</form>
${relyingParty !== undefined && renderPasskeyLogin(frame, relyingParty, '/settings/login/passkey')}
<p><a href="/settings/password-reset">Forgot your password?</a></p>
</div>`
  // A browser that is already logged in, perhaps as another user, may send this form. If the login fails, the page must
  // not show the navigation of the existing session.
  return renderPage(
    { ...frame, session: undefined },
    { title: 'Log in', main, needsPasskeyScript: relyingParty !== undefined },
  )
}
