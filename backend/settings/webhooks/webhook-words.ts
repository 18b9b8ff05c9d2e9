import type { WebhookDeliveryRow, WebhookEndpointRow } from '../../database/tables.ts'
import { EVENT_TYPES, type EventType } from '../../events/event-types.ts'
import { type Html, html } from '../../html/html.ts'
import { eventTypesOf, shownStatus } from '../../webhooks/representation.ts'

/** `debtor` of `debtor.created`. */
type SubjectOf<T extends EventType> = T extends `${infer Subject}.${string}` ? Subject : never

/** The name of each group, by the subject of its event types. */
const GROUP_NAMES: Readonly<Record<SubjectOf<EventType>, string>> = {
  debtor: 'Customers',
  invoice: 'Invoices',
  payment: 'Payments',
  message: 'Messages',
  account: 'Account',
  kill_switch: 'Kill switch',
  api_key: 'API keys',
  webhook: 'Tests',
}

/** Groups of event types by subject, in the order of `GROUP_NAMES`. */
export const EVENT_GROUPS: readonly (readonly [name: string, types: readonly EventType[]])[] =
  Object.entries(GROUP_NAMES).map(([subject, name]) => [
    name,
    EVENT_TYPES.filter((type) => type.startsWith(`${subject}.`)),
  ])

export const EVENT_WORDS: Readonly<Record<EventType, string>> = {
  'debtor.created': 'A customer was added.',
  'debtor.updated': 'A customer was changed.',
  'debtor.contactability_changed': 'A customer became reachable or unreachable by mail.',
  'invoice.created': 'An invoice was created.',
  'invoice.opened': 'A draft became an open invoice.',
  'invoice.updated': 'A person changed an invoice.',
  'invoice.overdue': 'An invoice became overdue.',
  'invoice.partially_paid': 'A part of an invoice was paid.',
  'invoice.paid': 'An invoice was paid in full.',
  'invoice.voided': 'An invoice was voided.',
  'invoice.written_off': 'An invoice was written off.',
  'invoice.credited': 'An invoice was credited in part or in full.',
  'invoice.reopened':
    'A payment of an invoice was reversed, or an allocation to the invoice was taken back.',
  'invoice.disputed': 'A customer disputes an invoice.',
  'invoice.dispute_resolved': 'A dispute was resolved.',
  'payment.recorded': 'A payment was recorded.',
  'payment.updated': 'The allocations of a payment changed after it was recorded.',
  'payment.reversed': 'A payment was reversed.',
  'message.awaiting_approval': 'A Firm or Final reminder waits for approval.',
  'message.sent': 'A message was sent.',
  'message.delivered': 'A message was delivered.',
  'message.bounced': 'A message bounced.',
  'message.suppressed': 'A message was due, but was not sent.',
  'message.received': 'A customer replied.',
  'account.read_only_changed': 'The account became read-only, or writable again.',
  'kill_switch.changed': 'All reminders were stopped or resumed.',
  'api_key.issued': 'An API key was issued.',
  'api_key.updated': 'An API key was changed.',
  'api_key.expiring': 'An API key expires in 14 days or in 1 day.',
  'api_key.expired': 'An API key has expired.',
  'api_key.revoked': 'An API key was revoked.',
  'webhook.test': 'An Admin sent a test event.',
}

export function renderEventTypes(row: WebhookEndpointRow): Html {
  const types = eventTypesOf(row)
  if (types === null) return html`Every event`
  return html`<ul class="chips">${types.map((type) => html`<li translate="no">${type}</li>`)}</ul>`
}

export function renderEndpointStatus(
  row: WebhookEndpointRow,
  renderTime: (at: string) => Html,
): Html {
  if (row.status === 'paused') {
    return html`<span class="badge">Paused</span> <span class="stamp">${renderTime(row.status_since)}</span>`
  }
  if (row.status === 'disabled') {
    const reason =
      row.disabled_reason === 'gone' ? 'the endpoint responded with 410' : 'five days of failures'
    return html`<span class="badge late">Disabled</span> <span class="stamp">${renderTime(row.status_since)}: ${reason}</span>`
  }
  return row.failing_since === null
    ? html`<span class="badge active">Enabled</span>`
    : html`<span class="badge warning">Failing</span> <span class="stamp">first failure ${renderTime(row.failing_since)}</span>`
}

export const DELIVERY_STATUS_WORDS = {
  pending: 'Waiting',
  delivered: 'Delivered',
  failed: 'Failed',
} as const

export function renderDeliveryStatus(row: WebhookDeliveryRow): Html {
  const status = shownStatus(row)
  return html`<span class="badge${status === 'delivered' ? ' active' : status === 'failed' ? ' late' : ''}">${DELIVERY_STATUS_WORDS[status]}</span>`
}

const ERROR_WORDS: Readonly<Record<string, string>> = {
  timeout: 'no connection within 10 seconds, or no complete response within 15 seconds',
  dns_failed: 'no address was found for the host name',
  target_not_allowed: 'the host name resolves to a network to which we do not send',
  connection_refused: 'the connection was refused',
  connection_reset: 'the connection was reset',
  connection_failed: 'the connection failed',
  tls_failed: 'the TLS connection failed, e.g. because of an invalid certificate',
  invalid_response: 'the response was not valid HTTP, or its headers were too long',
}

/**
 * Returns the status code of the response. If the attempt failed without a response, returns a description of the error
 * instead; if the response was incomplete, both. Returns a dash if no attempt has ended.
 */
export function outcomeWords(statusCode: number | null, error: string | null): string {
  const words = error === null ? '' : (ERROR_WORDS[error] ?? error)
  return [statusCode === null ? '' : String(statusCode), words].filter(Boolean).join(', ') || '–'
}

export function successRate(attempts: number, succeeded: number): string {
  if (attempts === 0) return '–'
  const percent = (succeeded / attempts) * 100
  // 99.96 % must not be shown as 100 %.
  return `${succeeded < attempts ? Math.min(99.9, percent).toFixed(1) : '100'} %`
}
