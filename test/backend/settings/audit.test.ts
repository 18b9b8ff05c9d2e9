// The page of the audit log, and its filters.
import t, { type Test } from 'tap'
import { startMoneySettings } from '../../fixtures/accounts/money-settings.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { ADMIN, logIn } from '../../fixtures/service/settings.ts'

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

/** Records actions of two Admins on two days. The account is in Amsterdam, an hour ahead of UTC. */
async function startWithActions(t: Test) {
  const settings = await startMoneySettings(t)
  const { backend, debtor } = settings
  const { email } = await settings.createAdmin('eve@acme.example')
  backend.now = new Date('2026-11-21T22:50:00.000Z')
  const ada = await logIn(backend, ADMIN)
  await ada.send('POST', `/settings/customers/${debtor.id}/archive`)
  backend.now = new Date('2026-11-21T22:59:59.999Z')
  await ada.send('POST', `/settings/customers/${debtor.id}/restore`)
  backend.now = new Date('2026-11-21T23:00:00.000Z')
  const eve = await logIn(backend, email)
  await eve.send('POST', `/settings/customers/${debtor.id}/archive`)
  const find = async (query: string) => {
    const { status, json } = await eve.get(`/settings/audit-log?${query}`)
    t.equal(status, 200, query)
    return (json['data'] as { action: string }[]).map(({ action }) => action)
  }
  return { debtor, email, eve, find }
}

t.test('the audit log can be filtered by person, action, record and period', async (t) => {
  const { debtor, email, find } = await startWithActions(t)
  t.strictSame(await find(`actor=${email}`), ['debtor.archived', 'user.logged_in'])
  t.strictSame(await find(`actor=%20${ADMIN.toUpperCase()}%20&limit=2`), [
    'debtor.restored',
    'debtor.archived',
  ])
  t.strictSame(await find('action=debtor.archived'), ['debtor.archived', 'debtor.archived'])
  t.strictSame(await find(`actor=${email}&action=debtor.archived`), ['debtor.archived'])
  const ofDebtor = ['debtor.archived', 'debtor.restored', 'debtor.archived']
  t.strictSame(await find(`subject_id=${debtor.id}`), ofDebtor)
  const address = encodeURIComponent(`https://x.example/settings/customers/${debtor.id}/edit`)
  t.strictSame(await find(`subject_id=${address}`), ofDebtor, 'the address of a page')
  t.strictSame(await find(`subject_id=${debtor.id}&created_since=2026-11-22`), ['debtor.archived'])
  t.strictSame(await find(`created_since=2026-11-22&created_before=2026-11-23`), [
    'debtor.archived',
    'user.logged_in',
  ])
  t.strictSame(await find(`actor=${ADMIN}&created_before=2026-11-22&limit=1`), ['debtor.restored'])
  t.strictSame(await find('created_before=2026-11-21'), [])
  // Empty fields of the form are no filters.
  t.ok((await find('actor=&action=&subject_id=&created_since=&created_before=')).length > 5)
})

t.test('the pages of a filtered audit log contain each entry once', async (t) => {
  const { eve, email } = await startWithActions(t)
  for (const filter of ['', 'action=debtor.archived', `actor=${email}`]) {
    const all = (await eve.get(`/settings/audit-log?${filter}&limit=200`)).json['data'] as object[]
    const found: unknown[] = []
    for (let before = ''; ; ) {
      const path = `/settings/audit-log?${filter}&limit=1&before=${before}`
      const { json } = await eve.get(path)
      found.push(...(json['data'] as object[]))
      if (json['next_cursor'] === null) break
      before = String(json['next_cursor'])
    }
    t.strictSame(found, all, filter)
  }
})

t.test('the page shows the filters, keeps them in its links, and rejects wrong ones', async (t) => {
  const { eve, debtor } = await startWithActions(t)
  const query = 'action=debtor.archived&created_since=2026-11-01'
  const { text } = await eve.page(`/settings/audit-log?${query}&limit=1`)
  matches(t, text, containing('<option value="debtor.archived" selected>Archived a customer'))
  matches(t, text, containing('value="2026-11-01"'))
  matches(t, text, containing('action=debtor.archived&amp;created_since=2026-11-01&amp;limit=1'))
  matches(t, await eve.page('/settings/audit-log?actor=nobody'), {
    text: containing('No entry matches the filters.'),
  })
  const link = `href="/settings/audit-log?subject_id=${debtor.id}"`
  matches(t, (await eve.page(`/settings/customers/${debtor.id}`)).text, containing(link))
  // Regression: `cursor`, the name of this parameter in other lists, was ignored: the first page was returned.
  const wrongQueries = [
    'action=x',
    'created_since=2026-02-30',
    'before=aud_1',
    'user=eve',
    'cursor=aud_1',
  ]
  for (const wrong of wrongQueries) {
    matches(t, await eve.get(`/settings/audit-log?${wrong}`), { status: 400 }, wrong)
  }
})
