/**
 * Decides which messages to plan for a debtor now, and which chasing state its invoices show. `planDebtor` is a pure
 * function of the debtor's data and the time. It may run at any time, and never plans a message twice.
 *
 * - The ladder defines how many days after the due date each stage is due; the number for the courtesy is negative. A
 *   stage is sent on a business day, at least five days after the previous message about the invoice. A late run plans
 *   only the next stage; it skips none, except a courtesy that can no longer be sent by the due date.
 * - Invoices whose next stage is due share a message, up to 100 of them. The stages firm and final each have a separate
 *   message. At most one message a day is sent to a debtor: this is the daily cap.
 */
import { addDays } from '../../calendar/calendar.ts'
import type { InvoiceRow } from '../../database/tables.ts'
import { CREDIT_ON_ACCOUNT, type Refusal } from '../safety-rails.ts'
import { publicStage } from './facts.ts'
import {
  highestStage,
  type Ladder,
  type LadderStage,
  needsApproval,
  SPACING_DAYS,
  STAGES,
  stageAfter,
} from './ladder.ts'
import type { WorkingTime } from './working-time.ts'

/**
 * The maximum number of invoices in a message, which limits its size. Messages that are only logged as suppressed have
 * no maximum.
 */
const INVOICES_MAX = 100

/** The `chasing_blocked_reason` of an invoice while its reminder awaits approval. */
export const AWAITING_APPROVAL = 'awaiting_approval'

export interface DebtorToPlan {
  readonly ladder: Ladder
  readonly workingTime: WorkingTime
  /** Invoices with an earlier due date are never chased; null if all are chased. */
  readonly chaseFrom: string | null
  /** The refusal if a safety rail blocks every message to the debtor now. */
  readonly refusal: Refusal | undefined
  /** The date on which a reminder was last sent, or may have been sent, in the debtor's time zone; null if never. */
  readonly lastSentOn: string | null
  /** Whether a reminder to the debtor is being sent, or waits to be sent and needs no decision by a person. */
  readonly hasScheduledMessage: boolean
  readonly invoices: readonly InvoiceToPlan[]
}

export type InvoiceToPlan = Pick<
  InvoiceRow,
  | 'id'
  | 'due_date'
  | 'chasing_status'
  | 'chasing_stage'
  | 'chasing_next_stage'
  | 'chasing_next_action_at'
  | 'chasing_last_message_at'
  | 'chasing_blocked_reason'
> & {
  /**
   * The stages that were sent or planned in this cycle, except stages that can be used again (see `TakenStageRow`).
   * Another cycle begins when a paid invoice is reopened.
   */
  readonly sentOrPlannedStages: readonly LadderStage[]
  /** Whether a message about the invoice is planned, but not sent yet. */
  readonly hasWaitingMessage: boolean
  /**
   * Whether a change, such as a payment of another invoice, has just cancelled the invoice's message. If the next
   * message is already due (`dueOn`), it is then planned at once, even if its slot is later.
   */
  readonly isMessageCancelled?: boolean
  /** Whether money on account covers the whole amount due. No reminder is then sent about the invoice. */
  readonly isCovered?: boolean
}

export type ChasingFields = Pick<
  InvoiceRow,
  'chasing_status' | 'chasing_next_stage' | 'chasing_next_action_at' | 'chasing_blocked_reason'
>

export interface PlannedMessage {
  readonly stage: LadderStage
  readonly scheduledFor: Date
  readonly invoices: readonly { readonly id: string; readonly stage: LadderStage }[]
  /** Set if money on account covers the invoices. The message is then only logged as suppressed. */
  readonly refusal?: Refusal
}

export interface Plan {
  readonly messages: readonly PlannedMessage[]
  /** The chasing fields by invoice id. */
  readonly invoices: ReadonlyMap<string, ChasingFields>
  /** The time at which to plan the debtor again even if nothing changes; null for never. */
  readonly planAgainAt: Date | null
}

interface NextMessage {
  readonly stage: LadderStage
  /** The date from which the message (not the invoice) is due; not necessarily a business day. */
  readonly dueOn: string
  /** The earliest time at which the message can be sent. */
  readonly slot: Date
}

interface NextStep {
  readonly invoice: InvoiceToPlan
  readonly fields: ChasingFields
  /**
   * The next message to plan; absent if there is none, e.g. because a message is waiting, the invoice is paused, or it
   * is already logged that the message is blocked.
   */
  readonly next?: NextMessage
  /** The end of the invoice's pause; absent if the invoice is not paused, or if only a person can end the pause. */
  readonly pausedUntil?: Date
}

export function planDebtor(debtor: DebtorToPlan, now: Date): Plan {
  const nextSteps = debtor.invoices.map((invoice) => nextStepOf(invoice, debtor, now))
  const today = debtor.workingTime.dayOf(now)
  const due = nextSteps.filter(
    ({ invoice, next }) =>
      next && (next.slot <= now || (invoice.isMessageCancelled && next.dueOn <= today)),
  )
  const [covered, uncovered] = [true, false].map((isCovered) =>
    due.filter(({ invoice }) => (invoice.isCovered ?? false) === isCovered),
  )
  const messages = [...groupCovered(covered ?? [], debtor), ...groupDue(uncovered ?? [], debtor)]
  const planned = new Set(messages.flatMap(({ invoices }) => invoices.map(({ id }) => id)))
  const fieldEntries = nextSteps.map(({ invoice, fields, next }) => {
    if (!planned.has(invoice.id)) return [invoice.id, fields] as const
    if (invoice.isCovered) return [invoice.id, { ...fields, chasing_next_action_at: null }] as const
    const blocked = debtor.refusal?.reason ?? (next && approvalBlockOf(next.stage))
    return [invoice.id, { ...fields, chasing_blocked_reason: blocked ?? null }] as const
  })
  const planTimes = nextSteps.flatMap(({ invoice, next, pausedUntil }) => {
    if (pausedUntil !== undefined) return [pausedUntil.getTime()]
    // An invoice whose next stage is due, but which is in no planned message, needs no time: the debtor is planned
    // again after the message that is now scheduled has been sent.
    return next === undefined || planned.has(invoice.id) || next.slot <= now
      ? []
      : [next.slot.getTime()]
  })
  return {
    messages,
    invoices: new Map(fieldEntries),
    planAgainAt:
      planTimes.length === 0 ? null : new Date(planTimes.reduce((a, b) => Math.min(a, b))),
  }
}

function nextStepOf(invoice: InvoiceToPlan, debtor: DebtorToPlan, now: Date): NextStep {
  const unchased = nextStepIfNotChased(invoice, debtor, now)
  if (unchased !== undefined) return unchased
  if (invoice.hasWaitingMessage) return { invoice, fields: fieldsOf(invoice) }
  const next = nextMessageOf(invoice, debtor, now)
  const { refusal } = debtor
  if (invoice.isCovered) return nextStepIfCovered(invoice, next, now)
  const active = { chasing_status: 'active' as const, chasing_blocked_reason: null }
  if (next === undefined) {
    return {
      invoice,
      fields: { ...active, chasing_next_stage: null, chasing_next_action_at: null },
    }
  }
  const stage = publicStage(next.stage)
  if (refusal !== undefined && invoice.chasing_blocked_reason === refusal.reason) {
    // The block has already been logged.
    const fields = { ...active, chasing_blocked_reason: refusal.reason }
    return {
      invoice,
      fields: { ...fields, chasing_next_stage: stage, chasing_next_action_at: null },
    }
  }
  const at = next.slot <= now ? (dueSince(invoice, now) ?? next.slot) : next.slot
  return {
    invoice,
    next,
    fields: { ...active, chasing_next_stage: stage, chasing_next_action_at: at.toISOString() },
  }
}

/**
 * Returns the next step of an invoice that money on account covers. When the invoice's next stage is due, the stage is
 * logged once as suppressed. Afterwards, the invoice shows no time of its next action.
 */
function nextStepIfCovered(
  invoice: InvoiceToPlan,
  next: NextMessage | undefined,
  now: Date,
): NextStep {
  const { chasing_blocked_reason: reason, chasing_next_action_at: at } = invoice
  const { reason: blocked } = CREDIT_ON_ACCOUNT
  const isSuppressionLogged =
    reason === blocked && at === null && next !== undefined && next.slot <= now
  const stage = next === undefined ? null : publicStage(next.stage)
  const fields = {
    chasing_status: 'active',
    chasing_next_stage: stage,
    chasing_next_action_at: isSuppressionLogged ? null : (next?.slot.toISOString() ?? null),
    chasing_blocked_reason: blocked,
  } as const
  return { invoice, fields, ...(isSuppressionLogged || next === undefined ? {} : { next }) }
}

/** Returns the next step of an invoice that is not chased at present; undefined if it is chased. */
function nextStepIfNotChased(
  invoice: InvoiceToPlan,
  { chaseFrom }: DebtorToPlan,
  now: Date,
): NextStep | undefined {
  const fields = fieldsOf(invoice)
  if (invoice.chasing_status === 'stopped') return { invoice, fields }
  if (invoice.chasing_status === 'paused') {
    // While an invoice is paused, this time is the end of the pause; null if only a person can end it.
    const until = invoice.chasing_next_action_at
    if (until === null) return { invoice, fields }
    if (until > now.toISOString()) return { invoice, fields, pausedUntil: new Date(until) }
  }
  if (chaseFrom === null || invoice.due_date >= chaseFrom) return undefined
  return {
    invoice,
    fields: {
      chasing_status: 'active',
      chasing_next_stage: null,
      chasing_next_action_at: null,
      chasing_blocked_reason: 'before_chase_from',
    },
  }
}

/** Returns undefined after the last stage, or if no business day is left in the next ten years. */
function nextMessageOf(
  invoice: InvoiceToPlan,
  { ladder, workingTime, lastSentOn }: DebtorToPlan,
  now: Date,
): NextMessage | undefined {
  const { due_date: dueDate, chasing_last_message_at: lastAt } = invoice
  const afterSpacing =
    lastAt === null ? '' : addDays(workingTime.dayOf(new Date(lastAt)), SPACING_DAYS)
  const afterDailyCap = lastSentOn === null ? '' : addDays(lastSentOn, 1)
  const messageAfter = (days: number, stage: LadderStage): NextMessage | undefined => {
    const day = latest(addDays(dueDate, days), afterSpacing)
    const slot = workingTime.firstSlot(latest(day, afterDailyCap), now)
    return slot && { stage, dueOn: day, slot }
  }
  if (
    ladder.courtesy !== null &&
    invoice.sentOrPlannedStages.length === 0 &&
    invoice.chasing_stage === null
  ) {
    const courtesy = messageAfter(ladder.courtesy, 'courtesy')
    if (courtesy !== undefined && workingTime.dayOf(courtesy.slot) <= dueDate) return courtesy
  }
  const stage = nextStageOf(invoice)
  return stage && messageAfter(ladder[stage], stage)
}

/**
 * Returns the stage that follows the last stage of this cycle; undefined after `final`. If this cycle has no stage,
 * e.g. because it has just begun, returns the stage that was sent last, which is then repeated; `friendly` if none was
 * sent.
 */
function nextStageOf({ sentOrPlannedStages, chasing_stage: stage }: InvoiceToPlan) {
  const last = STAGES.findLast((candidate) => sentOrPlannedStages.includes(candidate))
  return last === undefined ? (stage ?? 'friendly') : stageAfter(last)
}

function groupDue(due: readonly NextStep[], debtor: DebtorToPlan): PlannedMessage[] {
  const groups = Map.groupBy(due, ({ next }) =>
    next !== undefined && needsApproval(next.stage) ? next.stage : 'routine',
  )
  return (['final', 'firm', 'routine'] as const).flatMap((kind) => {
    const group = groups.get(kind) ?? []
    // The daily cap would postpone a routine message, so it is planned only after the scheduled message has been sent.
    // Firm and final are planned nevertheless, because a person must first approve them.
    if (kind === 'routine' && debtor.hasScheduledMessage) return []
    const oldest = group
      .toSorted((a, b) => (a.invoice.due_date < b.invoice.due_date ? -1 : 1))
      .slice(0, debtor.refusal === undefined ? INVOICES_MAX : undefined)
    const [first] = oldest
    if (first?.next === undefined) return []
    const invoices = oldest.flatMap(({ invoice, next }) =>
      next === undefined ? [] : [{ id: invoice.id, stage: next.stage }],
    )
    const stage = highestStage(invoices.map((invoice) => invoice.stage))
    // All these invoices have the same slot: the first one from now on that the daily cap allows.
    return [{ stage, invoices, scheduledFor: first.next.slot }]
  })
}

/**
 * Groups the invoices that money on account covers into messages, which are logged as suppressed, not sent. They
 * therefore need not wait for a scheduled message, and have no maximum size.
 */
function groupCovered(due: readonly NextStep[], debtor: DebtorToPlan): PlannedMessage[] {
  const blockedDebtor = { ...debtor, refusal: CREDIT_ON_ACCOUNT, hasScheduledMessage: false }
  return groupDue(due, blockedDebtor).map((message) => ({ ...message, refusal: CREDIT_ON_ACCOUNT }))
}

function approvalBlockOf(stage: LadderStage): string | null {
  return needsApproval(stage) ? AWAITING_APPROVAL : null
}

/**
 * If the time that the invoice shows for its next stage has passed, returns this time, so that a late run does not
 * replace it with the new slot.
 */
function dueSince({ chasing_next_action_at: at }: InvoiceToPlan, now: Date): Date | undefined {
  return at !== null && at <= now.toISOString() ? new Date(at) : undefined
}

function fieldsOf(invoice: InvoiceToPlan): ChasingFields {
  const { chasing_status, chasing_next_stage, chasing_next_action_at, chasing_blocked_reason } =
    invoice
  return { chasing_status, chasing_next_stage, chasing_next_action_at, chasing_blocked_reason }
}

function latest(...days: readonly string[]): string {
  return days.reduce((a, b) => (a > b ? a : b))
}
