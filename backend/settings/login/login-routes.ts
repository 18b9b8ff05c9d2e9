/** Logging in and out, and one's own password. */
import { Problem } from '../../../shared/contract/problem.ts'
import { recordAudit } from '../../accounts/audit.ts'
import { type Html, html } from '../../html/html.ts'
import { logIn } from '../../sessions/login.ts'
import { claimGuess, forgiveGuess } from '../../sessions/login-guesses.ts'
import {
  csrfTokenOf,
  endSession,
  endSessionsOf,
  findSession,
  rotateSession,
  type Session,
  setFlash,
} from '../../sessions/sessions.ts'
import { checkChosenPassword, getUser, setPasswordHash } from '../../users/users.ts'
import { csrfField, describedBy, renderFault, renderFaults, renderPage } from '../shell/layout.ts'
import type { OpenPage, PageRequest, SessionPage } from '../shell/page-request.ts'
import type { Answer, Frame } from '../shell/response.ts'

const HOME = '/settings/api-keys'

/** The login where there is no session; else where one goes from there. */
async function welcome(request: PageRequest): Promise<Answer> {
  if (request.session !== undefined) return { location: HOME, json: { location: HOME } }
  return { page: (frame) => renderLogin(frame, ''), json: { location: '/settings/login' } }
}

export const loginPages: readonly OpenPage[] = [
  { method: 'GET', path: '/settings', handle: welcome },
  { method: 'GET', path: '/settings/login', handle: welcome },
  {
    method: 'POST',
    path: '/settings/login',
    expected: { texts: ['email', 'password'] },
    async handle({ fields, address, now, session }, deps) {
      const token = await logIn(
        deps,
        {
          email: fields.text('email'),
          password: fields.text('password'),
          address,
          token: session?.token,
        },
        now,
      )
      const begun = await findSession(deps.database.read, token, now)
      if (begun === undefined) throw new Problem('login_failed', 'The login is no longer active.')
      return { json: representSession(begun), location: HOME, token }
    },
    redraw:
      async ({ fields }, problem) =>
      (frame) => {
        return renderLogin(frame, fields.text('email'), problem)
      },
  },
]

export const sessionPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings/session',
    handle: async ({ session }) => ({ json: representSession(session), location: HOME }),
  },
  {
    method: 'POST',
    path: '/settings/logout',
    async handle({ session, act }, { database }) {
      await database.transaction(async (tx) => {
        await endSession(tx, session.token)
        await recordAudit(tx, act, {
          accountId: session.account.id,
          action: 'user.logged_out',
          subjectId: session.user.id,
        })
      })
      return { location: '/settings/login', token: null }
    },
  },
  {
    method: 'POST',
    path: '/settings/logout-everywhere',
    async handle({ session, act }, { database }) {
      await database.transaction(async (tx) => {
        await endSessionsOf(tx, session.user.id)
        await recordAudit(tx, act, {
          accountId: session.account.id,
          action: 'user.logged_out_everywhere',
          subjectId: session.user.id,
        })
      })
      return { location: '/settings/login', token: null }
    },
  },
  {
    method: 'GET',
    path: '/settings/login-details',
    handle: async ({ session }) => ({
      json: representSession(session),
      page: (frame) => renderLoginDetails(frame),
    }),
  },
  {
    method: 'POST',
    path: '/settings/password',
    expected: { texts: ['current_password', 'new_password'] },
    async handle({ session, act, fields, address, now, wantsJson }, { database, passwords }) {
      const { user, account } = session
      const chosen = fields.text('new_password')
      checkChosenPassword(chosen, user.email, '/new_password')
      const guesser = { email: user.email, address }
      await database.transaction((tx) => claimGuess(tx, guesser, now))
      const { password_hash } = await getUser(database.read, account.id, user.id)
      if (!(await passwords.verify(password_hash, fields.text('current_password')))) {
        throw fault('/current_password', 'This is not your current password.')
      }
      const passwordHash = await passwords.hash(chosen)
      const token = await database.transaction(async (tx) => {
        await forgiveGuess(tx, guesser, now)
        await setPasswordHash(tx, user.id, passwordHash, now)
        await endSessionsOf(tx, user.id, session.token)
        const rotated = await rotateSession(tx, session)
        if (!wantsJson) await setFlash(tx, rotated, 'password_changed')
        await recordAudit(tx, act, {
          accountId: account.id,
          action: 'user.password_changed',
          subjectId: user.id,
        })
        return rotated
      })
      return {
        json: representSession({ ...session, token }),
        location: '/settings/login-details',
        token,
      }
    },
    redraw: async (_visit, problem) => (frame) => renderLoginDetails(frame, problem),
  },
]

export function representSession({ user, account, token }: Session) {
  return {
    user: {
      id: user.id,
      email: user.email,
      role: user.role,
      account_id: account.id,
      account_name: account.name,
    },
    csrf_token: csrfTokenOf(token),
  }
}

function fault(pointer: string, detail: string): Problem {
  const errors = [{ pointer, code: 'invalid_format', detail }]
  return new Problem('validation_failed', detail, { members: { errors } })
}

function renderLogin(frame: Frame, email: string, problem?: Problem): Html {
  const main = html`<div class="narrow card">
<h1>Log in to Settings</h1>
${renderFaults(problem)}
<form method="post" action="/settings/login" class="stack">
${csrfField(frame)}
<p class="field"><label for="email">E-mail</label>
<input id="email" name="email" type="email" value="${email}" autocomplete="username" required></p>
<p class="field"><label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required></p>
<p><button class="primary wide">Log in</button></p>
</form>
</div>`
  return renderPage({ ...frame, session: undefined }, { title: 'Log in', main })
}

function renderLoginDetails(frame: Frame, problem?: Problem): Html {
  const { session } = frame
  const main = html`<h1>Your login</h1>
<p class="lead">You are <strong translate="no">${session?.user.email}</strong>,
${session?.user.role === 'admin' ? 'an Admin' : 'a Member'} of ${session?.account.name}.</p>
<section class="card" aria-labelledby="password-title">
<h2 id="password-title">Change your password</h2>
<p class="hint">You request logged in here and are logged out everywhere else.</p>
${renderFaults(problem)}
<form method="post" action="/settings/password" class="stack">
${csrfField(frame)}
<input type="hidden" autocomplete="username" value="${session?.user.email}">
<p class="field"><label for="current_password">Current password</label>
<input id="current_password" name="current_password" type="password"
autocomplete="current-password" required${describedBy(problem, 'current_password')}></p>
${renderFault(problem, 'current_password')}
<p class="field"><label for="new_password">New password</label>
<input id="new_password" name="new_password" type="password" autocomplete="new-password"
required${describedBy(problem, 'new_password', 'new-password-hint')}></p>
<p class="hint" id="new-password-hint">8 characters or more. A few words are better than one with
signs in it.</p>
${renderFault(problem, 'new_password')}
<p><button class="primary">Change password</button></p>
</form>
</section>
<section class="card" aria-labelledby="sessions-title">
<h2 id="sessions-title">Log out everywhere</h2>
<p>Ends every session of yours, this one too. You are logged out by itself after 30 minutes of doing
nothing, and after 12 hours in any case.</p>
<form method="post" action="/settings/logout-everywhere">${csrfField(frame)}
<button>Log out everywhere</button></form>
</section>`
  return renderPage(frame, { title: 'Your login', place: '/settings/login-details', main })
}
