/** All event types. A type may be added, but never removed or renamed. */
export const EVENT_TYPES = [
  'debtor.created',
  'debtor.updated',
  'debtor.contactability_changed',
  'invoice.created',
  'invoice.opened',
  'invoice.updated',
  'invoice.overdue',
  'invoice.partially_paid',
  'invoice.paid',
  'invoice.voided',
  'invoice.written_off',
  'invoice.credited',
  'invoice.reopened',
  'invoice.disputed',
  'invoice.dispute_resolved',
  'payment.recorded',
  'payment.updated',
  'payment.reversed',
  'message.awaiting_approval',
  'message.sent',
  'message.delivered',
  'message.bounced',
  'message.suppressed',
  'message.received',
  'account.read_only_changed',
  'kill_switch.changed',
  'api_key.issued',
  'api_key.updated',
  'api_key.expiring',
  'api_key.expired',
  'api_key.revoked',
  'webhook.test',
] as const

export type EventType = (typeof EVENT_TYPES)[number]

export function isEventType(text: string): text is EventType {
  return EVENT_TYPES.some((type) => type === text)
}
