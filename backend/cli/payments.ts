import type { ActionContext } from '../accounts/audit.ts'
import type { PaymentRow, Transaction } from '../database/tables.ts'
import { moneyText } from '../money/money-text.ts'
import { readAllocations } from '../payments/payment-list.ts'
import { allocatePayment, takeBackAllocation } from '../payments/reallocation.ts'
import { representPayment } from '../payments/representation.ts'
import { reversePayment } from '../payments/reversal.ts'
import type { NewAllocation } from '../payments/targets.ts'
import {
  type Command,
  type Context,
  defineCommand,
  type Output,
  REASON,
  splitList,
  UsageError,
} from './command.ts'
import { parseAmount } from './input/option-values.ts'
import { accountIdOf } from './owner.ts'

export const paymentCommands: readonly Command[] = [
  defineCommand({
    name: 'payments allocate',
    summary:
      'Allocate the part of a payment that is still on account. The invoices must have the customer and the currency of the payment, and be open, partially paid or written off.',
    arguments: ['ID'],
    options: {
      to: {
        type: 'string',
        required: true,
        value: 'INVOICE=AMOUNT,…',
        description: 'The ids of invoices, each with an amount in minor units.',
      },
    },
    async run({ ID, to }, context) {
      const allocations = splitList(to).map(parseAllocation)
      if (allocations.length === 0) throw new UsageError('--to must name an invoice')
      return performOnPayment(
        context,
        ID,
        'was allocated',
        async (tx, accountId, actionContext) => {
          const { payment } = await allocatePayment(tx, accountId, ID, allocations, actionContext)
          return payment
        },
      )
    },
  }),
  defineCommand({
    name: 'payments unallocate',
    summary:
      'Take an allocation back: the allocated amount is on account again, and due again on the invoice.',
    arguments: ['ID'],
    options: {
      invoice: {
        type: 'string',
        required: true,
        value: 'ID',
        description: 'The invoice that the payment is allocated to.',
      },
      reason: REASON,
    },
    run: ({ ID, invoice, reason }, context) =>
      performOnPayment(
        context,
        ID,
        `is no longer allocated to ${invoice}`,
        async (tx, accountId, actionContext) => {
          const input = { invoiceId: invoice, reason }
          const { payment } = await takeBackAllocation(tx, accountId, ID, input, actionContext)
          return payment
        },
      ),
  }),
  defineCommand({
    name: 'payments reverse',
    summary:
      'Reverse a payment that bounced or was recorded by mistake: the amounts that it paid are due again on their invoices. Reminders about open invoices continue unless something else blocks them.',
    arguments: ['ID'],
    options: { reason: REASON },
    run: ({ ID, reason }, context) =>
      performOnPayment(context, ID, 'was reversed', (tx, accountId, actionContext) =>
        reversePayment(tx, accountId, ID, reason, actionContext),
      ),
  }),
]

/** `outcome` follows the id of the payment in the output, e.g. `was reversed`. */
async function performOnPayment(
  context: Context,
  id: string,
  outcome: string,
  change: (tx: Transaction, accountId: string, actionContext: ActionContext) => Promise<PaymentRow>,
): Promise<Output> {
  const database = await context.database()
  const accountId = await accountIdOf(database, 'payments', id)
  const row = await context.performAction((tx, actionContext) =>
    change(tx, accountId, actionContext),
  )
  const allocations = (await readAllocations(database.read, accountId, [id])).get(id) ?? []
  return {
    json: representPayment(row, allocations),
    text: `Payment ${id} ${outcome}${describeMoneyOnAccount(row)}.`,
  }
}

/** Returns the text that follows the outcome, without the full stop at its end. */
function describeMoneyOnAccount({ status, amount, unapplied_amount, currency }: PaymentRow) {
  if (status === 'reversed') return ', so none of it is on account'
  return `. ${moneyText(unapplied_amount, currency)} of ${moneyText(amount, currency)} is on account`
}

function parseAllocation(text: string): NewAllocation {
  const [invoiceId = '', amount = '', ...rest] = text.split('=')
  if (invoiceId === '' || rest.length > 0) {
    throw new UsageError(`--to must be INVOICE=AMOUNT, not ${text}`)
  }
  return { invoiceId, amount: parseAmount('--to', amount) }
}
