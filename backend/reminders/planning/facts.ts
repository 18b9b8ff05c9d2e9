/** What a message was planned for, as it is kept with it. */
import type { ReminderStage } from '../../database/tables.ts'
import type { LadderStage } from './ladder.ts'

export interface Facts {
  /** The highest among its invoices'. */
  readonly stage: LadderStage
  readonly recipient: string | null
  readonly invoices: readonly CoveredInvoice[]
  /** Kill switches were put on so often before; a time more, and it does not leave. */
  readonly timesPutOn: number
  /** Nobody can approve it after this; meaningless where nobody has to. */
  readonly expiresAt: string
}

export interface CoveredInvoice {
  readonly id: string
  readonly number: string
  readonly dueDate: string
  readonly currency: string
  readonly amountDue: number
  /** How much of it money on account covers; absent: nothing. */
  readonly onAccount?: number
  /** Negative before the due date. */
  readonly daysPastDue: number
  /** Its own. */
  readonly stage: LadderStage
  readonly cycle: number
}

/** What a message asks to be paid for an invoice. */
export function askedFor({ amountDue, onAccount = 0 }: CoveredInvoice): number {
  return amountDue - onAccount
}

/** As the planner stored them. */
export function readFacts(text: string): Facts {
  return JSON.parse(text)
}

/** What the log calls the stage: a courtesy has none. */
export function shownStage(stage: LadderStage): ReminderStage | null {
  return stage === 'courtesy' ? null : stage
}
