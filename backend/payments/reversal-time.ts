import { listActionsOn } from '../accounts/audit.ts'
import type { PaymentRow, Reader } from '../database/tables.ts'

/**
 * Returns when a reversed payment was reversed: the time of the last action on the payment in the audit log, because a
 * reversed payment allows no further action. If the log contains none, returns `updated_at`, which is later than the
 * reversal if personal data in the payment was erased.
 */
export async function readReversalTime(
  reader: Reader,
  { account_id, id, updated_at }: PaymentRow,
): Promise<string> {
  const [last] = await listActionsOn(reader, account_id, id, { limit: 1 })
  return last?.created_at ?? updated_at
}
