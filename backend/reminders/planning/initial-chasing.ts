/**
 * Predicts the chasing fields that the planner will set for a new invoice, so that the response to the creation of the
 * invoice already contains them. The prediction does not count a reminder whose hand-over has an unknown outcome toward
 * the debtor's daily cap. The planner counts such a reminder, and soon corrects the fields.
 */
import type { Reader } from '../../database/database.ts'
import type { DebtorRow } from '../../database/tables.ts'
import { type CoverableInvoice, coversNewInvoice } from '../../on-account/cover.ts'
import { readChasingSettings } from '../chasing-settings.ts'
import { CREDIT_ON_ACCOUNT } from '../safety-rails.ts'
import { readLadder } from './ladder.ts'
import { type ChasingFields, planDebtor } from './planner.ts'
import { readLastSent } from './planning-data.ts'
import { createWorkingTime, sendingTimezone } from './working-time.ts'

/** `timezone` is the time zone of the account. */
export async function initialChasing(
  reader: Reader,
  debtor: DebtorRow,
  timezone: string,
  invoice: CoverableInvoice,
  now: Date,
): Promise<ChasingFields> {
  const { id, due_date } = invoice
  const { ladder, holidays, chaseFrom } = await readChasingSettings(reader, debtor.account_id)
  const workingTime = createWorkingTime(sendingTimezone(debtor, timezone), holidays)
  const lastSentAt = (await readLastSent(reader, [debtor.id])).get(debtor.id) ?? null
  const plan = planDebtor(
    {
      ladder: readLadder(debtor.ladder) ?? ladder,
      workingTime,
      chaseFrom,
      // If a safety rail blocks the debtor, an invoice shows this only after the planner has logged a blocked message
      // about the invoice. For a new invoice, it has not.
      refusal: undefined,
      lastSentOn: lastSentAt === null ? null : workingTime.dayOf(new Date(lastSentAt)),
      // Only the chasing fields are needed. With `true`, the planner does not plan the first message of the invoice.
      hasScheduledMessage: true,
      invoices: [{ ...NOT_YET_CHASED, id, due_date }],
    },
    now,
  )
  const fields = plan.invoices.get(id) ?? NOT_YET_CHASED
  // The reason is set here, and not by `planDebtor`: for a due stage, `planDebtor` would set `chasing_next_action_at`
  // to null. For the planner, null means that the block is already logged, so it would never log the block.
  const isCovered =
    fields.chasing_next_action_at !== null && (await coversNewInvoice(reader, debtor.id, invoice))
  return isCovered ? { ...fields, chasing_blocked_reason: CREDIT_ON_ACCOUNT.reason } : fields
}

const NOT_YET_CHASED = {
  chasing_status: 'active',
  chasing_stage: null,
  chasing_next_stage: null,
  chasing_next_action_at: null,
  chasing_last_message_at: null,
  chasing_blocked_reason: null,
  sentOrPlannedStages: [],
  hasWaitingMessage: false,
} as const
