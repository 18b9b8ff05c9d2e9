/** What a reminder says: subject, text and HTML, which say the same. */
import type { ReminderStage } from '../database/tables.ts'

export interface ReminderContent {
  /** BCP 47; what we do not speak falls back to English. */
  readonly language: string | null
  readonly stage: 'courtesy' | ReminderStage
  readonly creditor: {
    /** The account's name: it remains the creditor. */
    readonly name: string
    /** Where questions go; null: a reply to the mail. */
    readonly replyTo: string | null
  }
  readonly debtor: { readonly name: string }
  readonly invoices: readonly ReminderInvoice[]
  /** Null: no link, e.g. in a preview. */
  readonly unsubscribeUrl: string | null
}

export interface ReminderInvoice {
  readonly number: string
  /** Calendar date. */
  readonly dueDate: string
  /** In minor units. */
  readonly amountDue: number
  readonly currency: string
  /** 0 or less: not yet due. */
  readonly daysPastDue: number
  readonly paymentUrl: string | null
}

export interface ReminderText {
  readonly subject: string
  readonly text: string
  readonly html: string
}

export function writeReminder(content: ReminderContent): ReminderText {
  const subject = `Reminder: ${content.invoices.map(({ number }) => number).join(', ')}`
  return { subject, text: subject, html: `<p>${subject.replace(/[&<>"']/g, '')}</p>` }
}
