/** Lists messages, and cancels waiting messages that have become obsolete, e.g. because of a payment. */

import { type SqlBool, sql } from 'kysely'
import type { Reader, Transaction } from '../database/database.ts'
import { prepared, preparedPage } from '../database/prepared.ts'
import { stampOf } from '../database/stamp.ts'
import { MESSAGE_COLUMNS } from '../database/tables/messages.ts'
import type { DebtorRow, MessageRow, MessageStatus } from '../database/tables.ts'
import {
  equals,
  equalsLiteral,
  ignoreSortIndex,
  indexedUnless,
  isInLiterals,
  joinPage,
  type Page,
  type PageBounds,
  type PageForm,
  type TimeFilters,
  within,
  withinBounds,
  withinTimes,
} from '../lists/keyset.ts'
import { literalFilter, readPage, selectPage } from '../lists/page.ts'
import { recordTransitions } from './transitions.ts'

/** Statuses of messages that can be cancelled: they are neither sent nor being handed over. */
export const CANCELLABLE: readonly MessageStatus[] = [
  'scheduled',
  'awaiting_approval',
  'approved',
  'queued',
]

export interface StoppedMessages {
  readonly cancelledIds: readonly string[]
  /** Messages that are being handed over. They can no longer be cancelled. */
  readonly inFlightIds: readonly string[]
}

/**
 * Cancels every waiting message that covers one of the invoices, even if it also covers other invoices, because its
 * text would be wrong. The caller must have locked the debtor, so that no hand-over can start at the same time.
 */
export async function stopMessages(
  tx: Transaction,
  accountId: string,
  invoiceIds: readonly string[],
  now: Date,
  detail: string,
): Promise<StoppedMessages> {
  return stopUnsentMessages(
    tx,
    accountId,
    await findUnsentMessages(tx, { accountId, invoiceIds }),
    now,
    detail,
  )
}

/** A message that covers an invoice and has not been sent yet. */
export type UnsentMessage = Pick<MessageRow, 'id' | 'status'>

/** Cancels messages that `findUnsentMessages` returned. The transaction must not have changed them since. */
export async function stopUnsentMessages(
  tx: Transaction,
  accountId: string,
  rows: readonly UnsentMessage[],
  now: Date,
  detail: string,
): Promise<StoppedMessages> {
  const inFlightIds = rows.filter(({ status }) => status === 'sending').map(({ id }) => id)
  const cancelledIds = rows.filter(({ status }) => status !== 'sending').map(({ id }) => id)
  if (cancelledIds.length > 0) await cancelMessages(tx, accountId, cancelledIds, detail, now)
  return { cancelledIds, inFlightIds }
}

/** Finds the unsent messages that cover one of the invoices. The caller must have locked the debtor. */
export const findUnsentMessages = prepared(
  (
    tx: Transaction,
    { accountId, invoiceIds }: { accountId: string; invoiceIds: readonly string[] },
  ) =>
    tx
      .selectFrom('messages')
      .select(['id', 'status'])
      .where('account_id', '=', accountId)
      .where('direction', '=', 'outbound')
      .where('status', 'in', [...CANCELLABLE, 'sending'])
      .where('id', 'in', (eb) =>
        eb
          .selectFrom('message_invoices')
          .select('message_id')
          .where('invoice_id', 'in', invoiceIds),
      )
      .orderBy('id'),
)

/** Cancels all waiting messages to the debtor. The caller must have locked the debtor. */
export async function stopMessagesTo(
  tx: Transaction,
  { id, account_id: accountId }: Pick<DebtorRow, 'id' | 'account_id'>,
  detail: string,
  now: Date,
): Promise<void> {
  const rows = await tx
    .selectFrom('messages')
    .select('id')
    .where('debtor_id', '=', id)
    .where('direction', '=', 'outbound')
    .where('status', 'in', CANCELLABLE)
    .orderBy('id')
    .execute()
  const ids = rows.map((row) => row.id)
  if (ids.length > 0) await cancelMessages(tx, accountId, ids, detail, now)
}

/** Cancels waiting messages. The caller must have locked their debtor. */
export async function cancelMessages(
  tx: Transaction,
  accountId: string,
  ids: readonly string[],
  detail: string,
  now: Date,
): Promise<void> {
  await tx
    .updateTable('messages')
    .set((eb) => ({
      status: 'cancelled',
      // A pending approval can no longer be decided, and an approval that was given no longer applies.
      approval_status: eb
        .case()
        .when('approval_status', 'in', ['pending', 'approved'])
        .then('lapsed' as const)
        .else(eb.ref('approval_status'))
        .end(),
      ...stampOf(tx, now.toISOString()),
    }))
    .where('account_id', '=', accountId)
    .where('id', 'in', ids)
    .execute()
  const cancelled = ids.map((id) => ({ id, account_id: accountId, status: 'cancelled' as const }))
  await recordTransitions(tx, cancelled, detail, now)
}

export interface MessageFilters extends TimeFilters {
  readonly debtor_id?: string
  readonly invoice_id?: string
  readonly channel?: string
  readonly stage?: string
  readonly statuses?: readonly string[]
  readonly suppression_reason?: string
  readonly sent_since?: string
  readonly sent_before?: string
}

export async function listMessages(
  reader: Reader,
  accountId: string,
  { channel, stage, statuses, suppression_reason, ...filters }: MessageFilters,
  page: Page,
): Promise<MessageRow[]> {
  const literals = { channel, stage, statuses, suppression_reason }
  const narrowFilters = [filters.debtor_id, filters.invoice_id]
  const list = {
    table: 'messages',
    values: { ...filters, accountId },
    narrowFilters,
    indexedFilters: [literalFilter('status', statuses ?? []), literalFilter('stage', [stage])],
  } as const
  return await readPage(reader, list, page, (values, form) =>
    readMessages(reader, values, { ...form, ...literals }),
  )
}

/** Filters whose values are part of the statement's text, see `equalsLiteral`. */
type LiteralFilter = 'channel' | 'stage' | 'statuses' | 'suppression_reason'

/** The values of the statement's parameters. */
type Values = Omit<MessageFilters, LiteralFilter> & PageBounds & { readonly accountId: string }

/** The values that become part of the SQL text. */
type Form = PageForm & { readonly [F in LiteralFilter]: MessageFilters[F] | undefined }

const readMessages = preparedPage((reader: Reader, filters: Values, form: Form) => {
  const { accountId } = filters
  const page = joinPage(form, filters)
  const ofDebtor = page.sort === 'created_at' ? undefined : filters.debtor_id
  const sorting = ignoreSortIndex(page, filters.invoice_id, ofDebtor)
  const narrow = [filters.debtor_id, filters.invoice_id]
  return selectPage<MessageRow>(reader, 'messages', MESSAGE_COLUMNS, sorting, [
    ...equals('account_id', accountId),
    ...withinTimes(filters, page),
    ...equals('debtor_id', filters.debtor_id),
    ...coversInvoice(accountId, filters.invoice_id),
    ...equalsLiteral('channel', form.channel),
    ...equalsLiteral(indexedUnless(page, 'stage', ...narrow, form.statuses), form.stage),
    ...isInLiterals(indexedUnless(page, 'status', ...narrow), form.statuses),
    ...equalsLiteral('suppression_reason', form.suppression_reason),
    ...within('sent_at', filters.sent_since, filters.sent_before),
    ...withinBounds(sorting),
  ])
})

function coversInvoice(accountId: string, invoiceId: string | undefined) {
  if (invoiceId === undefined) return []
  return [
    sql<SqlBool>`id in (
      select message_id from message_invoices
      where account_id = ${accountId} and invoice_id = ${invoiceId}
    )`,
  ]
}

/** Returns the ids of the covered invoices by message id, in the order in which each message lists them. */
export async function readCoveredInvoices(
  reader: Reader,
  accountId: string,
  messageIds: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  if (messageIds.length === 0) return new Map()
  const rows = await reader
    .selectFrom('message_invoices')
    .select(['message_id', 'invoice_id'])
    .where('account_id', '=', accountId)
    .where('message_id', 'in', messageIds)
    .orderBy('message_id')
    .orderBy('position')
    .execute()
  const byMessage = Map.groupBy(rows, (row) => row.message_id)
  return new Map([...byMessage].map(([id, covered]) => [id, covered.map((row) => row.invoice_id)]))
}
