/**
 * The safety rails are the checks that can block a reminder. The message log shows the reason of the first safety rail
 * in `SAFETY_RAILS` that blocks the reminder. The planner applies the safety rails that would block every message to a
 * debtor. The send check applies all safety rails to each message right before it is sent. If the message needs
 * approval, the send check also applies them, except `demo`, when the text is written and when the approval period
 * ends. The send window and the daily cap are not safety rails, because they only postpone a message.
 */
import { isReadOnly } from '../accounts/accounts.ts'
import type {
  AccountRow,
  DebtorRow,
  InvoiceRow,
  MessageRow,
  SuppressedAddressRow,
} from '../database/tables.ts'
import { isReservedAddress } from '../mail/addresses.ts'
import { activationCountOf, type KillSwitch } from './kill-switch.ts'
import type { Facts, MessageInvoice } from './planning/facts.ts'

export type RefusalReason =
  | 'kill_switch'
  | 'account_read_only'
  | 'demo'
  | 'debtor_paused'
  | 'disputed'
  | 'bounced'
  | 'complained'
  | 'unsubscribed'
  | 'no_contact'
  | 'invoice_paid'
  | 'payment_received'
  | 'credit_on_account'
  | 'approval_expired'

export interface Refusal {
  readonly reason: RefusalReason
  /** The reason as text for people. */
  readonly detail: string
}

export interface Situation {
  readonly now: Date
  readonly account: Pick<AccountRow, 'status' | 'is_demo'> & {
    readonly switches: readonly KillSwitch[]
  }
  readonly debtor: Pick<
    DebtorRow,
    | 'status'
    | 'is_demo'
    | 'email'
    | 'contactability_email'
    | 'chasing_status'
    | 'chasing_reason'
    | 'chasing_until'
  >
  /** Why the debtor's address is suppressed; undefined if it is not. */
  readonly suppressionReason: SuppressedAddressRow['reason'] | undefined
  /** Without a message, only the safety rails that would block every message to the debtor apply. */
  readonly message?: {
    readonly row: Pick<MessageRow, 'approval_status'>
    readonly facts: Facts
    readonly invoices: ReadonlyMap<string, InvoiceState>
    /** The part of each invoice's amount due that money on account covers now, in minor units, by invoice id. */
    readonly onAccount: ReadonlyMap<string, number>
  }
}

export type InvoiceState = Pick<
  InvoiceRow,
  | 'id'
  | 'status'
  | 'amount_due'
  | 'due_date'
  | 'chasing_status'
  | 'chasing_blocked_reason'
  | 'chasing_cycle'
>

/** The refusal of a reminder if money on account covers one of its invoices in full. */
export const CREDIT_ON_ACCOUNT = {
  reason: 'credit_on_account',
  detail: 'money on account covers what is due',
} as const satisfies Refusal

type SafetyRail = (situation: Situation) => Refusal | undefined

const SAFETY_RAILS: readonly SafetyRail[] = [
  killSwitch('installation'),
  killSwitch('account'),
  killSwitchActivatedSince,
  accountReadOnly,
  demo,
  debtorPaused,
  disputed,
  addressSuppressed,
  notPayable,
  paymentReceived,
  creditOnAccount,
  approvalExpired,
]

export function findRefusal(situation: Situation): Refusal | undefined {
  return firstRefusal(SAFETY_RAILS, situation)
}

/**
 * Like `findRefusal`, but without the `demo` safety rail, so that previews and approvals can be tried out with sample
 * data and with addresses that are reserved for tests.
 */
export function findRefusalIgnoringDemo(situation: Situation): Refusal | undefined {
  return firstRefusal(
    SAFETY_RAILS.filter((rail) => rail !== demo),
    situation,
  )
}

function firstRefusal(rails: readonly SafetyRail[], situation: Situation): Refusal | undefined {
  for (const rail of rails) {
    const refusal = rail(situation)
    if (refusal !== undefined) return refusal
  }
  return undefined
}

/** Whether the time until which the debtor was paused has passed. */
export function isPauseOver(
  { chasing_status: status, chasing_until: until }: Situation['debtor'],
  now: Date,
): boolean {
  return status === 'paused' && until !== null && until <= now.toISOString()
}

function killSwitch(scope: KillSwitch['scope']): SafetyRail {
  const switchName = scope === 'account' ? 'the kill switch' : 'the kill switch of the installation'
  return ({ account }) => {
    const found = account.switches.find((candidate) => candidate.scope === scope)
    if (found === undefined || !found.isOn) return undefined
    return { reason: 'kill_switch', detail: `stopped by ${switchName}: ${found.reason ?? ''}` }
  }
}

/** A message that was waiting when a kill switch was activated is not sent, even after the switch is released. */
function killSwitchActivatedSince({ account, message }: Situation): Refusal | undefined {
  if (message === undefined) return undefined
  const { timesPutOn: countWhenPlanned } = message.facts
  if (countWhenPlanned === activationCountOf(account.switches)) return undefined
  const detail = 'a kill switch was activated after the reminder was planned'
  return { reason: 'kill_switch', detail }
}

function accountReadOnly({ account: { status } }: Situation): Refusal | undefined {
  if (!isReadOnly(status)) return undefined
  return { reason: 'account_read_only', detail: `the account is ${status.replaceAll('_', ' ')}` }
}

function demo({ account, debtor }: Situation): Refusal | undefined {
  if (account.is_demo === 1) return { reason: 'demo', detail: 'the account contains sample data' }
  if (debtor.is_demo === 1) return { reason: 'demo', detail: 'the customer is sample data' }
  if (debtor.email === null || !isReservedAddress(debtor.email)) return undefined
  return { reason: 'demo', detail: 'the address is in a domain for documentation and tests' }
}

/** In the API, the reason `debtor_paused` also stands for an archived debtor and a paused invoice. */
function debtorPaused(situation: Situation): Refusal | undefined {
  const { debtor, message, now } = situation
  const { status, chasing_status: chasing, chasing_reason: reason } = debtor
  if (status === 'archived') {
    return { reason: 'debtor_paused', detail: 'the customer is archived' }
  }
  if (chasing !== 'active' && !isPauseOver(debtor, now)) {
    const detail = `reminders to the customer are ${chasing}${reason === null ? '' : `: ${reason}`}`
    // The pause may be a consequence of a bounce. The state of the address then explains more than the pause does.
    return addressSuppressed(situation) ?? { reason: 'debtor_paused', detail }
  }
  // Chasing of a disputed invoice is paused too, but the next safety rail, `disputed`, says more about the cause.
  const paused = messageInvoicesOf(message).find(
    ({ state }) => state?.chasing_status === 'paused' && !isDisputed(state),
  )
  if (paused === undefined) return undefined
  return { reason: 'debtor_paused', detail: `reminders about invoice ${paused.number} are paused` }
}

function disputed({ message }: Situation): Refusal | undefined {
  const found = messageInvoicesOf(message).find(
    ({ state }) => state !== undefined && isDisputed(state),
  )
  return found && { reason: 'disputed', detail: `invoice ${found.number} is disputed` }
}

function addressSuppressed({ debtor, suppressionReason }: Situation): Refusal | undefined {
  const { email, contactability_email: contactability } = debtor
  if (email === null || contactability === 'missing') {
    return { reason: 'no_contact', detail: 'the customer has no e-mail address' }
  }
  const reason = suppressionReason ?? (contactability === 'ok' ? undefined : contactability)
  return reason && { reason, detail: ADDRESS_DETAILS[reason] }
}

const ADDRESS_DETAILS = {
  bounced: 'a mail to the address bounced',
  complained: 'the recipient reported a message as unwanted',
  unsubscribed: 'the recipient unsubscribed from reminders',
}

/** In the API, the reason `invoice_paid` also stands for a void, written-off or missing invoice. */
function notPayable({ message }: Situation): Refusal | undefined {
  const found = messageInvoicesOf(message).find(
    ({ state }) => state?.status !== 'open' && state?.status !== 'partially_paid',
  )
  if (found === undefined) return undefined
  const status = found.state?.status.replaceAll('_', ' ') ?? 'gone'
  return { reason: 'invoice_paid', detail: `invoice ${found.number} is ${status}` }
}

/** In the API, the reason `payment_received` also stands for a credit of an invoice. */
function paymentReceived({ message }: Situation): Refusal | undefined {
  const found = messageInvoicesOf(message).find(
    ({ state, amountDue }) => state !== undefined && state.amount_due < amountDue,
  )
  if (found !== undefined) {
    return { reason: 'payment_received', detail: `less is now due on invoice ${found.number}` }
  }
  return undefined
}

/**
 * Blocks if money on account covers an invoice in full, or covers more than the planner assumed. The reason of the
 * second case is `payment_received`, because the additional money usually comes from a payment.
 */
function creditOnAccount({ message }: Situation): Refusal | undefined {
  if (message === undefined) return undefined
  if (coveredInFull(message).length > 0) return CREDIT_ON_ACCOUNT
  const coversMore = message.facts.invoices.some(
    ({ id, onAccount: planned = 0 }) => (message.onAccount.get(id) ?? 0) > planned,
  )
  if (!coversMore) return undefined
  return {
    reason: 'payment_received',
    detail: 'the customer has paid since the reminder was planned',
  }
}

/** Returns the ids of the message's invoices that money on account covers in full. */
export function coveredInFull({
  facts,
  invoices,
  onAccount,
}: NonNullable<Situation['message']>): string[] {
  const ids = facts.invoices.map(({ id }) => id)
  return ids.filter((id) => onAccount.has(id) && onAccount.get(id) === invoices.get(id)?.amount_due)
}

function approvalExpired({ message, now }: Situation): Refusal | undefined {
  if (message?.row.approval_status !== 'pending') return undefined
  if (message.facts.expiresAt > now.toISOString()) return undefined
  return { reason: 'approval_expired', detail: 'the reminder was not approved in time' }
}

/** Returns the invoices that the message is about, each as planned and in its current state; none without a message. */
function messageInvoicesOf(
  message: Situation['message'],
): readonly (MessageInvoice & { readonly state: InvoiceState | undefined })[] {
  if (message === undefined) return []
  return message.facts.invoices.map((planned) => ({
    ...planned,
    state: message.invoices.get(planned.id),
  }))
}

function isDisputed({ chasing_blocked_reason: reason }: InvoiceState): boolean {
  return reason === 'disputed'
}
