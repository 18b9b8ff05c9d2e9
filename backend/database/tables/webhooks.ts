/** Rows of webhooks. */
import type { Bit } from './bit.ts'

/** Where an account wants to be told. Never deleted. */
export interface WebhookEndpointRow {
  id: string
  account_id: string
  url: string
  description: string
  /** JSON array; null: every type, also those that come to be. */
  event_types: string | null
  /** Deliveries to a paused one wait; a disabled one gets none. */
  status: 'enabled' | 'paused' | 'disabled'
  status_since: string
  /** `gone`: it answered 410. */
  disabled_reason: 'gone' | 'failing' | null
  /** The first failure since its last success. */
  failing_since: string | null
  /** Nothing is sent before, as it asked or because it was overloaded. */
  hold_until: string | null
  /** Sealed, as is the one before it, which signs as well until it expires. */
  secret: string
  old_secret: string | null
  old_secret_expires_at: string | null
  created_at: string
  created_by: string
  updated_at: string
}

/** The outbox: written by the transaction that causes the event. */
export interface WebhookEventRow {
  id: string
  account_id: string
  type: string
  subject_id: string
  /** What is signed and sent, byte for byte. */
  body: string
  created_at: string
}

/** One event on its way to one endpoint. */
export interface WebhookDeliveryRow {
  id: string
  account_id: string
  event_id: string
  endpoint_id: string
  event_type: string
  status: 'pending' | 'sending' | 'delivered' | 'failed'
  /** Made so far, whatever came of them. */
  attempts: number
  /** Place in the schedule: the attempts since the first or since it was asked for again. */
  step: number
  /** pending: the next attempt; sending: the end of the lease; null: there is no next. */
  run_at: string | null
  /** Who sends it now. */
  lease: string | null
  last_attempt_at: string | null
  last_status_code: number | null
  last_error: string | null
  created_at: string
  updated_at: string
}

export interface WebhookAttemptRow {
  delivery_id: string
  /** From 1. */
  number: number
  account_id: string
  endpoint_id: string
  started_at: string
  duration_ms: number
  succeeded: Bit
  status_code: number | null
  /** Why it failed, as a code; null where it was the status. */
  error: string | null
  /** JSON objects. */
  request_headers: string
  response_headers: string | null
  /** The first 1 kB. */
  response_body: string | null
}

export interface WebhookTables {
  webhook_endpoints: WebhookEndpointRow
  webhook_events: WebhookEventRow
  webhook_deliveries: WebhookDeliveryRow
  webhook_attempts: WebhookAttemptRow
}
