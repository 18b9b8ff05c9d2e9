/**
 * Decides which messages to write to a debtor now, and which chasing fields its invoices show. It is a pure
 * function: it returns the same plan for the same debtor and time, and does not plan a message again once it is written. It may run at any time.
 *
 * - A stage is due its number of days after the due date, at least five days after the last message, on a
 *   business day. Stages are never skipped: a late run plans only the next stage.
 * - One message covers everything that is due, and at most one a day is sent. Firm and Final have messages
 *   of their own.
 */
import { addDays } from '../../calendar/calendar.ts'
import type { InvoiceRow } from '../../database/tables.ts'
import { CREDIT_ON_ACCOUNT, type Refusal } from '../rails.ts'
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

/** The maximum number of invoices in one message, to limit its size. Further invoices follow on the next day. */
const INVOICES_MAX = 100

export interface PlannedDebtor {
  readonly ladder: Ladder
  readonly time: WorkingTime
  /** Invoices with an earlier due date are never chased. */
  readonly chaseFrom: string | null
  /** The rail that blocks every message to the debtor now. */
  readonly refusal: Refusal | undefined
  /** The debtor's local date of the last reminder. */
  readonly lastSentOn: string | null
  /** A reminder will be sent without a further decision of a person. */
  readonly hasScheduledMessage: boolean
  /** The open invoices. */
  readonly invoices: readonly PlannedInvoice[]
}

export type PlannedInvoice = Pick<
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
  /** The stages of this cycle that have been sent or planned. */
  readonly taken: readonly LadderStage[]
  /** A message about it is planned and not sent yet. */
  readonly isWaiting: boolean
  /**
   * Whether its message was cancelled because of another invoice: it is then planned again at the next
   * slot.
   */
  readonly isReplaced?: boolean
  /** Whether money on account covers all of it: no reminder is then sent about it. */
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
  /** The reason if the invoices themselves block the message, which is then logged and not sent. */
  readonly refusal?: Refusal
}

export interface Plan {
  readonly messages: readonly PlannedMessage[]
  /** The chasing fields by invoice id. */
  readonly invoices: ReadonlyMap<string, ChasingFields>
  /** The time at which to plan the debtor again even if nothing changes; null for never. */
  readonly lookAgainAt: Date | null
}

interface Next {
  readonly stage: LadderStage
  /** The date from which it is due, a business day or not. */
  readonly dueOn: string
  /** The earliest time at which it can be sent. */
  readonly slot: Date
}

/** The next step of an invoice. */
interface Prospect {
  readonly invoice: PlannedInvoice
  readonly fields: ChasingFields
  /** The next message about it, unless something else must happen first. */
  readonly next?: Next
  /** No planning is needed before this time. */
  readonly wakeAt?: Date
}

export function planDebtor(debtor: PlannedDebtor, now: Date): Plan {
  const prospects = debtor.invoices.map((invoice) => prospectOf(invoice, debtor, now))
  const today = debtor.time.dayOf(now)
  const due = prospects.filter(
    ({ invoice, next }) =>
      next && (next.slot <= now || (invoice.isReplaced && next.dueOn <= today)),
  )
  const [covered, requested] = [true, false].map((isCovered) =>
    due.filter(({ invoice }) => (invoice.isCovered ?? false) === isCovered),
  )
  const messages = [...groupCovered(covered ?? [], debtor), ...groupDue(requested ?? [], debtor)]
  const planned = new Set(messages.flatMap(({ invoices }) => invoices.map(({ id }) => id)))
  const fields = prospects.map(({ invoice, fields: own, next }) => {
    if (!planned.has(invoice.id)) return [invoice.id, own] as const
    if (invoice.isCovered) return [invoice.id, { ...own, chasing_next_action_at: null }] as const
    const blocked = debtor.refusal?.reason ?? (next && waitsFor(next.stage))
    return [invoice.id, { ...own, chasing_blocked_reason: blocked ?? null }] as const
  })
  const wakes = prospects.flatMap(({ invoice, next, wakeAt }) => {
    if (wakeAt !== undefined) return [wakeAt.getTime()]
    // An invoice that is due and not planned waits for the message that is being sent.
    return next === undefined || planned.has(invoice.id) || next.slot <= now
      ? []
      : [next.slot.getTime()]
  })
  return {
    messages,
    invoices: new Map(fields),
    lookAgainAt: wakes.length === 0 ? null : new Date(wakes.reduce((a, b) => Math.min(a, b))),
  }
}

function prospectOf(invoice: PlannedInvoice, debtor: PlannedDebtor, now: Date): Prospect {
  const held = blockedBy(invoice, debtor, now)
  if (held !== undefined) return held
  if (invoice.isWaiting) return { invoice, fields: fieldsOf(invoice) }
  const next = nextOf(invoice, debtor, now)
  const { refusal } = debtor
  if (invoice.isCovered) return coveredProspect(invoice, next, now)
  const active = { chasing_status: 'active' as const, chasing_blocked_reason: null }
  if (next === undefined) {
    return {
      invoice,
      fields: { ...active, chasing_next_stage: null, chasing_next_action_at: null },
    }
  }
  const stage = next.stage === 'courtesy' ? null : next.stage
  if (refusal !== undefined && invoice.chasing_blocked_reason === refusal.reason) {
    // The log records the block and its reason once.
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

/** The next stage is logged once as suppressed when it is due. After that, no next action is shown. */
function coveredProspect(invoice: PlannedInvoice, next: Next | undefined, now: Date): Prospect {
  const { chasing_blocked_reason: reason, chasing_next_action_at: at } = invoice
  const { reason: blocked } = CREDIT_ON_ACCOUNT
  const isLogged = reason === blocked && at === null && next !== undefined && next.slot <= now
  const stage = next === undefined || next.stage === 'courtesy' ? null : next.stage
  const fields = {
    chasing_status: 'active',
    chasing_next_stage: stage,
    chasing_next_action_at: isLogged ? null : (next?.slot.toISOString() ?? null),
    chasing_blocked_reason: blocked,
  } as const
  return { invoice, fields, ...(isLogged || next === undefined ? {} : { next }) }
}

/** Returns why an invoice is not chased at present, whatever its due date. */
function blockedBy(
  invoice: PlannedInvoice,
  { chaseFrom }: PlannedDebtor,
  now: Date,
): Prospect | undefined {
  const fields = fieldsOf(invoice)
  if (invoice.chasing_status === 'stopped') return { invoice, fields }
  if (invoice.chasing_status === 'paused') {
    const until = invoice.chasing_next_action_at
    if (until === null) return { invoice, fields }
    if (until > now.toISOString()) return { invoice, fields, wakeAt: new Date(until) }
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

/** Returns undefined after the last stage. */
function nextOf(
  invoice: PlannedInvoice,
  { ladder, time, lastSentOn }: PlannedDebtor,
  now: Date,
): Next | undefined {
  const { due_date: dueOn, chasing_last_message_at: lastAt } = invoice
  const spacedFrom = lastAt === null ? '' : addDays(time.dayOf(new Date(lastAt)), SPACING_DAYS)
  const cappedFrom = lastSentOn === null ? '' : addDays(lastSentOn, 1)
  const at = (stage: LadderStage, days: number): Next | undefined => {
    const day = latest(addDays(dueOn, days), spacedFrom)
    const slot = time.firstSlot(latest(day, cappedFrom), now)
    return slot && { stage, dueOn: day, slot }
  }
  if (ladder.courtesy !== null && invoice.taken.length === 0 && invoice.chasing_stage === null) {
    const courtesy = at('courtesy', ladder.courtesy)
    if (courtesy !== undefined && time.dayOf(courtesy.slot) <= dueOn) return courtesy
  }
  const stage = nextStageOf(invoice)
  return stage && at(stage, ladder[stage])
}

/**
 * Returns the stage after the last one of this cycle. A cycle without one starts where the previous cycle
 * stopped.
 */
function nextStageOf({ taken, chasing_stage: stage }: PlannedInvoice) {
  const last = STAGES.findLast((candidate) => taken.includes(candidate))
  return last === undefined ? (stage ?? 'friendly') : stageAfter(last)
}

/** Groups the due invoices into as few messages as the stages allow. */
function groupDue(due: readonly Prospect[], debtor: PlannedDebtor): PlannedMessage[] {
  const groups = Map.groupBy(due, ({ next }) =>
    next !== undefined && needsApproval(next.stage) ? next.stage : 'usual',
  )
  return (['final', 'firm', 'usual'] as const).flatMap((kind) => {
    const group = groups.get(kind) ?? []
    // The daily cap would only postpone this message, so it is planned once the scheduled message is sent.
    if (group.length === 0 || (kind === 'usual' && debtor.hasScheduledMessage)) return []
    const oldest = group
      .toSorted((a, b) => (a.invoice.due_date < b.invoice.due_date ? -1 : 1))
      .slice(0, debtor.refusal === undefined ? INVOICES_MAX : undefined)
    const invoices = oldest.flatMap(({ invoice, next }) =>
      next === undefined ? [] : [{ id: invoice.id, stage: next.stage }],
    )
    const slots = oldest.flatMap(({ next }) => (next === undefined ? [] : [next.slot.getTime()]))
    const stage = highestStage(invoices.map((covered) => covered.stage))
    return [{ stage, invoices, scheduledFor: new Date(Math.max(...slots)) }]
  })
}

/** These messages are logged as suppressed, with the reason. */
function groupCovered(due: readonly Prospect[], debtor: PlannedDebtor): PlannedMessage[] {
  const unsent = { ...debtor, refusal: CREDIT_ON_ACCOUNT, hasScheduledMessage: false }
  return groupDue(due, unsent).map((message) => ({ ...message, refusal: CREDIT_ON_ACCOUNT }))
}

function waitsFor(stage: LadderStage): string | null {
  return needsApproval(stage) ? 'awaiting_approval' : null
}

/** Keeps the time at which the stage became due, so that a late plan does not change it. */
function dueSince({ chasing_next_action_at: at }: PlannedInvoice, now: Date): Date | undefined {
  return at !== null && at <= now.toISOString() ? new Date(at) : undefined
}

function fieldsOf(invoice: PlannedInvoice): ChasingFields {
  const {
    chasing_status,
    chasing_next_stage,
    chasing_next_action_at,
    chasing_blocked_reason: reason,
  } = invoice
  return {
    chasing_status,
    chasing_next_stage,
    chasing_next_action_at,
    chasing_blocked_reason: reason,
  }
}

function latest(...days: readonly string[]): string {
  return days.reduce((a, b) => (a > b ? a : b))
}
