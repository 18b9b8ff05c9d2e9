/**
 * Invitations: an Admin enters an e-mail address and a role, and the holder of the code chooses a password.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { InvitationRow, Reader, Transaction, UserRow } from '../database/tables.ts'
import { createUser, findUserByEmail, invalidEmail, parseEmail } from './users.ts'

const LIFETIME_MS = 7 * 86_400_000

export interface NewInvitation {
  /** The caller generates the id, because the code may be derived from it. */
  readonly id: string
  readonly accountId: string
  readonly email: string
  readonly role: UserRow['role']
  /** The hash of the invitation's code; the code is not stored. */
  readonly codeHash: string
}

/** Ends an earlier invitation of the same address to this account. Throws `Problem` `validation_failed`. */
export async function createInvitation(
  tx: Transaction,
  { id, accountId, role, codeHash, ...input }: NewInvitation,
  actionContext: ActionContext,
): Promise<InvitationRow> {
  const email = parseEmail(input.email)
  const user = await findUserByEmail(tx, email)
  // An account must not learn whether an address has a login in another account.
  if (user?.account_id === accountId) {
    throw invalidEmail(`${email} is already a user of this account.`)
  }
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

async function endInvitation(tx: Transaction, id: string, now: Date): Promise<void> {
  await tx
    .updateTable('invitations')
    .set({ ended_at: now.toISOString() })
    .where('id', '=', id)
    .execute()
}
