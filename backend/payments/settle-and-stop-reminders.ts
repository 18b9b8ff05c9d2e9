import type { Transaction } from '../database/database.ts'
import type { DebtorRow, InvoiceRowWithOptionalLines, InvoiceStatus } from '../database/tables.ts'
import { together } from '../database/together.ts'
import { addToAmountPaid } from '../invoices/settlement.ts'
import {
  type StoppedMessages,
  stopMessages,
  stopUnsentMessages,
  type UnsentMessage,
} from '../messages/cancel-messages.ts'
import type { Share } from './allocation.ts'

/** The effects of recording a payment, or of changing its allocations. */
export interface Effects {
  readonly invoices: readonly { id: string; status: InvoiceStatus; amount_due: number }[]
  readonly messages_cancelled: number
  readonly messages_in_flight: readonly string[]
}

export function effectsOf(
  invoices: readonly InvoiceRowWithOptionalLines[],
  stopped: readonly StoppedMessages[],
): Effects {
  return {
    invoices: invoices.map(({ id, status, amount_due }) => ({ id, status, amount_due })),
    messages_cancelled: stopped.flatMap((each) => each.cancelledIds).length,
    messages_in_flight: [...new Set(stopped.flatMap((each) => each.inFlightIds))],
  }
}

/**
 * Adds the shares of a payment to the amounts paid of its invoices, and cancels the waiting reminders about these
 * invoices. Returns the invoices with their new amounts due, and the messages about them that were cancelled or are
 * already being handed over. `detail` is the reason that is recorded with each cancelled message. `unsent` contains the
 * unsent messages about the invoices, if the caller has read these messages since it locked the debtor.
 */
export async function settleAndStopReminders(
  tx: Transaction,
  debtor: Pick<DebtorRow, 'id' | 'account_id'>,
  shares: readonly Share[],
  now: Date,
  detail: string,
  unsent?: readonly UnsentMessage[],
): Promise<{ invoices: readonly InvoiceRowWithOptionalLines[]; stopped: StoppedMessages[] }> {
  if (shares.length === 0) return { invoices: [], stopped: [] }
  const { account_id: accountId } = debtor
  const ids = shares.map(({ invoice }) => invoice.id)
  // PostgreSQL gets writes together with the next read or the COMMIT. The messages are read before the invoices are
  // updated, so that the updates are sent later, together with the payment's other writes.
  const [stopped, invoices] = await together([
    unsent === undefined
      ? stopMessages(tx, accountId, ids, now, detail)
      : stopUnsentMessages(tx, accountId, unsent, now, detail),
    applyShares(tx, shares, now),
  ])
  return { invoices, stopped: [stopped] }
}

async function applyShares(
  tx: Transaction,
  shares: readonly Share[],
  now: Date,
): Promise<InvoiceRowWithOptionalLines[]> {
  const invoices: InvoiceRowWithOptionalLines[] = []
  for (const { invoice, amount } of shares) {
    invoices.push(amount === 0 ? invoice : await addToAmountPaid(tx, invoice, amount, now))
  }
  return invoices
}
