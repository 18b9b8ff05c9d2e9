import type { Problem } from '../../../shared/contract/problem.ts'
import type { PasskeyRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { PASSKEY_NAME_LENGTH_MAX } from '../../sessions/passkeys.ts'
import type { RelyingParty } from '../../sessions/relying-party.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, type TimeContext, timeAgo } from '../shell/words.ts'
import { renderPasskeyUnavailable } from './passkey-form.ts'

const SECTION = '/settings/login-details'
const BACK = { path: '/settings/two-factor', name: 'Two-factor authentication' }

export function renderPasskeys(
  passkeys: readonly PasskeyRow[],
  party: RelyingParty | undefined,
  times: TimeContext,
): Html {
  return html`<section class="card stack" aria-labelledby="passkeys-title">
<div class="heading"><h2 id="passkeys-title">Passkeys</h2>
${party !== undefined && html`<a class="button" href="/settings/passkeys/new">Add a passkey</a>`}</div>
<p>A passkey is stored on a device, in a password manager or on a security key. To log in, you unlock it with your
fingerprint, your face or a PIN. You need neither your password nor a code.</p>
${party === undefined && html`<p class="hint">Passkeys need a host name, and this service has only an IP address.</p>`}
${passkeys.length > 0 && renderTable(passkeys, times)}
</section>`
}

function renderTable(passkeys: readonly PasskeyRow[], times: TimeContext): Html {
  return html`<table class="records"><caption class="unseen">Your passkeys</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Added</th><th scope="col">Last used</th><th scope="col">Actions</th></tr></thead>
<tbody>${passkeys.map(
    ({ id, name, created_at, last_used_at }) => html`<tr>
<th scope="row" data-label="Name" translate="no">${name}</th>
<td data-label="Added">${exactTime(created_at, times.timezone)}</td>
<td data-label="Last used">${last_used_at === null ? 'Never' : timeAgo(last_used_at, times)}</td>
<td data-label="Actions" class="row"><a class="button small" href="/settings/passkeys/${id}/rename" data-dialog-page>Rename<span class="unseen"> ${name}</span></a>
<a class="button small" href="/settings/passkeys/${id}/remove" data-dialog-page>Remove<span class="unseen"> ${name}</span></a></td></tr>`,
  )}</tbody></table>`
}

/** The form is hidden until the script of the page has found that the browser supports passkeys at this address. */
export function renderNewPasskey(
  frame: Frame,
  party: RelyingParty,
  name: string,
  problem?: Problem,
): Html {
  const main = html`<p class="back"><a href="${BACK.path}">${BACK.name}</a></p>
<div class="narrow card stack">
<h1>Add a passkey</h1>
${renderFaultSummary(problem)}
<p>Choose a name by which you will recognize the passkey. Your browser then asks where to store it and how to unlock it.</p>
<noscript><p class="hint">Passkeys need a browser that runs scripts. Without scripts, use an authenticator app.</p></noscript>
${renderPasskeyUnavailable(party)}
<form method="post" action="/settings/passkeys" class="stack" data-passkey="create" data-challenge="/settings/passkeys/challenge" data-host="${party.id}" hidden novalidate>
${renderCommonHiddenFields(frame)}
<input type="hidden" name="credential" id="credential">
<p class="field"><label for="name">Name</label>
<input id="name" name="name" value="${name}" maxlength="${PASSKEY_NAME_LENGTH_MAX}" autocomplete="off" required${describedBy(problem, 'name', 'name-hint')}></p>
<p class="hint" id="name-hint">For example the device: “Work laptop”.</p>
${renderFieldFaults(problem, 'name')}
<p class="row"><a class="button" href="${BACK.path}">Cancel</a> <button class="primary">Add passkey</button></p>
<p class="fault" role="alert" data-passkey-fault></p>
</form>
</div>`
  return renderPage(frame, {
    title: 'Add a passkey',
    section: SECTION,
    main,
    needsPasskeyScript: true,
  })
}

export function renderRenamePasskey(
  frame: Frame,
  passkey: PasskeyRow,
  name: string,
  problem?: Problem,
): Html {
  return renderConfirmPage(frame, {
    title: `Rename ${passkey.name}`,
    section: SECTION,
    back: BACK,
    consequences: html`<p>The name is shown on these pages, in the audit log and in mails to you about the passkey. The name on your device does not change.</p>`,
    action: `/settings/passkeys/${passkey.id}/rename`,
    button: 'Rename',
    problem,
    fields: html`<p class="field"><label for="name">Name</label>
<input id="name" name="name" value="${name}" maxlength="${PASSKEY_NAME_LENGTH_MAX}" autocomplete="off" required${describedBy(problem, 'name')}></p>
${renderFieldFaults(problem, 'name')}`,
  })
}

export function renderRemovePasskey(
  frame: Frame,
  passkey: PasskeyRow,
  isOnlySecondFactor: boolean,
): Html {
  return renderConfirmPage(frame, {
    title: `Remove ${passkey.name}?`,
    section: SECTION,
    back: BACK,
    consequences: html`<p>Afterwards, this passkey can no longer be used to log in. Also delete it on your device, which does not notice
that the passkey was removed here.</p>
${
  isOnlySecondFactor &&
  html`<p><strong>This is your only second factor.</strong> You will log in with your password alone, and your recovery codes will no
longer work.</p>`
}`,
    action: `/settings/passkeys/${passkey.id}/remove`,
    button: 'Remove passkey',
    isDangerous: true,
  })
}
