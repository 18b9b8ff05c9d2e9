/**
 * Sample data for test events, which receivers recognize by `"test": true`. The ids of the samples consist of zeros
 * after the prefix. No real record has such an id.
 */

import type { EventType } from '../events/event-types.ts'
import type { EventData } from '../events/events.ts'

const AT = '2026-01-15T09:30:00.000Z'
const idOf = (prefix: string) => `${prefix}_00000000000000000000000000`
const MONEY = { currency: 'EUR', currency_exponent: 2 }

const debtor = {
  object: 'debtor',
  id: idOf('deb'),
  external_id: 'C-1001',
  name: 'Sample Customer Ltd',
  email: 'ap@customer.example',
  phone: null,
  language: 'en',
  ...MONEY,
  payment_terms_days: 30,
  timezone: null,
  address: null,
  tax_id: null,
  company_number: null,
  status: 'active',
  is_demo: false,
  contactability: { email: 'ok' },
  chasing: { status: 'active', reason: null, until: null },
  balances: [],
  erased_at: null,
  metadata: {},
  created_at: AT,
  updated_at: AT,
  revision: 1,
}

const invoice = {
  object: 'invoice',
  id: idOf('inv'),
  debtor_id: debtor.id,
  number: 'INV-000000',
  external_id: null,
  ...MONEY,
  amount: 12_500,
  amount_paid: 0,
  amount_credited: 0,
  amount_due: 12_500,
  line_items: [],
  issue_date: '2026-01-15',
  due_date: '2026-02-14',
  status: 'open',
  is_overdue: false,
  days_past_due: 0,
  po_number: null,
  notes: null,
  payment_url: null,
  chasing: {
    status: 'active',
    stage: null,
    next_stage: null,
    next_action_at: null,
    last_message_at: null,
    blocked_reason: null,
  },
  paid_at: null,
  voided_at: null,
  written_off_at: null,
  metadata: {},
  created_at: AT,
  updated_at: AT,
  revision: 1,
}

const DISPUTED = { ...invoice.chasing, status: 'paused', blocked_reason: 'disputed' }

const payment = {
  object: 'payment',
  id: idOf('pay'),
  debtor_id: debtor.id,
  external_id: null,
  amount: 12_500,
  ...MONEY,
  allocations: [{ invoice_id: invoice.id, amount: 12_500 }],
  unapplied_amount: 0,
  received_on: '2026-01-20',
  method: 'bank_transfer',
  reference: null,
  status: 'recorded',
  idempotency_key: 'sample',
  source: 'api',
  recorded_by: { type: 'api_key', id: idOf('key'), label: 'Sample' },
  effects: {
    invoices: [{ id: invoice.id, status: 'paid', amount_due: 0 }],
    messages_cancelled: 0,
    messages_in_flight: [],
  },
  metadata: {},
  created_at: AT,
  updated_at: AT,
  revision: 1,
}

const message = {
  object: 'message',
  id: idOf('msg'),
  debtor_id: debtor.id,
  invoice_ids: [invoice.id],
  channel: 'email',
  direction: 'outbound',
  kind: 'reminder',
  stage: 'friendly',
  status: 'sent',
  suppression: null,
  approval: null,
  to: 'a•••@customer.example',
  subject: 'Your invoice INV-000000',
  preview: 'Invoice INV-000000 has not been paid yet.',
  amount_due: 12_500,
  ...MONEY,
  days_past_due: 3,
  delivery: { provider_message_id: null, delivered_at: null, bounce: null },
  scheduled_for: AT,
  sent_at: AT,
  created_at: AT,
  updated_at: AT,
  revision: 1,
}

const BOUNCE = { type: 'hard', code: '5.1.1' }
const SUPPRESSION = {
  reason: 'kill_switch',
  detail: 'a kill switch was activated after the reminder was planned',
}

/** The members in which a reply of a debtor differs from a reminder. */
const REPLY = {
  direction: 'inbound',
  kind: 'reply',
  stage: null,
  status: 'received',
  to: null,
  subject: 'Re: Your invoice INV-000000',
  preview: 'We have paid this invoice today.',
  amount_due: null,
  currency: null,
  currency_exponent: null,
  days_past_due: null,
  scheduled_for: null,
  sent_at: null,
}

const account = {
  object: 'account',
  id: idOf('acct'),
  name: 'Sample account',
  status: 'suspended',
  read_only: true,
  timezone: 'UTC',
  default_currency: 'EUR',
  currency_exponent: 2,
  created_at: AT,
  updated_at: AT,
}

const apiKey = {
  object: 'api_key',
  id: idOf('key'),
  label: 'Sample',
  prefix: 'rcv_sample00',
  status: 'active',
  granted_scopes: ['invoices:read'],
  rate_limit: 600,
  expires_at: '2026-04-15T00:00:00.000Z',
  allowed_addresses: ['203.0.113.0/24'],
  replaced_by: null,
  created_at: AT,
  created_by: 'admin@customer.example',
  last_used_at: null,
  revoked_at: null,
  revoked_by: null,
}

const SAMPLES: Readonly<Record<string, object>> = {
  debtor,
  invoice,
  payment,
  message,
  account,
  api_key: apiKey,
  kill_switch: {
    object: 'kill_switch',
    scope: 'account',
    on: true,
    reason: 'Sample',
    changed_at: AT,
    changed_by: 'admin@customer.example',
  },
  webhook: { object: 'webhook_test', message: 'This is a test. Nothing happened.' },
}

/**
 * What an event reports. `current`: the members whose values differ from the sample above. `previous`: the values of
 * the changed members before the change; null if the event contains none.
 */
type Change = readonly [current: object, previous: object | null]

const CHANGES: Readonly<Partial<Record<EventType, Change>>> = {
  'debtor.updated': [
    { chasing: { status: 'paused', reason: 'A payment plan was agreed', until: null } },
    { chasing: { status: 'active', reason: null, until: null } },
  ],
  'debtor.contactability_changed': [
    { contactability: { email: 'bounced' } },
    { contactability: { email: 'ok' } },
  ],
  'invoice.opened': [{}, { status: 'draft' }],
  'invoice.updated': [{ due_date: '2026-02-28' }, { due_date: '2026-02-14' }],
  'invoice.overdue': [
    { is_overdue: true, days_past_due: 1 },
    { is_overdue: false, days_past_due: 0 },
  ],
  'invoice.partially_paid': [
    { status: 'partially_paid', amount_paid: 2500, amount_due: 10_000 },
    { status: 'open', amount_paid: 0, amount_due: 12_500 },
  ],
  'invoice.paid': [
    { status: 'paid', amount_paid: 12_500, amount_due: 0, paid_at: AT },
    { status: 'open', amount_paid: 0, amount_due: 12_500, paid_at: null },
  ],
  'invoice.voided': [
    { status: 'void', voided_at: AT },
    { status: 'open', voided_at: null },
  ],
  'invoice.written_off': [
    { status: 'written_off', written_off_at: AT },
    { status: 'open', written_off_at: null },
  ],
  'invoice.credited': [
    { amount_credited: 2500, amount_due: 10_000 },
    { amount_credited: 0, amount_due: 12_500 },
  ],
  'invoice.reopened': [{}, { status: 'paid', amount_paid: 12_500, amount_due: 0, paid_at: AT }],
  'invoice.disputed': [{ chasing: DISPUTED }, { chasing: invoice.chasing }],
  'invoice.dispute_resolved': [{}, { chasing: DISPUTED }],
  'payment.updated': [{}, { allocations: [], unapplied_amount: 12_500 }],
  'payment.reversed': [{ status: 'reversed' }, { status: 'recorded' }],
  'message.awaiting_approval': [
    {
      ...{ stage: 'firm', status: 'awaiting_approval', days_past_due: 21, sent_at: null },
      approval: { required: true, status: 'pending', decided_by: null, decided_at: null },
    },
    null,
  ],
  'message.sent': [{}, { status: 'queued', sent_at: null }],
  'message.delivered': [
    { status: 'delivered', delivery: { ...message.delivery, delivered_at: AT } },
    { status: 'sent', delivery: message.delivery },
  ],
  'message.bounced': [
    { status: 'bounced', delivery: { ...message.delivery, bounce: BOUNCE } },
    { status: 'sent', delivery: message.delivery },
  ],
  'message.suppressed': [
    { status: 'suppressed', suppression: SUPPRESSION, sent_at: null },
    { status: 'scheduled', suppression: null },
  ],
  'message.received': [REPLY, null],
  'account.read_only_changed': [{}, { status: 'active', read_only: false }],
  'kill_switch.changed': [{}, { on: false, reason: null }],
  'api_key.updated': [{}, { expires_at: null, allowed_addresses: null }],
  'api_key.expired': [{ status: 'expired' }, { status: 'active' }],
  'api_key.revoked': [
    { status: 'revoked', revoked_at: AT, revoked_by: 'admin@customer.example' },
    { status: 'active', revoked_at: null, revoked_by: null },
  ],
}

export function sampleOf(type: EventType): EventData {
  const [subject = ''] = type.split('.')
  const [current = {}, previous = null] = CHANGES[type] ?? []
  return { object: { ...SAMPLES[subject], ...current }, previous }
}
