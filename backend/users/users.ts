/** People who log in to Settings. E-mail addresses are unique over all accounts. */
import { createId } from '../../shared/id.ts'
import { Problem } from '../../shared/problem.ts'
import { getAccount } from '../accounts/accounts.ts'
import { type Act, recordAudit } from '../accounts/audit.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { Reader, Transaction, UserRow } from '../database/tables.ts'

export const ROLES = ['admin', 'member'] as const satisfies readonly UserRow['role'][]

const EMAIL_LENGTH_MAX = 254
const PASSWORD_LENGTH_MIN = 8
const PASSWORD_LENGTH_MAX = 256

export interface NewUser {
  readonly accountId: string
  readonly email: string
  readonly role: UserRow['role']
  /** Of `Passwords.hash`: hashing takes too long for a transaction. */
  readonly passwordHash: string
}

/** Throws `Problem` `validation_failed`, `not_found` for the account. */
export async function createUser(tx: Transaction, input: NewUser, act: Act): Promise<UserRow> {
  const now = act.now.toISOString()
  const user: UserRow = {
    id: createId('usr'),
    account_id: (await getAccount(tx, input.accountId)).id,
    email: parseEmail(input.email),
    role: input.role,
    status: 'active',
    password_hash: input.passwordHash,
    created_at: now,
    updated_at: now,
  }
  try {
    await tx.insertInto('users').values(user).execute()
  } catch (error) {
    if (!(error instanceof ConstraintViolation && error.columns.includes('users.email')))
      throw error
    throw new Problem('validation_failed', `There is a user ${user.email} already.`)
  }
  await recordAudit(tx, act, {
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
    .where('email', '=', email.trim().toLowerCase())
    .executeTakeFirst()
}

/** Throws `Problem` `validation_failed`. */
export function checkPassword(password: string): void {
  const length = [...password].length
  if (length < PASSWORD_LENGTH_MIN || length > PASSWORD_LENGTH_MAX) {
    throw new Problem(
      'validation_failed',
      `A password has ${PASSWORD_LENGTH_MIN} to ${PASSWORD_LENGTH_MAX} characters.`,
    )
  }
}

function parseEmail(text: string): string {
  const email = text.trim().toLowerCase()
  if (email.length > EMAIL_LENGTH_MAX || !/^[^\s@,;<>"\p{Cc}]+@[^\s@,;<>"\p{Cc}]+$/u.test(email)) {
    throw new Problem('validation_failed', `${text} is not an e-mail address.`)
  }
  return email
}
