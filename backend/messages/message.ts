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
