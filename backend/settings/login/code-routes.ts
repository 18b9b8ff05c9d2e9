/** The second step of the login: a code of an authenticator app, or a recovery code. */
import { Problem } from '../../../shared/contract/problem.ts'
import { completeLogin } from '../../sessions/login.ts'
import { findPendingUser, findSession } from '../../sessions/sessions.ts'
import type { OpenPage } from '../shell/page-request.ts'
import { CODE_PATH, findFactors, renderCode } from './code-page.ts'
import { representSession } from './login-routes.ts'

export const codePages: readonly OpenPage[] = [
  {
    method: 'GET',
    path: CODE_PATH,
    async handle({ cookieToken, now }, deps) {
      const user = await findPendingUser(deps.database.read, cookieToken, now)
      if (user === undefined) return { location: '/settings/login' }
      const factors = await findFactors(user, deps)
      return { page: (frame) => renderCode(frame, factors) }
    },
  },
  {
    method: 'POST',
    path: CODE_PATH,
    expected: { texts: ['code'] },
    async handle({ fields, cookieToken, address, userAgent, browserToken, now }, deps) {
      const { database, secondFactorBox } = deps
      const browser = { address, userAgent, browserToken }
      const step = { token: cookieToken, code: fields.text('code'), ...browser }
      const started = await completeLogin(database, step, secondFactorBox, now)
      const session = await findSession(database.read, started.token, now)
      if (session === undefined)
        throw new Problem(
          'login_failed',
          'The login was ended before it was complete. Log in again.',
        )
      return { json: representSession(session), location: '/settings', ...started }
    },
    async rerender({ cookieToken, now }, problem, deps) {
      const user = await findPendingUser(deps.database.read, cookieToken, now)
      const factors = user && (await findFactors(user, deps))
      return factors && ((frame) => renderCode(frame, factors, problem))
    },
  },
]
