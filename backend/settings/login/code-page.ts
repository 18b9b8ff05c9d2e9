import type { Problem } from '../../../shared/contract/problem.ts'
import type { UserRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { hasPasskey } from '../../sessions/factors.ts'
import type { RelyingParty } from '../../sessions/relying-party.ts'
import { renderCommonHiddenFields, renderFaultSummary, renderPage } from '../shell/layout.ts'
import type { SettingsDeps } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { renderPasskeyLogin } from './passkey-form.ts'

export const CODE_PATH = '/settings/login/code'

/** The second factors of the person who has entered the password. */
export interface Factors {
  readonly hasApp: boolean
  /** The relying party of the person's passkeys; undefined if the person has none, or the service has no host name. */
  readonly party: RelyingParty | undefined
}

export async function findFactors(
  user: UserRow,
  { database, relyingParty }: SettingsDeps,
): Promise<Factors> {
  const party = (await hasPasskey(database.read, user.id)) ? relyingParty : undefined
  return { hasApp: user.totp_enabled_at !== null, party }
}

export function renderCodePage(frame: Frame, { hasApp, party }: Factors, problem?: Problem): Html {
  const title = titleOf({ hasApp, party })
  const main = html`<div class="narrow card stack">
<h1>${title}</h1>
${renderFaultSummary(problem)}
${party !== undefined && renderPasskeyLogin(frame, party, `${CODE_PATH}/passkey`)}
<p>${
    hasApp
      ? 'Enter the 6 digits that your authenticator app shows for Receivables. If you no longer have the app, enter one of your recovery codes.'
      : party === undefined
        ? 'Passkeys cannot be used at this address. Enter one of your recovery codes.'
        : 'If you have lost your passkey, enter one of your recovery codes.'
  }</p>
<form method="post" action="${CODE_PATH}" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}
<p class="field"><label for="code">${hasApp ? 'Code' : 'Recovery code'}</label>
<input id="code" name="code" autocomplete="one-time-code" inputmode="text" spellcheck="false" translate="no" required${hasApp && html` autofocus`}></p>
<p><button class="${hasApp ? 'primary wide' : 'wide'}">Log in</button></p>
</form>
<p><a href="/settings/login">Start again</a></p>
</div>`
  return renderPage(
    // The person is not logged in yet, so the page must not show the navigation.
    { ...frame, session: undefined },
    {
      title,
      main,
      needsPasskeyScript: party !== undefined,
    },
  )
}

function titleOf({ hasApp, party }: Factors): string {
  if (hasApp) return 'Enter your code'
  return party === undefined ? 'Enter a recovery code' : 'Use your passkey'
}
