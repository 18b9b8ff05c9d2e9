/**
 * Accepts invitations. The code follows the `#` of the link: browsers do not send this part, so no server logs the
 * code. A script of the page copies the code into the form; in a browser that runs no scripts, the user pastes it.
 */
import type { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import { addKnownBrowser } from '../../sessions/known-browsers.ts'
import { actorOf } from '../../sessions/login.ts'
import { countGuess, uncountGuess } from '../../sessions/login-guesses.ts'
import { endPreviousSession, findSession, startSession } from '../../sessions/sessions.ts'
import { acceptInvitation, getInvitation } from '../../users/invitations.ts'
import { checkChosenPassword } from '../../users/password-rules.ts'
import { hashToken } from '../../users/tokens.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { PublicPage } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { previousSessionOf, representSession } from './login-routes.ts'

const PATH = '/settings/invitation'

export function invitationLink(baseUrl: string, code: string): string {
  return `${baseUrl}${PATH}#${code}`
}

export const invitationPages: readonly PublicPage[] = [
  {
    method: 'GET',
    path: PATH,
    handle: async () => ({ page: (frame) => renderInvitation(frame, '') }),
  },
  {
    method: 'POST',
    path: PATH,
    expected: { secrets: ['code', 'password'] },
    async handle(request, { database, passwords }) {
      const { fields, address, userAgent, browserToken, now } = request
      const codeHash = hashToken(fields.text('code').trim())
      const { email } = await getInvitation(database.read, codeHash, now)
      checkChosenPassword(fields.text('password'), email, '/password')
      // Only a client with a valid code gets here. The count limits how often this client can make the backend hash a
      // password, which is expensive.
      const guess = { purpose: 'invitation', subject: codeHash, address } as const
      await database.transaction((tx) => countGuess(tx, guess, now))
      const passwordHash = await passwords.hash(fields.text('password'))
      const started = await database.transaction(async (tx) => {
        // The user who accepts the invitation has no id yet.
        const actor = actorOf({ id: '', email }, address)
        const user = await acceptInvitation(tx, codeHash, passwordHash, { actor, now })
        await uncountGuess(tx, guess, now)
        // The new cookie replaces the cookie of the browser's previous session. That session ends, because no browser
        // has its token any more.
        await endPreviousSession(tx, previousSessionOf(request))
        return {
          token: await startSession(tx, user, { address, userAgent }, now),
          browserToken: await addKnownBrowser(tx, user, browserToken, now),
        }
      })
      const session = await findSession(database.read, started.token, now)
      return {
        status: 201,
        json: session && representSession(session),
        location: '/settings',
        ...started,
      }
    },
    rerender:
      async ({ fields }, problem) =>
      (frame) => {
        return renderInvitation(frame, fields.text('code'), problem)
      },
  },
]

function renderInvitation(frame: Frame, code: string, problem?: Problem): Html {
  const main = html`<div class="narrow card">
<h1>Accept your invitation</h1>
<p>Choose a password. You will log in with the e-mail address that was invited.</p>
${renderFaultSummary(problem)}
<form method="post" action="${PATH}" class="stack" data-once>
${renderCommonHiddenFields(frame)}
<div data-code><p class="field"><label for="code">Invitation code</label>
<input id="code" name="code" value="${code}" autocomplete="off" spellcheck="false" translate="no"
required data-from-fragment aria-describedby="code-hint"></p>
<p class="hint" id="code-hint">The part of your link after the # sign.</p></div>
<p class="field"><label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="new-password"
required${describedBy(problem, 'password', 'password-hint')}></p>
<p class="hint" id="password-hint">8 characters or more. Several words are safer than one word with symbols.</p>
${renderFieldFaults(problem, 'password')}
<p><button class="primary wide">Accept</button></p>
</form>
</div>`
  // The page has no navigation even if the browser has a session, because the session may belong to another user.
  return renderPage({ ...frame, session: undefined }, { title: 'Invitation', main })
}
