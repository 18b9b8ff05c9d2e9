/**
 * The audit log: one row for each action, written in the transaction that performs the action. If the action has no
 * transaction, e.g. a failed login, the row is written in a separate transaction.
 */
import { createId } from '../../shared/contract/id.ts'
import type { AuditRow, Reader, Transaction } from '../database/tables.ts'
import {
  columnOrUnindexed,
  equals,
  type KeysetPage,
  orderOf,
  unindexed,
  withinBounds,
  withinSorted,
} from '../lists/keyset.ts'

export interface Actor {
  readonly type: AuditRow['actor_type']
  readonly id: string | null
  /** The name in pages and reports, e.g. an e-mail address. */
  readonly label: string
  /** The client's IP address, if the action came over the network. */
  readonly address: string | null
}

/** A person with access to the command line on the server. */
export const OPERATOR: Actor = { type: 'operator', id: null, label: 'operator', address: null }

export interface ActionContext {
  readonly actor: Actor
  readonly now: Date
}

/** Each name begins with its subject, followed by what was done, in the past tense. */
export type AuditAction =
  | 'account.changed'
  | 'account.created'
  | 'account.status_changed'
  | 'account.scopes_changed'
  | 'account.chasing_changed'
  | 'account.reply_address_changed'
  | 'account.apply_credit_changed'
  | 'account.payment_details_changed'
  | 'account.test_reminder_sent'
  | 'account.wording_changed'
  | 'account.wording_reset'
  | 'account.payment_details_removed'
  | 'account.sender_changed'
  | 'account.logo_changed'
  | 'account.logo_removed'
  | 'account.second_factor_policy_changed'
  | 'account.exported'
  | 'account.list_downloaded'
  | 'reminders.rehearsed'
  // `put_on` means activated, `put_off` means released. The database contains these names, so they cannot change.
  | 'kill_switch.put_on'
  | 'kill_switch.put_off'
  | 'message.approved'
  | 'message.rejected'
  | 'message.approval_taken_back'
  | 'debtor.edited'
  | 'debtor.archived'
  | 'debtor.restored'
  | 'debtor.created'
  | 'debtor.erased'
  | 'debtor.chasing_paused'
  | 'debtor.chasing_resumed'
  | 'debtor.invoices_resumed'
  /** An Admin or an operator undid what a bounce of the debtor's address had changed. */
  | 'debtor.contactability_cleared'
  | 'debtor.ladder_changed'
  | 'address.bounced'
  | 'address.complained'
  | 'address.unsubscribed'
  | 'address.resubscribed'
  | 'invoice.created'
  | 'ledger.imported'
  | 'ledger.import_taken_back'
  | 'invoice.edited'
  | 'invoice.finalised'
  | 'invoice.voided'
  | 'invoice.written_off'
  | 'invoice.disputed'
  | 'invoice.dispute_resolved'
  | 'invoice.chasing_resumed'
  | 'invoice.credited'
  | 'payment.allocated'
  | 'payment.allocation_taken_back'
  | 'payment.reversed'
  | 'api_key.issued'
  | 'api_key.updated'
  | 'api_key.rotated'
  | 'api_key.revoked'
  | 'webhook_endpoint.created'
  | 'webhook_endpoint.updated'
  | 'webhook_endpoint.paused'
  | 'webhook_endpoint.resumed'
  | 'webhook_endpoint.disabled'
  | 'webhook_endpoint.deleted'
  | 'webhook_endpoint.tested'
  | 'webhook_endpoint.secret_rotated'
  | 'webhook_endpoint.old_secret_expired'
  | 'webhook_endpoint.redelivered_failed'
  | 'webhook_delivery.redelivered'
  | 'user.created'
  | 'user.invited'
  | 'user.invitation_withdrawn'
  | 'user.role_changed'
  | 'user.deactivated'
  | 'user.reactivated'
  | 'user.password_reset'
  | 'user.password_changed'
  | 'user.logged_in'
  | 'user.second_factor_enabled'
  | 'user.second_factor_disabled'
  | 'user.recovery_codes_replaced'
  | 'user.recovery_code_used'
  | 'user.second_factor_failed'
  | 'user.logged_in_with_passkey'
  | 'user.passkey_added'
  | 'user.passkey_renamed'
  | 'user.passkey_removed'
  | 'user.passkey_failed'
  | 'user.notices_changed'
  | 'user.session_ended'
  | 'user.login_failed'
  /** A logged-in user was asked for the password again, and entered a wrong one. */
  | 'user.confirmation_failed'
  | 'user.logged_out'
  | 'user.logged_out_everywhere'

export interface AuditEntry {
  /** Null if the action concerns no account, e.g. a login with an unknown e-mail address. */
  readonly accountId: string | null
  readonly action: AuditAction
  /** The id of the record that the action concerns; null if there is none. */
  readonly subjectId: string | null
  /** Must not contain secrets. */
  readonly detail?: Readonly<Record<string, unknown>>
}

export async function recordAudit(
  tx: Transaction,
  { actor, now }: ActionContext,
  { accountId, action, subjectId, detail = {} }: AuditEntry,
): Promise<void> {
  await tx
    .insertInto('audit_log')
    .values({
      id: createId('aud'),
      account_id: accountId,
      actor_type: actor.type,
      actor_id: actor.id,
      actor_label: actor.label,
      action,
      subject_id: subjectId,
      detail: JSON.stringify(detail),
      address: actor.address,
      created_at: now.toISOString(),
    })
    .execute()
}

export interface AuditFilters {
  /** The label of the actor. */
  readonly actor?: string | undefined
  readonly action?: string | undefined
  readonly subjectId?: string | undefined
  /** An instant, inclusive. */
  readonly createdSince?: string | undefined
  /** An instant, exclusive. */
  readonly createdBefore?: string | undefined
}

/** `requested` must be sorted by `created_at`, because most indexes of the table are sorted by it. */
export async function listAudit(
  reader: Reader,
  accountId: string,
  { actor, action, subjectId, createdSince, createdBefore }: AuditFilters,
  requested: KeysetPage,
): Promise<AuditRow[]> {
  const page = { ...requested, ...indexesFor(requested.sort, { actor, action, subjectId }) }
  return await reader
    .selectFrom('audit_log')
    .selectAll()
    .where((eb) =>
      eb.and([
        ...equals('account_id', accountId),
        ...equals(columnOrUnindexed(page, 'actor_label'), actor),
        ...equals(columnOrUnindexed(page, 'action'), action),
        ...equals(columnOrUnindexed(page, 'subject_id'), subjectId),
        ...withinSorted(page, createdSince, createdBefore),
        ...withinBounds(page),
      ]),
    )
    .orderBy(orderOf(page))
    .limit(page.rowsMax)
    .execute()
}

/**
 * Chooses the index for the filters, because SQLite has no statistics with which it could choose well. A subject
 * usually has the fewest rows, and an action the most. Returns the columns of the index. The index by subject does not
 * contain the column `sort`. Without these filters, the database chooses.
 */
function indexesFor(
  sort: string,
  { actor, action, subjectId }: AuditFilters,
): Pick<KeysetPage, 'indexableColumns'> {
  if (subjectId !== undefined) return { indexableColumns: ['subject_id'] }
  if (actor !== undefined) return { indexableColumns: ['actor_label', 'action', sort] }
  return action === undefined ? {} : { indexableColumns: ['action', sort] }
}

export async function findAuditEntry(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<AuditRow | undefined> {
  return await reader
    .selectFrom('audit_log')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
}

/**
 * Returns up to `limit` actions on the record `subjectId`, the latest first (ids sort by time). If `action` is defined,
 * returns only actions with this name.
 */
export async function listActionsOn(
  reader: Reader,
  accountId: string,
  subjectId: string,
  { limit, action }: { readonly limit: number; readonly action?: AuditAction },
): Promise<AuditRow[]> {
  return reader
    .selectFrom('audit_log')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('subject_id', '=', subjectId)
    .where((eb) => eb.and(equals(unindexed('action'), action)))
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()
}

export async function hasActionsOn(
  reader: Reader,
  accountId: string,
  subjectId: string,
): Promise<boolean> {
  return (await listActionsOn(reader, accountId, subjectId, { limit: 1 })).length > 0
}
