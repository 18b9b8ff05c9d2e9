import { withFullStop } from '../../../validation/full-stop.ts'
import type { ReminderWords } from './words.ts'

const ALREADY_PAID =
  'If you have paid in the last few days, thank you: please disregard this e-mail.'
const CONTACT_US =
  'If you dispute the amount, or cannot pay all of it at once, please let us know by replying to this e-mail.'

export const EN: ReminderWords = {
  title: {
    courtesy: (invoices) => `Due soon: ${invoices}`,
    friendly: (invoices) => `A friendly reminder: ${invoices}`,
    reminder: (invoices) => `Reminder: ${invoices}`,
    firm: (invoices) => `Please pay now: ${invoices}`,
    final: (invoices) => `Final reminder: ${invoices}`,
  },
  invoice: (number) => `invoice ${number}`,
  invoices: (count) => `${count} invoices`,
  greeting: (name) => `Dear ${name},`,
  opening: {
    courtesy: [
      'A note in advance: the invoice below is due soon.',
      'A note in advance: the invoices below are due soon.',
    ],
    friendly: [
      'It may have escaped your attention: the invoice below has not been paid yet, as far as we can see.',
      'It may have escaped your attention: the invoices below have not been paid yet, as far as we can see.',
    ],
    reminder: [
      'We wrote to you before about the invoice below, which is still open. Please arrange for its payment.',
      'We wrote to you before about the invoices below, which are still open. Please arrange for their payment.',
    ],
    firm: [
      'Despite our reminders, the invoice below has not been paid. Please pay the full amount within 7 days.',
      'Despite our reminders, the invoices below have not been paid. Please pay the full amount within 7 days.',
    ],
    final: [
      'This is our final reminder. The invoice below is still unpaid, although we have reminded you several times. Please pay the full amount within 7 days. If by then we have neither your payment nor word from you, we may take further steps to collect it.',
      'This is our final reminder. The invoices below are still unpaid, although we have reminded you several times. Please pay the full amount within 7 days. If by then we have neither your payment nor word from you, we may take further steps to collect it.',
    ],
  },
  closing: {
    courtesy: 'If you have already arranged payment, thank you: there is nothing more to do.',
    friendly: ALREADY_PAID,
    reminder: ALREADY_PAID,
    firm: `${ALREADY_PAID} ${CONTACT_US}`,
    final: `${ALREADY_PAID} ${CONTACT_US}`,
  },
  tableHeadings: ['Invoice', 'Amount due'],
  tableCaption: 'Amounts due',
  dueOn: (date) => `Due on ${date}`,
  relativeDueDate(daysPastDue) {
    if (daysPastDue === 0) return 'due today'
    const count = Math.abs(daysPastDue) === 1 ? '1 day' : `${Math.abs(daysPastDue)} days`
    return daysPastDue > 0 ? `${count} overdue` : `in ${count}`
  },
  total: 'Total due',
  onAccount: (received, remaining) =>
    `We have received ${received} from you that is not yet assigned to an invoice. Please pay only the remaining ${remaining}.`,
  deducted: 'Received on account',
  remaining: 'Still to pay',
  payOnline: 'Pay online',
  howToPay: 'How to pay',
  howToPayIn: (currency) => `How to pay in ${currency}`,
  accountHolder: 'Account holder',
  accountNumber: 'Account number',
  nationalBankCode: 'Bank code',
  bankName: 'Bank',
  reference: 'Reference',
  questions: (replyTo) =>
    replyTo === null
      ? 'Questions? Just reply to this e-mail.'
      : `Questions? Just reply to this e-mail, or write to ${replyTo}.`,
  regards: 'Kind regards,',
  onBehalf: (creditor) =>
    `This e-mail was sent by Receivables on behalf of ${withFullStop(creditor)} ${creditor} remains the creditor: please pay them, not Receivables.`,
  unsubscribe: 'Stop reminders by e-mail',
}
