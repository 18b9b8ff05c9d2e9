/** The tables with personal data of a debtor, apart from the table `debtors`. A test fails if one is missing. */

import { type RawBuilder, type SqlBool, sql } from 'kysely'
import { writeInBatches } from '../background/batches.ts'
import { readAnyTable, writeAnyTable } from '../database/any-table.ts'
import type { OpenDatabase, Reader, Transaction } from '../database/database.ts'
import { nextRevision } from '../database/revision.ts'
import { lockDebtorId } from '../debtors/debtors.ts'
import {
  detailWithoutPersonalData,
  eventWithoutPersonalData,
  factsWithoutPersonalData,
  responseWithoutPersonalData,
} from './personal.ts'

export interface ErasedDebtor {
  readonly accountId: string
  readonly debtorId: string
}

type Condition = RawBuilder<SqlBool>

interface PersonalTable {
  readonly table: string
  /** The columns of the primary key. */
  readonly key: readonly string[]
  rowsAbout(debtor: ErasedDebtor): Condition
}

/** A table in which columns are set to fixed values. */
interface ErasedColumns extends PersonalTable {
  readonly columns: Readonly<Record<string, string | null>>
  /**
   * Whether the API shows the columns: the erasure then increases `updated_at`, so that clients update their
   * copies.
   */
  readonly isShown?: true
}

/** A table with a JSON column in which personal members are replaced. */
interface ErasedDocument extends PersonalTable {
  readonly document: string
  erase(text: string): string
}

interface DeletedRows extends PersonalTable {
  readonly deletesRows: true
}

const byDebtor = ({ accountId, debtorId }: ErasedDebtor): Condition =>
  sql`account_id = ${accountId} and debtor_id = ${debtorId}`

const byMessage = ({ accountId, debtorId }: ErasedDebtor): Condition =>
  sql`message_id in (
    select id from messages where account_id = ${accountId} and debtor_id = ${debtorId}
  )`

/** Selects the rows in which the column contains the id of the debtor or of one of its records. */
const bySubject =
  (column: string) =>
  ({ accountId, debtorId }: ErasedDebtor): Condition =>
    sql`account_id = ${accountId} and ${sql.ref(column)} in (
      select id from debtors where account_id = ${accountId} and id = ${debtorId}
      union all
      select id from invoices where account_id = ${accountId} and debtor_id = ${debtorId}
      union all
      select id from payments where account_id = ${accountId} and debtor_id = ${debtorId}
      union all
      select id from messages where account_id = ${accountId} and debtor_id = ${debtorId}
    )`

/** A subquery finds the events, because `account_id` would be ambiguous in the join. */
const byEvent = (debtor: ErasedDebtor): Condition =>
  sql`delivery_id in (
    select webhook_deliveries.id from webhook_deliveries
    join webhook_events on webhook_events.id = webhook_deliveries.event_id
    where webhook_events.id in (select id from webhook_events where ${bySubject('subject_id')(debtor)})
  )`

/**
 * Selects the suppressed addresses to which messages to the debtor were sent, or whose suppression such a message
 * caused. An address that another debtor has stays suppressed. The erased debtor itself no longer has an address: its
 * row in `debtors` is erased first.
 */
const byAddress = (debtor: ErasedDebtor): Condition =>
  sql`account_id = ${debtor.accountId} and (${byMessage(debtor)} or address in (
    select lower(recipient) from messages where ${byDebtor(debtor)} and recipient is not null
  )) and not exists (
    select 1 from debtors
    where debtors.account_id = suppressed_addresses.account_id
      and lower(debtors.email) = suppressed_addresses.address
  )`

export const PERSONAL_TABLES: readonly (ErasedColumns | ErasedDocument | DeletedRows)[] = [
  // This table comes before the messages, because its rows are found by the recipients of the messages.
  {
    table: 'suppressed_addresses',
    key: ['account_id', 'address', 'reason'],
    rowsAbout: byAddress,
    deletesRows: true,
  },
  {
    table: 'messages',
    key: ['id'],
    rowsAbout: byDebtor,
    columns: { recipient: null, subject: null, body: null, suppression_detail: null },
    isShown: true,
  },
  {
    table: 'reminders',
    key: ['message_id'],
    rowsAbout: byMessage,
    document: 'facts',
    erase: factsWithoutPersonalData,
  },
  { table: 'message_html', key: ['message_id'], rowsAbout: byMessage, deletesRows: true },
  {
    table: 'message_transitions',
    key: ['message_id', 'id'],
    rowsAbout: byMessage,
    columns: { detail: null },
  },
  { table: 'inbound_mail', key: ['digest'], rowsAbout: byMessage, columns: { sender: null } },
  {
    // The words by which the search finds the debtor.
    table: 'debtor_terms',
    key: ['debtor_id', 'term'],
    rowsAbout: byDebtor,
    deletesRows: true,
  },
  {
    table: 'invoices',
    key: ['id'],
    rowsAbout: byDebtor,
    columns: { notes: null, payment_url: null, metadata: '{}' },
    isShown: true,
  },
  {
    table: 'payments',
    key: ['id'],
    rowsAbout: byDebtor,
    columns: { reference: null, metadata: '{}' },
    isShown: true,
  },
  {
    table: 'webhook_events',
    key: ['id'],
    rowsAbout: bySubject('subject_id'),
    document: 'body',
    erase: eventWithoutPersonalData,
  },
  // The response of a webhook's receiver may repeat the event.
  {
    table: 'webhook_attempts',
    key: ['delivery_id', 'number'],
    rowsAbout: byEvent,
    columns: { response_headers: null, response_body: null },
  },
  {
    table: 'idempotency_keys',
    key: ['account_id', 'operation', 'key'],
    rowsAbout: bySubject('resource_id'),
    document: 'body',
    erase: responseWithoutPersonalData,
  },
  {
    table: 'audit_log',
    key: ['id'],
    // The audit log must keep the reason for which the debtor was erased.
    rowsAbout: (debtor) => sql`${bySubject('subject_id')(debtor)} and action <> 'debtor.erased'`,
    document: 'detail',
    erase: detailWithoutPersonalData,
  },
]

/**
 * The maximum number of rows that are read at a time, which limits the memory. PostgreSQL finds all rows of the debtor
 * again for each page: with smaller pages, erasing a debtor with thousands of invoices took minutes.
 */
const PAGE_MAX = 500

type Row = Readonly<Record<string, unknown>>

/** Resolves to the number of changed or deleted rows. */
export async function eraseInTable(
  database: OpenDatabase,
  personalTable: ErasedColumns | ErasedDocument | DeletedRows,
  debtor: ErasedDebtor,
  clock: () => Date,
): Promise<number> {
  let count = 0
  let last: Row | undefined
  for (;;) {
    const after = last
    // Each page has its own snapshot, because SQLite's write-ahead log grows during a long snapshot.
    const rows = await database.snapshot((read) => readPage(read, personalTable, debtor, after))
    last = rows.at(-1)
    if (last === undefined) return count
    const changes = rows.flatMap((row) => changeOf(personalTable, row) ?? [])
    await writeInBatches(changes, (batch) =>
      database.transaction(async (tx) => {
        // Other transactions lock the debtor before its invoices and payments. Without the same order, this one could
        // deadlock with them.
        await lockDebtorId(tx, debtor.accountId, debtor.debtorId)
        const now = clock()
        for (const change of batch) await apply(tx, personalTable, change, now)
      }),
    )
    count += changes.length
  }
}

async function readPage(
  read: Reader,
  personalTable: ErasedColumns | ErasedDocument | DeletedRows,
  debtor: ErasedDebtor,
  after: Row | undefined,
): Promise<readonly Row[]> {
  const { table, key } = personalTable
  const names = sql.join(key.map((name) => sql.ref(name)))
  const all = readAnyTable(read).selectFrom(table).where(personalTable.rowsAbout(debtor))
  const remaining =
    after === undefined
      ? all
      : all.where(sql<boolean>`(${names}) > (${sql.join(key.map((name) => after[name]))})`)
  return await remaining
    .select([...key, ...columnsToErase(personalTable)])
    .orderBy(names)
    .limit(PAGE_MAX)
    .execute()
}

function columnsToErase(
  personalTable: ErasedColumns | ErasedDocument | DeletedRows,
): readonly string[] {
  if ('columns' in personalTable) return Object.keys(personalTable.columns)
  return 'document' in personalTable ? [personalTable.document] : []
}

interface Change {
  readonly row: Row
  /** If undefined, the row is deleted. */
  readonly values: Row | undefined
  readonly isShown: boolean
}

/** Returns undefined if nothing is left to erase. */
function changeOf(
  personalTable: ErasedColumns | ErasedDocument | DeletedRows,
  row: Row,
): Change | undefined {
  if ('deletesRows' in personalTable) return { row, values: undefined, isShown: false }
  const values =
    'columns' in personalTable
      ? personalTable.columns
      : { [personalTable.document]: personalTable.erase(String(row[personalTable.document])) }
  const isErased = Object.entries(values).every(([name, value]) => row[name] === value)
  if (isErased) return undefined
  const isShown = 'columns' in personalTable && personalTable.isShown === true
  return { row, values, isShown }
}

async function apply(
  tx: Transaction,
  { table, key }: PersonalTable,
  { row, values, isShown }: Change,
  now: Date,
) {
  const tables = writeAnyTable(tx)
  const primaryKey = Object.fromEntries(key.map((name) => [name, row[name]]))
  await (values === undefined
    ? tables.deleteFrom(table).where((column) => column.and(primaryKey))
    : tables
        .updateTable(table)
        .set({ ...values, ...(isShown && nextRevision(tx, now.toISOString())) })
        .where((column) => column.and(primaryKey))
  ).execute()
}
