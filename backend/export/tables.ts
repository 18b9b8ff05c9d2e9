/**
 * The tables of an export, and their columns that are withheld because they are secret or internal. A test fails for a
 * table that is listed neither in `EXPORTED_TABLES` nor in `NOT_EXPORTED`.
 */
import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { DERIVED_TABLES } from '../database/shape.ts'

export interface ExportedTable {
  readonly name: string
  /** The columns of the primary key, in order. */
  readonly key: readonly string[]
  /** Returns the condition for the account's rows. Absent if the table has the column `account_id`. */
  ownedBy?(accountId: string): RawBuilder<SqlBool>
  /** The columns whose text is exported as JSON. */
  readonly json?: readonly string[]
  readonly withheld?: readonly string[]
}

const BY_API_KEY = (accountId: string) =>
  sql<SqlBool>`key_id in (select id from api_keys where account_id = ${accountId})`

export const EXPORTED_TABLES: readonly ExportedTable[] = [
  {
    name: 'accounts',
    key: ['id'],
    ownedBy: (accountId) => sql`id = ${accountId}`,
    json: ['scope_allowance'],
    withheld: ['revision'],
  },
  { name: 'users', key: ['id'], withheld: ['password_hash', 'totp_secret', 'totp_last_step'] },
  {
    name: 'passkeys',
    key: ['id'],
    json: ['transports'],
    withheld: ['credential_id', 'public_key', 'sign_count'],
  },
  { name: 'known_browsers', key: ['token_hash', 'user_id'], withheld: ['token_hash'] },
  { name: 'invitations', key: ['id'], withheld: ['code_hash'] },
  {
    name: 'api_keys',
    key: ['id'],
    json: ['granted_scopes', 'allowed_addresses'],
    withheld: ['digest', 'pepper_version', 'revision'],
  },
  { name: 'key_usage', key: ['key_id', 'hour', 'status_class'], ownedBy: BY_API_KEY },
  { name: 'key_errors', key: ['key_id', 'day', 'code'], ownedBy: BY_API_KEY },
  { name: 'key_operations', key: ['key_id', 'hour', 'operation'], ownedBy: BY_API_KEY },
  { name: 'audit_log', key: ['id'], json: ['detail'] },
  { name: 'payment_details', key: ['account_id', 'currency'] },
  { name: 'account_logos', key: ['account_id', 'id'] },
  { name: 'reminder_wordings', key: ['account_id', 'stage', 'language'] },
  {
    name: 'chasing_settings',
    key: ['account_id'],
    json: ['ladder', 'holidays'],
    withheld: ['replan_after'],
  },
  // The scope of a kill switch is the id of an account, or `installation`.
  {
    name: 'kill_switches',
    key: ['scope'],
    ownedBy: (accountId) => sql`scope = ${accountId}`,
    json: ['changed_by'],
  },
  {
    name: 'debtors',
    key: ['id'],
    json: ['address', 'metadata', 'ladder'],
    withheld: ['name_search', 'plan_at'],
  },
  {
    name: 'invoices',
    key: ['id'],
    json: ['line_items', 'metadata'],
    withheld: ['overdue_announced'],
  },
  {
    name: 'payments',
    key: ['id'],
    json: ['recorded_by', 'effects', 'metadata'],
    withheld: ['request_fingerprint'],
  },
  { name: 'imports', key: ['id'] },
  { name: 'import_records', key: ['import_id', 'record_id'] },
  { name: 'payment_allocations', key: ['payment_id', 'position'] },
  { name: 'messages', key: ['id'], json: ['approval_decided_by'] },
  { name: 'message_invoices', key: ['message_id', 'position'] },
  { name: 'message_html', key: ['message_id'] },
  { name: 'message_transitions', key: ['message_id', 'id'] },
  {
    name: 'reminders',
    key: ['message_id'],
    json: ['facts'],
    withheld: ['lease', 'approved_hash', 'payment_digest'],
  },
  { name: 'taken_stages', key: ['invoice_id', 'stage', 'cycle'] },
  { name: 'suppressed_addresses', key: ['account_id', 'address', 'reason'] },
  { name: 'inbound_mail', key: ['digest'], withheld: ['digest'] },
  {
    name: 'webhook_endpoints',
    key: ['id'],
    json: ['event_types'],
    withheld: ['secret', 'old_secret'],
  },
  { name: 'webhook_events', key: ['id'], json: ['body'] },
  { name: 'webhook_deliveries', key: ['id'], withheld: ['lease'] },
  {
    name: 'webhook_attempts',
    key: ['delivery_id', 'number'],
    json: ['request_headers', 'response_headers'],
  },
  {
    name: 'idempotency_keys',
    key: ['account_id', 'operation', 'key'],
    json: ['body'],
    withheld: ['fingerprint'],
  },
  { name: 'muted_notices', key: ['user_id', 'kind'] },
  { name: 'notices', key: ['id'], json: ['detail'] },
  { name: 'mail_outbox', key: ['id'], withheld: ['lease'] },
]

/** Tables that contain only secrets or transient state, such as sessions, or that are derived from other tables. */
export const NOT_EXPORTED: readonly string[] = [
  ...DERIVED_TABLES,
  'sessions',
  'password_resets',
  'recovery_codes',
  'passkey_challenges',
  'login_guesses',
  // Forms that have issued an API key.
  'key_submissions',
  'key_windows',
  'usage_reports',
  'webhook_attempt_hours',
]
