import type { Reader } from '../database/database.ts'
import type { MessageRow } from '../database/tables.ts'

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

/** The HTML of a message; undefined if it has none, or none yet. */
export async function findMessageHtml(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<string | undefined> {
  const row = await reader
    .selectFrom('message_html')
    .select('html')
    .where('account_id', '=', accountId)
    .where('message_id', '=', id)
    .executeTakeFirst()
  return row?.html
}
