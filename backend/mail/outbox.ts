/**
 * The worker that sends notices, which are mails to users and invited people. It dispatches each new notice, i.e.
 * queues one mail (a row of `mail_outbox`) for each recipient, and sends the queued mails. A recipient may receive a
 * notice twice or more, if the outcome of a hand-over is unknown or was not recorded. Any number of backends may run
 * the worker.
 */
import { sql } from 'kysely'
import type { Logger } from '../../shared/process/log.ts'
import { findLogo } from '../accounts/logo.ts'
import { leasesOf } from '../background/leases.ts'
import { POLL_MS, startListeningWorker, type Worker } from '../background/worker.ts'
import type { Database } from '../database/database.ts'
import type { MailOutboxRow, Reader, Transaction } from '../database/tables.ts'
import { HAND_OVER_MS_MAX, type HandOverResult, type Mailer } from './mail.ts'
import { dispatchNotice, findNewNotices, NOTICES, type NoticeKind } from './notices.ts'
import { renderMailHtml, renderMailText } from './wording/mail-body.ts'
import { composeNotice, type NoticeTextDeps } from './wording/notice-texts.ts'

const BATCH_MAX = 10

const OUTBOX_LEASES = leasesOf({
  table: 'mail_outbox',
  key: 'id',
  workMsMax: HAND_OVER_MS_MAX,
})

/** Minutes until each retry. If the last retry fails, about three days after the first attempt, the mail is dropped. */
const RETRY_AFTER_MINUTES = [1, 5, 15, 60, 240, 480, 960, 1200, 1440]

export type NoticeDelivery = Pick<MailOutboxRow, 'status' | 'last_error'>

/**
 * Returns the state of the last mail about each subject, such as an invitation, by the subject's id. A subject without
 * a mail is absent.
 */
export async function readDeliveries(
  reader: Reader,
  kind: NoticeKind,
  subjectIds: readonly string[],
): Promise<ReadonlyMap<string, NoticeDelivery>> {
  if (subjectIds.length === 0) return new Map()
  const rows = await reader
    .selectFrom('notices')
    .innerJoin('mail_outbox', 'mail_outbox.notice_id', 'notices.id')
    .select(['notices.subject_id', 'mail_outbox.status', 'mail_outbox.last_error'])
    .where('notices.kind', '=', kind)
    .where('notices.subject_id', 'in', subjectIds)
    .orderBy('mail_outbox.id')
    .execute()
  return new Map(rows.map(({ subject_id, ...delivery }) => [subject_id, delivery]))
}

/** Records that the mail of a notice has bounced after the mail server accepted it. `mailId` begins with `mlo_`. */
export async function recordBouncedNotice(
  tx: Transaction,
  mailId: string,
  detail: string,
  now: Date,
): Promise<void> {
  await tx
    .updateTable('mail_outbox')
    .set({ status: 'failed', run_at: null, last_error: detail, updated_at: now.toISOString() })
    .where('id', '=', mailId)
    .where('status', '=', 'sent')
    .execute()
}

export interface OutboxDeps extends NoticeTextDeps {
  readonly database: Database
  readonly mailer: Mailer
  readonly clock: () => Date
  readonly log: Logger
}

export function startOutbox(deps: OutboxDeps): Worker {
  const { database, clock, log } = deps
  return startListeningWorker({
    name: 'mailing notices',
    database,
    topic: NOTICES,
    everyMs: POLL_MS,
    log,
    // Resolves with the milliseconds until the next round; undefined if no mail becomes due within `POLL_MS`.
    async round() {
      if (await sendNotices(deps)) return 0
      const now = clock()
      const next = await OUTBOX_LEASES.findNextRun(database.read, now, POLL_MS)
      return next && next.getTime() - now.getTime()
    },
  })
}

/** Returns whether there may be more new notices or due mails. */
export async function sendNotices(deps: OutboxDeps): Promise<boolean> {
  const { database, clock } = deps
  const notices = await findNewNotices(database.read, BATCH_MAX)
  for (const notice of notices) {
    await database.transaction((tx) => dispatchNotice(tx, notice, clock()))
  }
  const due = await OUTBOX_LEASES.findDue(database.read, clock(), { limit: BATCH_MAX })
  await Promise.all(due.map((id) => sendOne(deps, id)))
  return notices.length === BATCH_MAX || due.length === BATCH_MAX
}

async function sendOne(deps: OutboxDeps, id: string): Promise<void> {
  const { row, startBefore } = await claim(deps, id)
  if (row === undefined) return
  const handingOver = composeAndHandOver(deps, row, startBefore)
  const result = await handingOver.catch((error: unknown): HandOverResult => {
    deps.log.error({ err: error, id }, 'the mail of a notice could not be composed')
    // With this result, `recordResult` schedules a retry.
    return { outcome: 'abandoned', detail: 'the mail could not be composed' }
  })
  await recordResult(deps, row, result)
}

/** `row` is undefined if another worker has claimed the mail. */
async function claim({ database, clock }: OutboxDeps, id: string) {
  return database.transaction(async (tx) => {
    const now = clock()
    const attempts = sql<number>`attempts + 1`
    const { lease, startBefore } = await OUTBOX_LEASES.claim(tx, [id], now, {
      attempts,
      updated_at: now.toISOString(),
    })
    const row = await tx
      .selectFrom('mail_outbox')
      .selectAll()
      .where('id', '=', id)
      .where('lease', '=', lease)
      .executeTakeFirst()
    return { row, startBefore }
  })
}

async function composeAndHandOver(
  deps: OutboxDeps,
  row: MailOutboxRow,
  startBefore: Date,
): Promise<HandOverResult> {
  const { database, mailer } = deps
  const notice = await database.read
    .selectFrom('notices')
    .selectAll()
    .where('id', '=', row.notice_id)
    .executeTakeFirst()
  const body = notice && (await composeNotice(database.read, deps, notice))
  if (body === undefined) {
    // A permanent refusal is not retried.
    const detail = 'the notice is obsolete'
    return { outcome: 'refused', type: 'hard', code: 'outdated', detail }
  }
  const mail = {
    messageId: mailer.messageIdOf(row.id),
    to: row.recipient,
    fromName: body.sender,
    subject: body.subject ?? body.title,
    text: renderMailText(body),
    html: renderMailHtml(body),
    logo: await findLogo(database.read, row.account_id, body.logo?.id ?? null),
  }
  return mailer.send(mail, { startBefore })
}

async function recordResult(
  { database, clock, log }: OutboxDeps,
  row: MailOutboxRow,
  result: HandOverResult,
): Promise<void> {
  const { id, attempts } = row
  const now = clock()
  const isSent = result.outcome === 'accepted'
  const isRefusedPermanently = result.outcome === 'refused' && result.type === 'hard'
  const minutes = isSent || isRefusedPermanently ? undefined : RETRY_AFTER_MINUTES[attempts - 1]
  const retryAt = minutes === undefined ? null : new Date(now.getTime() + minutes * 60_000)
  const status = isSent ? 'sent' : retryAt === null ? 'failed' : 'pending'
  const last_error = isSent ? null : result.detail
  await database.transaction((tx) =>
    OUTBOX_LEASES.finish(tx, row, retryAt, { status, last_error, updated_at: now.toISOString() }),
  )
  if (status === 'failed') log.warn({ id, attempts }, 'mail of a notice dropped')
}
