import type { Transaction } from '../../database/database.ts'
import { nextRevision } from '../../database/revision.ts'
import type { DebtorRow, MessageRow, ReminderRow } from '../../database/tables.ts'
import { lockDebtor, replanDebtor } from '../../debtors/debtors.ts'
import { changeMessage, timeOfSending } from '../../messages/lifecycle.ts'
import { readCover } from '../../on-account/cover.ts'
import { type Facts, readFacts } from '../planning/facts.ts'
import {
  type ChasingAccount,
  readChasingAccounts,
  readSuppressions,
  WAITING,
} from '../planning/planning-data.ts'
import type { InvoiceState, Situation } from '../safety-rails.ts'
import { setNextRun } from './leases.ts'

/** The maximum number of hand-overs with an unknown outcome. A recipient thus receives a message at most twice. */
export const UNKNOWN_OUTCOMES_MAX = 2

export interface WaitingMessage {
  readonly message: MessageRow
  readonly reminder: ReminderRow
  readonly facts: Facts
  readonly debtor: DebtorRow
  readonly account: ChasingAccount
}

/**
 * Locks a message, and the data that the send check needs for its decision, until the transaction ends. Returns
 * undefined if the message is not due or no longer waits. If it no longer waits, also clears `run_at`, so that the
 * message is not read again.
 */
export async function lockWaitingMessage(
  tx: Transaction,
  messageId: string,
  now: Date,
): Promise<WaitingMessage | undefined> {
  const found = await tx
    .selectFrom('reminders')
    .select(['account_id', 'debtor_id'])
    .where('message_id', '=', messageId)
    .executeTakeFirst()
  const debtor = found && (await lockDebtor(tx, found.account_id, found.debtor_id))
  if (debtor === undefined) return undefined
  // This lock is shared, so that send checks of messages to other debtors need not wait. The activation of a kill
  // switch waits, because its lock is exclusive.
  await tx
    .selectFrom('accounts')
    .select('id')
    .where('id', '=', debtor.account_id)
    .forShare()
    .execute()
  const account = (await readChasingAccounts(tx, [debtor.account_id])).get(debtor.account_id)
  const reminder = await tx
    .selectFrom('reminders')
    .selectAll()
    .where('message_id', '=', messageId)
    .where('run_at', '<=', now.toISOString())
    .forNoKeyUpdate()
    .executeTakeFirst()
  const message = await tx
    .selectFrom('messages')
    .selectAll()
    .where('id', '=', messageId)
    .executeTakeFirst()
  if (account === undefined || reminder === undefined || message === undefined) return undefined
  if (!WAITING.includes(message.status)) {
    await setNextRun(tx, messageId, null)
    return undefined
  }
  return { message, reminder, facts: readFacts(reminder.facts), debtor, account }
}

/**
 * Records in a message's invoices that the message may have arrived. Otherwise, the next message about these invoices
 * could be sent too early. The recorded time is `now` or, if the clock was set back after the hand-over, the time of
 * the hand-over.
 */
export async function recordPossibleArrival(
  tx: Transaction,
  { account_id: accountId, updated_at: handedOverAt }: MessageRow,
  { invoices }: Facts,
  now: Date,
): Promise<void> {
  const recordedAt = now.toISOString()
  const at = handedOverAt > recordedAt ? handedOverAt : recordedAt
  await tx
    .updateTable('invoices')
    .set({ chasing_last_message_at: at, ...nextRevision(tx, at) })
    .where('account_id', '=', accountId)
    .where(
      'id',
      'in',
      invoices.map(({ id }) => id),
    )
    .execute()
}

/**
 * If an earlier worker started the hand-over and ended before it recorded the result, records that the outcome is
 * unknown. Returns undefined if the message must not be sent again, otherwise its current state.
 */
export async function recordUnknownOutcomeIfInterrupted(
  tx: Transaction,
  waiting: WaitingMessage,
  now: Date,
): Promise<WaitingMessage | undefined> {
  const { message, reminder } = waiting
  if (message.status !== 'sending') return waiting
  const unknown_outcomes = reminder.unknown_outcomes + 1
  await tx
    .updateTable('reminders')
    .set({ unknown_outcomes, lease: null })
    .where('message_id', '=', message.id)
    .execute()
  await recordPossibleArrival(tx, message, waiting.facts, now)
  const counted = { ...waiting, reminder: { ...reminder, unknown_outcomes, lease: null } }
  if (unknown_outcomes < UNKNOWN_OUTCOMES_MAX) return counted
  await markOutcomeUnknown(tx, message, now)
  return undefined
}

/**
 * Ends the attempts to send a message, which may have arrived once, twice or not at all. The message therefore gets a
 * time of sending, although its status is `failed`.
 */
export async function markOutcomeUnknown(
  tx: Transaction,
  message: MessageRow,
  now: Date,
): Promise<void> {
  const detail =
    'the outcome of both hand-overs to the mail server is unknown: the message may have arrived'
  const change = { status: 'failed', sent_at: timeOfSending(message, now) } as const
  await changeMessage(tx, message, change, detail, now)
  await setNextRun(tx, message.id, null)
  await replanDebtor(tx, message.account_id, message.debtor_id, now)
}

/** Returns the present state, which the safety rails check. */
export async function situationOf(
  tx: Transaction,
  { message, facts, debtor, account }: WaitingMessage,
  now: Date,
): Promise<Situation & Pick<Required<Situation>, 'message'>> {
  const ids = facts.invoices.map(({ id }) => id)
  const invoices: InvoiceState[] = await tx
    .selectFrom('invoices')
    .select([
      'id',
      'status',
      'amount_due',
      'due_date',
      'chasing_status',
      'chasing_blocked_reason',
      'chasing_cycle',
    ])
    .where('account_id', '=', message.account_id)
    .where('id', 'in', ids)
    .execute()
  const suppressionOf = await readSuppressions(tx, [debtor])
  return {
    now,
    account: { ...account.row, switches: account.switches },
    debtor,
    suppressionReason: suppressionOf(debtor),
    message: {
      row: message,
      facts,
      invoices: new Map(invoices.map((row) => [row.id, row])),
      onAccount: await readCover(tx, debtor.id),
    },
  }
}
