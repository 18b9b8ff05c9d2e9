/** Creates the rows of planned messages. Their texts are written later. */
import { createId } from '../../../shared/contract/id.ts'
import { daysBetween } from '../../calendar/calendar.ts'
import { capped } from '../../database/capped-sum.ts'
import type { DebtorRow, MessageRow, ReminderRow } from '../../database/tables.ts'
import { activationCountOf } from '../kill-switch.ts'
import type { Refusal } from '../safety-rails.ts'
import { amountDemanded, type Facts, publicStage } from './facts.ts'
import { type LadderStage, needsApproval } from './ladder.ts'
import type { Plan, PlannedMessage } from './planner.ts'
import type { ChasedDebtor, ChasedInvoice, ChasingAccount } from './planning-data.ts'

/** A message can be approved for this many days. Afterwards, a new message is planned with current facts. */
const APPROVAL_DAYS = 7
const DAY_MS = 86_400_000

export interface DebtorPlan {
  readonly debtor: DebtorRow
  readonly account: ChasingAccount
  readonly chased: ChasedDebtor
  /** Why a safety rail blocks every message to the debtor; undefined if none does. */
  readonly refusal: Refusal | undefined
  readonly plan: Plan
}

export interface NewMessage {
  readonly row: MessageRow
  readonly reminder: ReminderRow
  readonly invoices: readonly { readonly invoice: ChasedInvoice; readonly stage: LadderStage }[]
}

/**
 * The message's first status is `suppressed` if a safety rail blocks the message itself or every message to the debtor.
 */
export function newMessage(
  { debtor, account, chased, refusal: debtorRefusal }: DebtorPlan,
  { stage, scheduledFor, invoices, refusal = debtorRefusal }: PlannedMessage,
  now: Date,
): NewMessage {
  const today = account.workingTimeOf(debtor).dayOf(now)
  const byId = new Map(chased.invoices.map((invoice) => [invoice.id, invoice]))
  const messageInvoices = invoices.flatMap(({ id, stage: invoiceStage }) => {
    const invoice = byId.get(id)
    return invoice === undefined ? [] : [{ invoice, stage: invoiceStage }]
  })
  const facts: Facts = {
    stage,
    recipient: debtor.email,
    invoices: messageInvoices.map(({ invoice, stage: invoiceStage }) => ({
      id: invoice.id,
      number: invoice.number,
      dueDate: invoice.due_date,
      currency: invoice.currency,
      amountDue: invoice.amount_due,
      ...(invoice.onAccount === 0 ? {} : { onAccount: invoice.onAccount }),
      daysPastDue: daysBetween(invoice.due_date, today),
      stage: invoiceStage,
      cycle: invoice.chasing_cycle,
    })),
    timesPutOn: activationCountOf(account.switches),
    expiresAt: new Date(now.getTime() + APPROVAL_DAYS * DAY_MS).toISOString(),
  }
  const row = messageRowOf(debtor, facts, refusal, { scheduledFor, now })
  // For a message that needs approval, the send check runs immediately, and writes the text that a person approves.
  const runAt = row.status === 'awaiting_approval' ? now : scheduledFor
  const reminder = {
    message_id: row.id,
    account_id: row.account_id,
    debtor_id: row.debtor_id,
    facts: JSON.stringify(facts),
    approved_hash: null,
    payment_digest: null,
    // The send check never runs for a suppressed message.
    run_at: refusal === undefined ? runAt.toISOString() : null,
    lease: null,
    attempts: 0,
    unknown_outcomes: 0,
    planned_at: now.toISOString(),
  }
  return { row, reminder, invoices: messageInvoices }
}

function messageRowOf(
  { id: debtorId, account_id: accountId }: DebtorRow,
  { stage, recipient, invoices }: Facts,
  refusal: Refusal | undefined,
  { scheduledFor, now }: { readonly scheduledFor: Date; readonly now: Date },
): MessageRow {
  const approval = needsApproval(stage)
  const [currency, ...others] = new Set(invoices.map((invoice) => invoice.currency))
  // Amounts in several currencies are not added up; the text lists them.
  const hasOneCurrency = currency !== undefined && others.length === 0
  return {
    id: createId('msg'),
    account_id: accountId,
    debtor_id: debtorId,
    channel: 'email',
    direction: 'outbound',
    kind: 'reminder',
    stage: publicStage(stage),
    status: refusal ? 'suppressed' : approval ? 'awaiting_approval' : 'scheduled',
    suppression_reason: refusal?.reason ?? null,
    suppression_detail: refusal?.detail ?? null,
    approval_required: approval ? 1 : 0,
    approval_status: approval ? (refusal ? 'lapsed' : 'pending') : null,
    approval_decided_by: null,
    approval_decided_at: null,
    recipient,
    subject: null,
    body: null,
    amount_due: hasOneCurrency
      ? capped(invoices.reduce((sum, invoice) => sum + amountDemanded(invoice), 0))
      : null,
    currency: hasOneCurrency ? currency : null,
    days_past_due: Math.max(...invoices.map(({ daysPastDue }) => daysPastDue)),
    provider_message_id: null,
    delivered_at: null,
    bounce_type: null,
    bounce_code: null,
    soft_bounces: 0,
    scheduled_for: refusal ? null : scheduledFor.toISOString(),
    sent_at: null,
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
    revision: 1,
  }
}
