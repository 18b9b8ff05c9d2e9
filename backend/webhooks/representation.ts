import type {
  WebhookAttemptRow,
  WebhookDeliveryRow,
  WebhookEndpointRow,
} from '../database/tables.ts'
import type { HourOfAttempts } from './attempt-hours.ts'
import type { DeliveryDetail } from './delivery-log.ts'

export interface RecentAttempts {
  /** The current UTC hour and the 24 hours before it. Hours without attempts are omitted. */
  readonly hours: readonly HourOfAttempts[]
  /** The time of the last attempt, however old it is; undefined if the delivery log contains none. */
  readonly lastAttemptAt: string | undefined
}

/** The endpoint's JSON for Settings, without its secrets. */
export function representEndpoint(
  row: WebhookEndpointRow,
  { hours, lastAttemptAt }: RecentAttempts,
) {
  const attempts = hours.reduce((sum, hour) => sum + hour.attempts, 0)
  const succeeded = hours.reduce((sum, hour) => sum + hour.succeeded, 0)
  return {
    object: 'webhook_endpoint',
    id: row.id,
    url: row.url,
    description: row.description,
    events: eventTypesOf(row) ?? ['*'],
    status: row.status,
    status_since: row.status_since,
    disabled_reason: row.disabled_reason,
    failing_since: row.failing_since,
    hold_until: row.hold_until,
    old_secret_expires_at: row.old_secret_expires_at,
    last_24_hours: {
      attempts,
      succeeded,
      success_rate: attempts === 0 ? null : succeeded / attempts,
    },
    last_delivery_at: lastAttemptAt ?? null,
    created_at: row.created_at,
    created_by: row.created_by,
    updated_at: row.updated_at,
  }
}

/** Returns null if the endpoint is subscribed to all types. */
export function eventTypesOf({ event_types }: Pick<WebhookEndpointRow, 'event_types'>) {
  if (event_types === null) return null
  const types: unknown = JSON.parse(event_types)
  return Array.isArray(types) ? types.map(String) : []
}

export function representDelivery(row: WebhookDeliveryRow) {
  return {
    object: 'webhook_delivery',
    id: row.id,
    endpoint_id: row.endpoint_id,
    event_id: row.event_id,
    event_type: row.event_type,
    status: shownStatus(row),
    attempts_made: row.attempts,
    last_attempt_at: row.last_attempt_at,
    last_status_code: row.last_status_code,
    last_error: row.last_error,
    // While a delivery is being sent, `run_at` is the end of its lease.
    next_attempt_at: row.status === 'pending' ? row.run_at : null,
    created_at: row.created_at,
    updated_at: row.updated_at,
  }
}

/** A delivery that is being sent is shown as pending. */
export function shownStatus({ status }: WebhookDeliveryRow) {
  return status === 'sending' ? 'pending' : status
}

/**
 * `withBodies` is true for Admins only. Other users do not see the event, because it contains debtors' data. Nor do
 * they see the headers and the body of a response, because these may reveal internals of the receiver.
 */
export function representDeliveryDetail(
  { delivery, attempts, body }: DeliveryDetail,
  { withBodies }: { readonly withBodies: boolean },
) {
  const event: unknown = withBodies ? JSON.parse(body) : null
  return {
    ...representDelivery(delivery),
    event,
    attempts: attempts.map((attempt) => renderAttempt(attempt, withBodies)),
  }
}

function renderAttempt(row: WebhookAttemptRow, withBodies: boolean) {
  return {
    number: row.number,
    started_at: row.started_at,
    duration_ms: row.duration_ms,
    succeeded: row.succeeded === 1,
    status_code: row.status_code,
    error: row.error,
    request_headers: parseHeaders(row.request_headers),
    response_headers: withBodies ? parseHeaders(row.response_headers) : null,
    response_body: withBodies ? row.response_body : null,
  }
}

function parseHeaders(column: string | null): unknown {
  return column === null ? null : JSON.parse(column)
}
