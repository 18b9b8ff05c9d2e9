// The page of the audit log.
import t from 'tap'
import { startMoneySettings } from '../../fixtures/accounts/money-settings.ts'
import { matches } from '../../fixtures/matches.ts'

t.test('an entry of the audit log leads to the page of the changed record', async (t) => {
  // Regression: the page did not say which payment was reversed, or which customer was archived.
  const settings = await startMoneySettings(t)
  const { ada, debtor } = settings
  const invoice = await settings.createInvoice()
  const payment = await settings.payOnAccount(500)
  const key = await ada.send('POST', '/settings/api-keys', {
    name: 'ERP',
    scopes: ['debtors:read'],
  })
  const reason = { reason: 'It bounced' }
  await ada.send('POST', `/settings/payments/${payment.id}/reverse`, reason)
  await ada.send('POST', `/settings/invoices/${invoice.id}/dispute`, reason)
  await ada.send('POST', `/settings/customers/${debtor.id}/archive`)
  const { text } = await ada.page('/settings/audit-log')
  const links = [...text.matchAll(/data-label="What"><a href="([^"]+)">([^<]+)/g)]
  t.strictSame(
    links.slice(0, 4).map(([, path, words]) => [path, words]),
    [
      [`/settings/customers/${debtor.id}`, 'Archived a customer'],
      [`/settings/invoices/${invoice.id}`, 'Recorded a dispute'],
      [`/settings/payments/${payment.id}`, 'Reversed a payment'],
      [`/settings/api-keys/${key.json['id']}`, 'Issued a key'],
    ],
  )
  for (const [, path = ''] of links) matches(t, await ada.page(path), { status: 200 }, path)
})
