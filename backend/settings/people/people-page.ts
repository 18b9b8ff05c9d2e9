import type { Problem } from '../../../shared/contract/problem.ts'
import type { InvitationRow, UserRow } from '../../database/tables.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import type { NoticeDelivery } from '../../mail/outbox.ts'
import { renderIdempotencyKey } from '../forms/perform-once.ts'
import { type Fields, NO_FIELDS } from '../shell/fields.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderCopyField,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from '../shell/layout.ts'
import { renderNext } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime } from '../shell/words.ts'

export interface People {
  readonly now: Date
  readonly timezone: string
  readonly users: readonly UserRow[]
  /** The parameter `limit` of the URL. */
  readonly limit: string | undefined
  readonly next: string | null
  /** The number of active Admins on all pages. */
  readonly activeAdmins: number
  readonly invitations: readonly InvitationRow[]
  /** The delivery of mailed invitations, by invitation id. */
  readonly mails: ReadonlyMap<string, NoticeDelivery>
}

interface RejectedInvitation {
  readonly fields: Fields
  readonly problem: Problem
}

const ROLE_WORDS = { admin: 'Admin', member: 'Member' } as const

export function renderPeople(frame: Frame, people: People, rejected?: RejectedInvitation): Html {
  const { users, limit, next, activeAdmins, invitations } = people
  const entered = rejected?.fields ?? NO_FIELDS
  const main = html`<h1>People</h1>
<p class="lead">Admins can see and change everything: API keys and webhooks, people, customers, invoices and payments,
reminders and their schedule, the kill switch, and the account. They can also read the audit log. Members can see customers,
invoices, payments, reminders, API keys and webhooks. In messages, the recipient’s e-mail address is masked for Members.
Members cannot see webhook payloads, people or the audit log, and can change only their own login.</p>
<section aria-labelledby="users-title"><h2 id="users-title">Who can log in</h2>
<table class="records"><caption class="unseen">People of this account</caption>
<thead><tr><th scope="col">E-mail</th><th scope="col">Role</th><th scope="col">Status</th><th scope="col">Actions</th></tr></thead>
<tbody>${users.map((user) => renderUser(frame, user, isLastAdmin(user, activeAdmins)))}</tbody></table>
${next !== null && renderNext('/settings/people', { limit, cursor: next }, 'More people')}
</section>
${
  invitations.length > 0 &&
  html`<section aria-labelledby="invited-title"><h2 id="invited-title">Invited</h2>
<table class="records"><caption class="unseen">Open invitations</caption>
<thead><tr><th scope="col">E-mail</th><th scope="col">Role</th><th scope="col">Expires</th><th scope="col">Actions</th></tr></thead>
<tbody>${invitations.map((invitation) => renderInvitation(frame, invitation, people))}</tbody></table>
</section>`
}
<section class="card" aria-labelledby="invite-title"><h2 id="invite-title">Invite someone</h2>
${renderFaultSummary(rejected?.problem)}
<form method="post" action="/settings/people" class="stack" data-once novalidate>${renderCommonHiddenFields(frame)}${renderIdempotencyKey(entered)}
<p class="field"><label for="email">E-mail</label>
<input id="email" name="email" type="email" value="${entered.text('email')}" autocomplete="off" required${describedBy(rejected?.problem, 'email')}></p>
${renderFieldFaults(rejected?.problem, 'email')}
<p class="field"><label for="role">Role</label>
<select id="role" name="role"><option value="member">Member</option><option value="admin"${attribute('selected', entered.text('role') === 'admin')}>Admin</option></select></p>
<p><button class="primary">Invite</button></p>
</form></section>`
  return renderPage(frame, { title: 'People', section: '/settings/people', main })
}

/** The link of an invitation is not stored, and no other page shows it. */
export function renderInvited(
  frame: Frame,
  { email }: InvitationRow,
  link: string,
  isMailed: boolean,
): Html {
  const main = html`<div class="card reveal">
<h1 tabindex="-1" autofocus data-focus>${isMailed ? `A link is being mailed to ${email}` : `Send this link to ${email}`}</h1>
<p>${isMailed && 'If the mail does not arrive, send the link yourself. '}The link is shown only once and works for 7 days.
The first person who uses the link chooses the password, so send it to this user only.</p>
${renderCopyField('link', 'Invitation link', link)}
<p><a class="button primary" href="/settings/people">Done</a></p>
</div>`
  return renderPage(frame, { title: 'Invited', section: '/settings/people', main })
}

function renderUser(frame: Frame, user: UserRow, isLastAdmin: boolean): Html {
  const isActive = user.status === 'active'
  const path = `/settings/people/${user.id}`
  const otherRole = user.role === 'admin' ? 'member' : 'admin'
  const isSelf = frame.session?.user.id === user.id
  return html`<tr>
<th scope="row" data-label="E-mail" translate="no">${user.email}${isSelf && html` <span class="hint">you</span>`}</th>
<td data-label="Role">${ROLE_WORDS[user.role]}</td>
<td data-label="Status">${isActive ? html`<span class="badge active">Active</span>` : html`<span class="badge">Deactivated</span>`}</td>
<td data-label="Actions"><div class="row">${
    isActive &&
    (isLastAdmin
      ? html`<span class="hint">The last Admin must keep the role. Make someone else an Admin first.</span>`
      : html`${renderLink(`${path}/role`, `Make ${ROLE_WORDS[otherRole]}`, user.email)}${renderLink(`${path}/deactivate`, 'Deactivate', user.email, true)}`)
  }${!isActive && renderAction(frame, `${path}/reactivate`, 'Reactivate', user.email)}</div></td></tr>`
}

function isLastAdmin({ role, status }: UserRow, activeAdmins: number): boolean {
  return role === 'admin' && status === 'active' && activeAdmins === 1
}

function renderLink(path: string, name: string, person: string, isDangerous = false): Html {
  return html`<a class="button small${isDangerous && ' danger'}" href="${path}" data-dialog-page>${name}<span class="unseen"> ${person}</span></a>`
}

const MAIL_WORDS = {
  pending: 'The mail is on its way.',
  sent: 'The mail was sent.',
  failed:
    'The mail did not arrive. Withdraw this invitation, and invite the person again. If the address is right, send the new link yourself: the next page shows it.',
} as const

function renderInvitation(frame: Frame, row: InvitationRow, { timezone, mails }: People): Html {
  const mail = mails.get(row.id)
  return html`<tr><th scope="row" data-label="E-mail"><span translate="no">${row.email}</span>${mail && html` <span class="hint">${MAIL_WORDS[mail.status]}</span>`}</th>
<td data-label="Role">${ROLE_WORDS[row.role]}</td>
<td data-label="Expires">${exactTime(row.expires_at, timezone)}</td>
<td data-label="Actions">${renderAction(frame, `/settings/invitations/${row.id}/withdraw`, 'Withdraw', row.email)}</td></tr>`
}

function renderAction(frame: Frame, action: string, name: string, person: string): Html {
  return html`<form method="post" action="${action}">${renderCommonHiddenFields(frame)}
<button class="small">${name}<span class="unseen"> ${person}</span></button></form>`
}
