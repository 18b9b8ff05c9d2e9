/** Logs in with a passkey alone, or with a passkey as the second factor after the password. */
import { Problem } from '../../../shared/contract/problem.ts'
import { beginPasskeyLogin, logInWithPasskey } from '../../sessions/passkey-login.ts'
import { findPendingUser, findSession } from '../../sessions/sessions.ts'
import type { OpenPage, PageRequest, SettingsDeps } from '../shell/page-request.ts'
import { findFactors, renderCode } from './code-page.ts'
import { readAuthentication } from './credential-field.ts'
import { renderLogin } from './login-page.ts'
import { representSession } from './login-routes.ts'
import { requireParty } from './passkey-routes.ts'

const LOGIN_PATH = '/settings/login/passkey'
const CODE_PATH = '/settings/login/code/passkey'

export const passkeyLoginPages: readonly OpenPage[] = [
  {
    method: 'POST',
    path: `${LOGIN_PATH}/challenge`,
    async handle(request, deps) {
      const options = await beginPasskeyLogin(
        depsOf(deps),
        passkeyOnlyAttempt(request),
        request.now,
      )
      return { json: options, bindsBrowser: true }
    },
  },
  {
    method: 'POST',
    path: LOGIN_PATH,
    expected: { texts: ['credential'] },
    handle: (request, deps) => logIn(request, passkeyOnlyAttempt(request), deps),
    rerender:
      async (_request, problem, { relyingParty }) =>
      (frame) =>
        renderLogin(frame, relyingParty, '', problem),
  },
  {
    method: 'POST',
    path: `${CODE_PATH}/challenge`,
    async handle(request, deps) {
      return {
        json: await beginPasskeyLogin(depsOf(deps), secondFactorAttempt(request), request.now),
      }
    },
  },
  {
    method: 'POST',
    path: CODE_PATH,
    expected: { texts: ['credential'] },
    handle: (request, deps) => logIn(request, secondFactorAttempt(request), deps),
    async rerender({ cookieToken, now }, problem, deps) {
      const user = await findPendingUser(deps.database.read, cookieToken, now)
      const factors = user && (await findFactors(user, deps))
      return factors && ((frame) => renderCode(frame, factors, problem))
    },
  },
]

type Attempt = Parameters<typeof logInWithPasskey>[1]

async function logIn(request: PageRequest, attempt: Attempt, deps: SettingsDeps) {
  const { database } = deps
  const { fields, now } = request
  const started = await logInWithPasskey(depsOf(deps), attempt, readAuthentication(fields), now)
  const session = await findSession(database.read, started.token, now)
  if (session === undefined)
    throw new Problem('login_failed', 'The login was ended before it was complete. Log in again.')
  return { json: representSession(session), location: '/settings', ...started }
}

function passkeyOnlyAttempt(request: PageRequest): Attempt {
  return { ...secondFactorAttempt(request), formSecret: request.csrfToken }
}

function secondFactorAttempt({ cookieToken, ...browser }: PageRequest): Attempt {
  const { address, userAgent, browserToken } = browser
  return { formSecret: undefined, token: cookieToken, address, userAgent, browserToken }
}

function depsOf(deps: SettingsDeps) {
  return { database: deps.database, party: requireParty(deps) }
}
