/** Logs in with a passkey alone, or with a passkey as the second factor after the password. */
import {
  beginPasskeyLogin,
  logInWithPasskey,
  type PasskeyAttempt,
} from '../../sessions/passkey-login.ts'
import type { PageRequest, PublicPage, SettingsDeps } from '../shell/page-request.ts'
import { rerenderCodePage } from './code-routes.ts'
import { readAuthentication } from './credential-field.ts'
import { renderLogin } from './login-page.ts'
import { previousSessionOf, respondToLogin } from './login-routes.ts'
import { requireRelyingParty } from './passkey-routes.ts'

const PASSKEY_ONLY_PATH = '/settings/login/passkey'
const AFTER_PASSWORD_PATH = '/settings/login/code/passkey'

export const passkeyLoginPages: readonly PublicPage[] = [
  {
    method: 'POST',
    path: `${PASSKEY_ONLY_PATH}/challenge`,
    async handle(request, deps) {
      const options = await beginPasskeyLogin(
        depsOf(deps),
        passkeyOnlyAttempt(request),
        request.now,
      )
      // The challenge is valid only with the CSRF token of this request, which is derived from the login cookie.
      // `bindsBrowser` sets this cookie if the browser does not have it.
      return { json: options, bindsBrowser: true }
    },
  },
  {
    method: 'POST',
    path: PASSKEY_ONLY_PATH,
    expected: { secrets: ['credential'] },
    handle: (request, deps) => logIn(request, passkeyOnlyAttempt(request), deps),
    rerender:
      async (_request, problem, { relyingParty }) =>
      (frame) =>
        renderLogin(frame, relyingParty, '', problem),
  },
  {
    method: 'POST',
    path: `${AFTER_PASSWORD_PATH}/challenge`,
    async handle(request, deps) {
      return {
        json: await beginPasskeyLogin(depsOf(deps), secondFactorAttempt(request), request.now),
      }
    },
  },
  {
    method: 'POST',
    path: AFTER_PASSWORD_PATH,
    expected: { secrets: ['credential'] },
    handle: (request, deps) => logIn(request, secondFactorAttempt(request), deps),
    rerender: rerenderCodePage,
  },
]

async function logIn(request: PageRequest, attempt: PasskeyAttempt, deps: SettingsDeps) {
  const { fields, now } = request
  const started = await logInWithPasskey(depsOf(deps), attempt, readAuthentication(fields), now)
  return respondToLogin(started, deps, now)
}

/** The user is unknown until the passkey is verified, so the CSRF token of the login form identifies the attempt. */
function passkeyOnlyAttempt(request: PageRequest): PasskeyAttempt {
  return { ...browserOf(request), formSecret: request.csrfToken }
}

/** The session token in the cookie identifies the user, who has already entered the password. */
function secondFactorAttempt(request: PageRequest): PasskeyAttempt {
  return { ...browserOf(request), formSecret: undefined }
}

function browserOf(request: PageRequest) {
  const { address, userAgent, browserToken } = request
  return { address, userAgent, browserToken, previous: previousSessionOf(request) }
}

function depsOf(deps: SettingsDeps) {
  return { database: deps.database, party: requireRelyingParty(deps) }
}
