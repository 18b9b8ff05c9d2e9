/**
 * Keeps what a user has entered in a form that cannot be accepted yet. The page that is shown instead of the form
 * contains the entered fields and sends them again, so the server stores nothing. Secrets are never kept:
 * `Fields.entries` omits them.
 */
import { Problem } from '../../../shared/contract/problem.ts'
import { type Html, html } from '../../html/html.ts'
import { type ExpectedFields, type FieldEntry, type Fields, FORM_USER_ID } from './fields.ts'
import { renderHidden, renderPage } from './layout.ts'
import type { Frame } from './response.ts'

export function renderKeptFields(entries: readonly FieldEntry[]): Html {
  return html`${entries.map(([name, values]) => values.map((value) => renderHidden(name, value)))}`
}

/**
 * Whether a form with these fields can be shown again as it was entered. Secrets are not kept, and HTML cannot fill in
 * a file field. A form that consists only of a button has nothing to keep.
 */
export function isKeepable({ secrets, file, binaryFile, ...fields }: ExpectedFields): boolean {
  const { texts = [], lists = [], numbers = [], rows = {} } = fields
  const hasFields = [...texts, ...lists, ...numbers, ...Object.keys(rows)].length > 0
  return hasFields && secrets === undefined && file === undefined && binaryFile === undefined
}

/**
 * For a form whose CSRF token is outdated, because the session token has been replaced since the same user opened the
 * form.
 */
export function outdatedTokenProblem(): Problem {
  return new Problem(
    'validation_failed',
    'Nothing was changed. Since you opened this form, you have logged in again or entered your password, or your password, role or two-factor authentication has changed. Check what you entered, and send it again.',
  )
}

/** Why the form cannot be shown again yet. */
interface Obstacle {
  readonly title: string
  /** What the user must do in another tab. */
  readonly step: Html
}

const SESSION_ENDED: Obstacle = {
  title: 'Your session has ended',
  step: html`<a href="/settings/login" target="_blank" rel="noopener">Log in (opens in a new tab)</a>, as the same user as
before.`,
}

const NO_SECOND_FACTOR: Obstacle = {
  title: 'Set up two-factor authentication',
  step: html`Your account now requires two-factor authentication of its Admins. <a href="/settings/two-factor" target="_blank" rel="noopener">Set
it up (opens in a new tab)</a>.`,
}

/** Renders the response to a form that was sent to the path `action` without a session. */
export function renderFormWithoutSession(frame: Frame, action: string, fields: Fields): Html {
  return renderKeptForm(frame, action, fields, SESSION_ENDED)
}

export function renderFormWithoutSecondFactor(frame: Frame, action: string, fields: Fields): Html {
  return renderKeptForm(frame, action, fields, NO_SECOND_FACTOR)
}

function renderKeptForm(
  frame: Frame,
  action: string,
  fields: Fields,
  { title, step }: Obstacle,
): Html {
  const main = html`<div class="narrow card stack" data-dialog-content>
<h1 tabindex="-1">${title}</h1>
<p>Nothing was changed. This page keeps what you entered, so do not close it.</p>
<ol><li>${step}</li>
<li>Come back to this page, and continue. Your entries are shown again before anything is changed.</li></ol>
<form method="post" action="${action}">${renderHidden(FORM_USER_ID, fields.text(FORM_USER_ID))}${renderKeptFields(fields.entries())}
<button class="primary">Continue</button></form>
</div>`
  return renderPage(frame, { title, main })
}
