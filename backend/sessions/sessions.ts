/**
 * Sessions of Settings. Only the browser has the token; the database stores its hash, so that a stolen copy
 * of the database contains no valid token. The user and the role are read on every request, so that
 * deactivating a user or changing the role takes effect immediately.
 */
import type { AccountStatus, Reader, Transaction, UserRow } from '../database/tables.ts'
import { createToken, hashToken } from '../users/tokens.ts'

const MINUTE_MS = 60_000
/** A session ends after this time without a request, or up to a minute earlier (`LAST_SEEN_PRECISION_MS`). */
const IDLE_MS = 30 * MINUTE_MS
/** A session ends at most this long after the login. */
const LIFETIME_MS = 12 * 60 * MINUTE_MS

/** The stored time of the last use is updated only if it is older than this. */
const LAST_SEEN_PRECISION_MS = MINUTE_MS

/** How long a user may take to enter the second factor. */
const PENDING_MS = 10 * MINUTE_MS

const USER_AGENT_LENGTH_MAX = 400

/** The form of a token: 256 random bits in base64url. */
const TOKEN = /^[\w-]{43}$/

export interface Session {
  readonly token: string
  readonly user: {
    readonly id: string
    readonly email: string
    readonly role: UserRow['role']
    /** Whether the authenticator app is in use. */
    readonly hasApp: boolean
    readonly hasSecondFactor: boolean
  }
  readonly account: {
    readonly id: string
    readonly name: string
    readonly status: AccountStatus
    readonly timezone: string
    /** JSON array of the scopes that keys may use; null: every scope. */
    readonly scopeAllowance: string | null
    /** Whether the account requires a second factor of Admins. */
    readonly requiresSecondFactor: boolean
    /** Whether the account has only sample data, about which no reminder is sent. */
    readonly isDemo: boolean
  }
  /** The message that the next page shows, as `setFlash` has stored it. */
  readonly flash: string | null
  /** Whether the user's role has changed since the token was created. */
  readonly hasRoleChanged: boolean
  /** Whether the time of the last use must be written again. */
  readonly isLastSeenOutdated: boolean
  /** When the session was started. Replacing the token does not change this time. */
  readonly createdAt: string
  /** When the user logged in or, if later, last entered the password again to confirm an action. */
  readonly confirmedAt: Date
}

export interface Browser {
  readonly address: string | undefined
  /** The User-Agent header. */
  readonly userAgent: string | undefined
}

/** Starts a session and returns its token. In a pending session, the user can only enter the second factor. */
export async function startSession(
  tx: Transaction,
  user: Pick<UserRow, 'id' | 'role'>,
  { address, userAgent }: Browser,
  now: Date,
  { isPending = false } = {},
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
      address: address ?? null,
      user_agent: userAgent?.slice(0, USER_AGENT_LENGTH_MAX) ?? null,
      confirmed_at: now.toISOString(),
      pending_until: isPending ? new Date(now.getTime() + PENDING_MS).toISOString() : null,
    })
    .execute()
  return token
}

/** Returns undefined if the session is unknown or pending, or has ended, or if its user is not active. */
export async function findSession(
  reader: Reader,
  token: string | undefined,
  now: Date,
): Promise<Session | undefined> {
  if (token === undefined || !TOKEN.test(token)) return undefined
  const row = await selectSessions(reader, now)
    .where('sessions.token_hash', '=', hashToken(token))
    .executeTakeFirst()
  return row && sessionOf(row, token, now)
}

/**
 * Returns the session with the user's present role. Finds it by the user and `createdAt`, because a concurrent request
 * may have replaced the token; the result has the given token. Returns undefined if the session has ended, or if its
 * user is not active any more.
 */
export async function readSessionAgain(
  reader: Reader,
  { token, user, createdAt }: Pick<Session, 'token' | 'user' | 'createdAt'>,
  now: Date,
): Promise<Session | undefined> {
  const row = await selectSessions(reader, now)
    .where('sessions.user_id', '=', user.id)
    .where('sessions.created_at', '=', createdAt)
    .executeTakeFirst()
  return row && sessionOf(row, token, now)
}

function selectSessions(reader: Reader, now: Date) {
  return reader
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.user_id')
    .innerJoin('accounts', 'accounts.id', 'users.account_id')
    .select([
      'sessions.role as session_role',
      'sessions.flash',
      'sessions.last_seen_at',
      'sessions.created_at',
      'sessions.confirmed_at',
      'users.id as user_id',
      'users.email',
      'users.role',
      'users.totp_enabled_at',
      'accounts.second_factor_required_at',
      'accounts.id as account_id',
      'accounts.name',
      'accounts.status',
      'accounts.timezone',
      'accounts.scope_allowance',
      'accounts.is_demo',
    ])
    .select((expression) =>
      expression
        .exists(
          expression
            .selectFrom('passkeys')
            .select('passkeys.id')
            .whereRef('passkeys.user_id', '=', 'users.id'),
        )
        .as('has_passkey'),
    )
    .where('sessions.pending_until', 'is', null)
    .where('sessions.expires_at', '>', now.toISOString())
    .where('sessions.last_seen_at', '>', new Date(now.getTime() - IDLE_MS).toISOString())
    .where('users.status', '=', 'active')
}

type SelectedSession = NonNullable<
  Awaited<ReturnType<ReturnType<typeof selectSessions>['executeTakeFirst']>>
>

function sessionOf(row: SelectedSession, token: string, now: Date): Session {
  return {
    token,
    user: {
      id: row.user_id,
      email: row.email,
      role: row.role,
      hasApp: row.totp_enabled_at !== null,
      // SQLite returns 0 or 1.
      hasSecondFactor: row.totp_enabled_at !== null || Boolean(row.has_passkey),
    },
    account: {
      id: row.account_id,
      name: row.name,
      status: row.status,
      timezone: row.timezone,
      scopeAllowance: row.scope_allowance,
      requiresSecondFactor: row.second_factor_required_at !== null,
      isDemo: row.is_demo === 1,
    },
    flash: row.flash,
    hasRoleChanged: row.session_role !== row.role,
    isLastSeenOutdated: now.getTime() - Date.parse(row.last_seen_at) > LAST_SEEN_PRECISION_MS,
    createdAt: row.created_at,
    confirmedAt: new Date(row.confirmed_at ?? row.created_at),
  }
}

export async function findUserOfPendingSession(
  reader: Reader,
  token: string | undefined,
  now: Date,
): Promise<UserRow | undefined> {
  if (token === undefined || !TOKEN.test(token)) return undefined
  return await reader
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.user_id')
    .selectAll('users')
    .where('sessions.token_hash', '=', hashToken(token))
    .where('sessions.pending_until', '>', now.toISOString())
    .where('users.status', '=', 'active')
    .executeTakeFirst()
}

export async function recordLastSeen(tx: Transaction, token: string, now: Date): Promise<void> {
  await tx
    .updateTable('sessions')
    .set({ last_seen_at: now.toISOString() })
    .where('token_hash', '=', hashToken(token))
    .execute()
}

/**
 * Replaces the session's token and invalidates the old token. Stores the user's role in the session, so that
 * `hasRoleChanged` is false for the new token. The session's time limits do not change. Returns undefined if a
 * concurrent request has replaced the token or ended the session.
 */
export async function rotateSession(
  tx: Transaction,
  session: Session,
): Promise<string | undefined> {
  const token = createToken()
  const { numUpdatedRows } = await tx
    .updateTable('sessions')
    .set({ token_hash: hashToken(token), role: session.user.role })
    .where('token_hash', '=', hashToken(session.token))
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n ? token : undefined
}

/** Like `rotateSession`. Also records that the password was just entered again. */
export async function confirmSession(
  tx: Transaction,
  session: Session,
  now: Date,
): Promise<string | undefined> {
  const token = await rotateSession(tx, session)
  if (token === undefined) return undefined
  await tx
    .updateTable('sessions')
    .set({ confirmed_at: now.toISOString() })
    .where('token_hash', '=', hashToken(token))
    .execute()
  return token
}

export interface ListedSession {
  /** Identifies the session in lists and paths. It is not valid as a token. */
  readonly id: string
  readonly isCurrent: boolean
  readonly createdAt: string
  readonly lastSeenAt: string
  /** The time at which the session ends if it is not used again. */
  readonly endsAt: string
  readonly address: string | null
  readonly userAgent: string | null
}

/** Returns the user's active sessions, the most recently used first. */
export async function listSessions(
  reader: Reader,
  { user, token }: Session,
  now: Date,
): Promise<ListedSession[]> {
  const rows = await selectActive(reader, user.id, now)
    .selectAll()
    .orderBy('last_seen_at', 'desc')
    .orderBy('created_at', 'desc')
    .execute()
  const current = hashToken(token)
  return rows.map((row) => {
    const idleEnd = new Date(Date.parse(row.last_seen_at) + IDLE_MS).toISOString()
    return {
      id: listedId(row.token_hash),
      isCurrent: row.token_hash === current,
      createdAt: row.created_at,
      lastSeenAt: row.last_seen_at,
      endsAt: idleEnd < row.expires_at ? idleEnd : row.expires_at,
      address: row.address,
      userAgent: row.user_agent,
    }
  })
}

export async function countSessions(reader: Reader, userId: string, now: Date): Promise<number> {
  const rows = await selectActive(reader, userId, now).select('token_hash').execute()
  return rows.length
}

function selectActive(reader: Reader, userId: string, now: Date) {
  return reader
    .selectFrom('sessions')
    .where('user_id', '=', userId)
    .where('pending_until', 'is', null)
    .where('expires_at', '>', now.toISOString())
    .where('last_seen_at', '>', new Date(now.getTime() - IDLE_MS).toISOString())
}

/** Ends the session with this `ListedSession.id`. Returns false if the user has no such session. */
export async function endListedSession(
  tx: Transaction,
  { user }: Session,
  id: string,
): Promise<boolean> {
  const rows = await tx
    .selectFrom('sessions')
    .select('token_hash')
    .where('user_id', '=', user.id)
    .execute()
  const row = rows.find(({ token_hash }) => listedId(token_hash) === id)
  if (row === undefined) return false
  await tx.deleteFrom('sessions').where('token_hash', '=', row.token_hash).execute()
  return true
}

/** Hashes the stored hash again, so that pages, paths and logs do not contain values of the column `token_hash`. */
function listedId(tokenHash: string): string {
  return `ses_${hashToken(tokenHash).slice(0, 22)}`
}

export async function endSession(tx: Transaction, token: string): Promise<void> {
  await tx.deleteFrom('sessions').where('token_hash', '=', hashToken(token)).execute()
}

/** The session that the browser has when it begins to log in. */
export interface PreviousSession {
  /** The session token that the browser sent, valid or not. The session may be pending. */
  readonly token: string | undefined
  /** Undefined if no session has this token, if the session is pending or has ended, or if its user is not active. */
  readonly session: Pick<Session, 'user' | 'createdAt'> | undefined
}

/**
 * Ends the previous session, even if a concurrent request has replaced its token since the login began. Otherwise, it
 * would remain valid, although the login replaces its cookie in the browser.
 */
export async function endPreviousSession(
  tx: Transaction,
  { token, session }: PreviousSession,
): Promise<void> {
  if (session === undefined) {
    if (token !== undefined) await endSession(tx, token)
    return
  }
  await tx
    .deleteFrom('sessions')
    .where('user_id', '=', session.user.id)
    .where('created_at', '=', session.createdAt)
    .execute()
}

export async function endSessionsOf(
  tx: Transaction,
  userId: string,
  keptToken?: string,
): Promise<void> {
  const query = tx.deleteFrom('sessions').where('user_id', '=', userId)
  await (keptToken === undefined
    ? query
    : query.where('token_hash', '<>', hashToken(keptToken))
  ).execute()
}
