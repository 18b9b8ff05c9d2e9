/**
 * What people are told by mail besides reminders. A notice is written by the transaction that gives
 * the reason for it; who is to have it is decided when it goes out.
 */
import { createId } from '../../shared/contract/id.ts'
import type { NoticeRow, Reader, Transaction } from '../database/tables.ts'

/** Each with what its `detail` holds. */
export interface NoticeDetails {
  /** To the Admins. `subject_id` is the endpoint. */
  readonly 'webhook_endpoint.disabled': {
    readonly url: string
    readonly reason: 'gone' | 'failing'
    readonly failing_since: string | null
  }
  /** To whom was invited. `subject_id` is the invitation. */
  readonly 'user.invited': {
    readonly email: string
    readonly role: 'admin' | 'member'
    readonly invited_by: string
  }
  /** To the Admins. `subject_id` is the message that came in. */
  readonly 'message.received': Readonly<Record<string, never>>
}

export type NoticeKind = keyof NoticeDetails

/** What it is about and what is known of that, one kind at a time. */
export type Notice = {
  readonly [K in NoticeKind]: { readonly kind: K; readonly detail: NoticeDetails[K] }
}[NoticeKind]

export interface NewNotice<K extends NoticeKind> {
  readonly accountId: string
  readonly kind: K
  readonly subjectId: string
  readonly detail: NoticeDetails[K]
}

export async function recordNotice<K extends NoticeKind>(
  tx: Transaction,
  { accountId, kind, subjectId, detail }: NewNotice<K>,
  now: Date,
): Promise<void> {
  await tx
    .insertInto('notices')
    .values({
      id: createId('ntc'),
      account_id: accountId,
      kind,
      subject_id: subjectId,
      detail: JSON.stringify(detail),
      created_at: now.toISOString(),
      mailed_at: null,
    })
    .execute()
}

/** Those that are not yet on their way, the oldest first. */
export function findNewNotices(reader: Reader, limit: number): Promise<NoticeRow[]> {
  return reader
    .selectFrom('notices')
    .selectAll()
    .where('mailed_at', 'is', null)
    .orderBy('created_at')
    .limit(limit)
    .execute()
}

/** Puts it on its way to everyone who is to have it; does nothing where another did. */
export async function dispatchNotice(tx: Transaction, notice: NoticeRow, now: Date): Promise<void> {
  const at = now.toISOString()
  const { numUpdatedRows } = await tx
    .updateTable('notices')
    .set({ mailed_at: at })
    .where('id', '=', notice.id)
    .where('mailed_at', 'is', null)
    .executeTakeFirstOrThrow()
  const recipients = numUpdatedRows === 0n ? [] : await recipientsOf(tx, notice)
  if (recipients.length === 0) return
  await tx
    .insertInto('mail_outbox')
    .values(
      recipients.map((recipient) => ({
        id: createId('mlo'),
        account_id: notice.account_id,
        notice_id: notice.id,
        recipient,
        status: 'pending',
        attempts: 0,
        run_at: at,
        lease: null,
        last_error: null,
        created_at: at,
        updated_at: at,
      })),
    )
    .execute()
}

async function recipientsOf(reader: Reader, row: NoticeRow): Promise<string[]> {
  const notice = readNotice(row)
  if (notice.kind === 'user.invited') return [notice.detail.email]
  const admins = await reader
    .selectFrom('users')
    .select('email')
    .where('account_id', '=', row.account_id)
    .where('role', '=', 'admin')
    .where('status', '=', 'active')
    .execute()
  return admins.map(({ email }) => email)
}

/** As `recordNotice` stored it. */
export function readNotice({ kind, detail }: NoticeRow): Notice {
  return { kind, detail: JSON.parse(detail) } as Notice
}
