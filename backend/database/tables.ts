/**
 * The types of the rows of all tables: columns in snake_case, amounts in minor units, instants as ISO 8601
 * UTC text with milliseconds (fixed width, so that text order is time order), calendar dates as YYYY-MM-DD,
 * booleans as 0 and 1, JSON as text. These types must match the tables that migrations create.
 */
import type { Kysely } from 'kysely'
import type { AccountTables } from './tables/accounts.ts'
import type { ApiKeyTables } from './tables/api-keys.ts'
import type { DebtorTables } from './tables/debtors.ts'
import type { IdempotencyTables } from './tables/idempotency.ts'
import type { ImportTables } from './tables/imports.ts'
import type { InvoiceTables } from './tables/invoices.ts'
import type { MailTables } from './tables/mail.ts'
import type { MessageTables } from './tables/messages.ts'
import type { PaymentTables } from './tables/payments.ts'
import type { ReminderTables } from './tables/reminders.ts'
import type { TotalTables } from './tables/totals.ts'
import type { UserTables } from './tables/users.ts'
import type { WebhookTables } from './tables/webhooks.ts'

export type * from './tables/accounts.ts'
export type * from './tables/api-keys.ts'
export type * from './tables/bit.ts'
export type * from './tables/debtors.ts'
export type * from './tables/idempotency.ts'
export type * from './tables/imports.ts'
export type * from './tables/invoices.ts'
export type * from './tables/mail.ts'
export type * from './tables/messages.ts'
export type * from './tables/payments.ts'
export type * from './tables/reminders.ts'
export type * from './tables/totals.ts'
export type * from './tables/users.ts'
export type * from './tables/webhooks.ts'

export interface Tables
  extends AccountTables,
    UserTables,
    ApiKeyTables,
    DebtorTables,
    InvoiceTables,
    ImportTables,
    PaymentTables,
    MessageTables,
    IdempotencyTables,
    WebhookTables,
    MailTables,
    ReminderTables,
    TotalTables {}

/**
 * The parameter of domain functions that only read. A `Transaction` can be passed as a `Reader`: the function then
 * reads inside the transaction.
 */
export type Reader = Pick<
  Kysely<Tables>,
  'selectFrom' | 'fn' | 'dynamic' | 'executeQuery' | 'getExecutor'
>

/**
 * The parameter of domain functions that write. Their callers open the transaction (`Database.transaction`). Code
 * inside a transaction must wait for nothing but the database.
 */
export type Transaction = Omit<Kysely<Tables>, 'transaction' | 'startTransaction' | 'destroy'>
