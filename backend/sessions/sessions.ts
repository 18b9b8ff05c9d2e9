/**
 * Sessions of the Settings pages. The token is in the browser's cookie alone; here is its hash, so
 * that a stolen copy of the database logs nobody in. Who the session is, and in which role, is read
 * anew on every request.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { AccountStatus, Reader, Transaction, UserRow } from '../database/tables.ts'
import { createToken, hashToken } from '../users/tokens.ts'

const MINUTE_MS = 60_000
const IDLE_MS = 30 * MINUTE_MS
const LIFETIME_MS = 12 * 60 * MINUTE_MS

/** A session that is looked at all the time is written once a minute. */
const SEEN_MS = MINUTE_MS

/** 256 random bits. */
const TOKEN = /^[\w-]{43}$/

export interface Session {
  readonly token: string
  readonly user: { readonly id: string; readonly email: string; readonly role: UserRow['role'] }
  readonly account: {
    readonly id: string
    readonly name: string
    readonly status: AccountStatus
    readonly timezone: string
    readonly scopeAllowance: string | null
    /** Sample data: nobody is ever contacted. */
    readonly isDemo: boolean
  }
  readonly flash: string | null
  /** The user's role is not the one the token was made for. */
  readonly isStale: boolean
  /** It is time to note that the session is in use. */
  readonly isUnseen: boolean
}

/** What a form must carry: only who knows the cookie's value, or was shown the form, has it. */
export function csrfTokenOf(token: string): string {
  return createHmac('sha256', token).update('csrf').digest('base64url')
}

export function isCsrfToken(given: string, token: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(csrfTokenOf(token))]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** The token of a new session. */
export async function startSession(
  tx: Transaction,
  user: Pick<UserRow, 'id' | 'role'>,
  now: Date,
): Promise<string> {
  const token = createToken()
  await tx
    .insertInto('sessions')
    .values({
      token_hash: hashToken(token),
      user_id: user.id,
      role: user.role,
      flash: null,
      created_at: now.toISOString(),
      last_seen_at: now.toISOString(),
      expires_at: new Date(now.getTime() + LIFETIME_MS).toISOString(),
    })
    .execute()
  return token
}

/** Undefined where it never was, is over, or its user is no longer active. */
export async function findSession(
  reader: Reader,
  token: string | undefined,
  now: Date,
): Promise<Session | undefined> {
  if (token === undefined || !TOKEN.test(token)) return undefined
  const row = await reader
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.user_id')
    .innerJoin('accounts', 'accounts.id', 'users.account_id')
    .select([
      'sessions.role as session_role',
      'sessions.flash',
      'sessions.last_seen_at',
      'users.id as user_id',
      'users.email',
      'users.role',
      'accounts.id as account_id',
      'accounts.name',
      'accounts.status',
      'accounts.timezone',
      'accounts.scope_allowance',
      'accounts.is_demo',
    ])
    .where('sessions.token_hash', '=', hashToken(token))
    .where('sessions.expires_at', '>', now.toISOString())
    .where('sessions.last_seen_at', '>', new Date(now.getTime() - IDLE_MS).toISOString())
    .where('users.status', '=', 'active')
    .executeTakeFirst()
  if (row === undefined) return undefined
  return {
    token,
    user: { id: row.user_id, email: row.email, role: row.role },
    account: {
      id: row.account_id,
      name: row.name,
      status: row.status,
      timezone: row.timezone,
      scopeAllowance: row.scope_allowance,
      isDemo: row.is_demo === 1,
    },
    flash: row.flash,
    isStale: row.session_role !== row.role,
    isUnseen: now.getTime() - Date.parse(row.last_seen_at) > SEEN_MS,
  }
}

export async function noteSeen(tx: Transaction, token: string, now: Date): Promise<void> {
  await tx
    .updateTable('sessions')
    .set({ last_seen_at: now.toISOString() })
    .where('token_hash', '=', hashToken(token))
    .execute()
}

/** The same session under a new token; the old one is worth nothing. Its limits stay. */
export async function rotateSession(tx: Transaction, session: Session): Promise<string> {
  const token = createToken()
  await tx
    .updateTable('sessions')
    .set({ token_hash: hashToken(token), role: session.user.role })
    .where('token_hash', '=', hashToken(session.token))
    .execute()
  return token
}

/** What the session's next page says once. Null: it has said it. */
export async function setFlash(tx: Transaction, token: string, flash: string | null) {
  await tx
    .updateTable('sessions')
    .set({ flash })
    .where('token_hash', '=', hashToken(token))
    .execute()
}

export async function endSession(tx: Transaction, token: string): Promise<void> {
  await tx.deleteFrom('sessions').where('token_hash', '=', hashToken(token)).execute()
}

/** All of a user's, except the one of `keptToken`. */
export async function endSessionsOf(
  tx: Transaction,
  userId: string,
  keptToken?: string,
): Promise<void> {
  const ended = tx.deleteFrom('sessions').where('user_id', '=', userId)
  await (keptToken === undefined
    ? ended
    : ended.where('token_hash', '<>', hashToken(keptToken))
  ).execute()
}
