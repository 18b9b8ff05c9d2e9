/**
 * Takes back an import: reverses payments, voids invoices and archives customers, unless they have been changed
 * or used since. Records that are taken back lose their external ids, and invoices also lose their numbers, so that
 * a corrected file can be imported.
 */
import type { ActionContext } from '../accounts/audit.ts'
import { listActionsOn, recordAudit } from '../accounts/audit.ts'
import type { ImportRow, InvoiceRow, Transaction } from '../database/tables.ts'
import { changeDebtor, getLockedDebtor } from '../debtors/change.ts'
import { archiveDebtor } from '../debtors/chasing.ts'
import { lockInvoice, voidInvoice } from '../invoices/actions.ts'
import { changeInvoice } from '../invoices/change.ts'
import { lockPayment } from '../payments/locked-payment.ts'
import { reversePayment } from '../payments/reversal.ts'
import {
  countByKind,
  countRecords,
  type ImportedRecord,
  planTakeBack,
  type TakeBackStep,
} from './take-back-plan.ts'

const NUMBER_LENGTH_MAX = 64

const TAKE_BACK = 'ledger.import_taken_back'

/**
 * Writes to the audit log that the import is taken back, with the number of records of each kind in `steps`. In
 * Settings, taking back a large import takes several requests, of which only the first writes an entry.
 */
export async function auditTakeBack(
  tx: Transaction,
  row: ImportRow,
  steps: readonly TakeBackStep[],
  actionContext: ActionContext,
): Promise<void> {
  if (await isContinued(tx, row, steps, actionContext)) return
  const { id, account_id: accountId, file_name: file } = row
  await recordAudit(tx, actionContext, {
    accountId,
    action: TAKE_BACK,
    subjectId: id,
    detail: { file, ...countByKind(steps) },
  })
}

/**
 * Whether `steps` are the rest of an action that already has an entry. This is so if the last entry about taking the
 * import back has the same actor, and its count includes the records in `steps` and those taken back since the entry.
 */
async function isContinued(
  tx: Transaction,
  { id, account_id: accountId }: ImportRow,
  steps: readonly TakeBackStep[],
  { actor }: ActionContext,
): Promise<boolean> {
  const [last] = await listActionsOn(tx, accountId, id, { action: TAKE_BACK, limit: 1 })
  if (last === undefined || last.actor_type !== actor.type || last.actor_id !== actor.id) {
    return false
  }
  const { count: takenBackSince } = await tx
    .selectFrom('import_records')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('import_id', '=', id)
    .where('taken_back_at', '>=', last.created_at)
    .executeTakeFirstOrThrow()
  const { customers, invoices, payments } = JSON.parse(last.detail)
  const remaining = customers + invoices + payments - Number(takenBackSince)
  return steps.reduce((sum, step) => sum + countRecords(step), 0) <= remaining
}

/**
 * Performs one step of the plan. Resolves with false, without a change, if the records of the step have been changed or
 * used since the step was planned.
 */
export async function takeBack(
  tx: Transaction,
  row: ImportRow,
  step: TakeBackStep,
  actionContext: ActionContext,
): Promise<boolean> {
  const { account_id: accountId } = row
  await lockDebtorOf(tx, accountId, step)
  const records = recordsOf(step)
  const plan = await planTakeBack(tx, accountId, records)
  if (plan.kept.length > 0) return false
  const reason = `The import of ${row.file_name} was taken back.`
  const { paymentId, invoiceId, customerId } = step
  if (paymentId !== undefined) {
    await reversePayment(tx, accountId, paymentId, reason, actionContext, { external_id: null })
  }
  if (invoiceId !== undefined) {
    const voided = await voidInvoice(tx, accountId, invoiceId, reason, actionContext)
    const change = { number: replacementNumber(voided), external_id: null }
    await changeInvoice(tx, voided, change, 'invoice.updated', actionContext.now)
  }
  if (customerId !== undefined) {
    const archived = await archiveDebtor(tx, accountId, customerId, actionContext)
    await changeDebtor(tx, archived, { external_id: null }, actionContext.now)
  }
  await tx
    .updateTable('import_records')
    .set({ taken_back_at: actionContext.now.toISOString() })
    .where('import_id', '=', row.id)
    .where(
      'record_id',
      'in',
      records.map(({ id }) => id),
    )
    .execute()
  return true
}

/**
 * Locks the debtor, so that no record of the step changes until the transaction ends. The functions that lock an
 * invoice or a payment first lock its debtor.
 */
async function lockDebtorOf(
  tx: Transaction,
  accountId: string,
  { invoiceId, paymentId, customerId }: TakeBackStep,
): Promise<void> {
  if (invoiceId !== undefined) await lockInvoice(tx, accountId, invoiceId)
  else if (paymentId !== undefined) await lockPayment(tx, accountId, paymentId)
  else if (customerId !== undefined) await getLockedDebtor(tx, accountId, customerId)
}

function recordsOf({ invoiceId, paymentId, customerId }: TakeBackStep): ImportedRecord[] {
  return [
    ...(invoiceId === undefined ? [] : [{ id: invoiceId, kind: 'invoice' } as const]),
    ...(paymentId === undefined ? [] : [{ id: paymentId, kind: 'payment' } as const]),
    ...(customerId === undefined ? [] : [{ id: customerId, kind: 'customer' } as const]),
  ]
}

/**
 * Returns a unique number that replaces the number of a voided invoice: the old number, followed by the end of the
 * invoice's id. The import's id would not suffice: after an import is taken back, it can be continued, and then creates
 * the same numbers again. If the new number is too long, the old number is shortened and followed by the whole id of
 * the invoice, because two shortened numbers may be equal.
 */
function replacementNumber({ id, number }: InvoiceRow): string {
  const suffix = ` (taken back ${id.slice(-6)})`
  if ([...number].length + suffix.length <= NUMBER_LENGTH_MAX) return `${number}${suffix}`
  const longerSuffix = ` (taken back ${id})`
  return `${[...number].slice(0, NUMBER_LENGTH_MAX - longerSuffix.length).join('')}${longerSuffix}`
}
