/**
 * The tables as rows have them: snake_case, amounts in minor units, instants as ISO 8601 UTC text
 * with milliseconds (fixed width, so that text order is time order), calendar dates as YYYY-MM-DD,
 * booleans as 0 and 1, JSON as text. What migrations create and what stands here must agree.
 */
import type { Kysely } from 'kysely'
import type {
  InboundMailRow,
  MailOutboxRow,
  MessageHtmlRow,
  SuppressedAddressRow,
} from './tables/mail.ts'
import type {
  ChasingSettingsRow,
  KillSwitchRow,
  MessageTransitionRow,
  ReminderRow,
  TakenStageRow,
} from './tables/reminders.ts'

export type Bit = 0 | 1

export type AccountStatus = 'trial' | 'trial_paused' | 'active' | 'suspended' | 'cancelled'

export interface AccountRow {
  id: string
  name: string
  status: AccountStatus
  /** IANA name; calendar dates of the account are judged in it. */
  timezone: string
  default_currency: string
  payment_terms_days: number
  /** JSON array of the scopes that keys may use at present; null: every scope. */
  scope_allowance: string | null
  is_demo: Bit
  /** Raised by narrowing and by a change of status: cached principals of the account lapse. */
  revision: number
  /** The number the next generated invoice number takes. */
  next_invoice_number: number
  /** Where debtors' questions go besides to us; null: to us alone. */
  reply_to: string | null
  created_at: string
  updated_at: string
}

export interface UserRow {
  id: string
  account_id: string
  /** Lower case; unique over all accounts. */
  email: string
  role: 'admin' | 'member'
  status: 'active' | 'deactivated'
  /** argon2id in PHC string format. */
  password_hash: string
  created_at: string
  updated_at: string
}

export interface ApiKeyRow {
  id: string
  account_id: string
  name: string
  prefix: string
  /** HMAC-SHA-256(pepper, SHA-256(secret)), base64url. */
  digest: string
  pepper_version: string
  /** JSON array of the scopes granted at issue. Never changes. */
  granted_scopes: string
  /** Calls an hour. */
  rate_limit: number
  /** Raised by revocation. */
  revision: number
  created_at: string
  /** Who issued it, as shown to people. */
  created_by: string
  last_used_at: string | null
  revoked_at: string | null
  revoked_by: string | null
}

/** Append-only: who did what, from where. */
export interface AuditRow {
  id: string
  account_id: string | null
  actor_type: 'operator' | 'user' | 'api_key' | 'system'
  actor_id: string | null
  actor_label: string
  action: string
  subject_id: string | null
  /** JSON object; holds no secret. */
  detail: string
  address: string | null
  created_at: string
}

export interface DebtorRow {
  id: string
  account_id: string
  external_id: string | null
  name: string
  /** The name as the prefix search compares it: NFKC, lower case. */
  name_search: string
  email: string | null
  phone: string | null
  language: string | null
  timezone: string | null
  currency: string | null
  payment_terms_days: number | null
  /** JSON object or null. */
  address: string | null
  tax_id: string | null
  company_number: string | null
  status: 'active' | 'archived'
  is_demo: Bit
  contactability_email: 'ok' | 'missing' | 'bounced' | 'complained' | 'unsubscribed'
  chasing_status: 'active' | 'paused' | 'stopped'
  chasing_reason: string | null
  chasing_until: string | null
  /** JSON object: a ladder of its own; null: the account's. */
  ladder: string | null
  /** When the planner looks at it next; null: when something changes. */
  plan_at: string | null
  /** When the personal data went, on request; nothing of the row changes any more. */
  erased_at: string | null
  /** JSON object. */
  metadata: string
  created_at: string
  updated_at: string
}

export type InvoiceStatus = 'draft' | 'open' | 'partially_paid' | 'paid' | 'void' | 'written_off'

export interface InvoiceRow {
  id: string
  account_id: string
  debtor_id: string
  number: string
  external_id: string | null
  currency: string
  amount: number
  amount_paid: number
  /** amount − amount_paid, never negative: the database refuses it. */
  amount_due: number
  /** JSON array. */
  line_items: string
  issue_date: string
  due_date: string
  /** Endpoints were told that this due date passed. Whether it is overdue, dates and status decide. */
  overdue_announced: Bit
  status: InvoiceStatus
  po_number: string | null
  notes: string | null
  payment_url: string | null
  chasing_status: 'active' | 'paused' | 'stopped'
  chasing_stage: ReminderStage | null
  chasing_next_stage: ReminderStage | null
  chasing_next_action_at: string | null
  chasing_last_message_at: string | null
  chasing_blocked_reason: string | null
  /** From 1; rises when it reopens after it was paid: its stages can be sent again. */
  chasing_cycle: number
  paid_at: string | null
  voided_at: string | null
  written_off_at: string | null
  /** JSON object. */
  metadata: string
  created_at: string
  updated_at: string
}

export interface PaymentRow {
  id: string
  account_id: string
  debtor_id: string
  amount: number
  currency: string
  unapplied_amount: number
  received_on: string
  method: 'bank_transfer' | 'card' | 'direct_debit' | 'cash' | 'cheque' | 'other'
  reference: string | null
  external_id: string | null
  status: 'recorded' | 'reversed'
  /** Stays for ever, so that a repeat after any time is known. */
  idempotency_key: string | null
  source: 'api' | 'app' | 'import'
  /** JSON object {type, id, label}. */
  recorded_by: string
  /** JSON object: what recording it did, as answered then. */
  effects: string
  metadata: string
  created_at: string
  updated_at: string
}

export interface AllocationRow {
  payment_id: string
  /** Place in the request, from 0. */
  position: number
  account_id: string
  invoice_id: string
  amount: number
}

export type ReminderStage = 'friendly' | 'reminder' | 'firm' | 'final'

export type MessageStatus =
  | 'scheduled'
  | 'awaiting_approval'
  | 'approved'
  | 'queued'
  | 'sending'
  | 'sent'
  | 'delivered'
  | 'bounced'
  | 'failed'
  | 'suppressed'
  | 'cancelled'
  | 'received'

export interface MessageRow {
  id: string
  account_id: string
  debtor_id: string
  channel: 'email' | 'sms' | 'letter' | 'call'
  direction: 'outbound' | 'inbound'
  kind: 'reminder' | 'invoice_copy' | 'receipt' | 'statement' | 'reply'
  stage: ReminderStage | null
  /** `sending` (leased to a worker) is shown to clients as `queued`. */
  status: MessageStatus
  suppression_reason: string | null
  suppression_detail: string | null
  approval_required: Bit
  approval_status: 'pending' | 'approved' | 'rejected' | 'lapsed' | 'expired' | null
  approval_decided_by: string | null
  approval_decided_at: string | null
  /** In clear; the API shows it masked. */
  recipient: string | null
  subject: string | null
  body: string | null
  amount_due: number | null
  currency: string | null
  days_past_due: number | null
  provider_message_id: string | null
  delivered_at: string | null
  bounce_type: 'hard' | 'soft' | null
  bounce_code: string | null
  /** How often it came back or was put off; after a few it counts as refused for good. */
  soft_bounces: number
  scheduled_for: string | null
  sent_at: string | null
  created_at: string
  updated_at: string
}

export interface MessageInvoiceRow {
  message_id: string
  position: number
  account_id: string
  invoice_id: string
}

/** One row a committed write that carried an Idempotency-Key (contract 1.10). */
export interface IdempotencyRow {
  account_id: string
  /** The operation's id in the OpenAPI document, e.g. `createPayment`. */
  operation: string
  key: string
  /** SHA-256 over operation and canonical body, base64url. */
  fingerprint: string
  resource_id: string
  /** The answer's body, byte for byte. */
  body: string
  created_at: string
}

/** A login. The token itself is in the browser alone. */
export interface SessionRow {
  /** SHA-256, base64url. */
  token_hash: string
  user_id: string
  /** The user's when the token was made: another one since means that the token must change. */
  role: UserRow['role']
  /** What the next page says once, as JSON. */
  flash: string | null
  created_at: string
  last_seen_at: string
  /** Whatever happens in between. */
  expires_at: string
}

/** Guesses at passwords, by e-mail address and by where they come from. */
export interface LoginGuessesRow {
  /** `email:` and a SHA-256, or `address:` and an IP address or network. */
  subject: string
  guesses: number
  window_ends_at: string
  blocked_until: string
}

export interface InvitationRow {
  id: string
  account_id: string
  email: string
  role: UserRow['role']
  /** SHA-256, base64url. */
  code_hash: string
  invited_by: string
  created_at: string
  expires_at: string
  /** When it was accepted, replaced or withdrawn. */
  ended_at: string | null
}

/** Forms that issued a key: the same form sent again issues none. */
export interface KeySubmissionRow {
  submission: string
  account_id: string
  key_id: string
  created_at: string
}

/** Calls of a key in one hour that were answered alike. */
export interface KeyUsageRow {
  key_id: string
  /** UTC, `2026-11-21T10`. */
  hour: string
  /** 2 for 200 to 299, and so on. */
  status_class: number
  calls: number
}

/** Calls of a key on one day that were refused, or failed, with one code. */
export interface KeyErrorRow {
  key_id: string
  /** UTC, `2026-11-21`. */
  day: string
  code: string
  calls: number
}

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

/** What Admins are to be told by e-mail. */
export interface NoticeRow {
  id: string
  account_id: string
  /** e.g. `webhook_endpoint.disabled`. */
  kind: string
  subject_id: string
  /** JSON object. */
  detail: string
  created_at: string
  mailed_at: string | null
}

/** The hour a key is in, as gateways last reported it. */
export interface KeyWindowRow {
  key_id: string
  used: number
  rate_limit: number
  ends_at: string
}

/** The last report of each gateway process that was applied. */
export interface UsageReportRow {
  gateway: string
  batch: number
  reported_at: string
}

export interface Tables {
  accounts: AccountRow
  users: UserRow
  api_keys: ApiKeyRow
  audit_log: AuditRow
  debtors: DebtorRow
  invoices: InvoiceRow
  payments: PaymentRow
  payment_allocations: AllocationRow
  messages: MessageRow
  message_invoices: MessageInvoiceRow
  idempotency_keys: IdempotencyRow
  sessions: SessionRow
  login_guesses: LoginGuessesRow
  invitations: InvitationRow
  key_submissions: KeySubmissionRow
  key_usage: KeyUsageRow
  key_errors: KeyErrorRow
  key_windows: KeyWindowRow
  usage_reports: UsageReportRow
  webhook_endpoints: WebhookEndpointRow
  webhook_events: WebhookEventRow
  webhook_deliveries: WebhookDeliveryRow
  webhook_attempts: WebhookAttemptRow
  notices: NoticeRow
  message_html: MessageHtmlRow
  suppressed_addresses: SuppressedAddressRow
  inbound_mail: InboundMailRow
  mail_outbox: MailOutboxRow
  chasing_settings: ChasingSettingsRow
  kill_switches: KillSwitchRow
  reminders: ReminderRow
  taken_stages: TakenStageRow
  message_transitions: MessageTransitionRow
}

/** Reads; outside a transaction, or inside one by passing its `Transaction`. */
export type Reader = Pick<
  Kysely<Tables>,
  'selectFrom' | 'fn' | 'dynamic' | 'executeQuery' | 'getExecutor'
>

/**
 * What domain functions that write take. Only routes, workers and the CLI open one
 * (`Database.transaction`); nothing inside may wait for the network or a timer.
 */
export type Transaction = Omit<Kysely<Tables>, 'transaction' | 'startTransaction' | 'destroy'>
