import type { WebhookDeliveryRow, WebhookEndpointRow } from '../../database/tables.ts'
import { EVENT_TYPES } from '../../events/event-types.ts'
import { attribute, type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import { type HourOfAttempts, lastHours } from '../../webhooks/attempt-hours.ts'
import type { RecentAttempts } from '../../webhooks/representation.ts'
import { renderAuditLink } from '../audit/audit-link.ts'
import { BAR_WIDTH, CHART_HEIGHT, renderChartFrame, topOfScale } from '../shell/chart.ts'
import { renderCommonHiddenFields, renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, plural, timeAgo } from '../shell/words.ts'
import { renderDeliveryTable } from './deliveries-page.ts'
import { renderEndpointStatus, renderEventTypes, successRate } from './webhook-words.ts'

export interface EndpointView {
  readonly session: Session
  readonly row: WebhookEndpointRow
  readonly recent: RecentAttempts
  readonly deliveries: readonly WebhookDeliveryRow[]
  readonly now: Date
}

export function renderEndpointPage(frame: Frame, view: EndpointView): Html {
  const { session, row, recent, now } = view
  const { timezone } = session.account
  const isAdmin = session.user.role === 'admin'
  const path = `/settings/webhook-endpoints/${row.id}`
  const main = html`<p class="back"><a href="/settings/webhook-endpoints">Webhooks</a></p>
<div class="heading"><h1 translate="no">${row.url}</h1>
<span class="row"><a class="button" href="/settings/webhook-deliveries?endpoint_id=${row.id}">Deliveries</a>
${isAdmin && html`<a class="button" href="${path}/edit">Change</a> <a class="button danger" href="${path}/remove" data-dialog-page>Delete…</a>`}</span></div>
<section class="card"><dl class="facts">
<div><dt>Status</dt><dd>${renderEndpointStatus(row, (at) => timeAgo(at, { now, timezone }))}</dd></div>
<div><dt>Last attempt</dt><dd>${recent.lastAttemptAt === undefined ? 'None in 30 days' : timeAgo(recent.lastAttemptAt, { now, timezone })}</dd></div>
<div><dt>Added</dt><dd>${exactTime(row.created_at, timezone)} by <span translate="no">${row.created_by}</span></dd></div>
${row.hold_until !== null && row.hold_until > now.toISOString() && html`<div><dt>Delayed</dt><dd>until ${exactTime(row.hold_until, timezone)}, because the endpoint is overloaded or unavailable</dd></div>`}
${row.description !== '' && html`<div><dt>Description</dt><dd>${row.description}</dd></div>`}
<div class="whole"><dt>Events</dt><dd>${renderEventTypes(row)}</dd></div>
</dl></section>
${renderChart(recent.hours, now, timezone)}
${renderRecentDeliveries(view)}
${isAdmin && renderActions(frame, view, path)}
${renderAuditLink(session, row.id)}`
  return renderPage(frame, { title: row.url, section: '/settings/api-keys', main })
}

const HOUR_MS = 3_600_000

function renderRecentDeliveries({ deliveries, row, session, now }: EndpointView): Html {
  return html`<section aria-labelledby="recent"><div class="heading"><h2 id="recent">Recent deliveries</h2>
<a href="/settings/webhook-deliveries?endpoint_id=${row.id}">All<span class="unseen"> deliveries to this endpoint</span></a></div>
${
  deliveries.length === 0
    ? html`<p class="card hint">No event was sent to this endpoint in the last 30 days.</p>`
    : renderDeliveryTable('Recent deliveries', deliveries, {
        now,
        timezone: session.account.timezone,
      })
}</section>`
}

function renderChart(hours: readonly HourOfAttempts[], now: Date, timezone: string): Html {
  const byHour = new Map(hours.map((hour) => [hour.hour, hour]))
  const bars = lastHours(now).map((hour) => byHour.get(hour) ?? { hour, attempts: 0, succeeded: 0 })
  const attempts = bars.reduce((sum, bar) => sum + bar.attempts, 0)
  const succeeded = bars.reduce((sum, bar) => sum + bar.succeeded, 0)
  const top = topOfScale(Math.max(...bars.map((bar) => bar.attempts)))
  const labeledBars = [bars[0], bars[12], bars.at(-1)]
  const labels = labeledBars.flatMap((bar) =>
    bar === undefined ? [] : [hourName(bar.hour, timezone)],
  )
  const summary = `${plural(attempts, 'attempt')} in 24 hours, ${succeeded} succeeded.`
  return html`<section class="card" aria-labelledby="chart-title">
<div class="heading"><h2 id="chart-title">The last 24 hours</h2>
<p class="total">${attempts > 0 && html`${successRate(attempts, succeeded)} of `}${plural(attempts, 'attempt')}</p></div>
${
  attempts === 0
    ? html`<p class="hint empty">No event was sent in the last 24 hours.</p>`
    : html`${renderChartFrame({ summary, top, labels, bars: bars.map((bar, index) => renderBar(bar, index, top, timezone)) })}
<ul class="legend"><li class="succeeded">Succeeded</li><li class="failed">Failed</li></ul>
<details><summary>Show as a table</summary><table class="plain"><caption class="unseen">Attempts by hour</caption>
<thead><tr><th scope="col">Hour</th><th scope="col">Succeeded</th><th scope="col">Failed</th></tr></thead>
<tbody>${hours.map(
        (bar) =>
          html`<tr><th scope="row">${hourName(bar.hour, timezone)}</th><td>${bar.succeeded}</td><td>${bar.attempts - bar.succeeded}</td></tr>`,
      )}</tbody></table></details>`
}
</section>`
}

/** `hour` is in UTC, e.g. `2026-11-21T10`. */
function hourName(hour: string, timezone: string): string {
  return exactTime(`${hour}:00:00Z`, timezone)
}

function renderBar(
  { hour, attempts, succeeded }: HourOfAttempts,
  index: number,
  top: number,
  timezone: string,
): Html {
  const scale = CHART_HEIGHT / top
  const succeededHeight = succeeded * scale
  const failedHeight = (attempts - succeeded) * scale
  const rect = (kind: string, y: number, height: number) =>
    height > 0 &&
    html`<rect class="${kind}" x="${index * BAR_WIDTH + 1}" y="${y.toFixed(2)}" width="${BAR_WIDTH - 2}" height="${height.toFixed(2)}"/>`
  return html`<g><title>${hourName(hour, timezone)}: ${plural(attempts, 'attempt')}</title>
${rect('succeeded', CHART_HEIGHT - succeededHeight, succeededHeight)}${rect('failed', CHART_HEIGHT - succeededHeight - failedHeight, failedHeight)}</g>`
}

/** Formats a time for a `datetime-local` field: in the account's time zone, without a UTC offset. */
function localInput(at: Date, timezone: string): string {
  // The Swedish format, such as `2026-11-21 10:15`, differs from the format of the field only by the space.
  const shown = new Intl.DateTimeFormat('sv-SE', {
    timeZone: timezone,
    dateStyle: 'short',
    timeStyle: 'short',
  })
  return shown.format(at).replace(' ', 'T')
}

function renderActions(frame: Frame, { row, session, now }: EndpointView, path: string): Html {
  const { timezone } = session.account
  const hasOldSecret =
    row.old_secret_expires_at !== null && row.old_secret_expires_at > now.toISOString()
  const dayAgo = localInput(new Date(now.getTime() - 24 * HOUR_MS), timezone)
  const form = (action: string, inner: Html) =>
    html`<form method="post" action="${path}/${action}" class="row" data-once>${renderCommonHiddenFields(frame)}${inner}</form>`
  return html`<section class="card stack" aria-labelledby="test-title">
<h2 id="test-title">Test</h2>
<p class="hint">Sends a sample event now, marked as a test, and shows the response.</p>
${form(
  'test',
  html`<label for="type">Event</label> <select id="type" name="type">${EVENT_TYPES.map(
    (type) => html`<option${attribute('selected', type === 'webhook.test')}>${type}</option>`,
  )}</select> <button>Send test event</button>`,
)}
</section>
<section class="card stack" aria-labelledby="state-title">
<h2 id="state-title">${row.status === 'enabled' ? 'Pause' : 'Resume'}</h2>
${
  row.status === 'enabled'
    ? html`<p class="hint">Events wait during the pause and are sent when you resume.</p>${form('pause', html`<button>Pause</button>`)}`
    : html`<p class="hint">${
        row.status === 'paused'
          ? 'When you resume, events that became due during the pause are sent immediately.'
          : 'When you resume, the endpoint receives new events again. You can then redeliver failed events below.'
      }</p>${form('resume', html`<button class="primary">Resume</button>`)}`
}
</section>
<section class="card stack" aria-labelledby="again-title">
<h2 id="again-title">Redeliver</h2>
<p class="hint">Sends again all events that were created since the given time and whose delivery has failed. Each event keeps its id.</p>
${form('redeliver-failed', html`<label for="since">Since</label> <input id="since" name="since" type="datetime-local" value="${dayAgo}" required> <button>Redeliver</button>`)}
</section>
<section class="card stack" aria-labelledby="secret-title">
<h2 id="secret-title">Signing secret</h2>
${
  hasOldSecret && row.old_secret_expires_at !== null
    ? html`<p>Webhooks are signed with both the new and the old secret until <strong>${exactTime(row.old_secret_expires_at, timezone)}</strong>.</p>
${form('expire-old-secret', html`<button class="danger">Expire the old secret now</button>`)}`
    : html`<p class="hint">Rotating creates a new secret, which is shown only once. For 24 hours, webhooks are also signed with the old secret.</p>
${form('rotate-secret', html`<button>Rotate secret</button>`)}`
}
</section>`
}
