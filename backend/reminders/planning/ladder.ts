/**
 * The ladder defines how many days after the due date each stage is sent. Stages are sent in order. No stage is
 * skipped, except a courtesy that cannot be sent by the due date.
 */

import { REMINDER_STAGES } from '../../database/tables/messages.ts'
import type { ReminderStage } from '../../database/tables.ts'
import { type FieldError, fieldErrorsProblem } from '../../validation/field-errors.ts'

/** A courtesy is sent by the due date at the latest. The API shows its stage as null. */
export const STAGES = ['courtesy', ...REMINDER_STAGES] as const

export type LadderStage = (typeof STAGES)[number]

/** Days past due of each stage. The number for `courtesy` is negative, or null if no courtesy is sent. */
export type Ladder = Readonly<Record<ReminderStage, number>> & { readonly courtesy: number | null }

export const DEFAULT_LADDER: Ladder = {
  courtesy: null,
  friendly: 3,
  reminder: 10,
  firm: 21,
  final: 35,
}

/** The minimum number of days between two messages about an invoice. */
export const SPACING_DAYS = 5

const DAYS_MAX = 365
const COURTESY_DAYS_MAX = 30

/** Returns undefined after the last stage. */
export function stageAfter(stage: LadderStage): ReminderStage | undefined {
  const next = STAGES[STAGES.indexOf(stage) + 1]
  // The courtesy comes first, so it follows no stage. Only the compiler needs this check.
  return next === 'courtesy' ? undefined : next
}

/** Returns the one of `stages` that comes last in the ladder; `courtesy` if `stages` is empty. */
export function highestStage(stages: readonly LadderStage[]): LadderStage {
  return STAGES.findLast((stage) => stages.includes(stage)) ?? 'courtesy'
}

/**
 * Whether a person must approve the messages of this stage. If so, the planner includes only invoices of this stage in
 * such a message.
 */
export function needsApproval(stage: LadderStage): boolean {
  return stage === 'firm' || stage === 'final'
}

/**
 * Reads a ladder that was checked before it was stored; returns undefined if none is stored. If the ladder lacks a
 * stage, `DEFAULT_LADDER` applies to that stage.
 */
export function readLadder(text: string | null): Ladder | undefined {
  if (text === null) return undefined
  const stored: Partial<Ladder> = JSON.parse(text)
  return { ...DEFAULT_LADDER, ...stored }
}

/** Returns the ladder to store, whose only members are the stages. Throws `validation_failed` with all errors. */
export function checkLadder(ladder: Ladder): Ladder {
  const errors = findLadderErrors(ladder)
  if (errors.length > 0) throw fieldErrorsProblem(errors)
  const { courtesy, friendly, reminder, firm, final } = ladder
  return { courtesy, friendly, reminder, firm, final }
}

/** Returns the errors of a ladder, with pointers `/ladder/…`. */
export function findLadderErrors(ladder: Ladder): FieldError[] {
  const errors: FieldError[] = []
  const addError = (stage: LadderStage, code: string, detail: string) =>
    errors.push({ pointer: `/ladder/${stage}`, code, detail: `${stage} ${detail}` })
  const { courtesy } = ladder
  const hasValidCourtesy = courtesy !== null && isWithin(courtesy, -COURTESY_DAYS_MAX, -1)
  if (courtesy !== null && !hasValidCourtesy) {
    const range = `1 to ${COURTESY_DAYS_MAX} days before the due date (-1 to ${-COURTESY_DAYS_MAX})`
    addError('courtesy', 'out_of_range', `must be ${range}, or none`)
  }
  let previous: LadderStage | undefined = hasValidCourtesy ? 'courtesy' : undefined
  for (const stage of REMINDER_STAGES) {
    const days = ladder[stage]
    if (!isWithin(days, 1, DAYS_MAX)) {
      addError(stage, 'out_of_range', `must be 1 to ${DAYS_MAX} whole days past due`)
    } else if (previous !== undefined && days < (ladder[previous] ?? 0) + SPACING_DAYS) {
      addError(stage, 'out_of_range', `must be at least ${SPACING_DAYS} days after ${previous}`)
    }
    previous = stage
  }
  return errors
}

function isWithin(value: number, min: number, max: number): boolean {
  return Number.isInteger(value) && value >= min && value <= max
}
