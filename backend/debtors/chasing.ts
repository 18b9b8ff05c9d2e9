/**
 * Pauses, resumes, archives and restores debtors. Each function locks the debtor, so that no worker checks at the same
 * time whether a message to the debtor may be sent. Pausing and archiving cancel waiting messages.
 */
import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, type AuditAction, recordAudit } from '../accounts/audit.ts'
import { checkReason } from '../accounts/reason.ts'
import type { Transaction } from '../database/database.ts'
import type { DebtorRow } from '../database/tables.ts'
import { stopMessagesTo } from '../messages/cancel-messages.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { changeDebtor, getLockedDebtor } from './change.ts'

export interface Pause {
  readonly reason: string
  /** If it is null, the pause lasts until a person resumes chasing. */
  readonly until: Date | null
}

/** Replaces an existing pause. Throws `debtor_state_conflict`, `not_found`, `validation_failed`. */
export async function pauseChasing(
  tx: Transaction,
  accountId: string,
  id: string,
  pause: Pause,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  const reason = checkReason(pause.reason)
  if (pause.until !== null && pause.until <= actionContext.now) {
    const detail = 'until must be in the future.'
    throw enteredValuesProblem([{ pointer: '/until', code: 'out_of_range', detail }])
  }
  const debtor = await getLockedDebtor(tx, accountId, id)
  rejectArchived(debtor)
  const until = pause.until?.toISOString() ?? null
  await auditChasing(tx, debtor, 'debtor.chasing_paused', actionContext, { reason, until })
  await stopMessagesTo(tx, debtor, `the customer was paused: ${reason}`, actionContext.now)
  const change = { chasing_status: 'paused', chasing_reason: reason, chasing_until: until } as const
  return changeDebtor(tx, debtor, change, actionContext.now)
}

/** Idempotent. Throws `debtor_state_conflict`, `not_found`. */
export async function resumeChasing(
  tx: Transaction,
  accountId: string,
  id: string,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  const debtor = await getLockedDebtor(tx, accountId, id)
  rejectArchived(debtor)
  if (debtor.chasing_status === 'active') return debtor
  await auditChasing(tx, debtor, 'debtor.chasing_resumed', actionContext)
  return changeDebtor(tx, debtor, ACTIVE_CHASING, actionContext.now)
}

/**
 * Stops all reminders to the debtor. Its invoices stay due, and payments can still be recorded. Idempotent. Throws
 * `not_found`, and `debtor_state_conflict` if the debtor was erased.
 */
export async function archiveDebtor(
  tx: Transaction,
  accountId: string,
  id: string,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  const debtor = await getLockedDebtor(tx, accountId, id)
  if (debtor.status === 'archived') return debtor
  await auditChasing(tx, debtor, 'debtor.archived', actionContext)
  await stopMessagesTo(tx, debtor, 'the customer was archived', actionContext.now)
  const change = {
    status: 'archived',
    chasing_status: 'stopped',
    chasing_reason: REASON_ARCHIVED,
    chasing_until: null,
  } as const
  return changeDebtor(tx, debtor, change, actionContext.now)
}

/**
 * Restores an archived debtor and resumes chasing, even if it was paused before the debtor was archived. Idempotent.
 * Throws `not_found`, and `debtor_state_conflict` if the debtor was erased.
 */
export async function restoreDebtor(
  tx: Transaction,
  accountId: string,
  id: string,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  const debtor = await getLockedDebtor(tx, accountId, id)
  if (debtor.status === 'active') return debtor
  await auditChasing(tx, debtor, 'debtor.restored', actionContext)
  return changeDebtor(tx, debtor, { status: 'active', ...ACTIVE_CHASING }, actionContext.now)
}

const REASON_ARCHIVED = 'archived'
const ACTIVE_CHASING = {
  chasing_status: 'active',
  chasing_reason: null,
  chasing_until: null,
} as const

async function auditChasing(
  tx: Transaction,
  { id, account_id: accountId, name }: DebtorRow,
  action: AuditAction,
  actionContext: ActionContext,
  detail: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  await recordAudit(tx, actionContext, {
    accountId,
    action,
    subjectId: id,
    detail: { name, ...detail },
  })
}

function rejectArchived({ name, status }: DebtorRow): void {
  if (status !== 'archived') return
  throw new Problem('debtor_state_conflict', `${name} is archived. Restore the customer first.`, {
    members: { debtor_status: status },
  })
}
