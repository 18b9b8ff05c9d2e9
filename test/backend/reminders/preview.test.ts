import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { pauseChasing } from '../../../backend/debtors/chasing.ts'
import {
  readChasedDebtors,
  readChasingAccounts,
} from '../../../backend/reminders/planning/planning-data.ts'
import { predictMessages, previewReminders } from '../../../backend/reminders/preview.ts'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'

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

// Regression: a preview contained no reminder to a customer after the end of this customer's pause.
t.test('a preview contains the reminders after the pause of a customer', async (t) => {
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  const { debtor_id } = await engine.createInvoice('2026-11-20')
  const now = new Date('2026-11-20T10:00:00.000Z')
  const pauseUntil = (until: string) =>
    backend.database.transaction((tx) => {
      const pause = { reason: 'Holidays', until: new Date(until) }
      return pauseChasing(tx, accountId, String(debtor_id), pause, { actor: OPERATOR, now })
    })
  const preview = async () => {
    const messages = await previewReminders(backend.database.read, accountId, now, 14)
    return messages.map(({ at, stage, refusal }) => [at, stage, refusal?.reason ?? null])
  }
  await pauseUntil('2026-11-21T23:00:00.000Z')
  t.strictSame(await preview(), [
    ['2026-11-23T07:00:00.000Z', 'friendly', null],
    ['2026-11-30T07:00:00.000Z', 'reminder', null],
  ])
  await pauseUntil('2026-11-24T23:00:00.000Z')
  t.strictSame(await preview(), [
    ['2026-11-23T07:00:00.000Z', 'friendly', 'debtor_paused'],
    ['2026-11-25T07:00:00.000Z', 'friendly', null],
    ['2026-11-30T07:00:00.000Z', 'reminder', null],
  ])
})
