import { OPERATOR } from '../accounts/audit.ts'
import { readAllocations } from '../payments/payment-list.ts'
import { renderPayment } from '../payments/representation.ts'
import { reversePayment } from '../payments/reversal.ts'
import { type Command, defineCommand, REASON } from './command.ts'
import { accountOf } from './owner.ts'

export const paymentCommands: readonly Command[] = [
  defineCommand({
    name: 'payments reverse',
    summary: 'Reverse a payment that did not hold: what it paid is owed, and chased, again.',
    arguments: ['ID'],
    options: { reason: REASON },
    async run({ ID, reason }, context) {
      const database = await context.database()
      const accountId = await accountOf(database, 'payments', ID)
      const act = { actor: OPERATOR, now: context.now }
      const row = await database.transaction((tx) => reversePayment(tx, accountId, ID, reason, act))
      const allocations = (await readAllocations(database.read, accountId, [ID])).get(ID) ?? []
      return {
        json: renderPayment(row, allocations),
        text: `Payment ${ID} is reversed. What it paid is owed again on invoices: ${allocations.length}.`,
      }
    },
  }),
]
