/**
 * Stores the suppressed addresses of an account. No reminder is sent to them. A suppression is stored by address, so
 * that it applies to all debtors with this address, including debtors that are created later. The resulting
 * `contactability_email` is also stored in each debtor.
 */

import type { DebtorRow, Reader, SuppressedAddressRow, Transaction } from '../database/tables.ts'

export type SuppressionReason = SuppressedAddressRow['reason']

/** A complaint is permanent. An unsubscribe can be undone by the recipient, a bounce by an Admin or an operator. */
const MOST_SEVERE_FIRST: readonly SuppressionReason[] = ['complained', 'unsubscribed', 'bounced']

/** Returns the suppression with the most severe reason; undefined if the address is not suppressed. */
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
  return mostSevere(rows)
}

/** Returns the most severe of the suppressions of one address; undefined if there are none. */
export function mostSevere<T extends Pick<SuppressedAddressRow, 'reason'>>(
  suppressions: readonly T[],
): T | undefined {
  const severity = ({ reason }: T) => MOST_SEVERE_FIRST.indexOf(reason)
  return suppressions.toSorted((a, b) => severity(a) - severity(b))[0]
}

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
  /** The text of the bounce; null for other reasons. */
  readonly detail: string | null
  /** The message that caused the suppression; null if the recipient unsubscribed. */
  readonly messageId: string | null
}

/** Returns whether the suppression is new: false if the address was already suppressed for this reason. */
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

/** Returns whether the suppression existed. */
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

/** Ignores case: in theory a mail server may distinguish `Ap@` from `ap@`, but in practice none does. */
function addressKey(address: string): string {
  return address.toLowerCase()
}
