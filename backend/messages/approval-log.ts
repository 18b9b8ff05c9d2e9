/** Counts the messages that await approval, and lists the messages that no longer await it. */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import type { MessageRow } from '../database/tables.ts'

// These conditions contain literals instead of parameters, because a database uses a partial index only if the text
// of the statement contains the condition of the index.
const AWAITS_APPROVAL = sql<SqlBool>`status = 'awaiting_approval'`
const NO_LONGER_AWAITS_APPROVAL = sql<SqlBool>`approval_required = 1 and status <> 'awaiting_approval'`

export async function countAwaitingApproval(reader: Reader, accountId: string): Promise<number> {
  const { count } = await reader
    .selectFrom('messages')
    .select((eb) => eb.fn.countAll<number | string>().as('count'))
    .where('account_id', '=', accountId)
    .where(AWAITS_APPROVAL)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** A message that needed approval and no longer awaits it, with any `approval_status`. */
export interface PastApproval extends MessageRow {
  /** The detail of the latest transition, which states its cause. */
  readonly lastTransitionDetail: string | null
}

/** Returns the past approvals, the latest change first. */
export async function listPastApprovals(
  reader: Reader,
  accountId: string,
  limit: number,
): Promise<PastApproval[]> {
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
    .where(NO_LONGER_AWAITS_APPROVAL)
    .orderBy('updated_at', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}
