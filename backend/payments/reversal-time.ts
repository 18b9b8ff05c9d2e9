/**
 * When a payment was reversed. The audit log has this time: `updated_at` may be later, because an erasure changes the
 * payment.
 */
import { listActionsOn } from '../accounts/audit.ts'
import type { PaymentRow, Reader } from '../database/tables.ts'

/**
 * Returns the time of the last action on a reversed payment, which is its reversal. Returns `updated_at` if the audit
 * log contains no action on the payment.
 */
export async function readReversalTime(
  reader: Reader,
  { account_id, id, updated_at }: PaymentRow,
): Promise<string> {
  const [last] = await listActionsOn(reader, account_id, id, { limit: 1 })
  return last?.created_at ?? updated_at
}
