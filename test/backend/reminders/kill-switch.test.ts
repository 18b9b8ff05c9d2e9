import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { creditInvoice } from '../../../backend/invoices/credit-invoice.ts'
import { listKillSwitches, setKillSwitch } from '../../../backend/reminders/kill-switch.ts'
import { loadContract } from '../../../shared/contract/contract.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'

t.test('the kill switch requires a reason, and records who activated it and when', async (t) => {
  const engine = await startEngine(t)
  const { backend, accountId } = engine.testAccount
  backend.now = new Date('2026-11-24T08:00:00.000Z')
  await rejectsWith(t, engine.killSwitch({ on: true, reason: ' ' }), { code: 'validation_failed' })
  await engine.killSwitch({ on: true, reason: ' A wrong bank account ' })
  await engine.killSwitch({ on: true, reason: 'again' })
  matches(t, await listKillSwitches(backend.database.read), [
    {
      scope: 'account',
      accountId,
      isOn: true,
      reason: 'A wrong bank account',
      changedAt: '2026-11-24T08:00:00.000Z',
      changedBy: 'operator',
    },
  ])
  await engine.killSwitch({ on: false })
  t.strictSame(await engine.service.auditActions('kill_switch.'), [
    'kill_switch.put_on',
    'kill_switch.put_off',
  ])
  // Regression: the audit log had the reason as it was entered.
  const { detail } = await backend.database.read
    .selectFrom('audit_log')
    .select('detail')
    .where('action', '=', 'kill_switch.put_on')
    .executeTakeFirstOrThrow()
  t.strictSame(JSON.parse(detail), { reason: 'A wrong bank account' })
  t.strictSame(await engine.service.events(), ['kill_switch.changed', 'kill_switch.changed'])
})

t.test('the event has the new and the previous state of the kill switch', async (t) => {
  const engine = await startEngine(t)
  await engine.killSwitch({ on: true, reason: 'An audit' }, true)
  const { body } = await engine.testAccount.backend.database.read
    .selectFrom('webhook_events')
    .select('body')
    .where('type', '=', 'kill_switch.changed')
    .executeTakeFirstOrThrow()
  matches(t, JSON.parse(body).data, {
    object: {
      object: 'kill_switch',
      scope: 'installation',
      on: true,
      reason: 'An audit',
      changed_by: 'operator',
    },
    previous: { on: false, reason: null },
  })
})

t.test('the kill switch of an unknown account cannot be changed', async (t) => {
  const engine = await startEngine(t)
  const { database, now } = engine.testAccount.backend
  await rejectsWith(
    t,
    database.transaction((tx) =>
      setKillSwitch(tx, 'acct_none', { on: false }, { actor: OPERATOR, now }),
    ),
    { code: 'not_found' },
  )
})

t.test(
  'if a credit cancels a message while the kill switch is on, a reminder about its other invoice follows the release',
  async (t) => {
    const engine = await startEngine(t)
    const { accountId, backend, read } = engine.testAccount
    const credited = await engine.createInvoice('2026-11-19')
    const other = await engine.createInvoice('2026-11-18', { debtor_id: credited.debtor_id })
    await engine.plan('2026-11-24T07:00:02.000Z')
    t.strictSame(await engine.messageLog(), ['friendly:scheduled'], 'one message about both')
    await engine.killSwitch({ on: true, reason: 'An audit' })
    const credit = { amount: credited.amount_due, reason: 'billed twice' }
    const actionContext = { actor: OPERATOR, now: backend.now }
    await backend.database.transaction((tx) =>
      creditInvoice(tx, accountId, credited.id, credit, actionContext),
    )
    t.strictSame(await engine.messageLog(), ['friendly:cancelled', 'friendly:suppressed'])
    await engine.killSwitch({ on: false })
    await engine.plan('2026-11-24T09:00:00.000Z')
    await engine.send()
    t.equal((await engine.messageLog()).at(-1), 'friendly:sent')
    t.equal(engine.smtp.mails.length, 1)
    const { chasing } = await read(`/api/v1/invoices/${other.id}`)
    t.equal(chasing.last_message_at, '2026-11-24T09:00:00.000Z')
  },
)

t.test('after the release, reminders are planned for more customers than one batch', async (t) => {
  const engine = await startEngine(t)
  // One batch schedules the planning of 500 debtors. Only the last debtor has an invoice.
  for (let n = 0; n < 500; n++) await engine.createDebtor()
  await engine.createInvoice('2026-11-19')
  await engine.killSwitch({ on: true, reason: 'An audit' })
  await engine.plan('2026-11-24T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:suppressed'])
  await engine.plan('2026-11-24T08:30:00.000Z')
  await engine.killSwitch({ on: false })
  await engine.plan('2026-11-24T09:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['friendly:suppressed', 'friendly:scheduled'])
})

t.test('no API operation sends or approves a reminder, or changes the kill switch', async (t) => {
  const engine = await startEngine(t)
  const { testAccount } = engine
  const invoice = await engine.createInvoiceAwaitingApproval()
  await engine.killSwitch({ on: true, reason: 'An audit' })
  const before = await readState()
  const responses: string[] = []
  for (const { method, path: template } of loadContract().operations) {
    const id = template.includes('/invoices/') ? invoice.id : invoice.debtor_id
    const path = template.replace('{id}', id)
    for (const body of [
      {},
      // In another currency, because a payment in the currency of the invoice would cancel its message.
      { debtor_id: invoice.debtor_id, currency: 'USD', amount: 100 },
      { name: 'Globex', kill_switch: false, chasing: { status: 'active' } },
      { approval: 'approved', status: 'sent', message_id: (await engine.messages()).at(-1)?.id },
    ]) {
      const response =
        method === 'GET' ? await testAccount.get(path) : await testAccount.post(path, body)
      responses.push(`${method} ${template} ${response.status}`)
    }
  }
  t.strictSame(countsOf(responses), {
    'GET /api/v1/me 200': 4,
    'GET /api/v1/debtors 200': 4,
    'POST /api/v1/debtors 422': 4,
    'GET /api/v1/debtors/{id} 200': 4,
    'GET /api/v1/invoices 200': 4,
    'POST /api/v1/invoices 422': 3,
    'POST /api/v1/invoices 201': 1,
    'GET /api/v1/invoices/{id} 200': 4,
    'GET /api/v1/payments 200': 4,
    'POST /api/v1/payments 422': 3,
    'POST /api/v1/payments 201': 1,
    'GET /api/v1/messages 200': 4,
  })
  t.strictSame(await readState(), before)
  await engine.planAndSendAt('2026-11-25T09:00:00.000Z')
  t.equal(engine.smtp.mails.length, before.mails, 'nothing is sent while the switch is on')
  t.strictSame((await readState()).switches, before.switches)
  await engine.killSwitch({ on: false })
  await engine.planAndSendAt('2026-11-26T09:00:00.000Z')
  await engine.planAndSendAt('2026-11-27T09:00:00.000Z')
  t.equal(engine.smtp.mails.length, before.mails, 'a firm reminder waits for an Admin')
  t.equal((await engine.messageLog()).at(-1), 'firm:awaiting_approval')

  function countsOf(texts: readonly string[]) {
    return Object.fromEntries(
      [...Map.groupBy(texts, (text) => text)].map(([text, all]) => [text, all.length]),
    )
  }

  async function readState() {
    const { read } = testAccount.backend.database
    return {
      switches: await listKillSwitches(read),
      messages: (await engine.messages()).map(({ id, status, approval_status }) => [
        id,
        status,
        approval_status,
      ]),
      mails: engine.smtp.mails.length,
    }
  }
})
