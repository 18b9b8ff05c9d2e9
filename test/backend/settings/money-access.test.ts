// Only Admins of an account that is not read-only can record payments and credits in Settings.
import t from 'tap'
import { setStatus } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { startMoneySettings } from '../../fixtures/accounts/money-settings.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { createUserIn, logIn, MEMBER } from '../../fixtures/service/settings.ts'

t.test(
  'Members, other accounts and read-only accounts cannot open forms for money or change anything',
  async (t) => {
    const settings = await startMoneySettings(t)
    const { backend, ada } = settings
    const invoice = await settings.createInvoice()
    const payment = await settings.payOnAccount(1000)
    const other = await backend.createAccount()
    await createUserIn(backend, other.id, 'eve@other.example', 'admin')
    const mia = await logIn(backend, MEMBER)
    const eve = await logIn(backend, 'eve@other.example')
    const allocations = [{ invoice_id: invoice.id, amount: 1 }]
    const keyField = { idempotency_key: 'k' }
    const reads = [
      `/settings/payments/new?debtor_id=${settings.debtor.id}`,
      `/settings/payments/new?invoice_id=${invoice.id}`,
      `/settings/payments/${payment.id}/allocate`,
      `/settings/payments/${payment.id}/reverse`,
      `/settings/payments/${payment.id}/take-back?invoice_id=${invoice.id}`,
      `/settings/invoices/${invoice.id}/credit`,
    ]
    const payBody = { debtor_id: settings.debtor.id, currency: 'EUR', amount: 1, ...keyField }
    const credit = { amount: 1, reason: 'x', ...keyField }
    const writes = [
      ['/settings/payments', payBody],
      ['/settings/payments/preview', payBody],
      [`/settings/payments/${payment.id}/allocate`, { allocations, ...keyField }],
      [`/settings/payments/${payment.id}/allocate/preview`, { allocations }],
      [`/settings/payments/${payment.id}/take-back`, { invoice_id: invoice.id, reason: 'x' }],
      [`/settings/payments/${payment.id}/undo-allocation`, { allocations, ...keyField }],
      [
        `/settings/payments/${payment.id}/redo-allocation`,
        { invoice_id: invoice.id, amount: 1, ...keyField },
      ],
      [`/settings/payments/${payment.id}/reverse`, { reason: 'x' }],
      [`/settings/invoices/${invoice.id}/credit`, credit],
      [`/settings/invoices/${invoice.id}/credit/preview`, credit],
    ] as const
    for (const path of reads) {
      t.equal((await mia.page(path)).status, 403, path)
      t.equal((await eve.page(path)).status, 404, path)
    }
    for (const [path, body] of writes) {
      t.equal((await mia.send('POST', path, body)).status, 403, path)
      t.equal((await eve.send('POST', path, body)).status, 404, path)
      const headers = { cookie: ada.cookie, accept: 'application/json' }
      const forged = await backend.request('POST', path, { headers, body })
      t.equal(forged.json['code'], 'invalid_csrf_token', path)
    }
    await backend.database.transaction((tx) =>
      setStatus(tx, settings.account.id, 'suspended', { actor: OPERATOR, now: backend.now }),
    )
    for (const path of reads) {
      const page = await ada.page(path)
      matches(t, page, { status: 423, text: containing('This account is suspended.') }, path)
    }
    for (const [path, body] of writes) {
      const { status, json } = await ada.send('POST', path, body)
      matches(t, { status, json }, { status: 423, json: { code: 'account_read_only' } }, path)
    }
    matches(t, await settings.read(`invoices/${invoice.id}`), { amount_due: 10_000 })
  },
)

t.test('a read-only account rejects changes of records, but reminders can be paused', async (t) => {
  // Regression: customers could be changed and archived, and invoices finalized, voided and written off.
  const settings = await startMoneySettings(t)
  const { backend, ada } = settings
  const customer = `/settings/customers/${settings.debtor.id}`
  const draft = `/settings/invoices/${(await settings.createInvoice({ status: 'draft' })).id}`
  const open = `/settings/invoices/${(await settings.createInvoice()).id}`
  await backend.database.transaction((tx) =>
    setStatus(tx, settings.account.id, 'suspended', { actor: OPERATOR, now: backend.now }),
  )
  for (const path of [`${customer}/edit`, `${customer}/archive`, `${draft}/finalise`]) {
    const { status, text } = await ada.page(path)
    matches(t, [status, text], [423, containing('can be read, but not changed')], path)
  }
  const writes = [
    ['PUT', customer, { name: 'Other' }],
    ['POST', `${customer}/archive`, {}],
    ['POST', `${customer}/restore`, {}],
    ['POST', `${draft}/finalise`, {}],
    ['POST', `${open}/void`, { reason: 'x' }],
    ['POST', `${open}/write-off`, { reason: 'x' }],
  ] as const
  for (const [method, path, body] of writes) {
    const { status, json } = await ada.send(method, path, body)
    t.strictSame([status, json['code']], [423, 'account_read_only'], path)
  }
  for (const path of [`${customer}/pause`, `${open}/dispute`]) {
    t.equal((await ada.send('POST', path, { reason: 'x' })).status, 200, path)
  }
})
