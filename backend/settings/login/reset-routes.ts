import { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import type { NoticeRoute } from '../../mail/mail-services.ts'
import { actorOf } from '../../sessions/login.ts'
import { countGuess, uncountGuess } from '../../sessions/login-guesses.ts'
import {
  getPasswordReset,
  requestPasswordReset,
  resetPassword,
} from '../../sessions/password-reset.ts'
import { checkChosenPassword } from '../../users/password-rules.ts'
import { hashToken } from '../../users/tokens.ts'
import { checkEmail } from '../../users/users.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import type { PublicPage } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'

const REQUEST_PATH = '/settings/password-reset'
const RESET_PATH = '/settings/new-password'

export const resetPages: readonly PublicPage[] = [
  {
    method: 'GET',
    path: REQUEST_PATH,
    handle: async (_request, { resetCodes, noticeRouteOf }) => ({
      // During a rehearsal (the setting `REHEARSAL`), no mail is sent: `noticeRouteOf` always returns `waiting`.
      page: (frame) =>
        resetCodes === undefined || noticeRouteOf?.('') === 'waiting'
          ? renderNoMail(frame)
          : renderRequest(frame, ''),
    }),
  },
  {
    method: 'POST',
    path: REQUEST_PATH,
    expected: { texts: ['email'] },
    async handle({ fields, address, now }, { database, resetCodes, noticeRouteOf }) {
      const entered = fields.text('email')
      const email = checkEmail(entered)
      if (resetCodes === undefined) {
        throw new Problem(
          'service_unavailable',
          'This service does not send e-mail, so no link was sent. Ask the operator of this service for a new login.',
        )
      }
      // Requests for links are counted separately from attempts to log in with the e-mail address. Otherwise, anyone
      // could block the user's login.
      const guess = { purpose: 'password_reset', subject: email, address } as const
      await database.transaction(async (tx) => {
        await countGuess(tx, guess, now)
        // The e-mail address is passed as it was entered, because earlier versions stored the e-mail addresses of users
        // without normalization.
        await requestPasswordReset(tx, entered, resetCodes, now)
      })
      const route = noticeRouteOf?.(email) ?? 'waiting'
      return {
        status: 202,
        json: { requested: true },
        page: (frame) => renderRequested(frame, email, route),
      }
    },
    rerender:
      async ({ fields }, problem) =>
      (frame) =>
        renderRequest(frame, fields.text('email'), problem),
  },
  {
    method: 'GET',
    path: RESET_PATH,
    handle: async () => ({ page: (frame) => renderNewPassword(frame, '') }),
  },
  {
    method: 'POST',
    path: RESET_PATH,
    expected: { secrets: ['code', 'password'] },
    async handle({ fields, address, now }, { database, passwords }) {
      const codeHash = hashToken(fields.text('code').trim())
      const { user } = await getPasswordReset(database.read, codeHash, now)
      // Attempts with a valid link are limited, because hashing a password is expensive. They are counted separately
      // from attempts to log in, so that a user can set a new password even if attempts from other IP addresses have
      // blocked the login.
      const guess = { purpose: 'new_password', subject: user.id, address } as const
      checkChosenPassword(fields.text('password'), user.email, '/password')
      await database.transaction((tx) => countGuess(tx, guess, now))
      const passwordHash = await passwords.hash(fields.text('password'))
      await database.transaction(async (tx) => {
        await resetPassword(tx, codeHash, passwordHash, { actor: actorOf(user, address), now })
        await uncountGuess(tx, guess, now)
      })
      return { json: { changed: true }, page: renderDone }
    },
    rerender:
      async ({ fields }, problem) =>
      (frame) =>
        renderNewPassword(frame, fields.text('code'), problem),
  },
]

function renderRequest(frame: Frame, email: string, problem?: Problem): Html {
  return renderNarrowPage(
    frame,
    'Forgot your password?',
    html`<p>Enter your e-mail address, and we send you a link to set a new password.</p>
${renderFaultSummary(problem)}
<form method="post" action="${REQUEST_PATH}" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}
<p class="field"><label for="email">E-mail</label>
<input id="email" name="email" type="email" value="${email}" autocomplete="username" required${describedBy(problem, 'email')}></p>
${renderFieldFaults(problem, 'email')}
<p><button class="primary wide">Send link</button></p>
</form>
<p><a href="/settings/login">Log in</a></p>`,
  )
}

/** The page does not depend on any user, so it does not reveal whether a user has the address that was entered. */
function renderRequested(frame: Frame, email: string, route: NoticeRoute): Html {
  return renderNarrowPage(
    frame,
    route === 'sent' ? 'Check your e-mail' : 'No e-mail is sent',
    html`${REQUESTED_WORDS[route](email)}
<p class="row"><a class="button" href="/settings/login">Log in</a> <a class="button" href="${REQUEST_PATH}">Enter another address</a></p>`,
  )
}

const REQUESTED_WORDS: Readonly<Record<NoticeRoute, (email: string) => Html>> = {
  sent: (
    email,
  ) => html`<p>If <strong translate="no">${email}</strong> is the e-mail address of a user, we mail a link to set a
new password to this address. The link works once, for 30 minutes.</p>
<p>No e-mail after a few minutes? Look in the spam folder, or check the address and request another link.</p>`,
  file: (email) => html`<p>This service has no mail server and writes its mail to files. If
<strong translate="no">${email}</strong> is the e-mail address of a user, a file contains a link to set a new password. The link works once, for 30 minutes.</p>
<p>Ask the operator of this service, who knows the directory of the files.</p>`,
  dropped: (
    email,
  ) => html`<p>The domain of <strong translate="no">${email}</strong> is reserved for examples and receives no
e-mail, so no link can be sent to it.</p>
<p>Ask the operator of this service for a new login.</p>`,
  waiting: () => html`<p>This service does not send e-mail at present, so no link is sent.</p>
<p>Ask the operator of this service for a new login.</p>`,
}

function renderNoMail(frame: Frame): Html {
  return renderNarrowPage(
    frame,
    'Forgot your password?',
    html`<p>This service does not send e-mail, so it cannot send a link to set a new password. Ask the operator of this service for a new login.</p>
<p><a class="button" href="/settings/login">Log in</a></p>`,
  )
}

function renderNewPassword(frame: Frame, code: string, problem?: Problem): Html {
  return renderNarrowPage(
    frame,
    'Set a new password',
    html`<p>After this, all your sessions end, and you must log in with the new password.</p>
${renderFaultSummary(problem)}
<form method="post" action="${RESET_PATH}" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}
<div data-code><p class="field"><label for="code">Code from your link</label>
<input id="code" name="code" value="${code}" autocomplete="off" spellcheck="false" translate="no"
required data-from-fragment aria-describedby="code-hint"></p>
<p class="hint" id="code-hint">The part of your link after the # sign.</p></div>
<p class="field"><label for="password">New password</label>
<input id="password" name="password" type="password" autocomplete="new-password"
required${describedBy(problem, 'password', 'password-hint')}></p>
<p class="hint" id="password-hint">8 characters or more. Several words are safer than one word with symbols.</p>
${renderFieldFaults(problem, 'password')}
<p><button class="primary wide">Set password</button></p>
</form>
<p><a href="${REQUEST_PATH}">Request another link</a></p>`,
  )
}

function renderDone(frame: Frame): Html {
  return renderNarrowPage(
    frame,
    'Your password was changed',
    html`<p>All your sessions have ended. Log in with your new password.</p>
<p><a class="button primary" href="/settings/login">Log in</a></p>`,
  )
}

/** Renders a page without the name and menu of the user, even if the browser has a session. */
function renderNarrowPage(frame: Frame, title: string, content: Html): Html {
  const main = html`<div class="narrow card"><h1>${title}</h1>
${content}</div>`
  return renderPage({ ...frame, session: undefined }, { title, main })
}
