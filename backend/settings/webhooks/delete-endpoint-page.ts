import type { WebhookEndpointRow } from '../../database/tables.ts'
import { type Html, html } from '../../html/html.ts'
import type { RecentAttempts } from '../../webhooks/representation.ts'
import { renderConfirmPage } from '../shell/confirm-page.ts'
import type { Frame } from '../shell/response.ts'
import { plural, type TimeContext, timeAgo } from '../shell/words.ts'

interface DeletionView {
  readonly row: WebhookEndpointRow
  readonly recent: RecentAttempts
  readonly times: TimeContext
}

export function renderDeleteEndpoint(frame: Frame, { row, recent, times }: DeletionView): Html {
  const path = `/settings/webhook-endpoints/${row.id}`
  const attempts = recent.hours.reduce((sum, hour) => sum + hour.attempts, 0)
  const consequences = html`<p><code translate="no">${row.url}</code></p>
<p>${
    recent.lastAttemptAt === undefined
      ? 'No event was sent to this endpoint in the last 30 days.'
      : html`The last attempt to send an event was ${timeAgo(recent.lastAttemptAt, times)}. There ${attempts === 1 ? 'was' : 'were'} ${plural(attempts, 'attempt')} in the last 24 hours.`
  }</p>
<p>The endpoint receives no more events, and waiting events are not sent. Its signing secret is erased, so the
endpoint cannot be restored. The delivery log keeps its deliveries for 30 days.</p>`
  return renderConfirmPage(frame, {
    title: 'Delete this endpoint?',
    section: '/settings/api-keys',
    back: { path, name: 'Endpoint' },
    consequences,
    action: `${path}/remove`,
    button: 'Delete endpoint',
    isDangerous: true,
  })
}
