/** Rows of the reminder engine. */
import type { Bit } from './bit.ts'
import type { MessageStatus, ReminderStage } from './messages.ts'

/** How an account chases. Absent: by the usual ladder, from the beginning, without holidays. */
export interface ChasingSettingsRow {
  account_id: string
  /** JSON object; null: the usual one. */
  ladder: string | null
  /** JSON array of calendar dates on which nothing leaves. */
  holidays: string
  /** What fell due before this day is never chased. */
  chase_from: string | null
  /** What holds the whole account back, as the planner last saw it. */
  blocked_by: 'kill_switch' | 'account_read_only' | null
  /** All debtors after this id are to be looked at again; null: none. */
  replan_after: string | null
}

/** Absent: never used, so off. */
export interface KillSwitchRow {
  /** An account's id, or `installation`. */
  scope: string
  is_on: Bit
  /** Why it was put on; null while it is off. */
  reason: string | null
  changed_at: string
  /** JSON object {type, id, label}. */
  changed_by: string
  /** What was planned when this was less does not leave, however soon the switch was off again. */
  times_put_on: number
}

/** A message of the planner on its way, besides what the log shows of it. */
export interface ReminderRow {
  message_id: string
  account_id: string
  debtor_id: string
  /** JSON object: what it was planned for. */
  facts: string
  /** What was approved, as a hash: something else does not leave. */
  approved_hash: string | null
  /** When to go on with it; null: it is decided. */
  run_at: string | null
  /** Who hands it over now. */
  lease: string | null
  /** Begun hand-overs. */
  attempts: number
  /** Of these, the ones after which nobody knows whether it arrived. */
  unknown_outcomes: number
  planned_at: string
}

/**
 * An invoice is reminded at a stage once in a cycle. Freed where the message was cancelled,
 * suppressed or refused before it left.
 */
export interface TakenStageRow {
  invoice_id: string
  /** The invoice's own, which may be lower than the message's. */
  stage: 'courtesy' | ReminderStage
  cycle: number
  account_id: string
  message_id: string
}

/** Append-only: every state a message of the planner has been in, and why. */
export interface MessageTransitionRow {
  message_id: string
  id: string
  account_id: string
  status: MessageStatus
  detail: string | null
  created_at: string
}

export interface ReminderTables {
  chasing_settings: ChasingSettingsRow
  kill_switches: KillSwitchRow
  reminders: ReminderRow
  taken_stages: TakenStageRow
  message_transitions: MessageTransitionRow
}
