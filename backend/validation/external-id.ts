import { Problem } from '../../shared/contract/problem.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { Transaction } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'

type Table = 'debtors' | 'invoices' | 'payments'

interface Identified {
  readonly account_id: string
  readonly external_id: string | null
}

/**
 * `insert` must insert `row`. Throws 409 `duplicate_external_id` if another row of the account already has the same
 * `external_id`, even if `row` also violates another unique constraint: databases differ in the violation that they
 * report first. `insert` must not use a prepared statement: if such a statement violates a constraint, the transaction
 * ends (see `prepared`), and the other row can no longer be read.
 */
export async function insertWithUniqueExternalId(
  tx: Transaction,
  table: Table,
  row: Identified,
  insert: () => Promise<unknown>,
): Promise<void> {
  try {
    await insert()
  } catch (error) {
    const isUniqueViolation = error instanceof ConstraintViolation && error.kind === 'unique'
    if (isUniqueViolation) await rejectTakenExternalId(tx, table, row, error)
    throw error
  }
}

/** Throws 409 `duplicate_external_id` if a row of the account already has the same `external_id`. */
export async function rejectTakenExternalId(
  tx: Transaction,
  table: Table,
  { account_id: accountId, external_id: externalId }: Identified,
  cause?: Error,
): Promise<void> {
  if (externalId === null) return
  const [existing] = await findByExternalId[table](tx, { accountId, externalId })
  if (existing === undefined) return
  throw new Problem(
    'duplicate_external_id',
    `Another of your ${table} already has this external_id: see existing_id.`,
    { members: { existing_id: existing.id }, cause },
  )
}

const findByExternalId = {
  debtors: finderIn('debtors'),
  invoices: finderIn('invoices'),
  payments: finderIn('payments'),
}

function finderIn(table: Table) {
  return prepared(
    (
      tx: Transaction,
      { accountId, externalId }: { readonly accountId: string; readonly externalId: string },
    ) =>
      tx
        .selectFrom(table)
        .select('id')
        .where('account_id', '=', accountId)
        .where('external_id', '=', externalId),
  )
}
