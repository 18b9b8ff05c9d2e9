// Payment details: an Admin enters them for each currency, reminders in this currency show them, and pages say in which
// currencies they are missing.
import t from 'tap'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngineWithUsers } from '../../fixtures/reminders/engine.ts'
import { logIn, MEMBER } from '../../fixtures/service/settings.ts'

const PATH = '/settings/payment-details'
const IBAN = 'NL91ABNA0417164300'
const BANK_DETAILS = {
  currency: 'EUR',
  account_holder: 'Acme B.V.',
  account_number: 'nl91 abna 0417 1643 00',
}

t.test('a reminder says how to pay in each currency that has payment details', async (t) => {
  const { engine, logInAdmin } = await startEngineWithUsers(t)
  const ada = await logInAdmin()
  for (const account_number of ['IBAN: NL91-ABNA-0417-1643-00', BANK_DETAILS.account_number]) {
    const details = { ...BANK_DETAILS, account_number, bank_code: 'ABNANL2A' }
    const stored = { currency: 'EUR', account_number: IBAN, payment_link: null }
    matches(t, await ada.send('POST', PATH, details), {
      status: 200,
      json: { object: 'payment_details', ...stored },
    })
  }
  const link = { currency: 'usd', payment_link: 'https://pay.acme.nl/?a=1&b=2' }
  t.equal((await ada.send('POST', PATH, link)).status, 200)
  const debtor = await engine.createDebtor()
  await engine.createInvoice('2026-11-16', { debtor_id: debtor.id, number: 'A-1' })
  await engine.createInvoice('2026-11-16', { debtor_id: debtor.id, number: 'A-2', currency: 'USD' })
  await engine.createInvoice('2026-11-16', { debtor_id: debtor.id, number: 'A-3', currency: 'SEK' })
  await engine.planAndSendAt('2026-11-23T10:00:00.000Z')
  const [message] = await engine.messages()
  const body = message?.body ?? ''
  matches(
    t,
    body,
    containing(`How to pay in EUR:
  Account holder: Acme B.V.
  IBAN: NL91 ABNA 0417 1643 00
  BIC: ABNANL2A
  Reference: A-1`),
  )
  matches(t, body, containing('How to pay in USD:\n  Pay online: https://pay.acme.nl/?a=1&b=2'))
  t.notMatch(body, /How to pay in SEK/)
  const page = await (await logInAdmin()).page(`/settings/messages/${message?.id}/html`)
  matches(t, page.text, containing('NL91 ABNA 0417 1643 00'))
  matches(t, page.text, containing('href="https://pay.acme.nl/?a=1&amp;b=2"'))
})

t.test('each error is shown beside its field, and nothing is saved', async (t) => {
  const { logInAdmin } = await startEngineWithUsers(t)
  const ada = await logInAdmin()
  const faults = async (body: object) => {
    const { status, json } = await ada.send('POST', PATH, body)
    t.equal(status, 422)
    return (json['errors'] as { pointer: string }[]).map(({ pointer }) => pointer)
  }
  // Regression: the check digits of the second and the third were not verified.
  const wrong = 'NL92ABNA0417164300'
  for (const account_number of [wrong, 'NL92-ABNA-0417-1643-00', `IBAN ${wrong}`]) {
    const details = { ...BANK_DETAILS, account_number }
    t.strictSame(await faults(details), ['/account_number'], account_number)
  }
  t.strictSame(await faults({ ...BANK_DETAILS, account_holder: ' ' }), ['/account_holder'])
  t.strictSame(await faults({ currency: 'EUR' }), ['/account_number'])
  t.strictSame(await faults({ currency: 'EUR', bank_name: 'ABN' }), ['/account_number'])
  t.strictSame(await faults({ ...BANK_DETAILS, payment_link: 'http://pay.acme.nl' }), [
    '/payment_link',
  ])
  t.strictSame(await faults({ ...BANK_DETAILS, account_holder: 'Acme\nBcc: x' }), [
    '/account_holder',
  ])
  t.strictSame(await faults({ ...BANK_DETAILS, currency: 'XAU' }), ['/currency'])
  const form = await ada.submit(PATH, { ...BANK_DETAILS, account_number: '<b>NL92ABNA0417164300' })
  matches(t, form, {
    status: 422,
    text: /id="account_number-fault">IBAN or account number must be an IBAN/,
  })
  matches(t, form.text, containing('value="&lt;b&gt;NL92ABNA0417164300"'))
  matches(t, (await ada.get(PATH)).json['data'], [])
})

t.test(
  'Admins who entered their password recently can change payment details; Members only read them',
  async (t) => {
    const { engine, backend, logInAdmin } = await startEngineWithUsers(t)
    const ada = await logInAdmin()
    const mia = await logIn(backend, MEMBER)
    t.equal((await mia.send('POST', PATH, BANK_DETAILS)).status, 403)
    t.equal((await mia.get(`${PATH}/EUR`)).status, 403)
    t.equal((await ada.submit(PATH, { ...BANK_DETAILS, csrf_token: 'x' })).status, 403)
    t.equal((await ada.submit(PATH, BANK_DETAILS)).status, 303)
    matches(t, (await mia.page(PATH)).text, containing('NL91 ABNA 0417 1643 00'))
    t.notMatch((await mia.page(PATH)).text, /Change|Remove|Add a currency/)
    backend.now = new Date(backend.now.getTime() + 16 * 60_000)
    matches(t, await ada.send('POST', PATH, BANK_DETAILS), {
      json: { code: 'confirmation_required' },
    })
    t.equal(
      (await ada.page(`${PATH}/EUR`)).headers.get('location'),
      `/settings/confirm?next=${encodeURIComponent(`${PATH}/EUR`)}`,
    )
    const again = await logInAdmin()
    t.equal((await again.send('POST', `${PATH}/EUR/remove`)).status, 204)
    t.equal((await again.send('POST', `${PATH}/EUR/remove`)).status, 404)
    t.strictSame(await engine.service.auditActions('account.payment'), [
      'account.payment_details_changed',
      'account.payment_details_removed',
    ])
  },
)

// Regression: the page said that reminders no longer say how to pay, although an invoice may have a payment link.
t.test('after payment details are removed, the page mentions the links of invoices', async (t) => {
  const { ada } = await startEngineWithUsers(t)
  await ada.submit(PATH, BANK_DETAILS)
  await ada.submit(`${PATH}/EUR/remove`, {})
  matches(t, (await ada.page(PATH)).text, /unless an invoice has its own payment link\./)
})

t.test('while reminders in a currency do not say how to pay, pages show a notice', async (t) => {
  const { engine, logInAdmin } = await startEngineWithUsers(t)
  const payable = { payment_url: 'https://pay.acme.nl/1', currency: 'SEK' }
  await engine.createInvoice('2026-11-16')
  await engine.createInvoice('2026-11-16', payable)
  const ada = await logInAdmin()
  // Regression: the notice was about all reminders in the currency, also those with a payment link.
  const notice = 'Some reminders in EUR do not say how to pay.'
  matches(t, (await ada.get(PATH)).json, { currencies_without: ['EUR'], data: [] })
  for (const path of [PATH, '/settings', '/settings/reminders']) {
    const { text } = await ada.page(path)
    matches(t, text, containing(notice))
    t.notMatch(text, /reminders in SEK/i)
  }
  await engine.createInvoice('2026-11-16', { currency: 'GBP' })
  for (const path of [PATH, '/settings', '/settings/reminders']) {
    const { text } = await ada.page(path)
    matches(t, text, containing('Some reminders in EUR and GBP do not say how to pay.'))
  }
  for (const currency of ['EUR', 'GBP']) {
    await ada.send('POST', PATH, { ...BANK_DETAILS, currency })
  }
  for (const path of [PATH, '/settings', '/settings/reminders']) {
    t.notMatch((await ada.page(path)).text, /do not say how to pay\./)
  }
})
