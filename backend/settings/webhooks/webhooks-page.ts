import { type Html, html } from '../../html/html.ts'
import type { Session } from '../../sessions/sessions.ts'
import { renderPage } from '../shell/layout.ts'
import type { Frame } from '../shell/response.ts'
import { timeAgo } from '../shell/words.ts'
import type { EndpointWithAttempts } from './endpoint-attempts.ts'
import { renderEndpointStatus, renderEventTypes, successRate } from './webhook-words.ts'

export interface EndpointsView {
  readonly session: Session
  readonly endpoints: readonly EndpointWithAttempts[]
  readonly now: Date
}

export function renderEndpoints(frame: Frame, view: EndpointsView): Html {
  const isAdmin = view.session.user.role === 'admin'
  const main = html`<p class="back"><a href="/settings/api-keys">API &amp; webhooks</a></p>
<div class="heading"><h1>Webhooks</h1>
<span class="row"><a class="button" href="/settings/webhook-deliveries">Delivery log</a>
${isAdmin && html`<a class="button primary" href="/settings/webhook-endpoints/new">Add endpoint</a>`}</span></div>
<p class="lead">When something happens, such as a payment, a signed event is sent to your own systems, so that they need
not poll. <a class="whole-line" href="/docs/webhooks">How to receive webhooks</a></p>
${renderEndpointTable(view)}`
  return renderPage(frame, { title: 'Webhooks', section: '/settings/api-keys', main })
}

export function renderEndpointTable(view: EndpointsView): Html {
  return view.endpoints.length === 0
    ? renderEmpty(view.session.user.role === 'admin')
    : renderTable(view)
}

function renderEmpty(isAdmin: boolean): Html {
  return html`<div class="card empty"><p><strong>There is no endpoint yet.</strong></p>
<p class="hint">${
    isAdmin
      ? 'Add the URL at which your server receives events.'
      : 'An Admin of your account can add an endpoint.'
  }</p></div>`
}

function renderTable({ endpoints, session, now }: EndpointsView): Html {
  const times = { now, timezone: session.account.timezone }
  return html`<table class="records"><caption class="unseen">Webhook endpoints</caption>
<thead><tr><th scope="col">Endpoint URL</th><th scope="col">Events</th><th scope="col">Status</th>
<th scope="col">Success, 24 h</th><th scope="col">Last attempt</th></tr></thead>
<tbody>${endpoints.map(({ row, recent }) => {
    const attempts = recent.hours.reduce((sum, hour) => sum + hour.attempts, 0)
    const succeeded = recent.hours.reduce((sum, hour) => sum + hour.succeeded, 0)
    return html`<tr><th scope="row" data-label="URL"><a href="/settings/webhook-endpoints/${row.id}" translate="no">${row.url}</a>${
      row.description !== '' && html`<span class="detail">${row.description}</span>`
    }</th>
<td data-label="Events">${renderEventTypes(row)}</td>
<td data-label="Status">${renderEndpointStatus(row, (at) => timeAgo(at, times))}</td>
<td data-label="Success, 24 h">${successRate(attempts, succeeded)}</td>
<td data-label="Last attempt">${recent.lastAttemptAt === undefined ? 'None in 30 days' : timeAgo(recent.lastAttemptAt, times)}</td></tr>`
  })}</tbody></table>`
}
