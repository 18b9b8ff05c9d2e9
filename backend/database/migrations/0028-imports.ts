/**
 * Imports with the records that they created, so that an import can be taken back; the calls of keys by
 * operation; and an index that finds the audit log's entries about one record.
 */
import { index, transaction } from '../migrating/steps.ts'

export const steps = [
  transaction(
    `create table imports (
      id text not null primary key,
      account_id text not null references accounts (id),
      file_name text not null,
      imported_by text not null,
      created_at text not null
    )`,
    'create index imports_by_account on imports (account_id, id)',
    `create table import_records (
      import_id text not null references imports (id),
      record_id text not null,
      account_id text not null,
      kind text not null check (kind in ('customer', 'invoice', 'payment', 'correction')),
      taken_back_at text,
      primary key (import_id, record_id)
    )`,
    `create table key_operations (
      key_id text not null references api_keys (id),
      hour text not null,
      operation text not null,
      calls bigint not null check (calls > 0),
      errors bigint not null check (errors >= 0 and errors <= calls),
      primary key (key_id, hour, operation)
    )`,
    'create index key_operations_by_age on key_operations (hour)',
  ),
  index('create index audit_log_by_subject on audit_log (account_id, subject_id, id)'),
]
