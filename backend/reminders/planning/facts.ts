/**
 * The facts on which the plan of a message is based. They are stored with the message as JSON. The names of the
 * members must not change, because during an upgrade each version reads facts that the other version has stored.
 */
import type { ReminderStage } from '../../database/tables.ts'
import type { LadderStage } from './ladder.ts'

export interface Facts {
  /** The stage of the message, which is the highest stage of its invoices. */
  readonly stage: LadderStage
  /** The debtor's email address; null if the debtor has none. */
  readonly recipient: string | null
  readonly invoices: readonly MessageInvoice[]
  /**
   * How often kill switches had been activated when the message was planned. If they were activated again since then,
   * the message is not sent.
   */
  readonly timesPutOn: number
  /** The end of the approval period; unused for stages without approval. */
  readonly expiresAt: string
}

/** An invoice that a message is about, as it was when the message was planned. */
export interface MessageInvoice {
  readonly id: string
  readonly number: string
  readonly dueDate: string
  readonly currency: string
  readonly amountDue: number
  /** The part that money on account covers, in minor units; absent if it covers nothing. */
  readonly onAccount?: number
  /** Negative before the due date. */
  readonly daysPastDue: number
  /** The stage of this invoice, which may be lower than the stage of the message. */
  readonly stage: LadderStage
  /** The invoice's `chasing_cycle`, which increases when a paid invoice reopens: its stages can then be sent again. */
  readonly cycle: number
}

/** The amount that a message demands for an invoice, in minor units. */
export function amountDemanded({ amountDue, onAccount = 0 }: MessageInvoice): number {
  return amountDue - onAccount
}

export function readFacts(text: string): Facts {
  return JSON.parse(text)
}

/** Returns the stage that is stored in the message log and that the API shows: null for `courtesy`. */
export function publicStage(stage: LadderStage): ReminderStage | null {
  return stage === 'courtesy' ? null : stage
}
