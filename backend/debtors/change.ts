import { Problem } from '../../shared/contract/problem.ts'
import type { Transaction } from '../database/database.ts'
import { nextRevision } from '../database/revision.ts'
import type { DebtorRow } from '../database/tables.ts'
import { type DomainEvent, recordEvent } from '../events/events.ts'
import { readBalances } from './balances.ts'
import { lockDebtor } from './debtors.ts'
import { representDebtor } from './representation.ts'

/**
 * Locks and returns a debtor that is about to be changed. Throws `not_found` if the account has no such debtor, and
 * `debtor_state_conflict` if the debtor's personal data has been erased.
 */
export async function getLockedDebtor(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<DebtorRow> {
  const debtor = await lockDebtor(tx, accountId, id)
  if (debtor === undefined) throw new Problem('not_found', `There is no customer ${id}.`)
  if (debtor.erased_at !== null) {
    throw new Problem(
      'debtor_state_conflict',
      'This customer cannot be changed, because its personal data was erased.',
      {
        members: { debtor_status: 'erased' },
      },
    )
  }
  return debtor
}

export type DebtorChange = Partial<
  Omit<DebtorRow, 'id' | 'account_id' | 'created_at' | 'updated_at' | 'revision'>
>

/**
 * Writes a change to a debtor that the caller has locked, and sets `plan_at`, so that a worker plans the debtor's
 * reminders again. Records `debtor.contactability_changed` for a change of contactability, and `debtor.updated` for any
 * other.
 */
export async function changeDebtor(
  tx: Transaction,
  before: DebtorRow,
  change: DebtorChange,
  now: Date,
): Promise<DebtorRow> {
  const at = now.toISOString()
  const changed = { ...change, plan_at: at }
  const revised = await tx
    .updateTable('debtors')
    .set({ ...changed, ...nextRevision(tx, at) })
    .where('account_id', '=', before.account_id)
    .where('id', '=', before.id)
    .returning(['updated_at', 'revision'])
    .executeTakeFirstOrThrow()
  const row = { ...before, ...changed, ...revised }
  const { contactability_email: contactability, ...others } = change
  if (contactability !== undefined && contactability !== before.contactability_email) {
    await recordEvent(tx, eventOf(tx, 'debtor.contactability_changed', before, row), now)
  }
  if (Object.keys(others).length > 0) {
    await recordEvent(tx, eventOf(tx, 'debtor.updated', before, row), now)
  }
  return row
}

function eventOf(
  tx: Transaction,
  type: 'debtor.updated' | 'debtor.contactability_changed',
  before: DebtorRow,
  row: DebtorRow,
): DomainEvent {
  const { id, account_id: accountId } = row
  const represent = async (debtor: DebtorRow, today: string) =>
    representDebtor(debtor, (await readBalances(tx, accountId, [id], today)).get(id) ?? [])
  return {
    accountId,
    type,
    subjectId: id,
    represent: (today) => represent(row, today),
    representBefore: (today) => represent(before, today),
  }
}
