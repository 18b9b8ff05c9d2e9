import type { Request } from '@hapi/hapi'
import { Problem } from '../../../shared/contract/problem.ts'
import { recordAudit } from '../../accounts/audit.ts'
import { type Html, html } from '../../html/html.ts'
import { countGuess, uncountGuess } from '../../sessions/login-guesses.ts'
import { confirmSession, readSessionAgain, type Session } from '../../sessions/sessions.ts'
import { getUser } from '../../users/users.ts'
import { rejectField } from './faults.ts'
import { type FieldEntry, PASSWORD } from './fields.ts'
import { renderKeptFields } from './kept-form.ts'
import {
  describedBy,
  renderCommonHiddenFields,
  renderFaultSummary,
  renderFieldFaults,
  renderPage,
} from './layout.ts'
import type { SessionRequest, SettingsDeps } from './page-request.ts'
import type { Frame, FullResponse } from './response.ts'
import { LOGO_PATH } from './security-headers.ts'

export const CONFIRM_PASSWORD_PATH = '/settings/confirm'

/** The time for which an entered password counts as recent. */
const CONFIRMED_MS = 15 * 60_000
/**
 * A form is shown only if the password will still count as recent for at least this time, so that people have time to
 * send the form.
 */
const TIME_FOR_FORM_MS = 5 * 60_000

/**
 * Returns the session if the password was entered recently, or is in this request. In the second case, the session has
 * the user's present role and a new token, or its old token if a concurrent request has replaced the token. The session
 * is undefined if it has ended, or the user was deactivated, while the password was verified.
 *
 * If the password is missing or wrong, or after too many guesses, returns the response that requests the password: for
 * a GET, a redirect to `CONFIRM_PASSWORD_PATH`; for a form, a page that sends the form again, with the password. Throws
 * `confirmation_required` if the client wants JSON, because such a client cannot send the password here.
 */
export async function requireRecentPassword(
  request: Request,
  sessionRequest: SessionRequest,
  deps: SettingsDeps,
): Promise<{ readonly session: Session | undefined } | { readonly response: FullResponse }> {
  const { session, fields, now, wantsJson } = sessionRequest
  const isRead = request.method === 'get' || request.method === 'head'
  const ageMs = now.getTime() - session.confirmedAt.getTime()
  if (ageMs < (isRead ? CONFIRMED_MS - TIME_FOR_FORM_MS : CONFIRMED_MS)) return { session }
  if (wantsJson) {
    const detail = `Enter your password again at ${CONFIRM_PASSWORD_PATH} before you do this.`
    throw new Problem('confirmation_required', detail)
  }
  if (isRead) {
    const { url = '' } = request.raw.req
    return { response: { location: `${CONFIRM_PASSWORD_PATH}?next=${encodeURIComponent(url)}` } }
  }
  const form = {
    action: request.path,
    fields: fields.entries(),
    hint: 'Nothing was changed yet. Enter your password to continue with what you entered.',
    back: nearestPagePath(request),
  }
  const requestPassword = (
    status: number,
    problem?: Problem,
  ): { readonly response: FullResponse } => ({
    response: {
      status,
      page: (frame) => renderPasswordForm(frame, form, problem),
      headers: problem?.headers ?? {},
      requester: sessionRequest,
    },
  })
  if (!fields.has(PASSWORD)) return requestPassword(403)
  try {
    const token = await confirmPassword(sessionRequest, deps)
    // Verifying the password can take seconds. If the session were not read again, a user who has been deactivated in
    // this time, or has lost the Admin role, could still issue a key.
    const confirmed = { ...session, token: token ?? session.token }
    return { session: await readSessionAgain(deps.database.read, confirmed, now) }
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error
    return requestPassword(error.status, error)
  }
}

/** Returns the path of the request if it has a page, or the nearest path above it that has one. */
function nearestPagePath({ path, server }: Request): string {
  // A GET of the logo returns a picture, which is no page.
  const hasPage = (candidate: string) =>
    candidate !== LOGO_PATH && server.match('get', candidate)?.method === 'get'
  const parts = path.split('/')
  while (parts.length > 2 && !hasPage(parts.join('/'))) parts.pop()
  return parts.join('/')
}

/**
 * Checks the user's password, which is in the field `field`, and counts the guess. If the password is correct, returns
 * the guess, which the caller passes to `uncountGuess` in the transaction of the action. A wrong password is recorded
 * in the audit log, because another person may be using the session. Throws `validation_failed` if the password is
 * wrong, and `too_many_logins` after too many guesses.
 */
export async function checkOwnPassword(
  { session, fields, address, actionContext, now }: SessionRequest,
  { database, passwords }: SettingsDeps,
  field: string,
) {
  const { user, account } = session
  // These guesses are counted by user, and not together with guesses at login: otherwise, anyone could block the
  // confirmation with failed logins.
  const guess = { purpose: 'confirmation', subject: user.id, address } as const
  await database.transaction((tx) => countGuess(tx, guess, now))
  const { password_hash } = await getUser(database.read, account.id, user.id)
  if (await passwords.verify(password_hash, fields.text(field))) return guess
  await database.transaction((tx) =>
    recordAudit(tx, actionContext, {
      accountId: account.id,
      action: 'user.confirmation_failed',
      subjectId: user.id,
    }),
  )
  return rejectField(field, 'This is not your current password.')
}

/**
 * Checks the password of the request, records that it was just entered, and returns the session's new token. If a
 * concurrent request has replaced the token, does not change the session, and returns undefined. The response then sets
 * no cookie, because the browser gets the valid token in the response to the other request. Throws as
 * `checkOwnPassword` does.
 */
export async function confirmPassword(
  request: SessionRequest,
  deps: SettingsDeps,
): Promise<string | undefined> {
  const { session, now } = request
  const guess = await checkOwnPassword(request, deps, PASSWORD)
  return deps.database.transaction(async (tx) => {
    const token = await confirmSession(tx, session, now)
    await uncountGuess(tx, guess, now)
    return token
  })
}

interface PasswordForm {
  readonly action: string
  /** The fields that the form sends with the password. */
  readonly fields: readonly FieldEntry[]
  /** Says what happens after the password is entered. */
  readonly hint: string
  readonly back: string
}

export function renderPasswordForm(
  frame: Frame,
  { action, fields, hint, back }: PasswordForm,
  problem?: Problem,
): Html {
  const main = html`<div class="narrow card" data-dialog-content>
<h1 id="confirm-title" tabindex="-1">Confirm that it is you</h1>
<p>${hint} Sensitive actions, such as issuing a key, require your password if you last entered it more than a few minutes
ago.</p>
${renderFaultSummary(problem)}
<form method="post" action="${action}" class="stack" data-once novalidate>
${renderCommonHiddenFields(frame)}
${renderKeptFields(fields)}
<input type="hidden" autocomplete="username" value="${frame.session?.user.email}">
<p class="field"><label for="password">Password</label>
<input id="password" name="${PASSWORD}" type="password" autocomplete="current-password" required${describedBy(problem, PASSWORD)}></p>
${renderFieldFaults(problem, PASSWORD)}
<p class="row"><button class="primary">Continue</button> <a class="button" href="${back}" data-cancel>Cancel</a></p>
</form>
</div>`
  return renderPage(frame, { title: 'Confirm that it is you', main })
}
