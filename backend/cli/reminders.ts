import { createLogger } from '../../shared/process/log.ts'
import { getAccount } from '../accounts/accounts.ts'
import { recordAudit } from '../accounts/audit.ts'
import { parseInstant } from '../calendar/calendar.ts'
import { mailOptions, REMINDER_SETTINGS } from '../config.ts'
import type { Database } from '../database/database.ts'
import type { MessageRow } from '../database/tables.ts'
import { createMailServices } from '../mail/mail-services.ts'
import { readInvoiceIdsByMessage } from '../messages/messages.ts'
import { representMessage } from '../messages/representation.ts'
import { moneyText } from '../money/money-text.ts'
import {
  type Decision,
  decideApproval,
  listPendingApprovals,
  type PendingApproval,
} from '../reminders/approvals.ts'
import { type PreviewedMessage, previewReminders } from '../reminders/preview.ts'
import { rehearse } from '../reminders/rehearsal.ts'
import { representPreviewed } from '../reminders/representation.ts'
import {
  ACCOUNT,
  type Command,
  type Context,
  defineCommand,
  type Output,
  REASON,
  renderTable,
  UsageError,
} from './command.ts'
import { parseWholeNumber } from './input/option-values.ts'
import { accountIdOf } from './owner.ts'

const PREVIEW_DAYS_DEFAULT = 14
const PREVIEW_DAYS_MAX = 366

export const reminderCommands: readonly Command[] = [
  defineCommand({
    name: 'reminders preview',
    summary:
      'Show the reminders of the next days, on the assumption that no customer pays and each reminder is approved. Blocked reminders are listed with the reason.',
    arguments: [],
    options: {
      account: ACCOUNT,
      days: {
        type: 'string',
        value: 'N',
        description: `The number of days. The default is ${PREVIEW_DAYS_DEFAULT}.`,
      },
    },
    async run({ account: id, days }, context) {
      const { read } = await context.database()
      const { timezone } = await getAccount(read, id)
      const dayCount = parseDays(days)
      const now = context.clock()
      const messages = await previewReminders(read, id, now, dayCount)
      return {
        json: {
          account_id: id,
          now: now.toISOString(),
          messages: messages.map(representPreviewed),
        },
        text: renderPreviewText(messages, timezone, dayCount),
      }
    },
  }),

  defineCommand({
    name: 'reminders run',
    summary:
      'Rehearse reminders: plan all, and really send those that are due, as if the time were T. Without SMTP_URL, they are written to files. Firm and final reminders still wait for approval. This requires REHEARSAL=on. With this setting, the backend itself sends no reminders.',
    arguments: [],
    options: {
      now: {
        type: 'string',
        required: true,
        value: 'T',
        description: 'A time with a UTC offset, e.g. 2026-11-23T10:00:00+01:00.',
      },
      account: {
        type: 'string',
        value: 'ID',
        description: 'The id of the account. Without it, the command applies to all accounts.',
      },
    },
    run: ({ now, account: id }, context) => runRehearsal(now, id, context),
  }),

  defineCommand({
    name: 'reminders approvals',
    summary:
      'List the oldest 200 firm and final reminders that wait for approval, with their text.',
    arguments: [],
    options: { account: ACCOUNT },
    async run({ account: id }, context) {
      const { read } = await context.database()
      await getAccount(read, id)
      const approvals = await listPendingApprovals(read, id)
      return {
        json: approvals.map(({ message, debtorName, invoices, expiresAt, contentDigest }) => ({
          ...representMessage(
            message,
            invoices.map((invoice) => invoice.id),
          ),
          debtor_name: debtorName,
          body: message.body,
          expires_at: expiresAt,
          // The JSON of Settings also has this member. A decision that contains it applies only to this content.
          seen: contentDigest,
        })),
        text:
          approvals.length === 0
            ? 'No reminder waits for approval.'
            : approvals.map(renderApprovalText).join('\n\n'),
      }
    },
  }),

  defineCommand({
    name: 'reminders approve',
    summary:
      'Approve a firm or final reminder. It is sent as soon as the customer’s business hours allow or, if another reminder was already sent today, on the next business day.',
    arguments: ['MESSAGE_ID'],
    options: {},
    run: ({ MESSAGE_ID }, context) => decide(context, MESSAGE_ID, { approve: true }),
  }),

  defineCommand({
    name: 'reminders reject',
    summary:
      'Reject a firm or final reminder. Reminders for its invoices stop until a person resumes them.',
    arguments: ['MESSAGE_ID'],
    options: { reason: REASON },
    run: ({ MESSAGE_ID, reason }, context) =>
      decide(context, MESSAGE_ID, { approve: false, reason }),
  }),
]

async function runRehearsal(
  nowText: string,
  accountId: string | undefined,
  context: Context,
): Promise<Output> {
  const now = parseInstant(nowText)
  if (now === undefined) {
    throw new UsageError(`--now must be a time with a UTC offset, not ${nowText}`)
  }
  const settings = context.settings()
  const { REHEARSAL, ...mail } = settings.read(REMINDER_SETTINGS)
  if (REHEARSAL !== 'on') {
    throw new Error(
      'A rehearsal requires REHEARSAL=on for this command and for the backend, which would otherwise send reminders at the same time.',
    )
  }
  const database = await context.database()
  if (accountId !== undefined) await getAccount(database.read, accountId)
  const clock = () => now
  const log = createLogger('cli', 'error')
  const mailServices = createMailServices({
    ...mailOptions({ ...mail, DATA_DIR: settings.DATA_DIR }),
    database,
    clock,
    log,
  })
  try {
    const messages = await rehearse({ database, ...mailServices, clock, log }, accountId)
    await context.performAction((tx, actionContext) =>
      recordAudit(tx, actionContext, {
        accountId: accountId ?? null,
        action: 'reminders.rehearsed',
        subjectId: null,
        detail: { now: now.toISOString(), messages: messages.length },
      }),
    )
    return {
      json: await representRehearsal(database, now, messages),
      text: renderRehearsalText(messages),
    }
  } finally {
    await mailServices.close()
  }
}

async function representRehearsal({ read }: Database, now: Date, messages: readonly MessageRow[]) {
  const shownMessages = []
  for (const message of messages) {
    const invoiceIds = await readInvoiceIdsByMessage(read, message.account_id, [message.id])
    shownMessages.push(representMessage(message, invoiceIds.get(message.id) ?? []))
  }
  return { now: now.toISOString(), messages: shownMessages }
}

async function decide(context: Context, id: string, decision: Decision): Promise<Output> {
  const database = await context.database()
  const accountId = await accountIdOf(database, 'messages', id)
  await context.performAction((tx, actionContext) =>
    decideApproval(tx, accountId, id, decision, actionContext),
  )
  const status = decision.approve ? 'approved' : 'rejected'
  return { json: { id, approval: status }, text: `Message ${id} is ${status}.` }
}

function parseDays(text: string | undefined): number {
  const days = text === undefined ? PREVIEW_DAYS_DEFAULT : parseWholeNumber('--days', text)
  if (days <= PREVIEW_DAYS_MAX) return days
  throw new UsageError(`--days must be a number from 0 to ${PREVIEW_DAYS_MAX}, not ${text}`)
}

function renderPreviewText(
  messages: readonly PreviewedMessage[],
  timezone: string,
  days: number,
): string {
  if (messages.length === 0)
    return `No reminder is sent within ${days === 1 ? '1 day' : `${days} days`}.`
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: timezone,
    weekday: 'short',
    day: '2-digit',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
  })
  const rows = messages.map(({ at, debtorName, stage, invoices, requiresApproval, refusal }) => ({
    when: format.format(new Date(at)),
    customer: debtorName,
    stage: stage ?? 'courtesy',
    invoices: summarizeList(invoices.map(({ number }) => number)),
    amount: summarizeList(
      invoices.map(({ amountDue, onAccount = 0, currency }) =>
        moneyText(amountDue - onAccount, currency),
      ),
    ),
    outcome:
      refusal === null
        ? requiresApproval
          ? 'sent after approval'
          : 'sent'
        : `blocked: ${refusal.reason} (${refusal.detail})`,
  }))
  return renderTable(rows)
}

function summarizeList(items: readonly string[]): string {
  const [first, second, ...others] = items
  if (first === undefined) return ''
  if (second === undefined) return first
  return others.length === 0
    ? `${first}, ${second}`
    : `${first}, ${second} and ${others.length} more`
}

function renderRehearsalText(messages: readonly MessageRow[]): string {
  if (messages.length === 0) return 'No reminder was due.'
  return renderTable(
    messages.map(({ id, debtor_id, stage, status, suppression_reason, suppression_detail }) => ({
      message: id,
      customer: debtor_id,
      stage: stage ?? 'courtesy',
      status,
      why: suppression_reason === null ? '' : `${suppression_reason}: ${suppression_detail ?? ''}`,
    })),
  )
}

function renderApprovalText({ message, debtorName, invoices, expiresAt }: PendingApproval): string {
  return [
    `${message.id}: ${message.stage}, to ${debtorName} <${message.recipient}>, to be decided by ${expiresAt}`,
    ...invoices.map(
      ({ number, dueDate, amountDue, onAccount = 0, currency }) =>
        `  ${number}, due ${dueDate}: ${moneyText(amountDue, currency)}${
          onAccount === 0 ? '' : `, less ${moneyText(onAccount, currency)} on account`
        }`,
    ),
    '',
    `  ${message.subject}`,
    ...(message.body ?? '').split('\n').map((line) => `  ${line}`.trimEnd()),
  ].join('\n')
}
