import { listOperation } from '../api/list.ts'
import type { Operation } from '../api/operation.ts'
import { readOperation } from '../api/read.ts'
import { writeOperation } from '../api/write.ts'
import { todayIn } from '../calendar/calendar.ts'
import { parseEmail } from '../validation/contact.ts'
import { oneOf, parsed, text } from '../validation/fields.ts'
import { balancesOf } from './balances.ts'
import { debtorBody, newDebtor } from './debtor-body.ts'
import { findDebtorWithBalances } from './debtor-with-balances.ts'
import { createDebtor, listDebtors } from './debtors.ts'
import { representDebtor } from './representation.ts'

const FILTERS = {
  external_id: text({ max: 128 }),
  // A valid address is normalized in the same way as the stored addresses. An invalid address matches no debtor.
  email: parsed((value) => parseEmail(value) ?? value, 'text', { max: 254 }),
  q: text({ max: 200 }),
  status: oneOf(['active', 'archived']),
}

export const debtorOperations: readonly Operation[] = [
  listOperation({
    operationId: 'listDebtors',
    sorts: ['created_at', 'updated_at'],
    filters: FILTERS,
    find(reader, { caller: { account }, now }, filters, page) {
      return listDebtors(reader, account.id, filters, todayIn(account.timezone, now), page)
    },
    represent: async (_reader, _call, rows) =>
      rows.map((row) => representDebtor(row, balancesOf(row))),
  }),
  readOperation({
    operationId: 'getDebtor',
    find: (reader, { accountId, id, now }) => findDebtorWithBalances(reader, accountId, id, now),
    represent: ({ row, balancesOn }, { caller, now }) =>
      representDebtor(row, balancesOn(todayIn(caller.account.timezone, now))),
  }),
  writeOperation({
    operationId: 'createDebtor',
    body: debtorBody,
    idempotencyKey: 'optional',
    originalIdMember: 'original_id',
    async create(tx, { caller: { account }, now }, body) {
      const owner = { accountId: account.id, isDemo: account.isDemo }
      const row = await createDebtor(tx, owner, newDebtor(body), now)
      // A new debtor has no invoices, and therefore no balances.
      return { id: row.id, representation: representDebtor(row, []) }
    },
  }),
]
