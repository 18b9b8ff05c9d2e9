/**
 * The planner: which messages are to be written to a debtor now, and what its invoices show of their
 * chasing. A pure function: the same debtor at the same instant gives the same plan, and once its
 * messages are written it plans nothing more, so it may run as often as it likes.
 *
 * - A stage is due its days after the due date, at least five days after the last message, on a
 *   business day. Stages are never skipped: whoever comes late sends the next one, not all of them.
 * - All that is due is in one message, at most one a day leaves. Firm and Final stay among themselves.
 */
import { addDays } from '../../calendar/calendar.ts'
import type { InvoiceRow } from '../../database/tables.ts'
import { CREDIT_ON_ACCOUNT, type Refusal } from '../rails.ts'
import {
  highestStage,
  type Ladder,
  type LadderStage,
  needsApproval,
  STAGES,
  stageAfter,
} from './ladder.ts'
import type { WorkingTime } from './working-time.ts'

/** Between two messages about an invoice. */
const SPACING_DAYS = 5

/** In one message; the others follow on the next day. Bounds what a mail program has to show. */
const INVOICES_MAX = 100

export interface PlannedDebtor {
  readonly ladder: Ladder
  readonly time: WorkingTime
  /** What fell due before is never chased. */
  readonly chaseFrom: string | null
  /** What would hold back whatever one wrote now. */
  readonly refusal: Refusal | undefined
  /** Where the last reminder left. */
  readonly lastSentOn: string | null
  /** One is about to leave without anybody's doing. */
  readonly isLeaving: boolean
  /** Open ones. */
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
  /** The stages of this cycle that it was reminded at or is about to be. */
  readonly taken: readonly LadderStage[]
  /** A message about it is on its way. */
  readonly isWaiting: boolean
  /** A message about it was stopped: what it said of the others is said anew, at the next slot. */
  readonly isReplaced?: boolean
  /** Money on account covers all that is due: nobody is reminded of it while that lasts. */
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
  /** Why it is logged but not sent, where that is due to its invoices. */
  readonly refusal?: Refusal
}

export interface Plan {
  readonly messages: readonly PlannedMessage[]
  /** Of every invoice, by id. */
  readonly invoices: ReadonlyMap<string, ChasingFields>
  /** When to look at the debtor again though nothing happens; null: never. */
  readonly lookAgainAt: Date | null
}

interface Next {
  readonly stage: LadderStage
  /** The day, working or not, from which it is due. */
  readonly dueOn: string
  /** The first instant at which it can leave. */
  readonly slot: Date
}

/** What an invoice waits for. */
interface Prospect {
  readonly invoice: PlannedInvoice
  readonly fields: ChasingFields
  /** The next message about it, unless something else has to happen first. */
  readonly next?: Next
  /** Nobody need look before. */
  readonly wakeAt?: Date
}

export function planDebtor(debtor: PlannedDebtor, now: Date): Plan {
  const prospects = debtor.invoices.map((invoice) => prospectOf(invoice, debtor, now))
  const today = debtor.time.dayOf(now)
  const due = prospects.filter(
    ({ invoice, next }) =>
      next && (next.slot <= now || (invoice.isReplaced && next.dueOn <= today)),
  )
  const [covered, asked] = [true, false].map((isCovered) =>
    due.filter(({ invoice }) => (invoice.isCovered ?? false) === isCovered),
  )
  const messages = [...groupCovered(covered ?? [], debtor), ...groupDue(asked ?? [], debtor)]
  const planned = new Set(messages.flatMap(({ invoices }) => invoices.map(({ id }) => id)))
  const fields = prospects.map(({ invoice, fields: own, next }) => {
    if (!planned.has(invoice.id)) return [invoice.id, own] as const
    if (invoice.isCovered) return [invoice.id, { ...own, chasing_next_action_at: null }] as const
    const blocked = debtor.refusal?.reason ?? (next && waitsFor(next.stage))
    return [invoice.id, { ...own, chasing_blocked_reason: blocked ?? null }] as const
  })
  const wakes = prospects.flatMap(({ invoice, next, wakeAt }) => {
    if (wakeAt !== undefined) return [wakeAt.getTime()]
    // What is due and was not planned waits for the message that is leaving.
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
  const held = heldBy(invoice, debtor, now)
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
    // It is in the log that this was held back, and why; once is enough.
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

/** The next stage is logged once as suppressed when it is due; after that no instant is shown for it. */
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

/** What is not chased at present, whatever its due date. */
function heldBy(
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

/** Undefined after the last stage. */
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

/** The one after what this cycle has seen; in a cycle that has seen none, where the last one stopped. */
function nextStageOf({ taken, chasing_stage: stage }: PlannedInvoice) {
  const last = STAGES.findLast((candidate) => taken.includes(candidate))
  return last === undefined ? (stage ?? 'friendly') : stageAfter(last)
}

/** What is due goes out in as few messages as the stages allow. */
function groupDue(due: readonly Prospect[], debtor: PlannedDebtor): PlannedMessage[] {
  const groups = Map.groupBy(due, ({ next }) =>
    next !== undefined && needsApproval(next.stage) ? next.stage : 'usual',
  )
  return (['final', 'firm', 'usual'] as const).flatMap((kind) => {
    const group = groups.get(kind) ?? []
    // The cap would only put it off: it is planned when the other has left.
    if (group.length === 0 || (kind === 'usual' && debtor.isLeaving)) return []
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

/** The log says that they were not sent, and why. */
function groupCovered(due: readonly Prospect[], debtor: PlannedDebtor): PlannedMessage[] {
  const unsent = { ...debtor, refusal: CREDIT_ON_ACCOUNT, isLeaving: false }
  return groupDue(due, unsent).map((message) => ({ ...message, refusal: CREDIT_ON_ACCOUNT }))
}

function waitsFor(stage: LadderStage): string | null {
  return needsApproval(stage) ? 'awaiting_approval' : null
}

/** When it became due stays what it was: a plan that comes late does not move it. */
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
