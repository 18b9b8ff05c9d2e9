/** Lists and finds messages. `cancel-messages.ts` cancels them. */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { preparedPage } from '../database/prepared.ts'
import { MESSAGE_COLUMNS } from '../database/tables/messages.ts'
import type { MessageHtmlRow, MessageRow } from '../database/tables.ts'
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
  withinBounds,
  withinTimes,
} from '../lists/keyset.ts'
import { literalFilter, readPage, selectPage } from '../lists/page.ts'

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

export async function findMessage(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<MessageRow | undefined> {
  return await reader
    .selectFrom('messages')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

/** Returns the HTML of a message and the id of its logo; undefined if no HTML is stored for the message. */
export async function findMessageHtml(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<Pick<MessageHtmlRow, 'html' | 'logo_id'> | undefined> {
  return reader
    .selectFrom('message_html')
    .select(['html', 'logo_id'])
    .where('account_id', '=', accountId)
    .where('message_id', '=', id)
    .executeTakeFirst()
}
