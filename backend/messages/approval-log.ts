import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import type { MessageRow } from '../database/tables.ts'

// These conditions contain literals, because a database uses a partial index only if the statement contains the
// condition of the index.
const AWAITS_APPROVAL = sql<SqlBool>`status = 'awaiting_approval'`
const IS_DECIDED_OR_LAPSED = sql<SqlBool>`approval_required = 1 and status <> 'awaiting_approval'`

export async function countAwaitingApproval(reader: Reader, accountId: string): Promise<number> {
  const { count } = await reader
    .selectFrom('messages')
    .select((eb) => eb.fn.countAll<number | string>().as('count'))
    .where('account_id', '=', accountId)
    .where(AWAITS_APPROVAL)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/**
 * A message that requires approval and does not await it: it was approved or rejected, or nothing is left to decide,
 * because the message was cancelled, suppressed or not decided in time.
 */
export interface DecidedOrLapsedMessage extends MessageRow {
  /** The reason for the latest change of the status; null if none was recorded. */
  readonly lastTransitionDetail: string | null
}

/** Returns the most recently changed message first. */
export async function listDecidedOrLapsed(
  reader: Reader,
  accountId: string,
  limit: number,
): Promise<DecidedOrLapsedMessage[]> {
  return await reader
    .selectFrom('messages')
    .selectAll()
    .select((eb) =>
      eb
        .selectFrom('message_transitions')
        .select('message_transitions.detail')
        .whereRef('message_transitions.message_id', '=', 'messages.id')
        .orderBy('message_transitions.id', 'desc')
        .limit(1)
        .as('lastTransitionDetail'),
    )
    .where('account_id', '=', accountId)
    .where(IS_DECIDED_OR_LAPSED)
    .orderBy('updated_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}
