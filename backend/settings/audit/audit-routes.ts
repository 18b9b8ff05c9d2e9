/** The page of the audit log: the actor, time and origin of each action, newest first. */
import { listAudit } from '../../accounts/audit.ts'
import type { AuditRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderPage } from '../shell/layout.ts'
import { limitOf, listOf, pageOf, renderNext } from '../shell/list-query.ts'
import type { SessionPage } from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { timeAgo } from '../shell/words.ts'
import { auditWords, detailWords } from './audit-words.ts'

const PATH = '/settings/audit-log'

export const auditPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    adminsOnly: 'Only an Admin can see the audit log.',
    async handle({ session, query, now }, { database }) {
      const { account } = session
      const limit = query.get('limit') ?? undefined
      const before = query.get('before') ?? undefined
      const rowsMax = limitOf(limit)
      const found = await listAudit(database.read, account.id, rowsMax + 1, before)
      const { rows, next } = pageOf(found, rowsMax)
      return {
        json: listOf(rows.map(representEntry), next),
        page: (frame) => renderAudit(frame, rows, { limit, next, now, timezone: account.timezone }),
      }
    },
  },
]

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

interface AuditView {
  /** The `limit` in the URL, which the link to the next page repeats. */
  readonly limit: string | undefined
  readonly next: string | null
  readonly now: Date
  readonly timezone: string
}

function renderAudit(frame: Frame, rows: readonly AuditRow[], view: AuditView): Html {
  const main = html`<h1>Audit log</h1>
<p class="lead">Who did what, when, and from where. Entries are never deleted.</p>
${
  rows.length === 0
    ? html`<div class="card empty"><p>There are no entries.</p></div>`
    : html`<table class="keys log"><caption class="unseen">Audit log, newest first</caption>
<thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Who</th><th scope="col">From</th></tr></thead>
<tbody>${rows.map((row) => renderEntry(row, view))}</tbody></table>`
}
${view.next !== null && renderNext(PATH, { limit: view.limit, before: view.next }, 'Older')}`
  return renderPage(frame, { title: 'Audit log', section: PATH, main })
}

/** The folders of the pages of records, by the prefix of their ids. A deleted endpoint has no page. */
const FOLDERS: ReadonlyMap<string, string> = new Map([
  ['deb', 'customers'],
  ['inv', 'invoices'],
  ['pay', 'payments'],
  ['msg', 'messages'],
  ['key', 'api-keys'],
])

function subjectPath({ subject_id: id }: AuditRow): string | undefined {
  const folder = FOLDERS.get(id?.split('_')[0] ?? '')
  return folder === undefined ? undefined : `/settings/${folder}/${id}`
}

function renderEntry(row: AuditRow, view: AuditView): Html {
  const detail = detailWords(row.detail)
  const path = subjectPath(row)
  const words = auditWords(row)
  return html`<tr>
<td data-label="When">${timeAgo(row.created_at, view)}</td>
<th scope="row" data-label="What">${path === undefined ? words : html`<a href="${path}">${words}</a>`}${detail !== '' && html`<span class="detail">${detail}</span>`}</th>
<td data-label="Who" translate="no">${row.actor_label}</td>
<td data-label="From" translate="no">${row.address ?? '–'}</td></tr>`
}
