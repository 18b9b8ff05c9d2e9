/**
 * Addresses that an account does not write to, and why. Kept apart from the debtors: another debtor
 * with the same address, or the same one made anew, is not written to either.
 */

import type { DebtorRow, Reader, SuppressedAddressRow, Transaction } from '../database/tables.ts'

export type SuppressionReason = SuppressedAddressRow['reason']

/** Who complained must never be written to again, who opted out may think better of it. */
const BY_WEIGHT: readonly SuppressionReason[] = ['complained', 'unsubscribed', 'bounced']

/** The weightiest reason not to write there; undefined where there is none. */
export async function findSuppression(
  reader: Reader,
  accountId: string,
  address: string,
): Promise<SuppressedAddressRow | undefined> {
  const rows = await reader
    .selectFrom('suppressed_addresses')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('address', '=', addressKey(address))
    .execute()
  return rows.sort((a, b) => BY_WEIGHT.indexOf(a.reason) - BY_WEIGHT.indexOf(b.reason))[0]
}

/** What a debtor with this address shows. */
export async function readContactability(
  reader: Reader,
  accountId: string,
  address: string | null,
): Promise<DebtorRow['contactability_email']> {
  if (address === null) return 'missing'
  return (await findSuppression(reader, accountId, address))?.reason ?? 'ok'
}

export interface Suppression {
  readonly accountId: string
  readonly address: string
  readonly reason: SuppressionReason
  readonly detail: string | null
  /** The message that it came of. */
  readonly messageId: string | null
}

/** Whether it was not yet suppressed for this reason. */
export async function insertSuppression(
  tx: Transaction,
  { accountId, address, reason, detail, messageId }: Suppression,
  now: Date,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('suppressed_addresses')
    .values({
      account_id: accountId,
      address: addressKey(address),
      reason,
      detail,
      message_id: messageId,
      created_at: now.toISOString(),
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

/** Whether there was one. */
export async function deleteSuppression(
  tx: Transaction,
  accountId: string,
  address: string,
  reason: SuppressionReason,
): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('suppressed_addresses')
    .where('account_id', '=', accountId)
    .where('address', '=', addressKey(address))
    .where('reason', '=', reason)
    .executeTakeFirstOrThrow()
  return numDeletedRows === 1n
}

/** Servers may tell `Ap@` from `ap@`, but none does. */
function addressKey(address: string): string {
  return address.toLowerCase()
}
