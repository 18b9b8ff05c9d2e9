import { getAccount } from '../accounts/accounts.ts'
import type { ActionContext } from '../accounts/audit.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { InvoiceRow, Transaction } from '../database/tables.ts'
import {
  disputeInvoice,
  finalizeInvoice,
  resolveDispute,
  voidInvoice,
  writeOffInvoice,
} from '../invoices/actions.ts'
import { creditInvoice } from '../invoices/credit-invoice.ts'
import { representInvoice } from '../invoices/representation.ts'
import { type Command, type Context, defineCommand, type Output, REASON } from './command.ts'
import { parseAmount } from './input/option-values.ts'
import { accountIdOf } from './owner.ts'

export const invoiceCommands: readonly Command[] = [
  defineCommand({
    // Public names, such as the audit action `invoice.finalised`, keep the British spelling.
    name: 'invoices finalise',
    summary:
      'Finalize a draft: it becomes an open invoice, which the customer owes. Its number does not change.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) =>
      perform(context, ID, 'is open', (tx, accountId, actionContext) =>
        finalizeInvoice(tx, accountId, ID, actionContext),
      ),
  }),
  commandWithReason(
    'void',
    'Void a draft, or an open invoice without payments or credits. This cannot be undone.',
    'is void',
    voidInvoice,
  ),
  commandWithReason(
    'write-off',
    'Write off an open or partially paid invoice: reminders for it stop. It can still be paid.',
    'is written off',
    writeOffInvoice,
  ),
  defineCommand({
    name: 'invoices credit',
    summary:
      'Credit an amount, at most the amount due, to an open or partially paid invoice: the customer no longer owes this amount.',
    arguments: ['ID'],
    options: {
      amount: {
        type: 'string',
        required: true,
        value: 'N',
        description: 'The amount in minor units, e.g. 1250 for 12.50.',
      },
      reason: REASON,
    },
    run: async ({ ID, amount, reason }, context) => {
      const credit = { amount: parseAmount('--amount', amount), reason }
      return perform(context, ID, 'is credited', (tx, accountId, actionContext) =>
        creditInvoice(tx, accountId, ID, credit, actionContext),
      )
    },
  }),
  commandWithReason(
    'dispute',
    'Record that the customer disputes an invoice: reminders for it stop.',
    'is disputed',
    disputeInvoice,
  ),
  commandWithReason(
    'resolve',
    'Record that a dispute is resolved: reminders for the invoice continue, unless they are also blocked for another reason, such as a rejected reminder.',
    'is no longer disputed',
    resolveDispute,
  ),
]

function commandWithReason(
  verb: string,
  summary: string,
  outcome: string,
  action: typeof voidInvoice,
): Command {
  return defineCommand({
    name: `invoices ${verb}`,
    summary,
    arguments: ['ID'],
    options: { reason: REASON },
    run: ({ ID, reason }, context) =>
      perform(context, ID, outcome, (tx, accountId, actionContext) =>
        action(tx, accountId, ID, reason, actionContext),
      ),
  })
}

/** `outcome` follows the number and id of the invoice in the output, e.g. `is open`. */
async function perform(
  context: Context,
  id: string,
  outcome: string,
  work: (tx: Transaction, accountId: string, actionContext: ActionContext) => Promise<InvoiceRow>,
): Promise<Output> {
  const database = await context.database()
  const accountId = await accountIdOf(database, 'invoices', id)
  const { timezone } = await getAccount(database.read, accountId)
  const row = await context.performAction((tx, actionContext) => work(tx, accountId, actionContext))
  return {
    json: representInvoice(row, todayIn(timezone, context.clock())),
    text: `Invoice ${row.number} (${id}) ${outcome}.`,
  }
}
