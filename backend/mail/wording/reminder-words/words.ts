/** What reminders say, whatever the language. */
import type { ReminderStage } from '../../../database/tables.ts'

export type Stage = 'courtesy' | ReminderStage

/** Many a name ends with a full stop of its own. */
export function fullStop(text: string): string {
  return text.endsWith('.') ? text : `${text}.`
}

/** About one invoice, and about several. */
type OneOrMany = readonly [one: string, many: string]

export interface ReminderWords {
  /** `what` is "invoice 7" or "3 invoices". */
  readonly title: Readonly<Record<Stage, (what: string) => string>>
  invoice(number: string): string
  invoices(count: number): string
  greeting(name: string): string
  readonly opening: Readonly<Record<Stage, OneOrMany>>
  readonly closing: Readonly<Record<Stage, string>>
  readonly heads: readonly [invoice: string, amountDue: string]
  readonly caption: string
  dueOn(date: string): string
  /** `days` is negative before the due date. */
  late(days: number): string
  readonly total: string
  /** Said of a customer whose money is on no invoice yet. */
  onAccount(paid: string, rest: string): string
  readonly deducted: string
  readonly rest: string
  readonly payOnline: string
  questions(replyTo: string | null): string
  readonly regards: string
  /** That we are not the creditor. */
  onBehalf(creditor: string): string
  readonly unsubscribe: string
}
