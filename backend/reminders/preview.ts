/**
 * Predicts the messages of the next days, including those that a safety rail would block, on the assumption that
 * nothing changes and that approvals are given immediately.
 */
import { setImmediate } from 'node:timers/promises'
import { addDays, startOfDay, todayIn } from '../calendar/calendar.ts'
import type { Reader } from '../database/database.ts'
import type { DebtorRow, MessageStatus, ReminderStage } from '../database/tables.ts'
import { IS_UNSENT } from '../messages/cancel-messages.ts'
import { type Facts, publicStage, readFacts } from './planning/facts.ts'
import { needsApproval } from './planning/ladder.ts'
import type { PlannedMessage } from './planning/planner.ts'
import { decidePlan } from './planning/planning.ts'
import {
  type ChasedDebtor,
  type ChasedInvoice,
  type ChasingAccount,
  readChasedDebtors,
  readChasingAccounts,
  selectOwingDebtors,
} from './planning/planning-data.ts'
import type { WorkingTime } from './planning/working-time.ts'
import { findRefusalIgnoringDemo, type Refusal } from './safety-rails.ts'

export interface PreviewedMessage {
  /** The earliest time at which the message would be sent. */
  readonly at: string
  readonly debtorId: string
  readonly debtorName: string
  /** The full address, not masked. */
  readonly recipient: string | null
  /** Null for a courtesy. */
  readonly stage: ReminderStage | null
  readonly invoices: readonly {
    readonly id: string
    readonly number: string
    readonly dueDate: string
    readonly amountDue: number
    /** The part of `amountDue` that money on account covers, in minor units; absent or 0 if it covers nothing. */
    readonly onAccount?: number
    readonly currency: string
  }[]
  readonly requiresApproval: boolean
  /**
   * Null if no safety rail would block the message. For a stored message, only the safety rails that would block every
   * message to the debtor are applied. For sample data, the reason is `demo` only if no other reason applies.
   */
  readonly refusal: Refusal | null
  /** The stored message; null if the message is not planned yet. */
  readonly storedMessage: { readonly id: string; readonly status: MessageStatus } | null
}

/** How many debtors are read at a time, which limits the memory. */
const DEBTORS_PER_BATCH = 200

/** Limits the steps of the prediction for one debtor. A year of reminders needs far fewer steps. */
const STEPS_MAX = 400

/**
 * After planning this many invoices, which takes some milliseconds, the prediction pauses, so that the process responds
 * to other requests.
 */
const PLANNED_MAX = 1000

/** Counts the invoices that a step plans; pauses if `PLANNED_MAX` or more were counted since the last pause. */
type Pause = (invoices: number) => Promise<void>

function createPause(): Pause {
  let planned = 0
  return async (invoices) => {
    planned += invoices
    if (planned < PLANNED_MAX) return
    planned = 0
    await setImmediate()
  }
}

/**
 * Returns the messages that are waiting, and those that would be planned from `now` to the end of the day that is
 * `days` days later, in the order in which they would be sent. Days are those of the account's time zone.
 */
export async function previewReminders(
  reader: Reader,
  accountId: string,
  now: Date,
  days: number,
): Promise<PreviewedMessage[]> {
  const account = (await readChasingAccounts(reader, [accountId])).get(accountId)
  if (account === undefined) return []
  const { timezone } = account.row
  const until = startOfDay(addDays(todayIn(timezone, now), days + 1), timezone)
  const messages: PreviewedMessage[] = []
  const pause = createPause()
  let after = ''
  for (;;) {
    const debtors = await selectOwingDebtors(reader, accountId, after)
      .selectAll()
      .limit(DEBTORS_PER_BATCH)
      .execute()
    const last = debtors.at(-1)
    if (last === undefined) break
    after = last.id
    const chasedDebtors = await readChasedDebtors(reader, debtors)
    const waiting = Map.groupBy(await readWaiting(reader, debtors), (row) => row.debtor_id)
    for (const debtor of debtors) {
      const chased = chasedDebtors.get(debtor.id)
      if (chased === undefined) continue
      const { refusal } = decidePlan(debtor, account, chased, now)
      const workingTime = account.workingTimeOf(debtor)
      const sendings = predictSendings(waiting.get(debtor.id) ?? [], chased, workingTime, now)
      const shown = shownRefusal(debtor, account, chased, refusal ?? null, now)
      messages.push(...sendings.map((sending) => describeWaiting(debtor, sending, shown)))
      const afterSending = asIfSent(chased, sendings)
      messages.push(...(await predictMessages(debtor, account, afterSending, now, until, pause)))
    }
  }
  return messages.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
}

/** Returns the messages that would be planned for the debtor until `until`. */
export async function predictMessages(
  debtor: DebtorRow,
  account: ChasingAccount,
  current: ChasedDebtor,
  now: Date,
  until: Date,
  pause = createPause(),
): Promise<PreviewedMessage[]> {
  const predicted: PreviewedMessage[] = []
  let chased = current
  let at = now
  for (let step = 0; step < STEPS_MAX; step++) {
    await pause(chased.invoices.length)
    const { plan, refusal } = decidePlan(debtor, account, chased, at)
    // The daily cap delays the other messages of the plan, so a later step predicts them.
    const next = plan.messages[0]
    if (next !== undefined) {
      const nextRefusal = next.refusal ?? refusal ?? null
      const shown = shownRefusal(debtor, account, chased, nextRefusal, at)
      predicted.push(describePlanned(debtor, chased, next, shown))
      chased = afterMessage(chased, next, nextRefusal)
    } else if (plan.planAgainAt === null || plan.planAgainAt >= until) {
      break
    } else {
      at = plan.planAgainAt
    }
  }
  return predicted
}

/**
 * The preview of sample data shows what would happen to real data, so every other reason takes precedence over
 * `demo`.
 */
function shownRefusal(
  debtor: DebtorRow,
  { row, switches }: ChasingAccount,
  { suppressionReason }: ChasedDebtor,
  refusal: Refusal | null,
  now: Date,
): Refusal | null {
  if (refusal?.reason !== 'demo') return refusal
  const situation = { now, account: { ...row, switches }, debtor, suppressionReason }
  return findRefusalIgnoringDemo(situation) ?? refusal
}

interface Sending {
  readonly row: WaitingRow
  readonly facts: Facts
  readonly at: Date
}

/**
 * Statuses of messages whose hand-over was attempted or is in progress. The day of `lastSentAt` does not delay them: it
 * may be the day of the message's own attempt, because an attempt with an unknown outcome counts as sent.
 */
const ATTEMPTED: readonly MessageStatus[] = ['queued', 'sending']

/**
 * Predicts when the waiting messages to one debtor would be sent: in the order of their times, in business hours, and
 * not on a day on which another message is sent.
 */
function predictSendings(
  rows: readonly WaitingRow[],
  { lastSentAt }: ChasedDebtor,
  workingTime: WorkingTime,
  now: Date,
): Sending[] {
  const earliestSendTimeOf = ({ scheduled_for: at }: WaitingRow) =>
    Math.max(now.getTime(), at === null ? 0 : Date.parse(at))
  const dayAfter = (sentAt: Date) => addDays(workingTime.dayOf(sentAt), 1)
  let nextDay = lastSentAt === null ? undefined : dayAfter(new Date(lastSentAt))
  return rows
    .map((row) => ({ row, from: earliestSendTimeOf(row) }))
    .sort((a, b) => a.from - b.from)
    .map(({ row, from }) => {
      const day = ATTEMPTED.includes(row.status) ? undefined : nextDay
      const at = sendTime(workingTime, new Date(from), day)
      nextDay = dayAfter(at)
      return { row, facts: readFacts(row.facts), at }
    })
}

/**
 * Returns the first time in a send window that is neither before `from` nor before `day`; `from` if every day is a
 * holiday.
 */
function sendTime(workingTime: WorkingTime, from: Date, day = workingTime.dayOf(from)): Date {
  return workingTime.firstSlot(day, from) ?? from
}

function asIfSent(chased: ChasedDebtor, sendings: readonly Sending[]): ChasedDebtor {
  const sentAt = new Map(
    sendings.flatMap(({ facts, at }) => facts.invoices.map(({ id }) => [id, at.toISOString()])),
  )
  return {
    ...chased,
    hasScheduledMessage: false,
    lastSentAt: sendings.at(-1)?.at.toISOString() ?? chased.lastSentAt,
    invoices: chased.invoices.map((invoice) => {
      const at = sentAt.get(invoice.id)
      return at === undefined
        ? invoice
        : { ...invoice, hasWaitingMessage: false, chasing_last_message_at: at }
    }),
  }
}

/** Returns the debtor as it would be after the message was sent, or blocked for the reason in `refusal`. */
function afterMessage(
  chased: ChasedDebtor,
  { scheduledFor, invoices }: PlannedMessage,
  refusal: Refusal | null,
): ChasedDebtor {
  const at = scheduledFor.toISOString()
  const stages = new Map(invoices.map(({ id, stage }) => [id, stage]))
  const advance = (invoice: ChasedInvoice): ChasedInvoice => {
    const stage = stages.get(invoice.id)
    if (stage === undefined) return invoice
    if (refusal !== null) {
      const { reason } = refusal
      return { ...invoice, chasing_blocked_reason: reason, chasing_next_action_at: null }
    }
    return {
      ...invoice,
      chasing_status: 'active',
      chasing_blocked_reason: null,
      chasing_stage: publicStage(stage) ?? invoice.chasing_stage,
      chasing_last_message_at: at,
      sentOrPlannedStages: [...invoice.sentOrPlannedStages, stage],
    }
  }
  return {
    ...chased,
    invoices: chased.invoices.map(advance),
    lastSentAt: refusal === null ? at : chased.lastSentAt,
  }
}

function describePlanned(
  { id, name, email }: DebtorRow,
  { invoices }: ChasedDebtor,
  { stage, scheduledFor, invoices: plannedInvoices }: PlannedMessage,
  refusal: Refusal | null,
): PreviewedMessage {
  const byId = new Map(invoices.map((invoice) => [invoice.id, invoice]))
  return {
    at: scheduledFor.toISOString(),
    debtorId: id,
    debtorName: name,
    recipient: email,
    stage: publicStage(stage),
    invoices: plannedInvoices.flatMap(({ id: invoiceId }) => {
      const invoice = byId.get(invoiceId)
      if (invoice === undefined) return []
      const { number, due_date: dueDate, amount_due: amountDue, onAccount, currency } = invoice
      return [{ id: invoiceId, number, dueDate, amountDue, onAccount, currency }]
    }),
    requiresApproval: needsApproval(stage),
    refusal,
    storedMessage: null,
  }
}

interface WaitingRow {
  readonly id: string
  readonly debtor_id: string
  readonly status: MessageStatus
  readonly scheduled_for: string | null
  readonly facts: string
}

function describeWaiting(
  { id, name }: DebtorRow,
  { row, facts, at }: Sending,
  refusal: Refusal | null,
): PreviewedMessage {
  const { stage, recipient, invoices } = facts
  return {
    at: at.toISOString(),
    debtorId: id,
    debtorName: name,
    recipient,
    stage: publicStage(stage),
    invoices,
    requiresApproval: needsApproval(stage),
    refusal,
    storedMessage: { id: row.id, status: row.status },
  }
}

function readWaiting(reader: Reader, debtors: readonly DebtorRow[]): Promise<WaitingRow[]> {
  return reader
    .selectFrom('messages')
    .innerJoin('reminders', 'reminders.message_id', 'messages.id')
    .select([
      'messages.id',
      'messages.debtor_id',
      'messages.status',
      'messages.scheduled_for',
      'reminders.facts',
    ])
    .where(
      'messages.debtor_id',
      'in',
      debtors.map(({ id }) => id),
    )
    .where(IS_UNSENT)
    .orderBy('messages.id')
    .execute()
}
