import type { Bit } from './bit.ts'
import type { MessageStatus, ReminderStage } from './messages.ts'

/**
 * The reminder settings of an account. The ladder states how many days past due a reminder of each stage is sent.
 * Without a row, the default ladder applies to all invoices, without holidays.
 */
export interface ChasingSettingsRow {
  account_id: string
  /** JSON object; null: the default ladder. */
  ladder: string | null
  /** JSON array of calendar dates on which no reminder is sent. */
  holidays: string
  /** No reminders are sent about invoices that are due before this date; null: all invoices are chased. */
  chase_from: string | null
  /** What blocked all reminders of the account, as the last planning run recorded it; null: nothing did. */
  blocked_by: 'kill_switch' | 'account_read_only' | null
  /** All debtors with a higher id are to be planned again; null: none. */
  replan_after: string | null
}

/** Without a row, the switch was never activated. */
export interface KillSwitchRow {
  /** An account's id, or `installation`. */
  scope: string
  is_on: Bit
  /** Why the switch was activated; null while it is off. */
  reason: string | null
  changed_at: string
  /** JSON object {type, id, label}. */
  changed_by: string
  /**
   * The number of activations. A message that was planned before the last activation is not sent, however soon
   * the switch was released.
   */
  times_put_on: number
}

/** The state of a planned message, in addition to the message log. */
export interface ReminderRow {
  message_id: string
  account_id: string
  debtor_id: string
  /** JSON object: the stage, recipient, invoices and amounts for which the message was planned. */
  facts: string
  /**
   * The digest of the approved content: the send check cancels the message if its content differs. Null: not approved,
   * or no approval is required.
   */
  approved_hash: string | null
  /** The digest of the payment details in the text; null: the text contains none, or is not written yet. */
  payment_digest: string | null
  /** When the message is processed next; null: no processing is scheduled. */
  run_at: string | null
  /** The lease of the worker that hands the message over. */
  lease: string | null
  /** The number of hand-overs that were started. */
  attempts: number
  /** The number of hand-overs with an unknown outcome. */
  unknown_outcomes: number
  planned_at: string
}

/**
 * A stage of an invoice for which a message was planned. Each stage is used only once per cycle (`chasing_cycle`). The
 * row is deleted if the message is cancelled, suppressed or bounced, so that the stage can be used again. If an earlier
 * hand-over of the message had an unknown outcome, the row is kept, because the customer may have received the message.
 */
export interface TakenStageRow {
  invoice_id: string
  /** The invoice's own stage, which may be less urgent than the message's. */
  stage: 'courtesy' | ReminderStage
  cycle: number
  account_id: string
  message_id: string
}

/**
 * A status that a message has or had, with its reason. Rows are only added, but the erasure of a customer removes the
 * reasons.
 */
export interface MessageTransitionRow {
  message_id: string
  id: string
  account_id: string
  status: MessageStatus
  detail: string | null
  created_at: string
}

/** A wording that an account has changed, with variables in braces. */
export interface ReminderWordingRow {
  account_id: string
  stage: 'courtesy' | ReminderStage
  /** `en`, `nl`, … */
  language: string
  subject: string
  greeting: string
  /** The opening of a reminder about one invoice. */
  opening: string
  /** The opening of a reminder about several invoices. */
  opening_several: string
  closing: string
  sign_off: string
  updated_at: string
}

export interface ReminderTables {
  reminder_wordings: ReminderWordingRow
  chasing_settings: ChasingSettingsRow
  kill_switches: KillSwitchRow
  reminders: ReminderRow
  taken_stages: TakenStageRow
  message_transitions: MessageTransitionRow
}
