// Operators edit customers, invoices and payments while the backend runs.
import t from 'tap'
import { matches, rejectsWith } from '../fixtures/matches.ts'
import { call } from '../fixtures/service/call.ts'
import { startSystem } from '../fixtures/service/system.ts'

t.test('the API shows what operators do with records that the API created', async (t) => {
  const { operator, url } = await startSystem(t)
  const accountId = await operator.createAccount()
  const { secret: key } = await operator.issueKey(accountId)
  const post = async (path: string, body: object, headers = {}) =>
    (await call(`${url}/api/v1/${path}`, { key, body, headers })).json
  const get = async (path: string) => (await call(`${url}/api/v1/${path}`, { key })).json
  const run = async (...words: string[]) => JSON.parse(await operator.cli(...words, '--json'))

  const { id } = await post('debtors', { name: 'Globex', email: 'ap@globex.example' })
  const edit = ['--email', 'new@globex.example', '--city', 'Utrecht', '--country', 'NL']
  t.strictSame(await run('debtors', 'edit', id, ...edit), await get(`debtors/${id}`))
  matches(t, await get(`debtors/${id}`), {
    name: 'Globex',
    email: 'new@globex.example',
    address: { line1: null, city: 'Utrecht', country: 'NL' },
  })
  await rejectsWith(
    t,
    run('debtors', 'edit', id, '--email', 'nowhere'),
    /E-mail must be one e-mail/,
  )
  await rejectsWith(t, run('debtors', 'edit', id), /At least one option is required/)
  matches(t, await run('debtors', 'pause', id, '--reason', 'A plan', '--until', '2099-01-01'), {
    chasing: { status: 'paused', reason: 'A plan', until: '2098-12-31T23:00:00.000Z' },
  })
  matches(t, await run('debtors', 'resume', id), { chasing: { status: 'active', reason: null } })
  matches(t, await run('debtors', 'archive', id), {
    status: 'archived',
    chasing: { status: 'stopped', reason: 'archived' },
  })
  await rejectsWith(t, run('debtors', 'resume', id), /is archived/)
  matches(t, await run('debtors', 'restore', id), {
    status: 'active',
    chasing: { status: 'active' },
  })

  const open = { debtor_id: id, currency: 'EUR', amount: 10_000 }
  const draft = await post('invoices', { ...open, status: 'draft' })
  matches(t, await run('invoices', 'finalise', draft.id), { status: 'open' })
  matches(t, await run('invoices', 'dispute', draft.id, '--reason', 'Damaged'), {
    chasing: { blocked_reason: 'disputed' },
  })
  matches(t, await run('invoices', 'resolve', draft.id, '--reason', 'Replaced'), {
    chasing: { blocked_reason: null },
  })
  const payment = await post(
    'payments',
    { amount: 10_000, currency: 'EUR', invoice_id: draft.id },
    { 'idempotency-key': 'once' },
  )
  await rejectsWith(t, run('invoices', 'void', draft.id, '--reason', 'x'), /is paid/)
  matches(t, await run('payments', 'reverse', payment.id, '--reason', 'It bounced'), {
    id: payment.id,
    status: 'reversed',
  })
  await rejectsWith(
    t,
    run('payments', 'reverse', payment.id, '--reason', 'x'),
    /already reversed .* Nothing was changed/,
  )
  matches(t, await get(`invoices/${draft.id}`), { status: 'open', amount_due: 10_000 })
  const onAccount = await post(
    'payments',
    { amount: 8000, currency: 'EUR', debtor_id: id },
    { 'idempotency-key': 'on-account' },
  )
  matches(t, await run('payments', 'allocate', onAccount.id, '--to', `${draft.id}=6000`), {
    unapplied_amount: 2000,
    allocations: [{ invoice_id: draft.id, amount: 6000 }],
  })
  const credit = ['invoices', 'credit', draft.id, '--reason', 'Two hours too many', '--amount']
  await rejectsWith(t, run(...credit, '4001'), /must be at most 4000/)
  await rejectsWith(t, run(...credit, '15.00'), /whole number of minor units/)
  matches(t, await run(...credit, '1500'), { amount_credited: 1500, amount_due: 2500 })
  const takeBack = ['payments', 'unallocate', onAccount.id, '--invoice', draft.id]
  matches(t, await run(...takeBack, '--reason', 'For another'), { unapplied_amount: 8000 })
  await rejectsWith(t, run(...takeBack, '--reason', 'x'), /the payment is allocated/)
  // Regression: the text said that the reversed money was on account.
  t.equal(
    (await operator.cli('payments', 'reverse', onAccount.id, '--reason', 'It bounced')).trim(),
    `Payment ${onAccount.id} was reversed, so none of it is on account.`,
  )
  matches(t, await run('invoices', 'write-off', draft.id, '--reason', 'x'), {
    status: 'written_off',
  })
  await rejectsWith(t, operator.cli('invoices', 'void', 'inv_none', '--reason', 'x'), /inv_none/)
  await rejectsWith(t, operator.cli('payments', 'reverse', payment.id), /requires --reason/)
})
