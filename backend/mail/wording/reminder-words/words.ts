/** The texts of reminders that each language provides. */
import type { ReminderStage } from '../../../database/tables.ts'

/** `ReminderStage` has only the stages after the due date. A `courtesy` reminder is sent on or before the due date. */
export type Stage = 'courtesy' | ReminderStage

/** The text of a reminder about one invoice, and of a reminder about several. */
type OneOrMany = readonly [one: string, many: string]

/** `title`, `greeting`, `opening`, `closing` and `regards` are the default wording, which an account can change. */
export interface ReminderWords {
  /** `invoices` is the variable `{invoices}`, which stands for e.g. "invoice 7" or "3 invoices". */
  readonly title: Readonly<Record<Stage, (invoices: string) => string>>
  invoice(number: string): string
  invoices(count: number): string
  /** `name` is the variable `{customer}`. */
  greeting(name: string): string
  readonly opening: Readonly<Record<Stage, OneOrMany>>
  readonly closing: Readonly<Record<Stage, string>>
  readonly tableHeadings: readonly [invoice: string, amountDue: string]
  /** The name of the table of invoices for screen readers. */
  readonly tableCaption: string
  dueOn(date: string): string
  /** E.g. "3 days overdue", or "in 3 days" if `daysPastDue` is negative. */
  relativeDueDate(daysPastDue: number): string
  readonly total: string
  /** Says that `received` is on account, so that only `remaining` is still to be paid. */
  onAccount(received: string, remaining: string): string
  /** The label of the money on account that is deducted. */
  readonly deducted: string
  /** The label of what remains to be paid after the deduction. */
  readonly remaining: string
  readonly payOnline: string
  readonly howToPay: string
  /** Replaces `howToPay` in a reminder with several currencies. */
  howToPayIn(currency: string): string
  readonly accountHolder: string
  /** The label of an account number that is not an IBAN. */
  readonly accountNumber: string
  /** The label of a bank code, except a BIC that belongs to an IBAN. */
  readonly nationalBankCode: string
  readonly bankName: string
  /** The label of the reference that the customer enters for a bank transfer. */
  readonly reference: string
  /** Says where to send questions. `replyTo` is null if customers can only reply to the mail. */
  questions(replyTo: string | null): string
  readonly regards: string
  /** States that the account, and not this service, is the creditor. */
  onBehalf(creditor: string): string
  readonly unsubscribe: string
}
