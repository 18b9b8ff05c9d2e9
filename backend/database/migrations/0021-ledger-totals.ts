/**
 * Totals for Home and the lists of Settings, so that no page sums a million invoices: the amount due by due
 * date, the amount that each debtor owes, and the search words of each debtor. Triggers log the debtors that
 * changed, and a worker computes their totals again (debtors/ledger-totals.ts). Logging takes no lock for which
 * another transaction could wait. These tables are derived from invoices and debtors, so copies of a database
 * omit them and compute them again.
 */
import { type Kysely, PostgresAdapter, sql } from 'kysely'
import { backfill, index, transaction } from '../migrating/steps.ts'

const TABLES = [
  `create table due_totals (
    account_id text not null,
    currency text not null,
    due_date text not null,
    amount bigint not null,
    invoices bigint not null,
    primary key (account_id, currency, due_date)
  )`,
  `create table debtor_dues (
    debtor_id text not null,
    currency text not null,
    due_date text not null,
    account_id text not null,
    amount bigint not null,
    invoices bigint not null,
    primary key (debtor_id, currency, due_date)
  )`,
  `create table debtor_balances (
    debtor_id text not null,
    currency text not null,
    account_id text not null,
    outstanding bigint not null,
    primary key (debtor_id, currency)
  )`,
  `create index debtor_balances_by_size
    on debtor_balances (account_id, currency, outstanding, debtor_id)`,
  `create table debtor_standings (
    debtor_id text not null primary key,
    account_id text not null,
    oldest_due_date text not null,
    is_active integer not null check (is_active in (0, 1)),
    is_reachable integer not null check (is_reachable in (0, 1))
  )`,
  `create index debtor_standings_by_age
    on debtor_standings (account_id, oldest_due_date, debtor_id) where is_active = 1`,
  `create index debtor_standings_unreachable
    on debtor_standings (account_id, oldest_due_date, debtor_id)
    where is_active = 1 and is_reachable = 0`,
  `create table debtor_terms (
    debtor_id text not null,
    term text not null,
    account_id text not null,
    primary key (debtor_id, term)
  )`,
  'create index debtor_terms_by_term on debtor_terms (account_id, term, debtor_id)',
]

/**
 * The only table that differs between SQLite and PostgreSQL, because they generate row numbers in different
 * ways.
 */
const logTable = (id: string) => [
  `create table ledger_changes (
    ${id},
    account_id text not null,
    debtor_id text not null
  )`,
  'create index ledger_changes_by_account on ledger_changes (account_id, id)',
]

const OPEN = (row: string) => `${row}.status in ('open', 'partially_paid')`
/** The columns from which the totals are computed. */
const INVOICE_COLUMNS = 'status, amount_due, due_date, currency, debtor_id'
const DEBTOR_COLUMNS = 'name, email, external_id, address, contactability_email, status'

const logStatement = (row: string, debtor: string) =>
  `insert into ledger_changes (account_id, debtor_id) values (${row}.account_id, ${row}.${debtor})`

const SQLITE = [
  ...logTable('id integer primary key autoincrement'),
  `create trigger invoices_added after insert on invoices when ${OPEN('new')}
    begin ${logStatement('new', 'debtor_id')}; end`,
  `create trigger invoices_changed after update of ${INVOICE_COLUMNS} on invoices
    when ${OPEN('old')} or ${OPEN('new')}
    begin ${logStatement('new', 'debtor_id')}; end`,
  `create trigger invoices_removed after delete on invoices when ${OPEN('old')}
    begin ${logStatement('old', 'debtor_id')}; end`,
  `create trigger debtors_added after insert on debtors begin ${logStatement('new', 'id')}; end`,
  `create trigger debtors_changed after update of ${DEBTOR_COLUMNS} on debtors
    begin ${logStatement('new', 'id')}; end`,
]

const POSTGRES = [
  // Payments lock these tables in this order. In another order, the step and a payment would wait for each other.
  'lock table debtors, invoices in share row exclusive mode',
  ...logTable('id bigint generated always as identity primary key'),
  `create function log_invoice_change() returns trigger language plpgsql as $$ begin
    if tg_op = 'DELETE' then ${logStatement('old', 'debtor_id')}; else ${logStatement('new', 'debtor_id')}; end if;
    return null;
  end $$`,
  `create function log_debtor_change() returns trigger language plpgsql as $$ begin
    ${logStatement('new', 'id')};
    return null;
  end $$`,
  `create trigger invoices_added after insert on invoices for each row
    when (${OPEN('new')}) execute function log_invoice_change()`,
  `create trigger invoices_changed after update of ${INVOICE_COLUMNS} on invoices for each row
    when (${OPEN('old')} or ${OPEN('new')}) execute function log_invoice_change()`,
  `create trigger invoices_removed after delete on invoices for each row
    when (${OPEN('old')}) execute function log_invoice_change()`,
  `create trigger debtors_added after insert on debtors for each row
    execute function log_debtor_change()`,
  `create trigger debtors_changed after update of ${DEBTOR_COLUMNS} on debtors for each row
    execute function log_debtor_change()`,
]

async function createLog(tx: Kysely<unknown>): Promise<void> {
  const isPostgres = tx.getExecutor().adapter instanceof PostgresAdapter
  for (const statement of isPostgres ? POSTGRES : SQLITE) await sql.raw(statement).execute(tx)
}

export const steps = [
  transaction(...TABLES),
  { kind: 'transaction', statements: [], run: createLog } as const,
  index(`create index debtors_listed on debtors (account_id, name_search, id)
    where status = 'active'`),
  index(`create index debtors_not_reminded on debtors (account_id, name_search, id)
    where status = 'active' and chasing_status <> 'active'`),
  index(`create index debtors_archived on debtors (account_id, name_search, id)
    where status = 'archived'`),
  index(`create index invoices_unpaid on invoices (account_id, due_date, id)
    where status in ('open', 'partially_paid')`),
  index(`create index invoices_unpaid_by_currency on invoices (account_id, currency, due_date, id)
    where status in ('open', 'partially_paid')`),
  index(`create index invoices_next_action on invoices (account_id, chasing_next_action_at, debtor_id)
    where status in ('open', 'partially_paid') and chasing_status = 'active'
      and chasing_next_action_at is not null`),
  index(`create index payments_by_reference on payments (account_id, reference)
    where reference is not null`),
  // The update makes the trigger log each debtor; the worker then computes the debtor's totals.
  backfill({ table: 'debtors', set: 'name = name', where: 'true' }),
]
