import { getAccount } from '../accounts/accounts.ts'
import { type Act, OPERATOR } from '../accounts/audit.ts'
import { todayIn } from '../calendar/calendar.ts'
import type { InvoiceRow, Transaction } from '../database/tables.ts'
import {
  disputeInvoice,
  finaliseInvoice,
  resolveDispute,
  voidInvoice,
  writeOffInvoice,
} from '../invoices/acts.ts'
import { creditInvoice } from '../invoices/credit-invoice.ts'
import { renderInvoice } from '../invoices/representation.ts'
import { parseAmount } from './amount.ts'
import { type Command, type Context, defineCommand, type Output, REASON } from './command.ts'
import { accountOf } from './owner.ts'

export const invoiceCommands: readonly Command[] = [
  defineCommand({
    name: 'invoices finalise',
    summary: 'Make an open invoice of a draft. Its number is fixed and it is owed from now on.',
    arguments: ['ID'],
    options: {},
    run: ({ ID }, context) => perform(context, ID, 'is open', finaliseInvoice),
  }),
  reasoned(
    'void',
    'Void a draft, or an open invoice on which nothing was paid. For good.',
    'is void',
    voidInvoice,
  ),
  reasoned(
    'write-off',
    'Give up an open invoice. It is not chased any more and can still be paid.',
    'is written off',
    writeOffInvoice,
  ),
  defineCommand({
    name: 'invoices credit',
    summary: 'Take an amount off an open invoice, at most what is due. Nobody owes it any more.',
    arguments: ['ID'],
    options: {
      amount: { type: 'string', required: true, value: 'N', description: 'In minor units.' },
      reason: REASON,
    },
    run: async ({ ID, amount, reason }, context) => {
      const credit = { amount: parseAmount('--amount', amount), reason }
      return perform(context, ID, 'is credited', (tx, accountId, id, act) =>
        creditInvoice(tx, accountId, id, credit, act),
      )
    },
  }),
  reasoned(
    'dispute',
    'Note that the customer disputes an invoice: no reminder is sent for it.',
    'is disputed',
    disputeInvoice,
  ),
  reasoned(
    'resolve',
    'Note that a dispute is resolved: the invoice is chased again.',
    'is chased again',
    resolveDispute,
  ),
]

function reasoned(verb: string, summary: string, done: string, act: typeof voidInvoice): Command {
  return defineCommand({
    name: `invoices ${verb}`,
    summary,
    arguments: ['ID'],
    options: { reason: REASON },
    run: ({ ID, reason }, context) =>
      perform(context, ID, done, (tx, accountId, id, by) => act(tx, accountId, id, reason, by)),
  })
}

async function perform(
  context: Context,
  id: string,
  done: string,
  work: (tx: Transaction, accountId: string, id: string, act: Act) => Promise<InvoiceRow>,
): Promise<Output> {
  const database = await context.database()
  const accountId = await accountOf(database, 'invoices', id)
  const { timezone } = await getAccount(database.read, accountId)
  const act = { actor: OPERATOR, now: context.now }
  const row = await database.transaction((tx) => work(tx, accountId, id, act))
  return {
    json: renderInvoice(row, todayIn(timezone, context.now)),
    text: `Invoice ${row.number} (${id}) ${done}.`,
  }
}
