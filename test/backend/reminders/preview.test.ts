import t from 'tap'
import {
  readChasedDebtors,
  readChasingAccounts,
} from '../../../backend/reminders/planning/planning-data.ts'
import { predictMessages } from '../../../backend/reminders/preview.ts'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'

// Regression: the messages to 200 debtors were predicted in one turn of the event loop, which delayed other requests.
t.test('a preview is computed in slices', async (t) => {
  const { backend, accountId, createDebtor, createInvoice } = await openTestAccount(t)
  const { id: debtor_id } = await createDebtor({ email: 'ap@jansen-bouw.nl' })
  await createInvoice({ debtor_id, issue_date: '2026-11-01', due_date: '2026-11-25' })
  const { read } = backend.database
  const debtor = await read.selectFrom('debtors').selectAll().executeTakeFirstOrThrow()
  const account = (await readChasingAccounts(read, [accountId])).get(accountId)
  const chased = (await readChasedDebtors(read, [debtor])).get(debtor.id)
  const [invoice] = chased?.invoices ?? []
  if (account === undefined || chased === undefined || invoice === undefined) {
    throw new Error('the debtor is not chased')
  }
  const invoices = Array.from({ length: 500 }, (_, n) => ({ ...invoice, id: `inv_${n}` }))
  let turns = 0
  let isPredicting = true
  const countTurns = () => {
    turns++
    if (isPredicting) setImmediate(countTurns)
  }
  setImmediate(countTurns)
  const until = new Date('2027-02-28T00:00:00.000Z')
  const manyInvoices = { ...chased, invoices }
  const messages = await predictMessages(debtor, account, manyInvoices, backend.now, until)
  isPredicting = false
  t.ok(messages.length > 10, `${messages.length} messages`)
  t.ok(turns > 5, `the event loop ran ${turns} times`)
})
