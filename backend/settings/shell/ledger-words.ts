import { calendarDateFormat, dateFormats } from '../../calendar/date-formats.ts'
import type {
  DebtorRow,
  InvoiceRow,
  InvoiceStatus,
  MessageRow,
  MessageStatus,
  PaymentRow,
} from '../../database/tables.ts'
import type { Balance } from '../../debtors/balances.ts'
import { type Html, html } from '../../html/html.ts'
import { daysPastDue } from '../../invoices/overdue.ts'
import { chooseLanguage, LANGUAGES, type Language } from '../../mail/wording/languages.ts'
import { moneyText } from '../../money/money-text.ts'
import type { LadderStage } from '../../reminders/planning/ladder.ts'
import { exactTime, plural } from './words.ts'

export const INVOICE_STATUS_WORDS: Readonly<Record<InvoiceStatus, string>> = {
  draft: 'Draft',
  open: 'Open',
  partially_paid: 'Partly paid',
  paid: 'Paid',
  void: 'Void',
  written_off: 'Written off',
}

export const STAGE_WORDS: Readonly<Record<LadderStage, string>> = {
  courtesy: 'Courtesy',
  friendly: 'Friendly',
  reminder: 'Reminder',
  firm: 'Firm',
  final: 'Final',
}

export const MESSAGE_STATUS_WORDS: Readonly<Record<MessageStatus, string>> = {
  scheduled: 'Scheduled',
  awaiting_approval: 'Awaits approval',
  approved: 'Approved',
  queued: 'Queued',
  sending: 'Sending',
  sent: 'Sent',
  delivered: 'Delivered',
  bounced: 'Bounced',
  failed: 'Failed',
  suppressed: 'Not sent',
  cancelled: 'Cancelled',
  received: 'Received',
}

/** The reasons why a message was suppressed, an invoice is blocked or a customer is paused. */
const REASON_WORDS: Readonly<Record<string, string>> = {
  kill_switch: 'stopped by the kill switch',
  demo: 'sample data is never contacted',
  invoice_paid: 'the invoice is paid',
  payment_received: 'a payment came in',
  credit_on_account: 'money on account covers the invoice',
  account_read_only: 'the account is read-only',
  debtor_paused: 'the customer is paused',
  disputed: 'the invoice is disputed',
  unsubscribed: 'the recipient unsubscribed',
  bounced: 'mail to the address bounced',
  complained: 'the recipient reported our mail as unwanted',
  no_contact: 'the customer has no e-mail address',
  approval_rejected: 'the reminder was rejected',
  approval_expired: 'the reminder was not approved in time',
  duplicate: 'the reminder was already sent',
  send_window: 'the time is outside business hours',
  frequency_cap: 'customers receive at most one reminder a day',
  archived: 'the customer is archived',
  replied: 'the customer replied',
  before_chase_from: 'the invoice fell due before the date from which the account sends reminders',
  history: 'the invoice was past due when it was created',
  awaiting_approval: 'the reminder awaits approval',
}

/** Returns the words for a code; a reason in a person's own words is returned unchanged. */
export function reasonWords(reason: string): string {
  return REASON_WORDS[reason] ?? reason
}

export const CONTACT_WORDS: Readonly<Record<DebtorRow['contactability_email'], string>> = {
  ok: 'Reachable',
  missing: 'No address',
  bounced: 'Bounced',
  complained: 'Complained',
  unsubscribed: 'Unsubscribed',
}

export const METHOD_WORDS: Readonly<Record<PaymentRow['method'], string>> = {
  bank_transfer: 'Bank transfer',
  card: 'Card',
  direct_debit: 'Direct debit',
  cash: 'Cash',
  cheque: 'Cheque',
  other: 'Other',
}

export function renderInvoiceStatus(row: InvoiceRow, today: string): Html {
  const late = daysPastDue(row, today)
  const isPaid = row.status === 'paid'
  return html`<span class="badge${isPaid && ' active'}">${INVOICE_STATUS_WORDS[row.status]}</span>${
    late > 0 && html` <span class="badge late">${plural(late, 'day')} late</span>`
  }${row.chasing_blocked_reason === 'disputed' && html` <span class="badge warning">Disputed</span>`}`
}

/**
 * Returns the reason in the customer's own row (archived, paused, or not reachable by mail) why no reminder reaches the
 * customer; undefined if there is none.
 */
export function blockReasonOf(
  row: Pick<DebtorRow, 'status' | 'chasing_status' | 'contactability_email'>,
): string | undefined {
  if (row.status === 'archived') return 'archived'
  if (row.chasing_status !== 'active') return 'debtor_paused'
  const { contactability_email: contact } = row
  return contact === 'ok' ? undefined : contact === 'missing' ? 'no_contact' : contact
}

/**
 * Describes the next reminder about the invoice, or says why there is none. `customerBlock` is the result of
 * `blockReasonOf` for the customer. Until a reminder about the invoice is due, `row` does not
 * contain this reason.
 */
export function nextReminderText(
  row: Omit<InvoiceRow, 'line_items'>,
  timezone: string,
  customerBlock?: string,
): string {
  if (row.status !== 'open' && row.status !== 'partially_paid') return '–'
  const { chasing_blocked_reason: blocked, chasing_next_stage: next } = row
  const at = row.chasing_next_action_at
  if (blocked === 'awaiting_approval' && next !== null) {
    return `${STAGE_WORDS[next]}, awaits approval`
  }
  if (row.chasing_status === 'paused' && blocked !== null && at !== null) {
    return `Paused until ${dayOf(at, timezone)}: ${reasonWords(blocked)}`
  }
  if (blocked !== null) return `Blocked: ${reasonWords(blocked)}`
  if (row.chasing_status === 'stopped') return 'Ended'
  if (next === null && row.chasing_stage === 'final') return 'All stages sent'
  if (customerBlock !== undefined) return `Blocked: ${reasonWords(customerBlock)}`
  // A worker schedules the next reminder shortly after a change, such as the reversal of a payment.
  if (at === null) return next === null ? 'Not scheduled yet' : STAGE_WORDS[next]
  // The stage of a courtesy reminder is stored as null.
  return `${STAGE_WORDS[next ?? 'courtesy']}, ${dayOf(at, timezone)}`
}

const CHASING_WORDS = { active: 'Active', paused: 'Paused', stopped: 'Stopped' } as const

/** Renders the state of a customer. A customer who cannot be reached is highlighted only if they owe money. */
export function renderDebtorState(row: DebtorRow, isOwing = true): Html {
  const isChased = row.status === 'active' && row.chasing_status === 'active'
  const isReachable = row.contactability_email === 'ok'
  if (row.status === 'archived') return html`<span class="badge">Archived</span>`
  return html`${
    isChased
      ? isReachable && html`<span class="badge active">${CHASING_WORDS.active}</span>`
      : html`<span class="badge warning">${CHASING_WORDS[row.chasing_status]}</span>`
  }${!isReachable && html` <span class="badge${isOwing && ' late'}">${CONTACT_WORDS[row.contactability_email]}</span>`}`
}

/** The statuses by the color of their badge; the badges of all other statuses are gray. */
const GOOD: readonly MessageStatus[] = ['sent', 'delivered', 'approved', 'received']
const BAD: readonly MessageStatus[] = ['bounced', 'failed']
const WARNING: readonly MessageStatus[] = ['suppressed', 'awaiting_approval']

export function renderMessageStatus({ status }: Pick<MessageRow, 'status'>): Html {
  const kind = GOOD.includes(status)
    ? ' active'
    : BAD.includes(status)
      ? ' late'
      : WARNING.includes(status)
        ? ' warning'
        : ''
  return html`<span class="badge${kind}">${MESSAGE_STATUS_WORDS[status]}</span>`
}

export function renderMoney(amount: number, currency: string): Html {
  return html`<span class="money" translate="no">${moneyText(amount, currency)}</span>`
}

/** Renders the positive sums, one per currency, or a dash if there is none. */
export function renderSums(
  balances: readonly Balance[],
  kind: 'outstanding' | 'overdue' | 'unapplied',
): Html {
  const positive = balances.filter((balance) => balance[kind] > 0)
  if (positive.length === 0) return html`<span class="hint">–</span>`
  return html`${positive.map((balance) => html`<span class="sum${kind === 'overdue' && ' late'}">${renderMoney(balance[kind], balance.currency)}</span>`)}`
}

/** Returns the name to show for an actor, e.g. the person or the API key that recorded a payment. `actor` is JSON. */
export function labelOf(actor: string): string {
  const { label }: { label?: unknown } = JSON.parse(actor)
  return typeof label === 'string' ? label : ''
}

/** Formats an instant as a day in the time zone, e.g. as `Tue 24 Nov`. */
export function dayOf(at: string, timezone: string): string {
  return dayFormatIn(timezone).format(new Date(at))
}

const dayFormatIn = dateFormats('en-GB', { weekday: 'short', day: 'numeric', month: 'short' })

/** Formats a calendar date, e.g. as `24 Nov 2026`. */
export const dateWords = calendarDateFormat('en-GB', { dateStyle: 'medium' })

/** Renders the end of a pause. With null, the pause has no planned end. */
export function renderUntil(until: string | null, timezone: string): Html {
  return until === null
    ? html`until someone resumes reminders`
    : html`until <time datetime="${until}">${exactTime(until, timezone)}</time>`
}

export const LANGUAGE_WORDS: Readonly<Record<Language, string>> = {
  en: 'English',
  nl: 'Dutch',
  de: 'German',
  fr: 'French',
}

/**
 * Returns the name of a customer's language. If reminders do not exist in this language, returns its tag and the
 * language in which reminders are written instead.
 */
export function languageText(tag: string): string {
  const language = LANGUAGES.find((candidate) => candidate === tag)
  return language === undefined
    ? `${tag} (reminders in ${LANGUAGE_WORDS[chooseLanguage(tag)]})`
    : LANGUAGE_WORDS[language]
}
