/** The link from the page of a record to the actions on this record in the audit log. */
import { type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'

/**
 * Returns undefined for Members, who cannot see the audit log. Call this only if the log contains an action on the
 * record: otherwise, the link leads to an empty list.
 */
export function renderAuditLink({ user }: Session, subjectId: string): Html | undefined {
  if (user.role !== 'admin') return undefined
  return html`<p><a href="/settings/audit-log?subject_id=${subjectId}">Who changed this</a></p>`
}
