import { createId } from '../../../shared/contract/id.ts'
import type { InvitationRow, Transaction, UserRow } from '../../database/tables.ts'
import { recordNotice } from '../../mail/notices.ts'
import { readDeliveries } from '../../mail/outbox.ts'
import { countSessions, endSessionsOf } from '../../sessions/sessions.ts'
import {
  createInvitation,
  listInvitations,
  withdrawInvitation,
  withdrawInvitationsBy,
} from '../../users/invitations.ts'
import { createToken, hashToken } from '../../users/tokens.ts'
import {
  changeRole,
  countActiveAdmins,
  findUser,
  getUser,
  listUsers,
  ROLES,
  setUserStatus,
} from '../../users/users.ts'
import { type CreateOnceOptions, createOnce, IDEMPOTENCY_KEY_FIELD } from '../forms/perform-once.ts'
import { invitationLink } from '../login/invitation-routes.ts'
import { rejectField } from '../shell/faults.ts'
import type { FlashName } from '../shell/flash-words.ts'
import {
  type ListQuery,
  listOf,
  oldestFirstAfter,
  pageOf,
  parseListQuery,
} from '../shell/list-query.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import { renderDeactivation, renderRoleChange } from './confirm-pages.ts'
import { type People, renderInvited, renderPeople } from './people-page.ts'

const ADMINS_ONLY = 'Only an Admin can manage people.'
const PATH = '/settings/people'

/** The maximum number of people on the page, unless the URL has a limit. */
const SHOWN_MAX = 200

export const peoplePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle(request, deps) {
      const list = parseListQuery(request.query, [])
      const people = await readPeople(request, deps, list)
      return {
        json: {
          ...listOf(people.users.map(representUser), people.next),
          invitations: people.invitations.map((row) => ({
            ...representInvitation(row),
            mail: people.mails.get(row.id)?.status ?? null,
          })),
        },
        page: (frame) => renderPeople(frame, people),
      }
    },
  },
  {
    method: 'POST',
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    expected: { texts: ['email', 'role', IDEMPOTENCY_KEY_FIELD] },
    handle(request, deps) {
      const { fields, session, actionContext } = request
      const { baseUrl, invitationCodes } = deps
      const id = createId('ivt')
      // The code of a mailed invitation is derived from the invitation's id with a secret key: only the hash of the
      // code is stored, so the code is derived again when the mail is sent.
      const code = invitationCodes?.codeOf(id) ?? createToken()
      const isMailed = invitationCodes !== undefined
      const input = {
        id,
        accountId: session.account.id,
        email: requireEmail(fields.text('email')),
        role: roleOf(fields.text('role')),
        codeHash: hashToken(code),
      }
      const create = async (tx: Transaction) => {
        const row = await createInvitation(tx, input, actionContext)
        if (isMailed) await mailInvitation(tx, row, actionContext.now)
        return { row, json: representInvitation(row) }
      }
      const link = invitationLink(baseUrl, code)
      return createOnce(request, deps, INVITATION, create, ({ row, json }) => ({
        status: 201,
        json: { ...json, link, mailed: isMailed },
        page: (frame) => renderInvited(frame, row, link, isMailed),
      }))
    },
    async rerender(request, problem, deps) {
      // Entering other values does not solve these problems, so the form is not shown again.
      if (problem.code.startsWith('idempotency_')) return undefined
      const people = await readPeople(request, deps, parseListQuery(new URLSearchParams(), []))
      return (frame) => renderPeople(frame, people, { fields: request.fields, problem })
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}/role`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle({ session, id }, { database }) {
      const user = await getUser(database.read, session.account.id, id)
      return { page: (frame) => renderRoleChange(frame, user) }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}/deactivate`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    async handle({ session, id, now }, { database }) {
      const user = await getUser(database.read, session.account.id, id)
      const sessions = await countSessions(database.read, id, now)
      return { page: (frame) => renderDeactivation(frame, user, sessions) }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/role`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    expected: { texts: ['role'] },
    handle: (request) =>
      changeUser(request, 'role_changed', async (tx, target) => {
        const role = roleOf(request.fields.text('role'))
        const user = await changeRole(tx, target, role, request.actionContext)
        if (role !== 'admin') await withdrawInvitationsBy(tx, user, request.actionContext)
        return user
      }),
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/deactivate`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    handle: (request) =>
      changeUser(
        request,
        'user_deactivated',
        async (tx, target) => {
          const user = await setUserStatus(tx, target, 'deactivated', request.actionContext)
          await endSessionsOf(tx, user.id)
          await withdrawInvitationsBy(tx, user, request.actionContext)
          return user
        },
        'reactivate',
      ),
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/reactivate`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    handle: (request) =>
      changeUser(
        request,
        'user_reactivated',
        (tx, target) => setUserStatus(tx, target, 'active', request.actionContext),
        'deactivate',
      ),
  },
  {
    method: 'POST',
    path: '/settings/invitations/{id}/withdraw',
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session, id, actionContext, performAction }) {
      await performAction('invitation_withdrawn', (tx) =>
        withdrawInvitation(tx, { accountId: session.account.id, id }, actionContext),
      )
      return { location: PATH }
    },
  },
]

const INVITATION: CreateOnceOptions = {
  operation: 'settings.invite',
  repeatedFlash: 'already_invited',
  location: () => PATH,
}

function mailInvitation(tx: Transaction, row: InvitationRow, now: Date): Promise<void> {
  const { id: subjectId, account_id: accountId, email, role, invited_by } = row
  const detail = { email, role, invited_by }
  return recordNotice(tx, { accountId, kind: 'user.invited', subjectId, detail }, now)
}

/** The ids of the user and of the user's account. */
type Target = Parameters<typeof changeRole>[1]

async function changeUser(
  { session, id, performAction }: SessionRequest,
  flash: FlashName,
  change: (tx: Transaction, target: Target) => Promise<UserRow>,
  undoAction?: 'deactivate' | 'reactivate',
) {
  const undo = undoAction && { path: `${PATH}/${id}/${undoAction}`, fields: [] }
  const user = await performAction(
    () => ({ name: flash, undo }),
    (tx) => change(tx, { accountId: session.account.id, id }),
  )
  // After users have given up their own Admin role, or deactivated themselves, they cannot open the page of people.
  return { json: representUser(user), location: id === session.user.id ? '/settings' : PATH }
}

async function readPeople(
  { session, now }: SessionRequest,
  { database }: SettingsDeps,
  list: ListQuery,
): Promise<People> {
  const { id: accountId } = session.account
  const limit = list.limitOr(SHOWN_MAX)
  const page = await oldestFirstAfter(list.cursor, limit, (id) =>
    findUser(database.read, accountId, id),
  )
  const { rows: users, next } = pageOf(await listUsers(database.read, accountId, page), limit)
  const invitations = await listInvitations(database.read, accountId, now)
  const ids = invitations.map(({ id }) => id)
  return {
    now,
    timezone: session.account.timezone,
    ...{ users, next, limit: list.value('limit') },
    activeAdmins: await countActiveAdmins(database.read, accountId),
    invitations,
    mails: await readDeliveries(database.read, 'user.invited', ids),
  }
}

function representUser({ id, email, role, status, created_at }: UserRow) {
  return { id, email, role, status, created_at }
}

function representInvitation({
  id,
  email,
  role,
  invited_by,
  created_at,
  expires_at,
}: InvitationRow) {
  return { id, email, role, invited_by, created_at, expires_at }
}

function roleOf(name: string): UserRow['role'] {
  const role = ROLES.find((candidate) => candidate === name)
  return role ?? rejectField('role', 'Choose Admin or Member.', 'invalid_enum')
}

function requireEmail(email: string): string {
  return email.trim() === '' ? rejectField('email', 'Enter the e-mail address to invite.') : email
}
