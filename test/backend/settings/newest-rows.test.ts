// Pages that show the newest rows of a list, and lead to the others.
import t from 'tap'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngineWithUsers } from '../../fixtures/reminders/engine.ts'
import { createUserIn } from '../../fixtures/service/settings.ts'

/** Returns the number of rows of the table with this caption. */
function countRows(text: string, caption: string): number {
  const [, table = ''] = text.split(`<caption class="unseen">${caption}`)
  const [, body = ''] = table.split('<tbody>')
  return body.split('</tbody>')[0]?.match(/<tr>/g)?.length ?? 0
}

// Regression: the page showed 51 payments and 51 messages, and did not say that there were more.
t.test(
  'the page of an invoice shows 50 payments and messages, and leads to the others',
  async (t) => {
    const { engine, logInAdmin } = await startEngineWithUsers(t)
    const { testAccount } = engine
    const invoice = await engine.createInvoice('2026-11-02')
    const other = await engine.createInvoice('2026-11-02', { debtor_id: invoice.debtor_id })
    const pay = ({ id }: Json) =>
      testAccount.create('/api/v1/payments', { invoice_id: id, currency: 'EUR', amount: 1 })
    for (let count = 0; count < 50; count++) {
      await pay(invoice)
      await testAccount.insertMessage([invoice], { status: 'delivered' })
    }
    const ada = await logInAdmin()
    const path = `/settings/invoices/${invoice.id}`
    const full = await ada.page(path)
    t.equal(countRows(full.text, 'Payments'), 50)
    t.equal(countRows(full.text, 'Messages'), 50)
    t.notMatch(full.text, /All (payments|messages)</, 'there are no others')

    const { id: paymentId } = await pay(invoice)
    await pay(other)
    const messageId = await testAccount.insertMessage([invoice, other], { status: 'delivered' })
    await testAccount.insertMessage([other], { status: 'delivered' })
    const { text } = await ada.page(path)
    t.equal(countRows(text, 'Payments'), 50)
    t.equal(countRows(text, 'Messages'), 50)
    const ids = async (list: string, query = '') => {
      const link = `/settings/${list}?invoice_id=${invoice.id}`
      matches(t, text, containing(`<a href="${link}">All ${list}</a>`))
      const page = await ada.page(link)
      matches(t, page.text, containing(`translate="no">${invoice['number']}</a>. <a href=`))
      matches(t, page.text, containing(`name="invoice_id" value="${invoice.id}"`))
      const { json } = await ada.get(`${link}${query}`)
      const rows = (json['data'] as Json[]).map(({ id }) => id)
      const cursor = json['next_cursor']
      const next =
        cursor === null
          ? []
          : ((await ada.get(`${link}${query}&cursor=${cursor}`)).json['data'] as Json[])
      return [...rows, ...next.map(({ id }) => id)]
    }
    for (const [list, newest] of [
      ['payments', paymentId],
      ['messages', messageId],
    ] as const) {
      const found = await ids(list, '&limit=40')
      t.equal(found.length, 51, list)
      t.equal(found[0], newest)
      t.equal(new Set(found).size, 51, 'the pages of the list contain each row once')
    }
  },
)

// Regression: the page showed eleven messages if the reminder itself was not one of the newest.
t.test('the page of an approval shows ten other messages, and leads to all', async (t) => {
  const { engine, logInAdmin } = await startEngineWithUsers(t)
  const debtor = await engine.createDebtor()
  const invoice = await engine.createInvoice('2026-11-02', { debtor_id: debtor.id })
  for (const day of ['05', '12', '23']) await engine.planAndSendAt(`2026-11-${day}T10:00:00.000Z`)
  const { id } = (await engine.messages()).at(-1) ?? { id: '' }
  const ada = await logInAdmin()
  const readPage = async () => (await ada.page(`/settings/approvals/${id}`)).text
  // Two reminders were sent before.
  const insertMore = async (count: number) => {
    for (let inserted = 0; inserted < count; inserted++) {
      await engine.testAccount.insertMessage([invoice], { status: 'delivered' })
    }
  }
  await insertMore(8)
  const before = await readPage()
  t.equal(countRows(before, 'Other messages of this customer'), 10)
  t.notMatch(before, /All messages</)
  // With four more, the reminder is no longer one of the eleven newest.
  await insertMore(4)
  const after = await readPage()
  t.equal(countRows(after, 'Other messages of this customer'), 10)
  matches(
    t,
    after,
    containing(`<a href="/settings/messages?debtor_id=${debtor.id}">All messages</a>`),
  )
})

// Regression: the page proposed 201 people.
t.test('the audit log proposes 200 people, and says if there are more', async (t) => {
  const { backend, accountId, logInAdmin } = await startEngineWithUsers(t)
  const proposals = (text: string) =>
    text.match(/<datalist id="actors">.*?<\/datalist>/s)?.[0].match(/@/g)?.length
  const before = await backend.database.read.selectFrom('users').select('id').execute()
  for (let count = before.length; count < 200; count++) {
    await createUserIn(backend, accountId, `person-${count}@acme.example`, 'member')
  }
  const ada = await logInAdmin()
  const { text } = await ada.page('/settings/audit-log')
  t.equal(proposals(text), 200)
  t.notMatch(text, /proposes only/)
  await createUserIn(backend, accountId, 'another@acme.example', 'member')
  const page = await ada.page('/settings/audit-log')
  t.equal(proposals(page.text), 200)
  matches(
    t,
    page.text,
    /proposes only the 200 people who were added last.*<a href="\/settings\/people">People<\/a>/s,
  )
})
