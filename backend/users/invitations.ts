import { Problem } from '../../shared/contract/problem.ts'
import { lockAccount } from '../accounts/accounts.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { InvitationRow, Reader, Transaction, UserRow } from '../database/tables.ts'
import { checkEmail, checkStillAdmin, createUser, findUserByEmail, invalidEmail } from './users.ts'

const DAY_MS = 86_400_000
const LIFETIME_MS = 7 * DAY_MS

/** How many invitations an account may send in 24 hours: enough for a large team, and too few for sending spam. */
const INVITATIONS_MAX = 100
/** How many of these may be to one address: an Admin may repeat an invitation whose mail was lost. */
const INVITATIONS_MAX_PER_ADDRESS = 5

export interface NewInvitation {
  /** The caller generates the id, because the code may be derived from it. */
  readonly id: string
  readonly accountId: string
  readonly email: string
  readonly role: UserRow['role']
  readonly codeHash: string
}

/**
 * Creates an invitation, and ends an earlier invitation by this account to the same address. Throws `Problem`
 * `validation_failed`, `too_many_invitations`, and `admin_required` if the inviter has meanwhile lost the login or the
 * role.
 */
export async function createInvitation(
  tx: Transaction,
  { id, accountId, role, codeHash, ...input }: NewInvitation,
  actionContext: ActionContext,
): Promise<InvitationRow> {
  const email = checkEmail(input.email)
  const user = await findUserByEmail(tx, email)
  // An account must not learn whether an address has a login in another account.
  if (user?.account_id === accountId) {
    throw invalidEmail(`${email} is already a user of this account.`)
  }
  // Without the lock, the limits would not be exact, and the inviter could be deactivated in the meantime.
  await lockAccount(tx, accountId)
  await checkStillAdmin(tx, accountId, actionContext.actor)
  await checkLimits(tx, accountId, email, actionContext.now)
  const now = actionContext.now.toISOString()
  await tx
    .updateTable('invitations')
    .set({ ended_at: now })
    .where('account_id', '=', accountId)
    .where('email', '=', email)
    .where('ended_at', 'is', null)
    .execute()
  const row: InvitationRow = {
    id,
    account_id: accountId,
    email,
    role,
    code_hash: codeHash,
    invited_by: actionContext.actor.label,
    created_at: now,
    expires_at: new Date(actionContext.now.getTime() + LIFETIME_MS).toISOString(),
    ended_at: null,
  }
  await tx.insertInto('invitations').values(row).execute()
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'user.invited',
    subjectId: row.id,
    detail: { email, role },
  })
  return row
}

async function checkLimits(
  tx: Transaction,
  accountId: string,
  email: string,
  now: Date,
): Promise<void> {
  const sent = await tx
    .selectFrom('invitations')
    .select(['email', 'created_at'])
    .where('account_id', '=', accountId)
    .where('created_at', '>', new Date(now.getTime() - DAY_MS).toISOString())
    .orderBy('created_at')
    .execute()
  const toAddress = sent.filter((invitation) => invitation.email === email)
  if (toAddress.length >= INVITATIONS_MAX_PER_ADDRESS) {
    throw tooMany(`This account has invited ${email} ${toAddress.length} times`, toAddress, now)
  }
  if (sent.length >= INVITATIONS_MAX) {
    throw tooMany(`This account has sent ${sent.length} invitations`, sent, now)
  }
}

/** The second argument contains the invitations that were sent, the oldest first. */
function tooMany(
  beginning: string,
  [oldest]: readonly Pick<InvitationRow, 'created_at'>[],
  now: Date,
): Problem {
  const untilMs = Date.parse(oldest?.created_at ?? now.toISOString()) + DAY_MS
  const seconds = Math.ceil((untilMs - now.getTime()) / 1000)
  return new Problem('too_many_invitations', `${beginning} within 24 hours. Try again later.`, {
    headers: { 'retry-after': String(seconds) },
  })
}

/** Returns the invitations that can still be accepted. */
export async function listInvitations(
  reader: Reader,
  accountId: string,
  now: Date,
): Promise<InvitationRow[]> {
  return reader
    .selectFrom('invitations')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', now.toISOString())
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

/** Throws `Problem` `invalid_invitation` if the code is unknown, used, withdrawn or expired. */
export async function getInvitation(
  reader: Reader,
  codeHash: string,
  now: Date,
): Promise<InvitationRow> {
  const row = await reader
    .selectFrom('invitations')
    .selectAll()
    .where('code_hash', '=', codeHash)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', now.toISOString())
    .executeTakeFirst()
  if (row !== undefined) return row
  throw new Problem(
    'invalid_invitation',
    'This invitation was used or withdrawn, or has expired. Ask for a new invitation.',
  )
}

/** Returns the new user. Throws the same problems as `getInvitation` and `createUser`. */
export async function acceptInvitation(
  tx: Transaction,
  codeHash: string,
  passwordHash: string,
  { actor, now }: ActionContext,
): Promise<UserRow> {
  // The lock serializes acceptance and withdrawal.
  await tx
    .selectFrom('invitations')
    .select('id')
    .where('code_hash', '=', codeHash)
    .forNoKeyUpdate()
    .execute()
  const row = await getInvitation(tx, codeHash, now)
  await endInvitation(tx, row.id, now)
  const actionContext = { actor: { ...actor, label: row.email }, now }
  return createUser(
    tx,
    { accountId: row.account_id, email: row.email, role: row.role, passwordHash },
    actionContext,
  )
}

/** Withdrawing an ended invitation changes nothing. Throws `Problem` `not_found`. */
export async function withdrawInvitation(
  tx: Transaction,
  { accountId, id }: { readonly accountId: string; readonly id: string },
  actionContext: ActionContext,
): Promise<void> {
  const row = await tx
    .selectFrom('invitations')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()
  if (row === undefined) throw new Problem('not_found', `There is no invitation ${id}.`)
  if (row.ended_at !== null) return
  await endInvitation(tx, id, actionContext.now)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'user.invitation_withdrawn',
    subjectId: id,
    detail: { email: row.email },
  })
}

/**
 * Must be called when the user may no longer invite people. Otherwise, an Admin who expects to lose the login could
 * invite another address of their own beforehand, and become an Admin again.
 */
export async function withdrawInvitationsBy(
  tx: Transaction,
  { account_id: accountId, email }: Pick<UserRow, 'account_id' | 'email'>,
  actionContext: ActionContext,
): Promise<void> {
  const rows = await tx
    .selectFrom('invitations')
    .select('id')
    .where('account_id', '=', accountId)
    // `invited_by` contains the label of the actor, which is the e-mail address if the actor is a user.
    .where('invited_by', '=', email)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', actionContext.now.toISOString())
    .orderBy('id')
    .execute()
  for (const { id } of rows) await withdrawInvitation(tx, { accountId, id }, actionContext)
}

async function endInvitation(tx: Transaction, id: string, now: Date): Promise<void> {
  await tx
    .updateTable('invitations')
    .set({ ended_at: now.toISOString() })
    .where('id', '=', id)
    .execute()
}
