/** Invitations: an Admin names an e-mail address and a role; who has the code chooses a password. */
import { Problem } from '../../shared/contract/problem.ts'
import { type Act, recordAudit } from '../accounts/audit.ts'
import type { InvitationRow, Reader, Transaction, UserRow } from '../database/tables.ts'
import { createUser, emailFault, findUserByEmail, parseEmail } from './users.ts'

const LIFETIME_MS = 7 * 86_400_000

export interface NewInvitation {
  /** Made by the caller, whose code may be derived of it. */
  readonly id: string
  readonly accountId: string
  readonly email: string
  readonly role: UserRow['role']
  /** Of the code that leads to it, which is nowhere afterwards. */
  readonly codeHash: string
}

/** An earlier one to the same address ends. Throws `Problem` `validation_failed`. */
export async function createInvitation(
  tx: Transaction,
  { id, accountId, role, codeHash, ...input }: NewInvitation,
  act: Act,
): Promise<InvitationRow> {
  const email = parseEmail(input.email)
  const user = await findUserByEmail(tx, email)
  // Whether an address has a login elsewhere is not for this account to know.
  if (user?.account_id === accountId) {
    throw emailFault(`${email} is a user of this account already.`)
  }
  const now = act.now.toISOString()
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
    invited_by: act.actor.label,
    created_at: now,
    expires_at: new Date(act.now.getTime() + LIFETIME_MS).toISOString(),
    ended_at: null,
  }
  await tx.insertInto('invitations').values(row).execute()
  await recordAudit(tx, act, {
    accountId,
    action: 'user.invited',
    subjectId: row.id,
    detail: { email, role },
  })
  return row
}

/** Those that can still be accepted. */
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

/** Throws `Problem` `invalid_invitation`, whatever is wrong with it. */
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
    'This invitation was used, withdrawn, or is too old. Ask for a new one.',
  )
}

/** The new user. Throws as `getInvitation` and `createUser` do. */
export async function acceptInvitation(
  tx: Transaction,
  codeHash: string,
  passwordHash: string,
  { actor, now }: Act,
): Promise<UserRow> {
  // Who accepts and who withdraws at once do it one after the other.
  await tx
    .selectFrom('invitations')
    .select('id')
    .where('code_hash', '=', codeHash)
    .forNoKeyUpdate()
    .execute()
  const row = await getInvitation(tx, codeHash, now)
  await end(tx, row.id, now)
  const act = { actor: { ...actor, label: row.email }, now }
  return createUser(
    tx,
    { accountId: row.account_id, email: row.email, role: row.role, passwordHash },
    act,
  )
}

/** Withdrawing what has ended changes nothing. Throws `Problem` `not_found`. */
export async function withdrawInvitation(
  tx: Transaction,
  { accountId, id }: { readonly accountId: string; readonly id: string },
  act: Act,
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
  await end(tx, id, act.now)
  await recordAudit(tx, act, {
    accountId,
    action: 'user.invitation_withdrawn',
    subjectId: id,
    detail: { email: row.email },
  })
}

async function end(tx: Transaction, id: string, now: Date): Promise<void> {
  await tx
    .updateTable('invitations')
    .set({ ended_at: now.toISOString() })
    .where('id', '=', id)
    .execute()
}
