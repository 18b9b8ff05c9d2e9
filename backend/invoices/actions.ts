/**
 * The actions that people perform on invoices in Settings or the CLI. An action on one invoice throws if the state of
 * the invoice does not allow the action. Otherwise it cancels the waiting reminders about the invoice, and records the
 * action's event, if there is one. Chasing is blocked by a dispute or by a hold (`holds.ts`).
 */

import { type RawBuilder, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, type AuditAction, recordAudit } from '../accounts/audit.ts'
import { checkReason } from '../accounts/reason.ts'
import type { Reader, Transaction } from '../database/database.ts'
import { nextRevision } from '../database/revision.ts'
import type { InvoiceRow } from '../database/tables.ts'
import { getLockedDebtor } from '../debtors/change.ts'
import { lockDebtorId, markDebtorUpdated, replanDebtor } from '../debtors/debtors.ts'
import type { EventType } from '../events/event-types.ts'
import { UNINDEXED_ACCOUNT_ID } from '../lists/keyset.ts'
import { stopMessages } from '../messages/cancel-messages.ts'
import { changeInvoice, type InvoiceChange } from './change.ts'
import { BLOCKED_BY_DISPUTE, chasingFieldsFor, DISPUTED, holdOf } from './holds.ts'
import { findInvoice } from './invoices.ts'
import { IS_OLD } from './old-invoices.ts'

interface Subject {
  /** The words before the number of the invoice. */
  readonly text: string
  readonly verb: 'was' | 'were'
}

const THE_INVOICE: Subject = { text: 'invoice', verb: 'was' }

interface InvoiceAction {
  readonly auditAction: AuditAction
  /** Null if no event reports the action. */
  readonly event: EventType | null
  /**
   * What the action is performed on, for messages such as "Invoice 7 cannot be finalized"; by default, `THE_INVOICE`.
   */
  readonly subject?: Subject
  /** The past participle of the action, for the same messages. */
  readonly participle: string
  /**
   * The cause in the error if the invoice is open and undisputed, e.g. "the invoice is not disputed". Otherwise, the
   * error names the state of the invoice.
   */
  readonly nothingToDoBecause?: string
  isAllowed(invoice: InvoiceRow): boolean
  change(now: Date, invoice: InvoiceRow): InvoiceChange
}

const NOT_CHASED = {
  chasing_status: 'stopped',
  chasing_next_stage: null,
  chasing_next_action_at: null,
  chasing_blocked_reason: null,
} as const

const FINALIZE: InvoiceAction = {
  auditAction: 'invoice.finalised',
  event: 'invoice.opened',
  participle: 'finalized',
  isAllowed: ({ status }) => status === 'draft',
  // A draft with `chase_if_overdue: false` stays blocked if it was past due when it was created.
  change: (now, invoice) => ({ status: 'open', ...chasingFieldsFor(holdOf(invoice), now) }),
}

const VOID: InvoiceAction = {
  auditAction: 'invoice.voided',
  event: 'invoice.voided',
  participle: 'voided',
  isAllowed: isVoidable,
  change: (now) => ({ status: 'void', voided_at: now.toISOString(), ...NOT_CHASED }),
}

const WRITE_OFF: InvoiceAction = {
  auditAction: 'invoice.written_off',
  event: 'invoice.written_off',
  participle: 'written off',
  isAllowed: isOpen,
  change: (now) => ({ status: 'written_off', written_off_at: now.toISOString(), ...NOT_CHASED }),
}

const DISPUTE: InvoiceAction = {
  auditAction: 'invoice.disputed',
  event: 'invoice.disputed',
  participle: 'disputed',
  isAllowed: (invoice) => isOpen(invoice) && !isDisputed(invoice),
  // The current hold applies again when the dispute is resolved.
  change: (now, invoice) => ({
    disputed_at: now.toISOString(),
    ...holdOf(invoice),
    ...BLOCKED_BY_DISPUTE,
  }),
}

const RESOLVE: InvoiceAction = {
  auditAction: 'invoice.dispute_resolved',
  event: 'invoice.dispute_resolved',
  subject: { text: 'the dispute about invoice', verb: 'was' },
  participle: 'resolved',
  nothingToDoBecause: 'the invoice is not disputed',
  isAllowed: (invoice) => isOpen(invoice) && isDisputed(invoice),
  change: (now, invoice) => ({ disputed_at: null, ...chasingFieldsFor(holdOf(invoice), now) }),
}

const RESUME: InvoiceAction = {
  auditAction: 'invoice.chasing_resumed',
  event: null,
  subject: { text: 'reminders about invoice', verb: 'were' },
  participle: 'resumed',
  nothingToDoBecause: 'they were not paused or stopped',
  isAllowed: canResumeChasing,
  change: () => RESUMED,
}

/** The condition of `canResumeChasing` in SQL. */
const IS_RESUMABLE = sql<boolean>`chasing_status <> 'active' and status in ('open', 'partially_paid')
  and (chasing_blocked_reason is null or chasing_blocked_reason <> ${DISPUTED})`

const RESUMED = {
  chasing_status: 'active',
  // During a pause, this column contains the end of the pause. Planning will store the time of the next reminder here.
  chasing_next_action_at: null,
  chasing_blocked_reason: null,
} as const

/**
 * Turns a draft into an open invoice, which the debtor owes. The number does not change. Throws
 * `invoice_state_conflict`, `not_found`.
 */
export const finalizeInvoice = defineAction(FINALIZE)
export const resumeInvoice = defineAction(RESUME)
/** Voids an invoice that was a mistake, and on which nothing is paid or credited. This is irreversible. */
export const voidInvoice = defineActionWithReason(VOID)
/** Records that payment is no longer expected. The invoice can still be paid. */
export const writeOffInvoice = defineActionWithReason(WRITE_OFF)
/** Blocks chasing until the dispute is resolved. */
export const disputeInvoice = defineActionWithReason(DISPUTE)
/** Resumes chasing, unless the hold from before the dispute still applies. */
export const resolveDispute = defineActionWithReason(RESOLVE)

/**
 * Resumes chasing of all blocked invoices of a debtor except disputed ones. Returns how many were resumed. Throws
 * `not_found`, `debtor_state_conflict`.
 */
export function resumeInvoicesOf(
  tx: Transaction,
  accountId: string,
  debtorId: string,
  actionContext: ActionContext,
): Promise<number> {
  return resumeMatching(tx, accountId, debtorId, IS_RESUMABLE, actionContext)
}

/** Whether `resumeInvoicesOf` would resume at least one invoice of the debtor. */
export async function hasResumableInvoices(
  reader: Reader,
  accountId: string,
  debtorId: string,
): Promise<boolean> {
  const row = await reader
    .selectFrom('invoices')
    .select('id')
    .where(UNINDEXED_ACCOUNT_ID, '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where(IS_RESUMABLE)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/** Like `resumeInvoicesOf`, but only for old invoices (`old-invoices.ts`). */
export function resumeOldInvoicesOf(
  tx: Transaction,
  accountId: string,
  debtorId: string,
  actionContext: ActionContext,
): Promise<number> {
  return resumeMatching(tx, accountId, debtorId, IS_OLD, actionContext)
}

async function resumeMatching(
  tx: Transaction,
  accountId: string,
  debtorId: string,
  condition: RawBuilder<boolean>,
  actionContext: ActionContext,
): Promise<number> {
  const debtor = await getLockedDebtor(tx, accountId, debtorId)
  const { numUpdatedRows } = await tx
    .updateTable('invoices')
    .set({ ...RESUMED, ...nextRevision(tx, actionContext.now.toISOString()) })
    .where(UNINDEXED_ACCOUNT_ID, '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where(condition)
    .executeTakeFirstOrThrow()
  const resumed = Number(numUpdatedRows)
  if (resumed === 0) return 0
  await replanDebtor(tx, accountId, debtorId, actionContext.now)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'debtor.invoices_resumed',
    subjectId: debtorId,
    detail: { name: debtor.name, invoices: resumed },
  })
  return resumed
}

export function isDisputed({ chasing_blocked_reason: reason }: InvoiceRow): boolean {
  return reason === DISPUTED
}

/** Whether a person can resume chasing of the invoice: there is a hold, and no dispute. */
export function canResumeChasing(invoice: InvoiceRow): boolean {
  return isOpen(invoice) && invoice.chasing_status !== 'active' && !isDisputed(invoice)
}

export function isOpen({ status }: InvoiceRow): boolean {
  return status === 'open' || status === 'partially_paid'
}

export function isVoidable({ status, amount_paid, amount_credited }: InvoiceRow): boolean {
  return status === 'draft' || (status === 'open' && amount_paid === 0 && amount_credited === 0)
}

function defineAction(invoiceAction: InvoiceAction) {
  return (
    tx: Transaction,
    accountId: string,
    id: string,
    actionContext: ActionContext,
  ): Promise<InvoiceRow> => perform(tx, { accountId, id, detail: {} }, invoiceAction, actionContext)
}

function defineActionWithReason(invoiceAction: InvoiceAction) {
  return (
    tx: Transaction,
    accountId: string,
    id: string,
    reason: string,
    actionContext: ActionContext,
  ): Promise<InvoiceRow> =>
    perform(
      tx,
      { accountId, id, detail: { reason: checkReason(reason) } },
      invoiceAction,
      actionContext,
    )
}

interface Target {
  readonly accountId: string
  readonly id: string
  readonly detail: Readonly<Record<string, unknown>>
}

async function perform(
  tx: Transaction,
  { accountId, id, detail }: Target,
  action: InvoiceAction,
  actionContext: ActionContext,
): Promise<InvoiceRow> {
  const { auditAction, event, subject = THE_INVOICE, participle, isAllowed, change } = action
  const invoice = await lockInvoice(tx, accountId, id)
  if (!isAllowed(invoice)) throw invoiceStateConflict(invoice, participle, action)
  await recordAudit(tx, actionContext, {
    accountId,
    action: auditAction,
    subjectId: id,
    detail: { number: invoice.number, ...detail },
  })
  const row = await changeInvoice(
    tx,
    invoice,
    change(actionContext.now, invoice),
    event,
    actionContext.now,
  )
  await stopMessages(
    tx,
    accountId,
    [id],
    actionContext.now,
    `${subject.text} ${invoice.number} ${subject.verb} ${participle}`,
  )
  // Both functions schedule planning of the debtor's reminders. `markDebtorUpdated` also marks the debtor as updated,
  // because a new status of the invoice changes the debtor's balances.
  const isStatusChanged = row.status !== invoice.status
  await (isStatusChanged ? markDebtorUpdated : replanDebtor)(
    tx,
    accountId,
    row.debtor_id,
    actionContext.now,
  )
  return row
}

/** Locks the invoice's debtor, and only then reads and returns the invoice. Throws `not_found`. */
export async function lockInvoice(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<InvoiceRow> {
  // The debtor of an invoice never changes, and can therefore be read before the lock.
  const found = await findInvoice(tx, accountId, id)
  if (found !== undefined) await lockDebtorId(tx, accountId, found.debtor_id)
  const invoice = found && (await findInvoice(tx, accountId, id))
  if (invoice === undefined) throw new Problem('not_found', `There is no invoice ${id}.`)
  return invoice
}

/** `participle` names the action that was rejected, e.g. `finalized`. */
export function invoiceStateConflict(
  invoice: InvoiceRow,
  participle: string,
  {
    subject = THE_INVOICE,
    nothingToDoBecause,
  }: Pick<InvoiceAction, 'subject' | 'nothingToDoBecause'> = {},
): Problem {
  const { number, status, amount_paid: paid, chasing_blocked_reason: blocked } = invoice
  const state = `${status.replaceAll('_', ' ')}${isDisputed(invoice) ? ' and disputed' : ''}`
  const paidOrCredited = paid > 0 ? 'paid' : invoice.amount_credited > 0 ? 'credited' : undefined
  const preventsVoiding = participle === 'voided' && paidOrCredited !== undefined
  const addition = preventsVoiding ? `, and an amount has been ${paidOrCredited} on it` : ''
  const isOpenAndUndisputed = isOpen(invoice) && !isDisputed(invoice)
  const it = subject === THE_INVOICE ? 'it' : 'the invoice'
  const cause = (isOpenAndUndisputed && nothingToDoBecause) || `${it} is ${state}${addition}`
  const what = `${subject.text} ${number}`
  return new Problem(
    'invoice_state_conflict',
    `${what.charAt(0).toUpperCase()}${what.slice(1)} cannot be ${participle}, because ${cause}.`,
    { members: { invoice_status: status, chasing_blocked_reason: blocked } },
  )
}
