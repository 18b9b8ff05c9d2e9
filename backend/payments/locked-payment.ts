import { Problem } from '../../shared/contract/problem.ts'
import type { Reader, Transaction } from '../database/database.ts'
import type { PaymentRow } from '../database/tables.ts'
import { lockDebtorId } from '../debtors/debtors.ts'
import { readReversalTime } from './reversal-time.ts'

export async function findPayment(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<PaymentRow | undefined> {
  return await reader
    .selectFrom('payments')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

/** Like `lockPayment`, but also throws `payment_already_reversed` if the payment was reversed. */
export async function lockUnreversedPayment(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<PaymentRow> {
  const payment = await lockPayment(tx, accountId, id)
  if (payment.status === 'reversed') throw await alreadyReversed(tx, payment)
  return payment
}

/** Locks the payment's debtor, and only then reads and returns the payment. Throws `not_found`. */
export async function lockPayment(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<PaymentRow> {
  // The debtor of a payment never changes, and can therefore be read before the lock.
  const found = await findPayment(tx, accountId, id)
  if (found !== undefined) await lockDebtorId(tx, accountId, found.debtor_id)
  const payment = found && (await findPayment(tx, accountId, id))
  if (payment === undefined) throw new Problem('not_found', `There is no payment ${id}.`)
  return payment
}

async function alreadyReversed(reader: Reader, payment: PaymentRow): Promise<Problem> {
  const reversed_at = await readReversalTime(reader, payment)
  return new Problem(
    'payment_already_reversed',
    `Payment ${payment.id} was already reversed at ${reversed_at}. Nothing was changed.`,
    { members: { reversed_at } },
  )
}
