/** The e-mail addresses of users are unique across all accounts. */
import { domainToASCII } from 'node:url'
import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { getAccount, lockAccount } from '../accounts/accounts.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { Reader, Transaction, UserRow } from '../database/tables.ts'
import { equals, type KeysetPage, orderOf, withinBounds } from '../lists/keyset.ts'
import { HOST_NAME_LENGTH_MAX } from '../validation/contact.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { normalizeText } from '../validation/unicode.ts'

export const ROLES = ['admin', 'member'] as const satisfies readonly UserRow['role'][]

const EMAIL_LENGTH_MAX = 254

export interface NewUser {
  readonly accountId: string
  readonly email: string
  readonly role: UserRow['role']
  /** The result of `Passwords.hash`, which must be called before the transaction, because it takes long. */
  readonly passwordHash: string
}

/** Throws `Problem` `validation_failed`, and `not_found` if there is no such account. */
export async function createUser(
  tx: Transaction,
  input: NewUser,
  actionContext: ActionContext,
): Promise<UserRow> {
  const now = actionContext.now.toISOString()
  const user: UserRow = {
    id: createId('usr'),
    account_id: (await getAccount(tx, input.accountId)).id,
    email: checkEmail(input.email),
    role: input.role,
    status: 'active',
    password_hash: input.passwordHash,
    totp_secret: null,
    totp_enabled_at: null,
    totp_last_step: null,
    created_at: now,
    updated_at: now,
  }
  try {
    await tx.insertInto('users').values(user).execute()
  } catch (error) {
    if (!(error instanceof ConstraintViolation && error.columns.includes('users.email')))
      throw error
    throw new Problem('validation_failed', `There is already a user ${user.email}.`)
  }
  await recordAudit(tx, actionContext, {
    accountId: user.account_id,
    action: 'user.created',
    subjectId: user.id,
    detail: { email: user.email, role: user.role },
  })
  return user
}

export async function findUserByEmail(reader: Reader, email: string): Promise<UserRow | undefined> {
  return reader
    .selectFrom('users')
    .selectAll()
    .where('email', 'in', storedSpellings(email))
    .executeTakeFirst()
}

/**
 * Returns the spellings in which the address may be stored. Earlier versions converted an address to lower case, but
 * not to NFC, and did not convert its host to ASCII.
 */
export function storedSpellings(email: string): readonly string[] {
  return [normalizeEmail(email), email.trim().toLowerCase()]
}

export async function listUsers(
  reader: Reader,
  accountId: string,
  page: KeysetPage,
): Promise<UserRow[]> {
  return reader
    .selectFrom('users')
    .selectAll()
    .where((eb) => eb.and([...equals('account_id', accountId), ...withinBounds(page)]))
    .orderBy(orderOf(page))
    .limit(page.rowsMax)
    .execute()
}

export async function countActiveAdmins(reader: Reader, accountId: string): Promise<number> {
  const { count } = await reader
    .selectFrom('users')
    .select((eb) => eb.fn.countAll<number | string>().as('count'))
    .where('account_id', '=', accountId)
    .where('role', '=', 'admin')
    .where('status', '=', 'active')
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Throws `Problem` `not_found`, also for a user of another account. */
export async function getUser(reader: Reader, accountId: string, id: string): Promise<UserRow> {
  const user = await findUser(reader, accountId, id)
  if (user === undefined) throw new Problem('not_found', `There is no user ${id}.`)
  return user
}

export async function findUser(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<UserRow | undefined> {
  return reader
    .selectFrom('users')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

/** Idempotent. Throws `Problem` `not_found`, `last_admin`, `admin_required`. */
export async function changeRole(
  tx: Transaction,
  { accountId, id }: Pick<UserRow, 'id'> & { readonly accountId: string },
  role: UserRow['role'],
  actionContext: ActionContext,
): Promise<UserRow> {
  await checkStillAdmin(tx, accountId, actionContext.actor)
  const user = await getUser(tx, accountId, id)
  if (user.role === role) return user
  await requireOtherAdmin(tx, user)
  await updateUser(tx, id, { role }, actionContext.now)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'user.role_changed',
    subjectId: id,
    detail: { email: user.email, role, was: user.role },
  })
  return { ...user, role }
}

/** Idempotent. Throws `Problem` `not_found`, `last_admin`, `admin_required`. */
export async function setUserStatus(
  tx: Transaction,
  { accountId, id }: Pick<UserRow, 'id'> & { readonly accountId: string },
  status: UserRow['status'],
  actionContext: ActionContext,
): Promise<UserRow> {
  await checkStillAdmin(tx, accountId, actionContext.actor)
  const user = await getUser(tx, accountId, id)
  if (user.status === status) return user
  if (status === 'deactivated') await requireOtherAdmin(tx, user)
  await updateUser(tx, id, { status }, actionContext.now)
  await recordAudit(tx, actionContext, {
    accountId,
    action: status === 'active' ? 'user.reactivated' : 'user.deactivated',
    subjectId: id,
    detail: { email: user.email },
  })
  return { ...user, status }
}

export async function setPasswordHash(
  tx: Transaction,
  id: string,
  passwordHash: string,
  now: Date,
): Promise<void> {
  await updateUser(tx, id, { password_hash: passwordHash }, now)
}

/** Returns the address as it is stored. Throws `Problem` `validation_failed` if it is not an e-mail address. */
export function checkEmail(text: string): string {
  const email = normalizeEmail(text)
  if (email.length > EMAIL_LENGTH_MAX || !EMAIL.test(email)) {
    throw invalidEmail(`${text} is not an e-mail address.`)
  }
  return email
}

/** One address without a display name: the excluded punctuation separates addresses and names in a mail header. */
const EMAIL = /^[^\s@,;<>"\p{Cc}]+@[^\s@,;<>"\P{ASCII}\p{Cc}]+$/u

/**
 * Returns the address in NFC and lower case, with its host in ASCII. Without NFC, two users could have the same
 * address, because an umlaut can be one code point or two. Mail servers without SMTPUTF8 reject a host that is not
 * ASCII.
 */
export function normalizeEmail(text: string): string {
  const email = normalizeText(text.trim(), 'NFC').toLowerCase()
  const host = email.slice(email.lastIndexOf('@') + 1)
  // Converting a host takes quadratic time, so a host that is too long to exist is not converted.
  if (host.length > HOST_NAME_LENGTH_MAX) return email
  // An ASCII host is not converted: `domainToASCII` would read a number as an IP address, and change it.
  return /^\p{ASCII}*$/u.test(host) ? email : email.slice(0, -host.length) + domainToASCII(host)
}

/** Pages show `detail` beside the field for the e-mail address, if the form has such a field. */
export function invalidEmail(detail: string): Problem {
  return enteredValuesProblem([{ pointer: '/email', code: 'invalid_format', detail }])
}

/**
 * Throws `admin_required` if the actor is a user who is not an Admin any more. The route checks the role only before
 * the transaction begins. Without this second check, an Admin who is deactivated while their request waits for the
 * transaction could undo the deactivation.
 */
export async function checkStillAdmin(
  tx: Transaction,
  accountId: string,
  { type, id }: ActionContext['actor'],
): Promise<void> {
  if (type !== 'user' || id === null) return
  const { role, status } = await getUser(tx, accountId, id)
  if (role === 'admin' && status === 'active') return
  throw new Problem('admin_required', 'You are no longer an Admin of this account.')
}

/**
 * Throws `last_admin` if the user is the only active Admin of the account: without an Admin, only an operator could
 * issue keys or create an Admin.
 */
async function requireOtherAdmin(tx: Transaction, user: UserRow): Promise<void> {
  if (user.role !== 'admin' || user.status !== 'active') return
  // Without the lock, two concurrent requests could remove the last two Admins.
  await lockAccount(tx, user.account_id)
  const other = await tx
    .selectFrom('users')
    .select('id')
    .where('account_id', '=', user.account_id)
    .where('role', '=', 'admin')
    .where('status', '=', 'active')
    .where('id', '<>', user.id)
    .limit(1)
    .executeTakeFirst()
  if (other !== undefined) return
  throw new Problem(
    'last_admin',
    `${user.email} is the last Admin. Make another user an Admin first.`,
  )
}

async function updateUser(
  tx: Transaction,
  id: string,
  change: Partial<Pick<UserRow, 'role' | 'status' | 'password_hash'>>,
  now: Date,
): Promise<void> {
  await tx
    .updateTable('users')
    .set({ ...change, updated_at: now.toISOString() })
    .where('id', '=', id)
    .execute()
}
