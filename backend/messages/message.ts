import type { Reader } from '../database/database.ts'
import type { MessageHtmlRow, MessageRow } from '../database/tables.ts'

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

/** The HTML of a message with the id of its logo; undefined if it has none, or none yet. */
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
