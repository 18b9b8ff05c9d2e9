import type {
  WebhookAttemptRow,
  WebhookDeliveryRow,
  WebhookEndpointRow,
} from '../../database/tables.ts'
import { EVENT_TYPES } from '../../events/event-types.ts'
import { type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import {
  DELIVERY_STATUSES,
  type DeliveryDetail,
  type DeliveryFilters,
} from '../../webhooks/delivery-log.ts'
import { renderCommonHiddenFields, renderOption, renderPage } from '../shell/layout.ts'
import { renderNext } from '../shell/list-query.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, plural, type TimeContext, timeAgoExact } from '../shell/words.ts'
import { DELIVERY_STATUS_WORDS, outcomeWords, renderDeliveryStatus } from './webhook-words.ts'

const PATH = '/settings/webhook-deliveries'

export interface DeliveriesView {
  readonly session: Session
  readonly rows: readonly WebhookDeliveryRow[]
  readonly endpoints: readonly WebhookEndpointRow[]
  /** URLs by endpoint id, including those of deleted endpoints. */
  readonly urls: ReadonlyMap<string, string>
  readonly filters: DeliveryFilters
  /** The parameter `limit` of the URL. */
  readonly limit: string | undefined
  readonly next: string | null
  /** Whether the search stopped before the page was full, because one search reads a limited number of deliveries. */
  readonly isPartial: boolean
  readonly now: Date
}

export function renderDeliveries(frame: Frame, view: DeliveriesView): Html {
  const { rows, limit, next, isPartial, filters } = view
  const { endpointId: endpoint_id, status, type } = filters
  const main = html`<p class="back"><a href="/settings/webhook-endpoints">Webhooks</a></p>
<h1>Delivery log</h1>
<p class="lead">Deliveries of the last 30 days, and older ones that still wait, newest first.</p>
${renderFilters(view)}
${rows.length === 0 ? !isPartial && renderEmpty(filters) : renderDeliveryTable('Deliveries, newest first', rows, { now: view.now, timezone: view.session.account.timezone }, view.urls)}
${isPartial && html`<p class="hint">${plural(rows.length, 'match', 'matches')} on this page. Only a part of the log has been searched so far. “Older” continues the search.</p>`}
${next !== null && renderNext(PATH, { endpoint_id, status, type, limit, cursor: next }, 'Older')}`
  return renderPage(frame, { title: 'Delivery log', section: '/settings/api-keys', main })
}

function renderEmpty(filters: DeliveryFilters): Html {
  const isFiltered = Object.values(filters).some((value) => value !== undefined)
  const text = isFiltered
    ? 'No delivery matches the filters.'
    : 'No event was sent in the last 30 days.'
  return html`<div class="card empty"><p><strong>${text}</strong></p></div>`
}

function renderFilters({ endpoints, filters }: DeliveriesView): Html {
  return html`<form method="get" action="${PATH}" class="filter-form">
<span class="row"><label for="endpoint_id">Endpoint</label> <select id="endpoint_id" name="endpoint_id">${renderOption('', 'All', filters.endpointId)}${endpoints.map(({ id, url }) => renderOption(id, url, filters.endpointId))}</select></span>
<span class="row"><label for="status">Status</label> <select id="status" name="status">${renderOption('', 'All', filters.status)}${DELIVERY_STATUSES.map((status) => renderOption(status, DELIVERY_STATUS_WORDS[status], filters.status))}</select></span>
<span class="row"><label for="type">Event</label> <select id="type" name="type">${renderOption('', 'All', filters.type)}${EVENT_TYPES.map((type) => renderOption(type, type, filters.type))}</select></span>
<button class="small">Filter</button> <a class="button small" href="${PATH}">Clear</a></form>`
}

/** `urls` contains the URLs by endpoint id. If it is absent, the table has no column for the endpoint. */
export function renderDeliveryTable(
  caption: string,
  rows: readonly WebhookDeliveryRow[],
  times: TimeContext,
  urls?: ReadonlyMap<string, string>,
): Html {
  return html`<table class="records"><caption class="unseen">${caption}</caption>
<thead><tr><th scope="col">Event</th>${urls && html`<th scope="col">To</th>`}<th scope="col">Status</th><th scope="col">Attempts</th>
<th scope="col">Response</th><th scope="col">When</th></tr></thead>
<tbody>${rows.map(
    (
      row,
    ) => html`<tr><th scope="row" data-label="Event"><a href="${PATH}/${row.id}" translate="no">${row.event_type}</a></th>
${urls && html`<td data-label="To" translate="no">${urls.get(row.endpoint_id)}</td>`}
<td data-label="Status">${renderDeliveryStatus(row)}</td>
<td data-label="Attempts">${row.attempts}</td>
<td data-label="Response">${outcomeWords(row.last_status_code, row.last_error)}</td>
<td data-label="When">${timeAgoExact(row.created_at, times)}</td></tr>`,
  )}</tbody></table>`
}

export interface DeliveryView {
  readonly session: Session
  readonly detail: DeliveryDetail
  readonly endpoint: WebhookEndpointRow
}

export function renderDeliveryPage(
  frame: Frame,
  { session, detail, endpoint }: DeliveryView,
): Html {
  const { delivery, attempts, body } = detail
  const { timezone } = session.account
  const isAdmin = session.user.role === 'admin'
  // The status of a deleted endpoint is `disabled`, too.
  const canRedeliver = isAdmin && endpoint.status !== 'disabled'
  const event: unknown = JSON.parse(body)
  const main = html`<p class="back"><a href="${PATH}?endpoint_id=${endpoint.id}">Delivery log</a></p>
<div class="heading"><h1 translate="no">${delivery.event_type}</h1>
${
  canRedeliver &&
  html`<form method="post" action="${PATH}/${delivery.id}/redeliver" data-once>${renderCommonHiddenFields(frame)}<button>Redeliver</button></form>`
}</div>
<section class="card"><dl class="facts">
<div><dt>Status</dt><dd>${renderDeliveryStatus(delivery)}</dd></div>
<div><dt>Created</dt><dd>${exactTime(delivery.created_at, timezone)}</dd></div>
<div><dt>Next attempt</dt><dd>${renderNextAttempt(delivery, endpoint, timezone)}</dd></div>
<div><dt>Event ID</dt><dd><code translate="no">${delivery.event_id}</code></dd></div>
<div class="whole"><dt>To</dt><dd translate="no">${
    endpoint.deleted_at === null
      ? html`<a href="/settings/webhook-endpoints/${endpoint.id}">${endpoint.url}</a>`
      : `${endpoint.url} (deleted)`
  }</dd></div>
</dl></section>
<h2>Attempts</h2>
${attempts.length === 0 && html`<p class="hint">None yet.</p>`}
${attempts.map((attempt) => renderAttempt(attempt, timezone, isAdmin))}
${
  isAdmin
    ? html`<h2>Body</h2><section class="card"><pre tabindex="0" aria-label="Body"><code translate="no">${JSON.stringify(event, null, 2)}</code></pre></section>`
    : html`<p class="hint">Bodies are shown to Admins only.</p>`
}`
  return renderPage(frame, { title: delivery.event_type, section: '/settings/api-keys', main })
}

function renderNextAttempt(
  { status, run_at: runAt }: WebhookDeliveryRow,
  { status: endpointStatus, hold_until: holdUntil }: WebhookEndpointRow,
  timezone: string,
): Html {
  if (status !== 'pending' || runAt === null) return html`–`
  // Deliveries to a receiver that is overloaded or unavailable wait until `hold_until`.
  const at = holdUntil !== null && holdUntil > runAt ? holdUntil : runAt
  return html`${endpointStatus === 'paused' && 'When the endpoint is resumed, but not before '}${exactTime(at, timezone)}`
}

function renderAttempt(row: WebhookAttemptRow, timezone: string, showsResponse: boolean): Html {
  return html`<section class="card" aria-labelledby="attempt-${row.number}">
<div class="heading"><h3 id="attempt-${row.number}">Attempt ${row.number}: ${outcomeWords(row.status_code, row.error)}</h3>
<p class="total">${exactTime(row.started_at, timezone)} · ${row.duration_ms.toLocaleString('en')} ms</p></div>
<details><summary>Headers sent</summary>${renderHeaders(row.request_headers)}</details>
${
  showsResponse &&
  row.response_headers !== null &&
  html`<details><summary>Response</summary>${renderHeaders(row.response_headers)}
<pre tabindex="0" aria-label="Response to attempt ${row.number}"><code translate="no">${row.response_body}</code></pre></details>`
}
</section>`
}

function renderHeaders(json: string): Html {
  const headers: unknown = JSON.parse(json)
  return html`<dl class="facts">${Object.entries(Object(headers)).map(
    ([name, value]) =>
      html`<div class="whole"><dt translate="no">${name}</dt><dd><code translate="no">${String(value)}</code></dd></div>`,
  )}</dl>`
}
