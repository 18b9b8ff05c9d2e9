// A form that is sent twice, by a double click or by loading the next page again, is performed once.
import t from 'tap'
import { formOf, startMoneySettings, submit } from '../../fixtures/accounts/money-settings.ts'
import { containing, matches } from '../../fixtures/matches.ts'

t.test('an endpoint whose form is sent twice is added once', async (t) => {
  // Regression: loading the page with the secret again added another endpoint, which received each event too.
  const settings = await startMoneySettings(t)
  const { ada } = settings
  const path = '/settings/webhook-endpoints'
  const given = { url: 'https://erp.acme.nl/in', description: '', events: '*' }
  const form = formOf(await ada.page(`${path}/new`), path, given)
  const responses = await Promise.all([1, 2].map(() => submit(settings, ada, path, form)))
  t.strictSame(responses.map(({ status }) => status).toSorted(), [201, 303])
  const { json } = await ada.get(path)
  const [endpoint, ...others] = json['data'] as { id: string }[]
  t.strictSame(others, [])
  const again = await submit(settings, ada, path, form)
  t.equal(again.headers.get('location'), `${path}/${endpoint?.id}`)
  const page = await ada.page(`${path}/${endpoint?.id}`)
  matches(t, page.text, containing('This endpoint was already added, and is not added again.'))
  const other = form.map(([name, value]): [string, string] => [
    name,
    name === 'url' ? `${value}2` : value,
  ])
  const rejected = await submit(settings, ada, path, other)
  matches(t, [rejected.status, rejected.text], [422, containing('Already recorded')])

  const body = { url: 'https://erp.acme.nl/in', idempotency_key: 'crm-1' }
  matches(t, await ada.send('POST', path, body), { status: 201, json: { secret: String } })
  const repeated = await ada.send('POST', path, body)
  matches(t, repeated, { status: 200, json: { url: body.url } })
  t.notOk('secret' in repeated.json)
})

t.test('a person whose invitation is sent twice is invited once', async (t) => {
  // Regression: each request withdrew the invitation of the previous one, so that its link no longer worked.
  const settings = await startMoneySettings(t)
  const { ada } = settings
  const path = '/settings/people'
  const given = { email: 'new@acme.example', role: 'admin' }
  const form = formOf(await ada.page(path), path, given)
  const first = await submit(settings, ada, path, form)
  t.equal(first.status, 201)
  const before = (await ada.get(path)).json['invitations']
  const second = await submit(settings, ada, path, form)
  matches(t, second, { status: 303 })
  t.equal(second.headers.get('location'), path)
  t.strictSame((await ada.get(path)).json['invitations'], before)
  matches(t, (await ada.page(path)).text, containing('This invitation already exists'))
  const other = form.map(([name, value]): [string, string] => [
    name,
    name === 'role' ? 'member' : value,
  ])
  matches(t, (await submit(settings, ada, path, other)).text, containing('Already recorded'))
})

t.test('an idempotency key that was used for another record is rejected', async (t) => {
  const { ada, createInvoice, read } = await startMoneySettings(t)
  const [one, other] = [await createInvoice(), await createInvoice()]
  const body = { amount: 1, reason: 'Billed twice', idempotency_key: 'crm-1' }
  t.equal((await ada.send('POST', `/settings/invoices/${one.id}/credit`, body)).status, 200)
  const rejected = await ada.send('POST', `/settings/invoices/${other.id}/credit`, body)
  matches(t, rejected, { status: 422, json: { code: 'idempotency_key_reused' } })
  matches(t, await read(`invoices/${other.id}`), { amount_due: 10_000 })
})

t.test('a rejected invitation keeps the chosen role', async (t) => {
  const { ada } = await startMoneySettings(t)
  const { status, text } = await ada.submit('/settings/people', { email: 'no', role: 'admin' })
  matches(t, [status, text], [422, containing('<option value="admin" selected>')])
})
