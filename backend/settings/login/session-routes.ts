/** The routes that list and end the user's sessions, and the page on which the user enters the password again. */
import type { Problem } from '../../../shared/contract/problem.ts'
import { recordAudit } from '../../accounts/audit.ts'
import { type Html, html } from '../../html/html.ts'
import { countGuess, uncountGuess } from '../../sessions/login-guesses.ts'
import {
  confirmSession,
  endListedSession,
  type ListedSession,
  listSessions,
} from '../../sessions/sessions.ts'
import { getUser } from '../../users/users.ts'
import { invalid, notFound } from '../shell/faults.ts'
import { csrfField, describedBy, renderFault, renderFaults, renderPage } from '../shell/layout.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'

const CONFIRM_PATH = '/settings/confirm'

export const ownSessionPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings/sessions',
    allowedWithoutSecondFactor: true,
    async handle({ session, now }, { database }) {
      const sessions = await listSessions(database.read, session, now)
      return {
        json: { object: 'list', data: sessions.map(representListed) },
        location: '/settings/login-details',
      }
    },
  },
  {
    method: 'POST',
    path: '/settings/sessions/{id}/end',
    allowedWithoutSecondFactor: true,
    async handle({ session, id, actionContext, performAction }) {
      await performAction('session_ended', async (tx) => {
        if (!(await endListedSession(tx, session, id))) notFound('session', id)
        await recordAudit(tx, actionContext, {
          accountId: session.account.id,
          action: 'user.session_ended',
          subjectId: session.user.id,
        })
      })
      return { location: '/settings/login-details' }
    },
  },
  {
    method: 'GET',
    path: CONFIRM_PATH,
    allowedWithoutSecondFactor: true,
    handle: async ({ query }) => ({
      page: (frame) => renderConfirm(frame, pathOf(query.get('next') ?? '')),
    }),
  },
  {
    method: 'POST',
    path: CONFIRM_PATH,
    allowedWithoutSecondFactor: true,
    expected: { texts: ['password', 'next'] },
    async handle(request, deps) {
      const { session, fields, now } = request
      const guesser = await checkOwnPassword(request, deps, 'password')
      const token = await deps.database.transaction(async (tx) => {
        const confirmed = await confirmSession(tx, session, now)
        await uncountGuess(tx, guesser, now)
        return confirmed
      })
      const location = pathOf(fields.text('next'))
      // If `token` is undefined, a concurrent request has replaced the session's token. A cookie with another token
      // would log the browser out.
      return token === undefined ? { location } : { location, token }
    },
    rerender:
      async ({ fields }, problem) =>
      (frame) =>
        renderConfirm(frame, pathOf(fields.text('next')), problem),
  },
]

/**
 * Checks the user's password in the field, and counts the guess. Returns the argument of `uncountGuess`. A wrong
 * password is recorded in the audit log, because another person may be using the session. Throws `validation_failed`.
 */
export async function checkOwnPassword(
  { session, fields, address, actionContext, now }: SessionRequest,
  { database, passwords }: SettingsDeps,
  field: string,
) {
  const { user, account } = session
  // Counted separately from logins: otherwise, anyone could block the confirmation with wrong passwords.
  const guesser = { purpose: 'confirmation', subject: user.id, address } as const
  await database.transaction((tx) => countGuess(tx, guesser, now))
  const { password_hash } = await getUser(database.read, account.id, user.id)
  if (await passwords.verify(password_hash, fields.text(field))) return guesser
  await database.transaction((tx) =>
    recordAudit(tx, actionContext, {
      accountId: account.id,
      action: 'user.confirmation_failed',
      subjectId: user.id,
    }),
  )
  return invalid(field, 'This is not your current password.')
}

/** Returns Home unless the text is a path of Settings. Otherwise a link could redirect users to another site. */
function pathOf(text: string): string {
  return /^\/settings(?:\/[\w-]+)*$/.test(text) ? text : '/settings'
}

function renderConfirm(frame: Frame, next: string, problem?: Problem): Html {
  const main = html`<div class="narrow card">
<h1>Confirm that it is you</h1>
<p>Enter your password to continue. Sensitive actions, such as issuing a key, require your password if you last entered it
more than a few minutes ago.</p>
${renderFaults(problem)}
<form method="post" action="${CONFIRM_PATH}" class="stack" data-once novalidate>
${csrfField(frame)}
<input type="hidden" name="next" value="${next}">
<input type="hidden" autocomplete="username" value="${frame.session?.user.email}">
<p class="field"><label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required${describedBy(problem, 'password')}></p>
${renderFault(problem, 'password')}
<p class="row"><button class="primary">Continue</button> <a class="button" href="/settings">Cancel</a></p>
</form>
</div>`
  return renderPage(frame, { title: 'Confirm that it is you', main })
}

function representListed(listed: ListedSession) {
  return {
    id: listed.id,
    current: listed.isCurrent,
    created_at: listed.createdAt,
    last_seen_at: listed.lastSeenAt,
    ends_at: listed.endsAt,
    address: listed.address,
    user_agent: listed.userAgent,
  }
}
