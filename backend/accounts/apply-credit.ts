/**
 * The account setting `apply_credit`, for the part of a new payment that the request does not allocate: `manual` leaves
 * it on account, `oldest_first` allocates it to the open invoices with the earliest due dates.
 */
import assert from 'node:assert'
import { prepared } from '../database/prepared.ts'
import type { AccountRow, Reader, Transaction } from '../database/tables.ts'
import { fieldErrorsProblem } from '../validation/field-errors.ts'
import { lockAccount } from './accounts.ts'
import { type ActionContext, recordAudit } from './audit.ts'

export const APPLY_CREDIT = ['manual', 'oldest_first'] as const satisfies readonly ApplyCredit[]

export type ApplyCredit = AccountRow['apply_credit']

/** Changes the setting for payments that are recorded later. Throws `not_found`, `validation_failed`. */
export async function setApplyCredit(
  tx: Transaction,
  accountId: string,
  text: string,
  actionContext: ActionContext,
): Promise<AccountRow> {
  const applyCredit = APPLY_CREDIT.find((candidate) => candidate === text)
  if (applyCredit === undefined) {
    const detail = `apply_credit must be ${APPLY_CREDIT.join(' or ')}`
    throw fieldErrorsProblem([{ pointer: '/apply_credit', code: 'invalid_enum', detail }])
  }
  const account = await lockAccount(tx, accountId)
  if (account.apply_credit === applyCredit) return account
  const change = { apply_credit: applyCredit, updated_at: actionContext.now.toISOString() }
  await tx.updateTable('accounts').set(change).where('id', '=', accountId).execute()
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'account.apply_credit_changed',
    subjectId: accountId,
    detail: { apply_credit: applyCredit },
  })
  return { ...account, ...change }
}

export async function readApplyCredit(reader: Reader, accountId: string): Promise<ApplyCredit> {
  const [account] = await selectApplyCredit(reader, { accountId })
  assert(account !== undefined, 'the account of a payment must exist')
  return account.apply_credit
}

const selectApplyCredit = prepared((reader: Reader, { accountId }: { accountId: string }) =>
  reader.selectFrom('accounts').select('apply_credit').where('id', '=', accountId),
)
