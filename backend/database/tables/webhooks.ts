import type { Bit } from './bit.ts'

/** A URL to which an account's events are sent. */
export interface WebhookEndpointRow {
  id: string
  account_id: string
  url: string
  description: string
  /** JSON array; null: every type, including types added later. */
  event_types: string | null
  /** Deliveries to a paused endpoint wait; a disabled endpoint gets none. Test events are sent in every status. */
  status: 'enabled' | 'paused' | 'disabled'
  status_since: string
  /** `gone`: the endpoint responded with 410, or was deleted; `failing`: every attempt failed for five days. */
  disabled_reason: 'gone' | 'failing' | null
  /**
   * The time of the first failed attempt; null if there is none. Earlier failures do not count after a successful
   * attempt, or after an Admin has paused or resumed the endpoint or changed its URL.
   */
  failing_since: string | null
  /** Only test events are sent before this time, because the endpoint responded with 429, 502, 503 or 504. */
  hold_until: string | null
  /** The current and the previous secret are encrypted. Until the previous secret expires, both sign. */
  secret: string
  old_secret: string | null
  old_secret_expires_at: string | null
  created_at: string
  created_by: string
  updated_at: string
  /** A deleted endpoint is disabled and not listed; only the delivery log shows it. */
  deleted_at: string | null
}

/** An event in the outbox. The transaction that causes the event inserts the row. */
export interface WebhookEventRow {
  id: string
  account_id: string
  type: string
  subject_id: string
  /** The body that is signed and sent, byte for byte. */
  body: string
  created_at: string
}

export interface WebhookDeliveryRow {
  id: string
  account_id: string
  event_id: string
  endpoint_id: string
  event_type: string
  status: 'pending' | 'sending' | 'delivered' | 'failed'
  /** The number of recorded attempts, successful or not. An attempt that a shutdown aborted is not recorded. */
  attempts: number
  /**
   * The position in the schedule of retries: the number of recorded attempts since the delivery was created, or since a
   * redelivery was last requested. A test event begins at the last position, so that it is not retried.
   */
  step: number
  /** pending: the next attempt; sending: the end of the lease; null: there is no next attempt. */
  run_at: string | null
  /** The lease of the worker that sends the delivery. */
  lease: string | null
  last_attempt_at: string | null
  last_status_code: number | null
  last_error: string | null
  created_at: string
  updated_at: string
}

export interface WebhookAttemptRow {
  delivery_id: string
  /** Starts at 1. */
  number: number
  account_id: string
  endpoint_id: string
  started_at: string
  duration_ms: number
  succeeded: Bit
  status_code: number | null
  /** The code of the failure; null if the attempt succeeded, or failed because of the status code of the response. */
  error: string | null
  /** A JSON object. */
  request_headers: string
  /** A JSON object; null if there was no response, or if the debtor that the event is about was erased. */
  response_headers: string | null
  /** The first 1 kB of the body of the response; null if `response_headers` is null. */
  response_body: string | null
}

/** One row per endpoint and hour, with the numbers of attempts that began in this hour. */
export interface WebhookAttemptHourRow {
  endpoint_id: string
  /** In UTC, e.g. `2026-11-21T10`. */
  hour: string
  attempts: number
  succeeded: number
}

export interface WebhookTables {
  webhook_endpoints: WebhookEndpointRow
  webhook_events: WebhookEventRow
  webhook_deliveries: WebhookDeliveryRow
  webhook_attempts: WebhookAttemptRow
  webhook_attempt_hours: WebhookAttemptHourRow
}
