/**
 * Records the browsers in which a user has logged in, and notifies the user by mail of a login in any other browser. A
 * browser is recognized by a cookie that, unlike the cookie of the session, grants no access.
 */
import type { Reader, Transaction, UserRow } from '../database/tables.ts'
import { countRecentNotices, recordNotice } from '../mail/notices.ts'
import { createToken, hashToken } from '../users/tokens.ts'
import { storedSpellings } from '../users/users.ts'
import { browserName } from './browser-name.ts'
import type { Browser } from './sessions.ts'

/** Without these limits, a script that keeps no cookies could fill the table and the user's mailbox. */
const BROWSERS_MAX = 20
const NOTICES_A_DAY_MAX = 5

const TOKEN = /^[\w-]{43}$/

export interface LoginBrowser extends Browser {
  /** The value of the cookie that identifies the browser, valid or not. */
  readonly browserToken: string | undefined
}

/** Records a login, and notifies the user if the browser is unknown. Returns the value for the browser's cookie. */
export async function recordBrowser(
  tx: Transaction,
  user: UserRow,
  { browserToken, address, userAgent }: LoginBrowser,
  now: Date,
): Promise<string> {
  if (browserToken !== undefined && (await recordKnownLogin(tx, user.id, browserToken, now))) {
    return browserToken
  }
  const token = await addKnownBrowser(tx, user, browserToken, now)
  const { account_id: accountId, id: subjectId, email } = user
  const notice = { accountId, kind: 'user.unknown_browser', subjectId } as const
  // Notices are counted rather than browsers, because excess browsers are deleted.
  const noticesBefore = await countRecentNotices(tx, notice, now)
  if (noticesBefore >= NOTICES_A_DAY_MAX) return token
  const detail = {
    email,
    browser: browserName(userAgent ?? null),
    address: address ?? null,
    is_last: noticesBefore === NOTICES_A_DAY_MAX - 1,
  }
  await recordNotice(tx, { ...notice, detail }, now)
  return token
}

/**
 * Adds a browser without a notice, e.g. the browser in which a new user has just accepted the invitation. Returns the
 * value for the browser's cookie.
 */
export async function addKnownBrowser(
  tx: Transaction,
  { id: user_id, account_id }: Pick<UserRow, 'id' | 'account_id'>,
  browserToken: string | undefined,
  now: Date,
): Promise<string> {
  // Two people who share a browser share its cookie. A value that is not in the table is replaced.
  const isTokenKept = browserToken !== undefined && (await isRecorded(tx, browserToken))
  const token = isTokenKept ? browserToken : createToken()
  const token_hash = hashToken(token)
  const at = now.toISOString()
  await tx
    .insertInto('known_browsers')
    .values({
      token_hash,
      user_id,
      account_id,
      created_at: at,
      last_login_at: at,
    })
    .onConflict((conflict) => conflict.columns(['token_hash', 'user_id']).doNothing())
    .execute()
  await deleteExcess(tx, user_id, token_hash)
  return token
}

async function recordKnownLogin(tx: Transaction, userId: string, token: string, now: Date) {
  if (!TOKEN.test(token)) return false
  const { numUpdatedRows } = await tx
    .updateTable('known_browsers')
    .set({ last_login_at: now.toISOString() })
    .where('token_hash', '=', hashToken(token))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

async function isRecorded(reader: Reader, token: string): Promise<boolean> {
  if (!TOKEN.test(token)) return false
  const row = await reader
    .selectFrom('known_browsers')
    .select('user_id')
    .where('token_hash', '=', hashToken(token))
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Whether the user with this e-mail address has logged in with the browser that has this cookie. */
export async function hasLoggedInBefore(
  reader: Reader,
  email: string,
  browserToken: string | undefined,
): Promise<boolean> {
  if (browserToken === undefined || !TOKEN.test(browserToken)) return false
  // There is one query, whether or not a user has this e-mail address. Otherwise, the response time would reveal which
  // e-mail addresses have a user.
  const row = await reader
    .selectFrom('known_browsers')
    .innerJoin('users', 'users.id', 'known_browsers.user_id')
    .select('users.id')
    .where('known_browsers.token_hash', '=', hashToken(browserToken))
    .where('users.email', 'in', storedSpellings(email))
    .executeTakeFirst()
  return row !== undefined
}

/**
 * Deletes the excess browsers of a user, but never the browser of the current login. Browsers that were used only once
 * are deleted first, so that a script does not displace the browsers of people.
 */
async function deleteExcess(tx: Transaction, userId: string, currentHash: string): Promise<void> {
  const others = await tx
    .selectFrom('known_browsers')
    .select(['token_hash', 'created_at', 'last_login_at'])
    .where('user_id', '=', userId)
    .where('token_hash', '<>', currentHash)
    .orderBy('last_login_at', 'desc')
    .execute()
  if (others.length < BROWSERS_MAX) return
  const hasReturned = (row: (typeof others)[number]) => row.last_login_at > row.created_at
  const byPriority = [...others.filter(hasReturned), ...others.filter((row) => !hasReturned(row))]
  const excess = byPriority.slice(BROWSERS_MAX - 1).map(({ token_hash }) => token_hash)
  await tx
    .deleteFrom('known_browsers')
    .where('user_id', '=', userId)
    .where('token_hash', 'in', excess)
    .execute()
}
