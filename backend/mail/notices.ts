/**
 * Notices are mails to users and invited people. A notice is recorded in the transaction of the change that causes it.
 * Its recipients are determined later, when it is dispatched.
 */

import { createId } from '../../shared/contract/id.ts'
import type { ActionContext } from '../accounts/audit.ts'
import { announce } from '../database/announcements.ts'
import type { NoticeRow, Reader, Transaction } from '../database/tables.ts'
import type { Language } from './wording/languages.ts'
import type { Stage } from './wording/reminder-words/words.ts'
import type { Wording } from './wording/wording.ts'

/**
 * The kinds of notices, with the members of their `detail`. Admins can turn off some kinds (`notice-choices.ts`). Kinds
 * that begin with `user.` are sent to the user, and their `subject_id` is the user unless stated otherwise.
 */
export interface NoticeDetails {
  /** Sent to the Admins. `subject_id` is the endpoint. */
  readonly 'webhook_endpoint.disabled': {
    readonly url: string
    /** `gone`: the endpoint responded with 410; `failing`: every attempt failed for five days. */
    readonly reason: 'gone' | 'failing'
    readonly failing_since: string | null
  }
  /** Sent to the invited person. `subject_id` is the invitation. */
  readonly 'user.invited': {
    readonly email: string
    readonly role: 'admin' | 'member'
    readonly invited_by: string
  }
  /** Sent to the Admins. `subject_id` is the key. */
  readonly 'api_key.expiring': {
    readonly name: string
    readonly prefix: string
    readonly expires_at: string
  }
  /** Sent when an Admin has issued a key, to the other Admins. `subject_id` is the key. */
  readonly 'api_key.issued': {
    readonly name: string
    readonly prefix: string
    readonly by: NoticeActor
  }
  /** Sent to all Admins except the Admin who changed the details. `subject_id` is the account. */
  readonly 'payment_details.changed': {
    readonly currency: string
    /**
     * How customers pay now; null if the details were removed. `account_ending`: how the bank account's number ends.
     */
    readonly now: { readonly account_ending: string | null; readonly has_link: boolean } | null
    readonly by: NoticeActor
  }
  /**
   * Sent when the last second factor of a login was removed, to all Admins except the owner of the login (who gets
   * `user.second_factor_removed`) and the Admin who removed the factor. `subject_id` is the owner.
   */
  readonly 'second_factor.removed': { readonly email: string; readonly by: NoticeActor }
  /** Sent to a user for whom a link to reset the password was requested. `subject_id` is the password reset. */
  readonly 'user.password_reset': { readonly email: string }
  /** `subject_id` is the user, or the password reset that changed the password. */
  readonly 'user.password_changed': {
    readonly email: string
    /** Whether the old password was entered in Settings. Absent if a mailed link was used. */
    readonly in_settings?: true
  }
  readonly 'user.second_factor_added': SecondFactorDetail
  /** Sent even if the login has another second factor. */
  readonly 'user.second_factor_removed': SecondFactorDetail
  /** Sent after a login in an unknown browser. */
  readonly 'user.unknown_browser': {
    readonly email: string
    /** E.g. `Firefox on Windows`. */
    readonly browser: string
    /** The IP address from which the person logged in. */
    readonly address: string | null
    /** Whether the user gets no more of these notices for now, because this one reaches the maximum for 24 hours. */
    readonly is_last: boolean
  }
  /** Sent after several wrong codes that followed the right password. */
  readonly 'user.wrong_codes': {
    readonly email: string
    /** The IP address of the client that sent the last wrong code. */
    readonly address: string | null
  }
  /** A reminder as a customer would receive it, sent to the user who requested it. */
  readonly 'user.test_reminder': {
    readonly email: string
    readonly stage: Stage
    readonly language: Language
    readonly wording: Wording
    /** The invoice in the reminder; null for a made-up invoice. */
    readonly invoice_id: string | null
  }
  /** Sent to the Admins if the account has no address for replies. `subject_id` is the inbound message. */
  readonly 'message.received': Readonly<Record<string, never>>
}

interface SecondFactorDetail {
  readonly email: string
  readonly factor: 'app' | 'passkey'
  /** The name of the passkey; null for the authenticator app. */
  readonly name: string | null
  readonly by: NoticeActor
}

/** The person or operator whose action a notice reports. */
export interface NoticeActor {
  /** The id of the user; null for an operator. */
  readonly id: string | null
  /** How the notice names the actor: the user's e-mail address, or `the operator`. */
  readonly label: string
}

export function noticeActorOf({ actor: { type, id, label } }: ActionContext): NoticeActor {
  return { id: type === 'user' ? id : null, label: type === 'operator' ? 'the operator' : label }
}

export type NoticeKind = keyof NoticeDetails

export type Notice = {
  readonly [K in NoticeKind]: { readonly kind: K; readonly detail: NoticeDetails[K] }
}[NoticeKind]

export interface NewNotice<K extends NoticeKind> {
  readonly accountId: string
  readonly kind: K
  readonly subjectId: string
  readonly detail: NoticeDetails[K]
}

const DAY_MS = 86_400_000

/** The topic that a transaction announces when it has recorded a notice. */
export const NOTICES = 'notices'

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
  announce(tx, NOTICES)
}

/** Counts the notices of a kind about a subject that were recorded within the last 24 hours. */
export async function countRecentNotices(
  reader: Reader,
  { accountId, kind, subjectId }: Omit<NewNotice<NoticeKind>, 'detail'>,
  now: Date,
): Promise<number> {
  const rows = await reader
    .selectFrom('notices')
    .select('id')
    .where('account_id', '=', accountId)
    .where('kind', '=', kind)
    .where('subject_id', '=', subjectId)
    .where('created_at', '>', new Date(now.getTime() - DAY_MS).toISOString())
    .execute()
  return rows.length
}

/** Returns notices that have not been dispatched yet, oldest first. */
export function findNewNotices(reader: Reader, limit: number): Promise<NoticeRow[]> {
  return reader
    .selectFrom('notices')
    .selectAll()
    .where('mailed_at', 'is', null)
    .orderBy('created_at')
    .limit(limit)
    .execute()
}

/** Queues a mail for each recipient of a notice. Idempotent. */
export async function dispatchNotice(tx: Transaction, notice: NoticeRow, now: Date): Promise<void> {
  const at = now.toISOString()
  const { numUpdatedRows } = await tx
    .updateTable('notices')
    // The time of the dispatch: the mails are sent later.
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
  if (isPersonal(notice)) return [notice.detail.email]
  const admins = await reader
    .selectFrom('users')
    .select(['id', 'email'])
    .where('account_id', '=', row.account_id)
    .where('role', '=', 'admin')
    .where('status', '=', 'active')
    .where('id', 'not in', (select) =>
      select
        .selectFrom('muted_notices')
        .select('muted_notices.user_id')
        .where('muted_notices.account_id', '=', row.account_id)
        .where('muted_notices.kind', '=', notice.kind),
    )
    .execute()
  const actorId = 'by' in notice.detail ? notice.detail.by.id : null
  const ownerId = notice.kind === 'second_factor.removed' ? row.subject_id : null
  return admins.filter(({ id }) => id !== actorId && id !== ownerId).map(({ email }) => email)
}

type PersonalNotice = Extract<Notice, { readonly kind: `user.${string}` }>

/** Whether the notice is sent to the person whom it concerns, and not to the Admins. */
function isPersonal(notice: Notice): notice is PersonalNotice {
  return notice.kind.startsWith('user.')
}

export function readNotice({ kind, detail }: NoticeRow): Notice {
  return { kind, detail: JSON.parse(detail) } as Notice
}
