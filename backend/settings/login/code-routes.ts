/**
 * The second step of the login, with a code. `passkey-login-routes.ts` has the login with a passkey, which the same
 * page offers.
 */
import { completeLogin } from '../../sessions/login.ts'
import { findUserOfPendingSession } from '../../sessions/sessions.ts'
import type { PublicPage } from '../shell/page-request.ts'
import { CODE_PATH, findFactors, renderCodePage } from './code-page.ts'
import { respondToLogin } from './login-routes.ts'

/** Resolves with undefined, so that an error page is shown, if the first step (the password) is no longer valid. */
export const rerenderCodePage: NonNullable<PublicPage['rerender']> = async (
  { sessionToken, now },
  problem,
  deps,
) => {
  const user = await findUserOfPendingSession(deps.database.read, sessionToken, now)
  const factors = user && (await findFactors(user, deps))
  return factors && ((frame) => renderCodePage(frame, factors, problem))
}

export const codePages: readonly PublicPage[] = [
  {
    method: 'GET',
    path: CODE_PATH,
    async handle({ sessionToken, now }, deps) {
      const user = await findUserOfPendingSession(deps.database.read, sessionToken, now)
      if (user === undefined) return { location: '/settings/login' }
      const factors = await findFactors(user, deps)
      return { page: (frame) => renderCodePage(frame, factors) }
    },
  },
  {
    method: 'POST',
    path: CODE_PATH,
    expected: { secrets: ['code'] },
    async handle({ fields, sessionToken, address, userAgent, browserToken, now }, deps) {
      const browser = { address, userAgent, browserToken }
      const step = { token: sessionToken, code: fields.text('code'), ...browser }
      const startedSession = await completeLogin(deps.database, step, deps.secondFactorCipher, now)
      return respondToLogin(startedSession, deps, now)
    },
    rerender: rerenderCodePage,
  },
]
