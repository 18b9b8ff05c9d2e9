/** Reads what Home, the first page of Settings, shows. The cost is limited, however many invoices the account has. */
import { todayIn } from '../../calendar/calendar.ts'
import type { MessageRow, PaymentRow, Reader, WebhookEndpointRow } from '../../database/tables.ts'
import { readBalances } from '../../debtors/balances.ts'
import {
  countUnreachableDebtorsOwing,
  type DueByAge,
  listLargestDebtors,
  readArchivedDueByAge,
  readDueByAge,
} from '../../debtors/due-totals.ts'
import { type OldInvoices, readOldInvoices } from '../../invoices/old-invoices.ts'
import { countUpcomingDebtors, type UpcomingDays } from '../../invoices/upcoming-reminders.ts'
import { countAwaitingApproval } from '../../messages/approval-log.ts'
import { listMessages } from '../../messages/messages.ts'
import { listPayments } from '../../payments/payment-list.ts'
import { listCurrenciesWithoutPaymentDetails } from '../../reminders/reminder-content.ts'
import type { Session } from '../../sessions/sessions.ts'
import { type KeyNearLimit, listKeysNearLimit } from '../../usage/keys-near-limit.ts'
import { listEndpoints } from '../../webhooks/endpoints.ts'
import { newestFirst } from '../shell/list-query.ts'
import { readCustomerNames } from '../shell/row-customers.ts'

/** The largest number of payments, of messages, and of debtors per currency that Home shows. */
const SHOWN_MAX = 5
/** How many currencies Home shows in detail, with the largest debtors. For all others, it lists only the totals. */
export const DETAILED_CURRENCIES_MAX = 3
const REMINDER_DAYS = 7
/** To count the customers who will be reminded, Home reads the next reminders of at most this many invoices. */
export const UPCOMING_INVOICES_MAX = 400
const UNREACHABLE_MAX = 1000
const KEYS_NEAR_LIMIT_MAX = 10

export interface LargestDebtor {
  readonly id: string
  readonly name: string
  readonly outstanding: number
  readonly overdue: number
}

export interface Overview {
  readonly session: Session
  readonly now: Date
  readonly today: string
  /** The currency with the most open invoices comes first. */
  readonly due: readonly DueByAge[]
  /** The part of `due` that archived customers owe, by currency. */
  readonly archivedDue: ReadonlyMap<string, DueByAge>
  /** The largest debtors by currency, for the first `DETAILED_CURRENCIES_MAX` currencies of `due`. */
  readonly largestDebtors: ReadonlyMap<string, readonly LargestDebtor[]>
  /** How many customers will be reminded on each of the next days, of which today is the first. */
  readonly reminders: UpcomingDays
  readonly oldInvoices: OldInvoices
  readonly approvalsWaiting: number
  /** Currencies in which reminders demand money without saying how to pay. */
  readonly currenciesWithoutPaymentDetails: readonly string[]
  /** Enabled endpoints that fail, and endpoints that were disabled because they failed. */
  readonly brokenEndpoints: readonly WebhookEndpointRow[]
  /** The number of active customers that owe money and cannot be reached, counted up to `UNREACHABLE_MAX`. */
  readonly unreachable: { readonly customers: number; readonly hasMore: boolean }
  /** The keys that have used all or most of their hourly limit, the busiest first, up to `KEYS_NEAR_LIMIT_MAX`. */
  readonly keysNearLimit: readonly KeyNearLimit[]
  readonly hasMoreKeysNearLimit: boolean
  readonly payments: readonly PaymentRow[]
  readonly messages: readonly MessageRow[]
  /** The names of the customers of `payments` and `messages`, by id. */
  readonly names: ReadonlyMap<string, string>
  /** While the account has no customer, Home shows the steps to get started. */
  readonly steps: { readonly hasKey: boolean; readonly hasCustomer: boolean }
}

export async function readOverview(reader: Reader, session: Session, now: Date): Promise<Overview> {
  const { id: accountId, timezone } = session.account
  const today = todayIn(timezone, now)
  // Home always links to the whole lists, so it does not need an extra row to know whether a list is longer.
  const newest = { ...newestFirst(SHOWN_MAX), rowsMax: SHOWN_MAX }
  const [
    due,
    archived,
    reminders,
    oldInvoices,
    approvalsWaiting,
    currenciesWithoutPaymentDetails,
    endpoints,
    unreachable,
    keysNearLimit,
    payments,
    messages,
    steps,
  ] = await Promise.all([
    readDueByAge(reader, accountId, today),
    readArchivedDueByAge(reader, accountId, today),
    countUpcomingDebtors(reader, session.account, now, {
      days: REMINDER_DAYS,
      max: UPCOMING_INVOICES_MAX,
    }),
    readOldInvoices(reader, accountId),
    countAwaitingApproval(reader, accountId),
    listCurrenciesWithoutPaymentDetails(reader, accountId),
    listEndpoints(reader, accountId),
    countUnreachableDebtorsOwing(reader, accountId, UNREACHABLE_MAX + 1),
    listKeysNearLimit(reader, accountId, now, KEYS_NEAR_LIMIT_MAX + 1),
    listPayments(reader, accountId, {}, newest),
    listMessages(reader, accountId, {}, newest),
    readSteps(reader, accountId),
  ])
  due.sort((a, b) => b.outstanding.invoices - a.outstanding.invoices)
  const largestDebtors = await readLargestDebtors(reader, accountId, due, today)
  return {
    session,
    now,
    today,
    due,
    archivedDue: new Map(archived.map((entry) => [entry.currency, entry])),
    largestDebtors,
    reminders,
    oldInvoices,
    approvalsWaiting,
    currenciesWithoutPaymentDetails,
    brokenEndpoints: endpoints.filter(
      ({ status, failing_since }) =>
        status === 'disabled' || (status === 'enabled' && failing_since !== null),
    ),
    unreachable: {
      customers: Math.min(unreachable, UNREACHABLE_MAX),
      hasMore: unreachable > UNREACHABLE_MAX,
    },
    keysNearLimit: keysNearLimit.slice(0, KEYS_NEAR_LIMIT_MAX),
    hasMoreKeysNearLimit: keysNearLimit.length > KEYS_NEAR_LIMIT_MAX,
    payments,
    messages,
    names: await readCustomerNames(reader, accountId, [...payments, ...messages]),
    steps,
  }
}

async function readLargestDebtors(
  reader: Reader,
  accountId: string,
  due: readonly DueByAge[],
  today: string,
): Promise<Overview['largestDebtors']> {
  const currencies = due.slice(0, DETAILED_CURRENCIES_MAX).map(({ currency }) => currency)
  const lists = await Promise.all(
    currencies.map((currency) => listLargestDebtors(reader, accountId, currency, SHOWN_MAX)),
  )
  const ids = [...new Set(lists.flat().map(({ debtorId }) => debtorId))]
  const [balances, names] = await Promise.all([
    readBalances(reader, accountId, ids, today),
    readCustomerNames(
      reader,
      accountId,
      ids.map((debtor_id) => ({ debtor_id })),
    ),
  ])
  return new Map(
    currencies.map((currency, index) => [
      currency,
      (lists[index] ?? []).map(({ debtorId }) => {
        const balance = balances.get(debtorId)?.find((entry) => entry.currency === currency)
        return {
          id: debtorId,
          name: names.get(debtorId) ?? '',
          outstanding: balance?.outstanding ?? 0,
          overdue: balance?.overdue ?? 0,
        }
      }),
    ]),
  )
}

async function readSteps(reader: Reader, accountId: string): Promise<Overview['steps']> {
  const [key, debtor] = await Promise.all(
    (['api_keys', 'debtors'] as const).map((table) =>
      reader
        .selectFrom(table)
        .select('id')
        .where('account_id', '=', accountId)
        .limit(1)
        .executeTakeFirst(),
    ),
  )
  return { hasKey: key !== undefined, hasCustomer: debtor !== undefined }
}
