/**
 * Limits guesses at passwords, codes and passkeys, for each subject, e.g. an e-mail address, and for each IP address.
 * The addresses of an IPv6 network (/64) count as one. The counts are in the database, so that they survive a restart
 * and apply to all backends. A guess is counted before it is verified: otherwise, none of a hundred concurrent guesses
 * would be rejected. Guesses for unknown e-mail addresses are counted too, so that the response does not reveal which
 * addresses exist.
 */
import { createHash } from 'node:crypto'
import { clientNetwork } from '../../shared/contract/client-network.ts'
import { Problem } from '../../shared/contract/problem.ts'
import type { Transaction } from '../database/tables.ts'
import { normalizeEmail } from '../users/users.ts'

const WINDOW_MS = 15 * 60_000

/**
 * How much the clocks of two backends of one gateway can differ: each backend rejects requests of a gateway whose clock
 * differs from the backend's clock by more than a minute. If more than `WINDOW_MS` plus this difference remains until a
 * window ends, a clock was set back after the window had begun, and the window no longer applies. Otherwise, its
 * subject could remain blocked for much longer than `WINDOW_MS`.
 */
const CLOCKS_DIFFER_MS_MAX = 2 * 60_000

/** How many guesses per subject and per IP address are accepted in one window, which begins with the first guess. */
const GUESSES_MAX = 10

/** The number of guesses before the first wait, to allow typing errors. Each wait is twice the previous one. */
const GUESSES_FREE = 5
const WAIT_MS_FIRST = 2000

/** A guess at a password or a code, an attempt with a passkey, or a request that mails a link or sets a password. */
export interface Guess {
  /**
   * The guesses with the same subject are counted separately for each purpose. Otherwise, anyone could enter the id of
   * a user as an e-mail address and thus block this user's second factor: guesses at a second factor have the user's id
   * as their subject. The guesses from an IP address are counted together.
   */
  readonly purpose:
    | 'email'
    | 'known_browser'
    | 'second_factor'
    | 'passkey'
    | 'confirmation'
    | 'password_reset'
    | 'new_password'
    | 'invitation'
  /** E.g. the e-mail address that was entered with a password, or the id of the user whose code is guessed. */
  readonly subject: string
  /** The client's IP address, if it is known. */
  readonly address: string | undefined
}

/** Counts one guess, or throws `Problem` `too_many_logins` and counts none. */
export async function countGuess(tx: Transaction, guess: Guess, now: Date): Promise<void> {
  await deleteEndedWindows(tx, now)
  const subjects = subjectsOf(guess)
  const rows = await lockGuesses(tx, subjects, now)
  const blockedUntil = Math.max(...rows.map((row) => Date.parse(row.blocked_until)), 0)
  if (blockedUntil > now.getTime()) {
    const seconds = Math.ceil((blockedUntil - now.getTime()) / 1000)
    throw new Problem(
      'too_many_logins',
      `Too many attempts. Try again in ${describeWait(seconds)}.`,
      {
        headers: { 'retry-after': String(seconds) },
      },
    )
  }
  for (const subject of subjects) {
    const existing = rows.find((row) => row.subject === subject)
    const guesses = (existing?.guesses ?? 0) + 1
    const windowEndsAt = existing?.window_ends_at ?? iso(now.getTime() + WINDOW_MS)
    const row = {
      subject,
      guesses,
      window_ends_at: windowEndsAt,
      blocked_until: blockedAfter(guesses, now, windowEndsAt),
    }
    await tx
      .insertInto('login_guesses')
      .values(row)
      .onConflict((conflict) => conflict.column('subject').doUpdateSet(row))
      .execute()
  }
}

async function deleteEndedWindows(tx: Transaction, now: Date): Promise<void> {
  const latestEnd = iso(now.getTime() + WINDOW_MS + CLOCKS_DIFFER_MS_MAX)
  await tx
    .deleteFrom('login_guesses')
    .where(({ eb, or }) =>
      or([eb('window_ends_at', '<=', now.toISOString()), eb('window_ends_at', '>', latestEnd)]),
    )
    .execute()
}

/** Inserts the subjects' missing rows, and locks all their rows so that concurrent guesses are counted one by one. */
async function lockGuesses(tx: Transaction, subjects: readonly string[], now: Date) {
  const initial = {
    guesses: 0,
    window_ends_at: iso(now.getTime() + WINDOW_MS),
    blocked_until: now.toISOString(),
  }
  await tx
    .insertInto('login_guesses')
    .values([...subjects].sort().map((subject) => ({ subject, ...initial })))
    .onConflict((conflict) => conflict.column('subject').doNothing())
    .execute()
  return await tx
    .selectFrom('login_guesses')
    .selectAll()
    .where('subject', 'in', subjects)
    .orderBy('subject')
    .forNoKeyUpdate()
    .execute()
}

/**
 * Called after a correct guess. Resets the count of the subject. For the IP address, ends the wait, but subtracts only
 * this guess: otherwise, an attacker could reset the count by logging in to an account of their own.
 *
 * To prevent deadlocks, transactions lock the user first, and the rows of guesses last, in the order of `lockGuesses`:
 * sorted, so that the row of the IP address (`address:…`) is before those of all purposes.
 */
export async function uncountGuess(tx: Transaction, guess: Guess, now: Date): Promise<void> {
  const [subject = '', address] = subjectsOf(guess)
  if (address !== undefined) {
    await tx
      .updateTable('login_guesses')
      .set({ blocked_until: now.toISOString() })
      .set((set) => ({ guesses: set('guesses', '-', 1) }))
      .where('subject', '=', address)
      .execute()
  }
  await tx.deleteFrom('login_guesses').where('subject', '=', subject).execute()
}

function blockedAfter(guesses: number, now: Date, windowEndsAt: string): string {
  if (guesses >= GUESSES_MAX) return windowEndsAt
  if (guesses < GUESSES_FREE) return now.toISOString()
  const until = iso(now.getTime() + WAIT_MS_FIRST * 2 ** (guesses - GUESSES_FREE))
  return until < windowEndsAt ? until : windowEndsAt
}

/**
 * Returns the subjects of the rows in which a guess is counted. The subject of the guess is hashed, because a user may
 * have typed the password into the field for the e-mail address.
 */
function subjectsOf({ purpose, subject, address }: Guess): string[] {
  const hash = createHash('sha256').update(normalizeEmail(subject)).digest('base64url')
  const bySubject = `${purpose}:${hash}`
  return address === undefined ? [bySubject] : [bySubject, `address:${clientNetwork(address)}`]
}

function describeWait(seconds: number): string {
  if (seconds === 1) return 'a second'
  return seconds < 120 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
