import { maskRecipient } from '../messages/shown-text.ts'
import type { PreviewedMessage } from './preview.ts'

/** The JSON of a previewed message. */
export function representPreviewed({
  recipient,
  invoices,
  storedMessage,
  ...message
}: PreviewedMessage) {
  return {
    at: message.at,
    debtor_id: message.debtorId,
    debtor_name: message.debtorName,
    to: recipient === null ? null : maskRecipient(recipient),
    stage: message.stage,
    invoices: invoices.map(({ id, number, dueDate, amountDue, currency }) => ({
      id,
      number,
      due_date: dueDate,
      amount_due: amountDue,
      currency,
    })),
    requires_approval: message.requiresApproval,
    refusal: message.refusal,
    message: storedMessage,
  }
}
