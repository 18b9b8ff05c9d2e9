import { Problem } from '../../../shared/contract/problem.ts'
import { recordAudit } from '../../accounts/audit.ts'
import { changePassword } from '../../sessions/change-password.ts'
import { csrfTokenOf } from '../../sessions/csrf-token.ts'
import { setFlash } from '../../sessions/flash.ts'
import { logIn } from '../../sessions/login.ts'
import { uncountGuess } from '../../sessions/login-guesses.ts'
import {
  endSession,
  endSessionsOf,
  findSession,
  listSessions,
  type PreviousSession,
  type Session,
} from '../../sessions/sessions.ts'
import { checkChosenPassword } from '../../users/password-rules.ts'
import type { PageRequest, PublicPage, SessionPage, SettingsDeps } from '../shell/page-request.ts'
import { checkOwnPassword } from '../shell/recent-password.ts'
import type { PageResponse } from '../shell/response.ts'
import { renderLoginDetails } from './login-details-page.ts'
import { renderLogin } from './login-page.ts'

const HOME = '/settings'
const LOGIN = '/settings/login'

/**
 * The names of the messages that the login form can show after a logout. The name is in the query of the form's URL: a
 * session stores the name of its next message, but the logout has deleted the session.
 */
const LOGGED_OUT = ['logged_out', 'logged_out_everywhere'] as const

function loginPathAfter(name: (typeof LOGGED_OUT)[number]): string {
  return `${LOGIN}?after=${name}`
}

async function showLogin(
  request: PageRequest,
  { relyingParty }: SettingsDeps,
): Promise<PageResponse> {
  if (request.session !== undefined) return { location: HOME, json: { location: HOME } }
  const flash = LOGGED_OUT.find((name) => name === request.query.get('after')) ?? null
  return {
    page: (frame) => renderLogin({ ...frame, flash }, relyingParty, ''),
    json: { location: LOGIN },
  }
}

export const loginPages: readonly PublicPage[] = [
  { method: 'GET', path: LOGIN, handle: showLogin },
  {
    method: 'POST',
    path: LOGIN,
    expected: { texts: ['email'], secrets: ['password'] },
    async handle(request, deps) {
      const { fields, address, userAgent, browserToken, now } = request
      const { needsSecondFactor, ...started } = await logIn(
        deps,
        {
          email: fields.text('email'),
          password: fields.text('password'),
          address,
          userAgent,
          browserToken,
          previous: previousSessionOf(request),
        },
        now,
      )
      if (needsSecondFactor) {
        const json = { second_factor_required: true }
        return { status: 202, json, location: '/settings/login/code', ...started }
      }
      return respondToLogin(started, deps, now)
    },
    rerender:
      async ({ fields }, problem, { relyingParty }) =>
      (frame) =>
        renderLogin(frame, relyingParty, fields.text('email'), problem),
  },
]

export const yourLoginPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings/session',
    allowedWithoutSecondFactor: true,
    handle: async ({ session }) => ({ json: representSession(session), location: HOME }),
  },
  {
    method: 'POST',
    path: '/settings/logout',
    allowedWithoutSecondFactor: true,
    async handle({ session, actionContext }, { database }) {
      await database.transaction(async (tx) => {
        await endSession(tx, session.token)
        await recordAudit(tx, actionContext, {
          accountId: session.account.id,
          action: 'user.logged_out',
          subjectId: session.user.id,
        })
      })
      return { location: loginPathAfter('logged_out'), token: null }
    },
  },
  {
    method: 'POST',
    path: '/settings/logout-everywhere',
    allowedWithoutSecondFactor: true,
    async handle({ session, actionContext }, { database }) {
      await database.transaction(async (tx) => {
        await endSessionsOf(tx, session.user.id)
        await recordAudit(tx, actionContext, {
          accountId: session.account.id,
          action: 'user.logged_out_everywhere',
          subjectId: session.user.id,
        })
      })
      return { location: loginPathAfter('logged_out_everywhere'), token: null }
    },
  },
  {
    method: 'GET',
    path: '/settings/login-details',
    allowedWithoutSecondFactor: true,
    async handle({ session, now }, { database }) {
      const sessions = await listSessions(database.read, session, now)
      return {
        json: representSession(session),
        page: (frame) => renderLoginDetails(frame, { session, sessions, now }),
      }
    },
  },
  {
    method: 'POST',
    path: '/settings/password',
    allowedWithoutSecondFactor: true,
    expected: { secrets: ['current_password', 'new_password'] },
    async handle(request, deps) {
      const { session, actionContext, fields, now, wantsJson } = request
      const { database, passwords } = deps
      const chosen = fields.text('new_password')
      checkChosenPassword(chosen, session.user.email, '/new_password')
      const guess = await checkOwnPassword(request, deps, 'current_password')
      const passwordHash = await passwords.hash(chosen)
      const token = await database.transaction(async (tx) => {
        const newToken = await changePassword(tx, session, passwordHash, actionContext)
        // The current password was correct, so entering it does not count as a guess.
        await uncountGuess(tx, guess, now)
        if (!wantsJson) await setFlash(tx, newToken, 'password_changed')
        return newToken
      })
      return {
        json: representSession({ ...session, token }),
        location: '/settings/login-details',
        token,
      }
    },
    async rerender({ session, now }, problem, { database }) {
      const sessions = await listSessions(database.read, session, now)
      return (frame) => renderLoginDetails(frame, { session, sessions, now }, problem)
    },
  },
]

/** Returns the session that a login in this request must end. */
export function previousSessionOf({ sessionToken, session }: PageRequest): PreviousSession {
  return { token: sessionToken, session }
}

/**
 * `started` is the session that the login has created. Throws `login_failed` if another request has already ended this
 * session.
 */
export async function respondToLogin(
  started: { readonly token: string; readonly browserToken?: string | undefined },
  { database }: SettingsDeps,
  now: Date,
): Promise<PageResponse> {
  const session = await findSession(database.read, started.token, now)
  if (session === undefined) {
    throw new Problem('login_failed', 'The login was ended before it was complete. Log in again.')
  }
  return { json: representSession(session), location: HOME, completesLogin: true, ...started }
}

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
