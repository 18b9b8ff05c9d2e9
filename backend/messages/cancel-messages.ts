import { type SqlBool, sql } from 'kysely'
import type { Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import { nextRevision } from '../database/revision.ts'
import type { DebtorRow, MessageRow, MessageStatus } from '../database/tables.ts'
import { recordTransitions } from './transitions.ts'

/** Statuses of waiting messages, which can be cancelled: they are neither sent nor being handed over. */
export const CANCELLABLE: readonly MessageStatus[] = [
  'scheduled',
  'awaiting_approval',
  'approved',
  'queued',
]

/**
 * The condition of the partial index of unsent messages: those with a status in `CANCELLABLE`, and those being handed
 * over (`sending`). It contains literals, because a database uses a partial index only if the statement contains the
 * condition of the index.
 */
export const IS_UNSENT = sql<SqlBool>`messages.status in ('scheduled', 'awaiting_approval', 'approved', 'queued', 'sending')`

export interface StoppedMessages {
  readonly cancelledIds: readonly string[]
  /** Messages that are being handed over. They can no longer be cancelled. */
  readonly inFlightIds: readonly string[]
}

/**
 * Cancels every waiting message about one of the invoices, even if it is also about other invoices, because its text
 * mentions all its invoices. The caller must have locked the debtor, so that no hand-over can start at the same time.
 * `detail` is the reason, which is recorded with the new status.
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

export type UnsentMessage = Pick<MessageRow, 'id' | 'status'>

/**
 * Cancels the messages, except those that are being handed over. The transaction must have locked the debtor before it
 * read the rows, and must not have changed the messages since.
 */
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

/** Finds the unsent messages about one of the invoices. The caller must have locked the debtor. */
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
      // Parameters suffice instead of `IS_UNSENT`, because the messages are found by their ids.
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
    .where(IS_UNSENT)
    .where('status', '!=', 'sending')
    .orderBy('id')
    .execute()
  const ids = rows.map((row) => row.id)
  if (ids.length > 0) await cancelMessages(tx, accountId, ids, detail, now)
}

/** Cancels waiting messages, of which none is being handed over. The caller must have locked their debtor. */
async function cancelMessages(
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
      ...nextRevision(tx, now.toISOString()),
    }))
    .where('account_id', '=', accountId)
    .where('id', 'in', ids)
    .execute()
  const cancelled = ids.map((id) => ({ id, account_id: accountId, status: 'cancelled' as const }))
  await recordTransitions(tx, cancelled, detail, now)
}
