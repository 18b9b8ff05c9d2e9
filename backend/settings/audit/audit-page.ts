import type { AuditRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import { renderOption, renderPage } from '../shell/layout.ts'
import { renderNext } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'
import { type TimeContext, timeAgo } from '../shell/words.ts'
import { ACTION_GROUPS, auditWords, detailWords } from './audit-words.ts'

export const AUDIT_LOG_PATH = '/settings/audit-log'

export type AuditQuery = {
  /** The actor as the column *Who* shows it: an e-mail address, or a name such as `operator`. */
  readonly actor: string | undefined
  readonly action: string | undefined
  readonly subject_id: string | undefined
  /** Calendar dates in the account's time zone; the second date is excluded. */
  readonly created_since: string | undefined
  readonly created_before: string | undefined
}

interface AuditView extends TimeContext {
  readonly rows: readonly AuditRow[]
  readonly query: AuditQuery
  /** The people whom the field for the actor proposes, and whether the account has more. */
  readonly people: { readonly emails: readonly string[]; readonly hasMore: boolean }
  /** The parameter `limit` of the URL. */
  readonly limit: string | undefined
  readonly next: string | null
}

export function renderAudit(frame: Frame, view: AuditView): Html {
  const { rows, query, limit, next } = view
  const isFiltered = Object.values(query).some((value) => value !== undefined)
  const main = html`<h1>Audit log</h1>
<p class="lead">Who did what, when, and from where. Entries are never deleted.</p>
${renderFilters(view)}
${
  rows.length === 0
    ? html`<div class="card empty"><p><strong>${isFiltered ? 'No entry matches the filters.' : 'There are no entries.'}</strong></p></div>`
    : html`<table class="records"><caption class="unseen">Audit log, newest first</caption>
<thead><tr><th scope="col">When</th><th scope="col">What</th><th scope="col">Who</th><th scope="col">IP address</th></tr></thead>
<tbody>${rows.map((row) => renderEntry(row, view))}</tbody></table>`
}
${next !== null && renderNext(AUDIT_LOG_PATH, { ...query, limit, before: next }, 'Older')}`
  return renderPage(frame, { title: 'Audit log', section: AUDIT_LOG_PATH, main })
}

function renderFilters({ query, people }: AuditView): Html {
  return html`<form method="get" action="${AUDIT_LOG_PATH}" class="filter-form">
<span class="row"><label for="actor">Who</label> <input id="actor" name="actor" value="${query.actor}" list="actors" autocomplete="off" translate="no">
<datalist id="actors">${[...people.emails, 'operator'].map((label) => html`<option value="${label}"></option>`)}</datalist></span>
<span class="row"><label for="action">What</label> <select id="action" name="action">${renderOption('', 'Everything', query.action)}
${ACTION_GROUPS.map(([group, actions]) => html`<optgroup label="${group}">${actions.map((action) => renderOption(action, auditWords({ action }), query.action))}</optgroup>`)}</select></span>
<span class="row"><label for="created_since">Since</label> <input id="created_since" name="created_since" type="date" value="${query.created_since}"></span>
<span class="row"><label for="created_before">before</label> <input id="created_before" name="created_before" type="date" value="${query.created_before}"></span>
<span class="row"><label for="subject_id">Record</label> <input id="subject_id" name="subject_id" value="${query.subject_id}" placeholder="ID, or address of its page" autocomplete="off" translate="no"></span>
<button class="small">Filter</button> <a class="button small" href="${AUDIT_LOG_PATH}">Clear</a></form>
${people.hasMore && html`<p class="hint">“Who” proposes only the ${people.emails.length} people who were added last. To filter by another person, enter the e-mail address, which the page <a href="/settings/people">People</a> shows.</p>`}`
}

/**
 * The page of a record is `/settings/SEGMENT/ID`; these are the segments by the prefix of the id. Webhook endpoints are
 * not linked, because they can be deleted.
 */
const PAGE_SEGMENTS: ReadonlyMap<string, string> = new Map([
  ['deb', 'customers'],
  ['inv', 'invoices'],
  ['pay', 'payments'],
  ['msg', 'messages'],
  ['key', 'api-keys'],
  ['imp', 'imports'],
])

function subjectPath({ subject_id: id }: AuditRow): string | undefined {
  const segment = PAGE_SEGMENTS.get(id?.split('_')[0] ?? '')
  return segment === undefined ? undefined : `/settings/${segment}/${id}`
}

function renderEntry(row: AuditRow, view: AuditView): Html {
  const detail = detailWords(row.detail)
  const path = subjectPath(row)
  const words = auditWords(row)
  return html`<tr>
<td data-label="When">${timeAgo(row.created_at, view)}</td>
<th scope="row" data-label="What">${path === undefined ? words : html`<a href="${path}">${words}</a>`}${detail !== '' && html`<span class="detail">${detail}</span>`}</th>
<td data-label="Who" translate="no">${row.actor_label}</td>
<td data-label="IP address" translate="no">${row.address ?? '–'}</td></tr>`
}
