import { keyStatus, readAllowedAddresses } from '../../api-keys/key-status.ts'
import { dateFormats } from '../../calendar/date-formats.ts'
import type { ApiKeyRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import type { TopError } from '../../usage/key-errors.ts'
import type { OperationCalls } from '../../usage/key-operations.ts'
import type { KeyUsage, UsageBar } from '../../usage/usage.ts'
import { renderAuditLink } from '../audit/audit-link.ts'
import { BAR_WIDTH, CHART_HEIGHT, renderChartFrame, topOfScale } from '../shell/chart.ts'
import { renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { exactTime, plural, timeAgoExact } from '../shell/words.ts'
import { renderScopes, renderStatus, type WindowView } from './key-view.ts'

interface KeyView {
  readonly session: Session
  readonly row: ApiKeyRow
  readonly usage: KeyUsage
  /** The calls and errors by operation in the last 24 hours, without the calls that gateways rejected. */
  readonly operations: readonly OperationCalls[]
  /** The most frequent errors of the last 30 days. */
  readonly errors: readonly TopError[]
  /** The key's current window (its hour of the rate limit). Undefined until a gateway has reported a window. */
  readonly window: WindowView | undefined
  readonly now: Date
}

export function renderKey(
  frame: Frame,
  { session, row, usage, operations, errors, window, now }: KeyView,
): Html {
  const { timezone, scopeAllowance } = session.account
  const isAdmin = session.user.role === 'admin'
  const current = usage.hours.at(-1) ?? NO_CALLS
  // Gateways report the windows together with the calls that they rejected.
  const hasReports = window !== undefined
  const main = html`<p class="back"><a href="/settings/api-keys">API &amp; webhooks</a></p>
<div class="heading"><h1 translate="no">${row.name}</h1>
${isAdmin && renderActions(row, now)}</div>
<section class="card"><dl class="facts">
<div><dt>Status</dt><dd>${renderStatus(row, { now, timezone })}</dd></div>
<div><dt>Prefix</dt><dd><code translate="no">${row.prefix}</code></dd></div>
<div><dt>Last used</dt><dd>${row.last_used_at === null ? 'Never' : timeAgoExact(row.last_used_at, { now, timezone })}</dd></div>
<div><dt>Issued</dt><dd>${exactTime(row.created_at, timezone)} by <span translate="no">${row.created_by}</span></dd></div>
<div><dt>Current hour</dt><dd>${window === undefined ? renderClockHour(row, current, timezone) : renderWindow(window, timezone)}</dd></div>
<div><dt>Expires</dt><dd>${row.expires_at === null ? 'Never' : exactTime(row.expires_at, timezone)}</dd></div>
${
  row.replaced_by !== null &&
  html`<div><dt>Rotated</dt><dd><a href="/settings/api-keys/${row.replaced_by}">Replaced by another key</a></dd></div>`
}
<div class="whole"><dt>Allowed IP addresses</dt><dd>${renderAddresses(row)}</dd></div>
<div class="whole"><dt>Permissions</dt><dd>${renderScopes(row, scopeAllowance)}</dd></div>
</dl></section>
${renderChart('hours', 'The last 24 hours', usage.hours, (at) => hourName(at, timezone))}
${operations.length > 0 && renderOperations(operations)}
${renderChart('days', 'The last 30 days, by UTC day', usage.days, dayName)}
${errors.length > 0 && renderErrors(errors)}
<p class="hint">The counts are usually a few seconds behind.${
    !hasReports &&
    ` Calls that were rejected for a missing scope or for exceeding the hourly limit are not in
these charts yet.`
  }</p>
${renderAuditLink(session, row.id)}`
  return renderPage(frame, { title: row.name, section: '/settings/api-keys', main })
}

function renderActions(row: ApiKeyRow, now: Date): Html | undefined {
  if (row.revoked_at !== null) return undefined
  const path = `/settings/api-keys/${row.id}`
  const isActive = keyStatus(row, now) === 'active'
  return html`<div class="row">${
    isActive && row.replaced_by === null && html`<a class="button" href="${path}/rotate">Rotate</a>`
  }${isActive && html`<a class="button" href="${path}/edit">Edit</a>`}
<a class="button danger" href="${path}/revoke">Revoke</a></div>`
}

function renderAddresses({ allowed_addresses }: ApiKeyRow): Html {
  const prefixes = readAllowedAddresses(allowed_addresses)
  return prefixes === null
    ? html`Any`
    : html`<ul class="chips">${prefixes.map((prefix) => html`<li><code translate="no">${prefix}</code></li>`)}</ul>`
}

/** The shares of the hourly limit above which the meter becomes amber or red. */
const USED_LOW = 0.75
const USED_HIGH = 0.9

function renderWindow({ used, limit, resets_at }: WindowView, timezone: string): Html {
  return html`<strong>${used.toLocaleString('en')}</strong> of ${limit.toLocaleString('en')}
<span class="hint">${resets_at === null ? 'The next call starts a new hour.' : html`Resets at ${clockTime(resets_at, timezone)}.`}</span>
<meter class="meter" min="0" max="${limit}" low="${Math.floor(limit * USED_LOW)}" high="${Math.floor(limit * USED_HIGH)}" optimum="0" value="${used}" aria-label="Calls of the current hour"></meter>
${used >= limit ? html`<span class="badge late">Limit reached</span>` : used >= limit * USED_LOW && html`<span class="badge warning">Near the limit</span>`}`
}

/** Until a gateway reports the key's window, the page shows the calls since the current UTC hour began. */
function renderClockHour({ rate_limit }: ApiKeyRow, bar: UsageBar, timezone: string): Html {
  return html`${callsOf(bar).toLocaleString('en')} <span class="hint">since ${clockTime(bar.at, timezone)}.
At most ${rate_limit.toLocaleString('en')} per hour. The hour starts with the key’s first call.</span>`
}

const NO_CALLS: UsageBar = { at: new Date(0).toISOString(), succeeded: 0, refused: 0, failed: 0 }

function renderChart(
  id: string,
  title: string,
  bars: readonly UsageBar[],
  nameOf: (at: string) => string,
): Html {
  const total = bars.reduce((sum, bar) => sum + callsOf(bar), 0)
  const largest = Math.max(...bars.map(callsOf))
  const top = topOfScale(largest)
  const labeledBars = [bars[0], bars[Math.floor(bars.length / 2)], bars.at(-1)]
  const labels = labeledBars.flatMap((bar) => (bar === undefined ? [] : [nameOf(bar.at)]))
  const summary = `${title}: ${plural(total, 'call')}, at most ${largest.toLocaleString('en')} in one bar.`
  return html`<section class="card" aria-labelledby="${id}-title">
<div class="heading"><h2 id="${id}-title">${title}</h2><p class="total">${plural(total, 'call')}</p></div>
${
  total === 0
    ? html`<p class="hint empty">No calls.</p>`
    : html`${renderChartFrame({ summary, top, labels, bars: bars.map((bar, index) => renderBar(bar, index, top, nameOf(bar.at))) })}
<ul class="legend"><li class="succeeded">Succeeded</li><li class="rejected">Rejected (4xx)</li><li class="failed">Failed (5xx)</li></ul>
<details><summary>Show as a table</summary>${renderUsageTable(title, bars, nameOf)}</details>`
}
</section>`
}

function renderBar(bar: UsageBar, index: number, top: number, name: string): Html {
  const parts = [
    ['succeeded', bar.succeeded],
    ['rejected', bar.refused],
    ['failed', bar.failed],
  ] as const
  let y = CHART_HEIGHT
  return html`<g><title>${name}: ${plural(callsOf(bar), 'call')}</title>
${parts.map(([kind, calls]) => {
  if (calls === 0) return undefined
  // A single call among thousands must remain visible.
  const height = Math.max((calls / top) * CHART_HEIGHT, 1.5)
  y -= height
  return html`<rect class="${kind}" x="${index * BAR_WIDTH + 1}" y="${y.toFixed(2)}" width="${BAR_WIDTH - 2}" height="${height.toFixed(2)}"/>`
})}</g>`
}

function renderUsageTable(
  title: string,
  bars: readonly UsageBar[],
  nameOf: (at: string) => string,
): Html {
  return html`<table class="plain"><caption class="unseen">${title}</caption>
<thead><tr><th scope="col">From</th><th scope="col">Succeeded</th><th scope="col">Rejected</th><th scope="col">Failed</th></tr></thead>
<tbody>${bars
    .filter((bar) => callsOf(bar) > 0)
    .map(
      (bar) =>
        html`<tr><th scope="row">${nameOf(bar.at)}</th><td>${bar.succeeded}</td><td>${bar.refused}</td><td>${bar.failed}</td></tr>`,
    )}</tbody></table>`
}

/** The shares of errors, in percent, above which an operation is marked amber or red. */
const ERRORS_LOW = 5
const ERRORS_HIGH = 25

function renderOperations(operations: readonly OperationCalls[]): Html {
  return html`<section class="card" aria-labelledby="operations-title"><h2 id="operations-title">Operations, the last 24 hours</h2>
<table class="plain"><caption class="unseen">Calls by operation, the most frequent first</caption>
<thead><tr><th scope="col">Operation</th><th scope="col" class="amount">Calls</th><th scope="col" class="amount">Errors</th><th scope="col">Share of errors</th></tr></thead>
<tbody>${operations.map(({ operation, calls, errors }) => {
    const percent = (errors / calls) * 100
    return html`<tr><th scope="row"><a href="/docs/reference#${operation}" translate="no">${operation}</a></th>
<td class="amount">${calls.toLocaleString('en')}</td><td class="amount">${errors.toLocaleString('en')}</td>
<td><meter class="meter" min="0" max="100" low="${ERRORS_LOW}" high="${ERRORS_HIGH}" optimum="0" value="${percent.toFixed(1)}" aria-label="Share of errors of ${operation}"></meter> ${percent.toFixed(percent > 0 && percent < 10 ? 1 : 0)}%</td></tr>`
  })}</tbody></table></section>`
}

function renderErrors(errors: readonly TopError[]): Html {
  return html`<section class="card" aria-labelledby="errors-title"><h2 id="errors-title">Errors, the last 30 days</h2>
<table class="plain"><caption class="unseen">The most frequent errors</caption>
<thead><tr><th scope="col">Code</th><th scope="col">Calls</th><th scope="col">Last on</th></tr></thead>
<tbody>${errors.map(
    ({ code, calls, lastDay }) =>
      html`<tr><th scope="row"><a href="/docs/errors#${code}" translate="no">${code}</a></th><td>${calls.toLocaleString('en')}</td><td>${dayName(`${lastDay}T00:00:00Z`)}</td></tr>`,
  )}</tbody></table></section>`
}

function callsOf({ succeeded, refused, failed }: UsageBar): number {
  return succeeded + refused + failed
}

const hourFormats = dateFormats('en-GB', { weekday: 'short', hour: '2-digit', minute: '2-digit' })
const clockFormats = dateFormats('en-GB', { hour: '2-digit', minute: '2-digit' })
const dayFormats = dateFormats('en-GB', { day: 'numeric', month: 'short' })

function hourName(at: string, timezone: string): string {
  return hourFormats(timezone).format(new Date(at))
}

function clockTime(at: string, timezone: string): string {
  return clockFormats(timezone).format(new Date(at))
}

function dayName(at: string): string {
  return dayFormats('UTC').format(new Date(at))
}
