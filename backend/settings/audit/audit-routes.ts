import { findAuditEntry, listAudit } from '../../accounts/audit.ts'
import { startOfDay } from '../../calendar/calendar.ts'
import type { AuditRow } from '../../database/tables.ts'
import { listUsers } from '../../users/users.ts'
import {
  choiceOf,
  dateOf,
  type ListQuery,
  listOf,
  newestFirst,
  newestFirstAfter,
  pageOf,
  parseListQuery,
} from '../shell/list-query.ts'
import type { SessionPage } from '../shell/page-request.ts'
import { AUDIT_LOG_PATH, type AuditQuery, renderAudit } from './audit-page.ts'
import { AUDIT_ACTIONS } from './audit-words.ts'

/** The maximum number of people that the page proposes as values of the filter `actor`. */
const PROPOSED_MAX = 200

/**
 * In the filter `subject_id`, people may enter the address of a page, e.g.
 * `https://…/settings/customers/deb_01K…/edit`.
 */
const ID_IN_PAGE_ADDRESS = /\/settings\/[\w-]+\/([a-z]+_\w+)/

export const auditPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: AUDIT_LOG_PATH,
    adminsOnlyMessage: 'Only an Admin can see the audit log.',
    async handle({ session, query: given, now, wantsJson }, { database: { read } }) {
      const { id: accountId, timezone } = session.account
      const { list, query } = parseQuery(given)
      const instantOf = (date: string | undefined) =>
        date && startOfDay(date, timezone).toISOString()
      const filters = {
        actor: query.actor,
        action: query.action,
        subjectId: query.subject_id,
        createdSince: instantOf(query.created_since),
        createdBefore: instantOf(query.created_before),
      }
      const page = await newestFirstAfter(list.cursor, list.limit, (id) =>
        findAuditEntry(read, accountId, id),
      )
      const { rows, next } = pageOf(await listAudit(read, accountId, filters, page), list.limit)
      const users = wantsJson ? [] : await listUsers(read, accountId, newestFirst(PROPOSED_MAX))
      const { rows: proposed, next: nextPerson } = pageOf(users, PROPOSED_MAX)
      const people = { emails: proposed.map(({ email }) => email), hasMore: nextPerson !== null }
      const view = { rows, query, people, limit: list.value('limit'), next, now, timezone }
      return {
        json: listOf(rows.map(representEntry), next),
        page: (frame) => renderAudit(frame, view),
      }
    },
  },
]

/** Throws `Problem` 400. */
function parseQuery(given: URLSearchParams): { list: ListQuery; query: AuditQuery } {
  const filters = ['actor', 'action', 'subject_id', 'created_since', 'created_before']
  // The public name of the cursor of this list. Most other lists name it `cursor`.
  const cursorName = 'before'
  const list = parseListQuery(given, filters, cursorName)
  const actor = list.value('actor')?.trim()
  const subject = list.value('subject_id')?.trim()
  const query = {
    // The label of a user is an e-mail address in lower case. Other labels, e.g. `operator`, contain no `@`.
    actor: actor?.includes('@') ? actor.toLowerCase() : actor,
    action: choiceOf(list, 'action', AUDIT_ACTIONS),
    subject_id: ID_IN_PAGE_ADDRESS.exec(subject ?? '')?.[1] ?? subject,
    created_since: dateOf(list, 'created_since'),
    created_before: dateOf(list, 'created_before'),
  }
  return { list, query }
}

function representEntry(row: AuditRow) {
  const detail: unknown = JSON.parse(row.detail)
  return {
    id: row.id,
    action: row.action,
    actor: { type: row.actor_type, id: row.actor_id, label: row.actor_label },
    subject_id: row.subject_id,
    detail,
    address: row.address,
    created_at: row.created_at,
  }
}
