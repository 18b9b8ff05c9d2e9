import type { Reader } from '../database/database.ts'
import type { MessageStatus } from '../database/tables.ts'
import { readFacts } from './planning/facts.ts'
import type { LadderStage } from './planning/ladder.ts'

/** In these statuses, the mail server has certainly accepted or rejected the message. */
const OUTCOME_KNOWN: readonly MessageStatus[] = ['sent', 'delivered', 'bounced']

/**
 * Returns the stage of the invoice's last reminder if it is unknown whether the mail server accepted this reminder;
 * otherwise undefined. If a stage is returned, the invoice's `chasing_last_message_at` is the time of this reminder,
 * but its `chasing_stage` is an earlier stage, or null.
 */
export async function findStageWithUnknownOutcome(
  reader: Reader,
  accountId: string,
  invoiceId: string,
): Promise<LadderStage | undefined> {
  const last = await reader
    .selectFrom('message_invoices')
    .innerJoin('messages', 'messages.id', 'message_invoices.message_id')
    .innerJoin('reminders', 'reminders.message_id', 'messages.id')
    .select(['messages.status', 'reminders.facts'])
    .where('message_invoices.account_id', '=', accountId)
    .where('message_invoices.invoice_id', '=', invoiceId)
    .where((eb) =>
      eb.or([
        eb('messages.sent_at', 'is not', null).and('messages.status', '!=', 'sending'),
        eb('reminders.unknown_outcomes', '>', 0),
      ]),
    )
    .orderBy('messages.id', 'desc')
    .limit(1)
    .executeTakeFirst()
  if (last === undefined || OUTCOME_KNOWN.includes(last.status)) return undefined
  return readFacts(last.facts).invoices.find(({ id }) => id === invoiceId)?.stage
}
