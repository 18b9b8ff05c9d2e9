import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { preparedPage } from '../database/prepared.ts'
import { MESSAGE_COLUMNS } from '../database/tables/messages.ts'
import type { MessageHtmlRow, MessageRow } from '../database/tables.ts'
import {
  columnOrUnindexed,
  equals,
  equalsLiteral,
  ignoreSortIndexIfFiltered,
  isInLiterals,
  type KeysetPage,
  literally,
  mayUseIndexOf,
  type PageBounds,
  type PageVariant,
  pageWithBounds,
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
  page: KeysetPage,
): Promise<MessageRow[]> {
  const literals = { channel, stage, statuses, suppression_reason }
  const selectiveFilters = [filters.debtor_id, filters.invoice_id]
  const list = {
    table: 'messages',
    values: { ...filters, accountId },
    selectiveFilters,
    broadFilters: [
      literalFilter('status', statuses ?? []),
      literalFilter('stage', [stage]),
      literalFilter('channel', isRare(channel) ? [channel] : [], IS_RARE_CHANNEL),
    ],
  } as const
  return await readPage(reader, list, page, (values, variant) =>
    readMessages(reader, values, { ...variant, ...literals }),
  )
}

/** The condition of the partial index by channel. Few accounts have messages that are not e-mails. */
const IS_RARE_CHANNEL = "channel <> 'email'"

function isRare(channel: string | undefined): boolean {
  return channel !== undefined && channel !== 'email'
}

/**
 * Filters with few possible values. The statement's text contains the value, because the best index may depend on it.
 */
type LiteralFilter = 'channel' | 'stage' | 'statuses' | 'suppression_reason'

type Values = Omit<MessageFilters, LiteralFilter> & PageBounds & { readonly accountId: string }

type Variant = PageVariant & { readonly [F in LiteralFilter]: MessageFilters[F] | undefined }

const readMessages = preparedPage((reader: Reader, filters: Values, variant: Variant) => {
  const { accountId } = filters
  const page = pageWithBounds(variant, filters)
  const pageWithSortHint = ignoreSortIndexIfFiltered(page, {
    byDebtor: filters.debtor_id,
    byOtherFilters: [filters.invoice_id],
  })
  // A filter by debtor or invoice selects few messages. The indexes of stage, status and channel are then not used,
  // because they would read more rows.
  const selective = [filters.debtor_id, filters.invoice_id]
  const usesChannelIndex =
    isRare(variant.channel) && mayUseIndexOf(page, 'channel', { noIndexIfFilteredBy: selective })
  return selectPage<MessageRow>(reader, 'messages', MESSAGE_COLUMNS, pageWithSortHint, [
    ...equals('account_id', accountId),
    ...withinTimes(filters, page),
    ...equals('debtor_id', filters.debtor_id),
    ...isAboutInvoice(accountId, filters.invoice_id),
    ...equalsLiteral('channel', variant.channel),
    ...literally(usesChannelIndex ? IS_RARE_CHANNEL : undefined),
    ...equalsLiteral(
      columnOrUnindexed(page, 'stage', { noIndexIfFilteredBy: selective }),
      variant.stage,
    ),
    ...isInLiterals(
      columnOrUnindexed(page, 'status', { noIndexIfFilteredBy: selective }),
      variant.statuses,
    ),
    ...equalsLiteral('suppression_reason', variant.suppression_reason),
    ...withinBounds(pageWithSortHint),
  ])
})

function isAboutInvoice(accountId: string, invoiceId: string | undefined) {
  if (invoiceId === undefined) return []
  return [
    sql<SqlBool>`id in (
      select message_id from message_invoices
      where account_id = ${accountId} and invoice_id = ${invoiceId}
    )`,
  ]
}

/** Returns invoice ids by message id, in the order in which the message lists the invoices. */
export async function readInvoiceIdsByMessage(
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
  return new Map(
    [...byMessage].map(([id, ofMessage]) => [id, ofMessage.map((row) => row.invoice_id)]),
  )
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

/** Returns undefined if no HTML is stored for the message. */
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
