import type { Problem } from '../../../shared/contract/problem.ts'
import { recordAudit } from '../../accounts/audit.ts'
import type { Html } from '../../html/html.ts'
import { endListedSession, type ListedSession, listSessions } from '../../sessions/sessions.ts'
import { notFound } from '../shell/faults.ts'
import { PASSWORD } from '../shell/fields.ts'
import type { SessionPage } from '../shell/page-request.ts'
import {
  CONFIRM_PASSWORD_PATH,
  confirmPassword,
  renderPasswordForm,
} from '../shell/recent-password.ts'
import type { Frame } from '../shell/response.ts'

export const sessionPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: '/settings/sessions',
    allowedWithoutSecondFactor: true,
    async handle({ session, now }, { database }) {
      const sessions = await listSessions(database.read, session, now)
      return {
        json: { object: 'list', data: sessions.map(representListed) },
        // A browser is redirected to the page “Your login”, which contains the list.
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
    path: CONFIRM_PASSWORD_PATH,
    allowedWithoutSecondFactor: true,
    handle: async ({ query }) => ({
      page: (frame) => renderPasswordPage(frame, settingsPathOrHome(query.get('next') ?? '')),
    }),
  },
  {
    method: 'POST',
    path: CONFIRM_PASSWORD_PATH,
    allowedWithoutSecondFactor: true,
    expected: { texts: ['next'], secrets: [PASSWORD] },
    async handle(request, deps) {
      // The session gets a new token, unless a concurrent request has already replaced the token.
      const token = await confirmPassword(request, deps)
      const location = settingsPathOrHome(request.fields.text('next'))
      return token === undefined ? { location } : { location, token }
    },
    rerender:
      async ({ fields }, problem) =>
      (frame) =>
        renderPasswordPage(frame, settingsPathOrHome(fields.text('next')), problem),
  },
]

/**
 * Returns the text if it is the path of a page of Settings, otherwise the path of Home: no link may redirect to another
 * site.
 */
function settingsPathOrHome(text: string): string {
  return /^\/settings(?:\/[\w-]+)*(?:\?[\w=&%.-]*)?$/.test(text) ? text : '/settings'
}

function renderPasswordPage(frame: Frame, next: string, problem?: Problem): Html {
  const form = {
    action: CONFIRM_PASSWORD_PATH,
    fields: [['next', [next]]] as const,
    hint: 'Enter your password to continue.',
    back: '/settings',
  }
  return renderPasswordForm(frame, form, problem)
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
