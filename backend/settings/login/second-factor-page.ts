import type { Problem } from '../../../shared/contract/problem.ts'
import type { PasskeyRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { RelyingParty } from '../../sessions/relying-party.ts'
import type { TotpSetup } from '../../sessions/second-factor.ts'
import type { Session } from '../../sessions/sessions.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { renderPasskeys } from './passkey-page.ts'
import { renderQrCode } from './qr-code.ts'

export const SECOND_FACTOR_PATH = '/settings/two-factor'
const PATH = SECOND_FACTOR_PATH
const SECTION = '/settings/login-details'
const BACK = html`<p class="back"><a href="/settings/login-details">Your login</a></p>`

export interface SecondFactorView {
  readonly session: Session
  readonly passkeys: readonly PasskeyRow[]
  /** Undefined if passkeys cannot be added, because the service has no host name (see `relyingPartyOf`). */
  readonly party: RelyingParty | undefined
  readonly now: Date
}

export function renderSecondFactor(frame: Frame, view: SecondFactorView): Html {
  const { session, passkeys, party, now } = view
  const { user, account } = session
  const mustSetUp = account.requiresSecondFactor && user.role === 'admin' && !user.hasSecondFactor
  const main = html`${BACK}
<h1>Two-factor authentication</h1>
${mustSetUp && html`<p class="lead"><strong>Your account requires two-factor authentication for Admins.</strong> Add a passkey or an authenticator app to continue.</p>`}
${renderPasskeys(passkeys, party, { now, timezone: account.timezone })}
<section class="card stack" aria-labelledby="app-title"><h2 id="app-title">Authenticator app</h2>
${
  user.hasApp
    ? html`<p><span class="badge active">On</span> You log in with your password and a code from your app.</p>
<div class="row">${renderButton(frame, 'disable', 'Turn off', { isDangerous: true })}</div>`
    : html`<p><span class="badge">Off</span> With an app on your phone, a guessed or stolen password alone is not enough to log in.</p>
<div class="row">${renderButton(frame, 'setup', 'Set up')}</div>`
}
</section>
${user.hasSecondFactor && renderRecovery(frame)}
${user.role === 'admin' && renderPolicy(frame, account.requiresSecondFactor)}`
  return renderPage(frame, { title: 'Two-factor authentication', section: SECTION, main })
}

function renderRecovery(frame: Frame): Html {
  return html`<section class="card stack" aria-labelledby="recovery-title"><h2 id="recovery-title">Recovery codes</h2>
<p>After your password, you can enter a recovery code instead of using your app or your passkey. Each code works once. New
codes make the earlier codes invalid.</p>
<div class="row">${renderButton(frame, 'recovery-codes', 'Create new recovery codes')}</div></section>`
}

function renderPolicy(frame: Frame, isRequired: boolean): Html {
  return html`<section class="card stack" aria-labelledby="policy-title"><h2 id="policy-title">For all Admins</h2>
<p>${
    isRequired
      ? 'Every Admin of this account must use two-factor authentication. Admins who have not set it up can open only the pages of their own login.'
      : 'Two-factor authentication is not required: Admins who have not set it up log in with their password alone.'
  }</p>
<form method="post" action="${PATH}/policy" data-once>${renderCommonHiddenFields(frame)}
<input type="hidden" name="required" value="${isRequired ? 'no' : 'yes'}">
<button>${isRequired ? 'Stop requiring it' : 'Require it for all Admins'}</button></form></section>`
}

export function renderSetup(frame: Frame, { secret, uri }: TotpSetup, problem?: Problem): Html {
  const main = html`${BACK}
<div class="narrow card">
<h1>Set up your authenticator app</h1>
${renderFaultSummary(problem)}
<ol class="stack">
<li><p>Scan this code with the app on your phone:</p>
${renderQrCode(uri, 'QR code with the key below')}
<p>Or enter this key in the app:</p>
<div class="field"><label for="totp-secret">Key</label>
<div class="copy"><textarea id="totp-secret" class="secret" rows="2" readonly spellcheck="false" autocomplete="off" translate="no">${secret.match(/.{4}/g)?.join(' ') ?? secret}</textarea><button type="button" data-copy="totp-secret" hidden>Copy<span class="unseen"> key</span></button></div></div>
<p><a href="${uri}">Open the key in an app on this device</a></p></li>
<li><p>Enter the 6 digits that the app shows.</p>
<form method="post" action="${PATH}/enable" class="stack" data-once novalidate>${renderCommonHiddenFields(frame)}
<p class="field"><label for="code">Code</label>
<input id="code" name="code" inputmode="numeric" autocomplete="one-time-code" required${describedBy(problem, 'code')}></p>
${renderFieldFaults(problem, 'code')}
<p class="row"><button class="primary">Turn on</button> <a class="button" href="${PATH}">Cancel</a></p>
</form></li>
</ol>
</div>`
  return renderPage(frame, { title: 'Set up your authenticator app', section: SECTION, main })
}

export function renderCodes(frame: Frame, codes: readonly string[]): Html {
  const main = html`<div class="narrow card reveal">
<h1 tabindex="-1" autofocus data-focus>Store your recovery codes</h1>
<p>If you lose your app or your passkey, enter one of these codes instead. Each code works once. The codes are shown only now:
store them where you can find them without your phone. Earlier recovery codes no longer work.</p>
<div class="field"><label for="codes">Recovery codes</label>
<div class="copy"><textarea id="codes" class="secret" rows="${codes.length}" readonly spellcheck="false" translate="no">${codes.join('\n')}</textarea>
<button type="button" data-copy="codes" hidden>Copy<span class="unseen"> recovery codes</span></button></div></div>
<p><a class="button primary" href="${PATH}">I have stored the codes</a></p>
</div>`
  return renderPage(frame, { title: 'Recovery codes', hasNoNavigation: true, main })
}

function renderButton(
  frame: Frame,
  action: string,
  name: string,
  { isDangerous }: { readonly isDangerous?: boolean } = {},
): Html {
  return html`<form method="post" action="${PATH}/${action}" data-once>${renderCommonHiddenFields(frame)}
<button${isDangerous && html` class="danger"`}>${name}</button></form>`
}
