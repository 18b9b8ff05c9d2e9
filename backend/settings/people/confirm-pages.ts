import type { UserRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import type { Frame } from '../shell/response.ts'

const NAVIGATION = {
  section: '/settings/people',
  back: { path: '/settings/people', name: 'People' },
}

export function renderRoleChange(frame: Frame, user: UserRow): Html {
  const isPromotion = user.role === 'member'
  const isSelf = frame.session?.user.id === user.id
  const role = isPromotion ? 'admin' : 'member'
  const consequences = isPromotion
    ? html`<p>As an Admin, <strong translate="no">${user.email}</strong> can issue and revoke API keys, invite and deactivate
people (including you), and change reminders, customers and invoices.</p>`
    : html`<p>As a Member, <strong translate="no">${user.email}</strong> can read customers, invoices, payments, messages, API
keys and webhooks. Only Admins can manage keys and people, see the audit log, and make changes.</p>
<p>Invitations that ${isSelf ? 'you have' : 'they have'} sent and nobody has accepted are withdrawn.</p>
${isSelf && html`<p>This is you: only another Admin can make you an Admin again.</p>`}`
  return renderConfirmPage(frame, {
    ...NAVIGATION,
    title: isPromotion ? `Make ${user.email} an Admin?` : `Make ${user.email} a Member?`,
    consequences,
    action: `/settings/people/${user.id}/role`,
    button: isPromotion ? 'Make Admin' : 'Make Member',
    isDangerous: !isPromotion,
    fields: html`<input type="hidden" name="role" value="${role}">`,
  })
}

export function renderDeactivation(frame: Frame, user: UserRow, sessionCount: number): Html {
  const isSelf = frame.session?.user.id === user.id
  return renderConfirmPage(frame, {
    ...NAVIGATION,
    title: `Deactivate ${user.email}?`,
    consequences: html`<p>${isSelf ? 'You are' : html`<strong translate="no">${user.email}</strong> is`} logged out${
      sessionCount > 0 && ` of ${sessionCount === 1 ? 'one session' : `${sessionCount} sessions`}`
    } immediately, and can no longer log in. API keys that ${isSelf ? 'you' : 'they'} issued keep working.${
      user.role === 'admin' &&
      ` Invitations that ${isSelf ? 'you have' : 'they have'} sent and nobody has accepted are withdrawn.`
    }</p>
<p>${isSelf ? 'Your' : 'Their'} actions remain in the audit log. ${
      isSelf ? 'Another Admin' : 'You'
    } can reactivate the login at any time.</p>`,
    action: `/settings/people/${user.id}/deactivate`,
    button: 'Deactivate',
    isDangerous: true,
  })
}
