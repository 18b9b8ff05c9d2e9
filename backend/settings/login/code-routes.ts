/** The second step of the login: a code of an authenticator app, or a recovery code. */
import { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import { completeLogin } from '../../sessions/login.ts'
import { findPendingUser, findSession } from '../../sessions/sessions.ts'
import { csrfField, renderFaults, renderPage } from '../shell/layout.ts'
import type { OpenPage } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { representSession } from './login-routes.ts'

const PATH = '/settings/login/code'

export const codePages: readonly OpenPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ cookieToken, now }, { database }) {
      const user = await findPendingUser(database.read, cookieToken, now)
      return user === undefined
        ? { location: '/settings/login' }
        : { page: (frame) => render(frame) }
    },
  },
  {
    method: 'POST',
    path: PATH,
    expected: { texts: ['code'] },
    async handle({ fields, cookieToken, address, userAgent, now }, deps) {
      const { database, secondFactorBox } = deps
      const step = { token: cookieToken, code: fields.text('code'), address, userAgent }
      const token = await completeLogin(database, step, secondFactorBox, now)
      const session = await findSession(database.read, token, now)
      if (session === undefined) throw new Problem('login_failed', 'The login is no longer active.')
      return { json: representSession(session), location: '/settings', token }
    },
    redraw: async (_request, problem) => (frame) => render(frame, problem),
  },
]

function render(frame: Frame, problem?: Problem): Html {
  const main = html`<div class="narrow card">
<h1>Enter your code</h1>
<p>Enter the 6 digits that your authenticator app shows for Receivables. If you have lost it, enter one of your
recovery codes.</p>
${renderFaults(problem)}
<form method="post" action="${PATH}" class="stack" data-once novalidate>
${csrfField(frame)}
<p class="field"><label for="code">Code</label>
<input id="code" name="code" autocomplete="one-time-code" inputmode="text" spellcheck="false" translate="no" required autofocus></p>
<p><button class="primary wide">Log in</button></p>
</form>
<p><a href="/settings/login">Start again</a></p>
</div>`
  return renderPage({ ...frame, session: undefined }, { title: 'Enter your code', main })
}
