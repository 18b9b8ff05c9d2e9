/**
 * Accounts, users, keys, debtors, invoices, payments, messages.
 *
 * Constraints keep a bug in the code from writing wrong data: amounts that do not add up, a row that refers to
 * another account's row (composite foreign keys), two payments with the same idempotency key. Columns are
 * `bigint` if their values may exceed 32 bits. The files in `tables/` document the tables.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of [...IDENTITY, ...DEBTORS, ...INVOICES, ...PAYMENTS, ...MESSAGES]) {
    await sql.raw(statement).execute(db)
  }
}

const IDENTITY = [
  `create table accounts (
    id text not null primary key,
    name text not null,
    status text not null
      check (status in ('trial', 'trial_paused', 'active', 'suspended', 'cancelled')),
    timezone text not null,
    default_currency text not null,
    payment_terms_days integer not null check (payment_terms_days between 0 and 365),
    scope_allowance text,
    is_demo integer not null check (is_demo in (0, 1)),
    revision integer not null,
    next_invoice_number integer not null,
    created_at text not null,
    updated_at text not null
  )`,
  `create table users (
    id text not null primary key,
    account_id text not null references accounts (id),
    email text not null unique,
    role text not null check (role in ('admin', 'member')),
    status text not null check (status in ('active', 'deactivated')),
    password_hash text not null,
    created_at text not null,
    updated_at text not null
  )`,
  'create index users_by_account on users (account_id, created_at, id)',
  `create table api_keys (
    id text not null primary key,
    account_id text not null references accounts (id),
    name text not null,
    prefix text not null unique,
    digest text not null unique,
    pepper_version text not null,
    granted_scopes text not null,
    rate_limit integer not null check (rate_limit > 0),
    revision integer not null,
    created_at text not null,
    created_by text not null,
    last_used_at text,
    revoked_at text,
    revoked_by text,
    check ((revoked_at is null) = (revoked_by is null))
  )`,
  'create index api_keys_by_account on api_keys (account_id, created_at, id)',
  `create table audit_log (
    id text not null primary key,
    account_id text references accounts (id),
    actor_type text not null check (actor_type in ('operator', 'user', 'api_key', 'system')),
    actor_id text,
    actor_label text not null,
    action text not null,
    subject_id text,
    detail text not null,
    address text,
    created_at text not null
  )`,
  'create index audit_log_by_account on audit_log (account_id, created_at, id)',
  `create table idempotency_keys (
    account_id text not null references accounts (id),
    operation text not null,
    key text not null,
    fingerprint text not null,
    resource_id text not null,
    body text not null,
    created_at text not null,
    primary key (account_id, operation, key)
  )`,
  'create index idempotency_keys_by_age on idempotency_keys (created_at)',
]

const DEBTORS = [
  `create table debtors (
    id text not null primary key,
    account_id text not null references accounts (id),
    external_id text,
    name text not null,
    name_search text not null,
    email text,
    phone text,
    language text,
    timezone text,
    currency text,
    payment_terms_days integer check (payment_terms_days between 0 and 365),
    address text,
    tax_id text,
    company_number text,
    status text not null check (status in ('active', 'archived')),
    is_demo integer not null check (is_demo in (0, 1)),
    contactability_email text not null check (
      contactability_email in ('ok', 'missing', 'bounced', 'complained', 'unsubscribed')
    ),
    chasing_status text not null check (chasing_status in ('active', 'paused', 'stopped')),
    chasing_reason text,
    chasing_until text,
    metadata text not null,
    created_at text not null,
    updated_at text not null,
    unique (account_id, id),
    unique (account_id, external_id)
  )`,
  'create index debtors_by_creation on debtors (account_id, created_at, id)',
  'create index debtors_by_update on debtors (account_id, updated_at, id)',
  'create index debtors_by_name on debtors (account_id, name_search)',
  'create index debtors_by_email on debtors (account_id, email)',
]

const INVOICES = [
  `create table invoices (
    id text not null primary key,
    account_id text not null references accounts (id),
    debtor_id text not null,
    number text not null,
    external_id text,
    currency text not null,
    amount bigint not null check (amount > 0),
    amount_paid bigint not null check (amount_paid >= 0),
    amount_due bigint not null check (amount_due >= 0),
    line_items text not null,
    issue_date text not null,
    due_date text not null check (due_date >= issue_date),
    status text not null
      check (status in ('draft', 'open', 'partially_paid', 'paid', 'void', 'written_off')),
    po_number text,
    notes text,
    payment_url text,
    chasing_status text not null check (chasing_status in ('active', 'paused', 'stopped')),
    chasing_stage text check (chasing_stage in ('friendly', 'reminder', 'firm', 'final')),
    chasing_next_stage text
      check (chasing_next_stage in ('friendly', 'reminder', 'firm', 'final')),
    chasing_next_action_at text,
    chasing_last_message_at text,
    chasing_blocked_reason text,
    paid_at text,
    voided_at text,
    written_off_at text,
    metadata text not null,
    created_at text not null,
    updated_at text not null,
    check (amount_due = amount - amount_paid),
    check (status <> 'paid' or amount_due = 0),
    unique (account_id, id),
    unique (account_id, number),
    unique (account_id, external_id),
    foreign key (account_id, debtor_id) references debtors (account_id, id)
  )`,
  'create index invoices_by_creation on invoices (account_id, created_at, id)',
  'create index invoices_by_update on invoices (account_id, updated_at, id)',
  'create index invoices_by_due_date on invoices (account_id, due_date, id)',
  'create index invoices_by_debtor on invoices (account_id, debtor_id, created_at, id)',
  // Contains all columns that a debtor's balances need, so that they are summed from the index alone.
  `create index invoices_open on invoices (debtor_id, currency, due_date, amount_due, status)
    where status in ('open', 'partially_paid')`,
]

const PAYMENTS = [
  `create table payments (
    id text not null primary key,
    account_id text not null references accounts (id),
    debtor_id text not null,
    amount bigint not null check (amount > 0),
    currency text not null,
    unapplied_amount bigint not null,
    received_on text not null,
    method text not null
      check (method in ('bank_transfer', 'card', 'direct_debit', 'cash', 'cheque', 'other')),
    reference text,
    external_id text,
    status text not null check (status in ('recorded', 'reversed')),
    idempotency_key text,
    source text not null check (source in ('api', 'app', 'import')),
    recorded_by text not null,
    effects text not null,
    metadata text not null,
    created_at text not null,
    updated_at text not null,
    check (unapplied_amount between 0 and amount),
    unique (account_id, id),
    unique (account_id, external_id),
    unique (account_id, idempotency_key),
    foreign key (account_id, debtor_id) references debtors (account_id, id)
  )`,
  'create index payments_by_creation on payments (account_id, created_at, id)',
  'create index payments_by_update on payments (account_id, updated_at, id)',
  'create index payments_by_debtor on payments (account_id, debtor_id, created_at, id)',
  `create index payments_unapplied on payments (debtor_id, currency, unapplied_amount)
    where status = 'recorded' and unapplied_amount > 0`,
  `create table payment_allocations (
    payment_id text not null,
    position integer not null,
    account_id text not null,
    invoice_id text not null,
    amount bigint not null check (amount > 0),
    primary key (payment_id, position),
    unique (payment_id, invoice_id),
    foreign key (account_id, payment_id) references payments (account_id, id),
    foreign key (account_id, invoice_id) references invoices (account_id, id)
  )`,
  'create index payment_allocations_by_invoice on payment_allocations (invoice_id)',
]

const MESSAGES = [
  `create table messages (
    id text not null primary key,
    account_id text not null references accounts (id),
    debtor_id text not null,
    channel text not null check (channel in ('email', 'sms', 'letter', 'call')),
    direction text not null check (direction in ('outbound', 'inbound')),
    kind text not null
      check (kind in ('reminder', 'invoice_copy', 'receipt', 'statement', 'reply')),
    stage text check (stage in ('friendly', 'reminder', 'firm', 'final')),
    status text not null check (
      status in (
        'scheduled', 'awaiting_approval', 'approved', 'queued', 'sending', 'sent', 'delivered',
        'bounced', 'failed', 'suppressed', 'cancelled', 'received'
      )
    ),
    suppression_reason text,
    suppression_detail text,
    approval_required integer not null check (approval_required in (0, 1)),
    approval_status text
      check (approval_status in ('pending', 'approved', 'rejected', 'lapsed', 'expired')),
    approval_decided_by text,
    approval_decided_at text,
    recipient text,
    subject text,
    body text,
    amount_due bigint,
    currency text,
    days_past_due integer,
    provider_message_id text,
    delivered_at text,
    bounce_type text check (bounce_type in ('hard', 'soft')),
    bounce_code text,
    scheduled_for text,
    sent_at text,
    created_at text not null,
    updated_at text not null,
    unique (account_id, id),
    foreign key (account_id, debtor_id) references debtors (account_id, id)
  )`,
  'create index messages_by_creation on messages (account_id, created_at, id)',
  'create index messages_by_update on messages (account_id, updated_at, id)',
  'create index messages_by_debtor on messages (account_id, debtor_id, created_at, id)',
  // The messages that a payment must stop.
  `create index messages_pending on messages (debtor_id, status)
    where status in ('scheduled', 'awaiting_approval', 'approved', 'queued', 'sending')`,
  `create table message_invoices (
    message_id text not null,
    position integer not null,
    account_id text not null,
    invoice_id text not null,
    primary key (message_id, position),
    unique (message_id, invoice_id),
    foreign key (account_id, message_id) references messages (account_id, id),
    foreign key (account_id, invoice_id) references invoices (account_id, id)
  )`,
  'create index message_invoices_by_invoice on message_invoices (invoice_id)',
]
