/**
 * Reminders: an account's schedule, the time at which a debtor's reminders are planned next, the stages that
 * invoices have used, the planned messages, and the kill switches.
 */
import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of STATEMENTS) await sql.raw(statement).execute(db)
  // Without this date, reminders would start for every existing overdue invoice at once, since no reminder was
  // sent before.
  const today = new Date().toISOString().slice(0, 10)
  await sql`
    insert into chasing_settings (account_id, holidays, chase_from)
    select id, '[]', ${today} from accounts
  `.execute(db)
}

const STATEMENTS = [
  `create table chasing_settings (
    account_id text not null primary key references accounts (id),
    ladder text,
    holidays text not null,
    chase_from text,
    blocked_by text,
    replan_after text
  )`,
  `create table kill_switches (
    scope text not null primary key,
    is_on integer not null check (is_on in (0, 1)),
    reason text,
    changed_at text not null,
    changed_by text not null,
    times_put_on integer not null,
    check (is_on = 0 or reason is not null)
  )`,
  'alter table debtors add column ladder text',
  'alter table debtors add column plan_at text',
  'create index debtors_to_plan on debtors (plan_at) where plan_at is not null',
  `update debtors set plan_at = created_at
    where id in (select debtor_id from invoices where status in ('open', 'partially_paid'))`,
  'alter table invoices add column chasing_cycle integer not null default 1',
  `create table reminders (
    message_id text not null primary key,
    account_id text not null,
    debtor_id text not null,
    facts text not null,
    approved_hash text,
    run_at text,
    lease text,
    attempts integer not null,
    unknown_outcomes integer not null,
    foreign key (account_id, message_id) references messages (account_id, id),
    foreign key (account_id, debtor_id) references debtors (account_id, id)
  )`,
  'create index reminders_due on reminders (run_at) where run_at is not null',
  `create table taken_stages (
    invoice_id text not null,
    stage text not null
      check (stage in ('courtesy', 'friendly', 'reminder', 'firm', 'final')),
    cycle integer not null,
    account_id text not null,
    message_id text not null,
    primary key (invoice_id, stage, cycle),
    foreign key (account_id, invoice_id) references invoices (account_id, id),
    foreign key (account_id, message_id) references messages (account_id, id)
  )`,
  'create index taken_stages_by_message on taken_stages (message_id)',
  `create table message_transitions (
    message_id text not null,
    id text not null,
    account_id text not null,
    status text not null,
    detail text,
    created_at text not null,
    primary key (message_id, id),
    foreign key (account_id, message_id) references messages (account_id, id)
  )`,
  // Used by the limit of one reminder per day.
  `create index messages_sent on messages (debtor_id, sent_at) where sent_at is not null`,
]
