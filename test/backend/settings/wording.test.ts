// The account's own wording of reminders, by stage and language, and the parts that every mail must have.
import t from 'tap'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngineWithUsers } from '../../fixtures/reminders/engine.ts'
import { ADMIN, createUserIn, logIn, MEMBER } from '../../fixtures/service/settings.ts'

const PATH = '/settings/wording/friendly-en'
const WORDING = {
  subject: 'Still open: {invoices}',
  greeting: 'Hi {customer},',
  opening: 'We miss {amount} since {due_date} ({overdue}).\n\nSecond\nparagraph <b>bold</b>.',
  opening_several: 'We miss {amount}.',
  closing: '',
  sign_off: 'Yours,',
}

t.test('a reminder has the edited wording and all required parts', async (t) => {
  const { engine, backend, ada } = await startEngineWithUsers(t)
  matches(t, await ada.send('PUT', PATH, WORDING), {
    status: 200,
    json: { object: 'reminder_wording', id: 'friendly-en', is_default: false, ...WORDING },
  })
  const debtor = await engine.createDebtor({ name: 'Jansen {amount}' })
  const invoice = await engine.createInvoice('2026-11-20', { debtor_id: debtor.id })
  await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
  const [message] = await engine.messages()
  t.equal(message?.subject, `Still open: invoice ${invoice.number} – Acme Ltd`)
  const body = message?.body ?? ''
  matches(
    t,
    body,
    containing(
      'Hi Jansen {amount},\n\nWe miss €100.00 since 20 November 2026 (4 days overdue).\n\nSecond\nparagraph <b>bold</b>.',
    ),
  )
  matches(t, body, containing(`${invoice.number}: €100.00`))
  matches(t, body, containing('on behalf of Acme Ltd'))
  matches(t, body, /unsubscribe\/\S+/)
  const page = await (await logIn(backend, ADMIN)).page(`/settings/messages/${message?.id}/html`)
  matches(t, page.text, containing('Second<br>paragraph &lt;b&gt;bold&lt;/b&gt;.'))
  const { data } = (await (await logIn(backend, ADMIN)).get('/settings/wording')).json
  t.strictSame(
    (data as { id: string; is_default: boolean }[])
      .filter(({ is_default }) => !is_default)
      .map(({ id }) => id),
    ['friendly-en'],
  )
})

t.test('an error is shown beside its field, and nothing is saved', async (t) => {
  const { ada } = await startEngineWithUsers(t)
  const fault = async (change: object) => {
    const { status, json } = await ada.send('PUT', PATH, { ...WORDING, ...change })
    t.equal(status, 422)
    const [{ pointer, detail } = { pointer: '', detail: '' }] = json['errors'] as {
      pointer: string
      detail: string
    }[]
    return `${pointer} ${detail}`
  }
  matches(t, await fault({ subject: 'Pay!' }), /^\/subject subject must contain \{invoices\}/)
  matches(
    t,
    await fault({ opening: '{ammount}' }),
    /^\/opening .*\{ammount\}, which is not a variable/,
  )
  matches(t, await fault({ closing: 'a } b' }), /^\/closing .*only around a variable/)
  matches(t, await fault({ opening_several: ' ' }), /^\/opening_several .*must not be empty/)
  matches(
    t,
    await fault({ subject: '{invoices}\r\nBcc: x@y.z' }),
    /^\/subject .*control characters/,
  )
  matches(t, await fault({ opening: 'x'.repeat(3001) }), /^\/opening .*3000/)
  const form = await ada.submit(PATH, { ...WORDING, opening: '"><script>{x}' })
  matches(t, form, {
    status: 422,
    text: /id="opening-fault">Before the invoice must not contain \{x\}/,
  })
  matches(t, form.text, containing('&quot;&gt;&lt;script&gt;{x}</textarea>'))
  matches(t, (await ada.get(PATH)).json, { is_default: true })
  t.equal((await ada.get('/settings/wording/firm-ja')).status, 404)
})

t.test('after a rejected save without an invoice number, the page names the invoice', async (t) => {
  // Regression: the page said that nothing was owed, although the preview showed a real invoice.
  const { engine, ada } = await startEngineWithUsers(t)
  const withUnknownVariable = { ...WORDING, opening: '{x}', invoice: '' }
  matches(t, (await ada.page(PATH)).text, containing('shows a made-up invoice'))
  await engine.createInvoice('2026-11-20', { number: 'R-7' })
  matches(t, await ada.submit(PATH, withUnknownVariable), {
    status: 422,
    text: containing('name="invoice" value="R-7"'),
  })
  matches(
    t,
    (await ada.page(PATH)).text,
    /At first, the preview shows invoice <span translate="no">R-7</,
  )
})

// Regression: the page said what the preview shows at first, although it shows the faults of the rejected texts.
t.test('after a rejected save, the page says that the texts are not saved', async (t) => {
  const { ada } = await startEngineWithUsers(t)
  const { text } = await ada.submit(PATH, { ...WORDING, opening: '{x}', invoice: '' })
  matches(t, text, containing('The texts in the form are not saved.'))
  t.notMatch(text, /At first/)
  // Regression: after a test mail with the saved texts, the page said that they are not saved.
  t.equal((await ada.submit(PATH, { ...WORDING, invoice: '' })).status, 303)
  const tested = await ada.submit(`${PATH}/test`, { ...WORDING, invoice: '' })
  t.notMatch(tested.text, /not saved/)
})

// Regression: a sentence that ended with the name of such a company ended with two full stops.
t.test('a sentence that ends with the name of a company ends with one full stop', async (t) => {
  const { engine, backend, ada: first } = await startEngineWithUsers(t)
  const name = 'Jansen Bouw B.V.'
  const debtor = await engine.createDebtor({ name })
  const opening = 'This is for {customer}. Did you forget it, {customer}... or {customer}?'
  await first.send('PUT', PATH, { ...WORDING, opening })
  await engine.createInvoice('2026-11-20', { debtor_id: debtor.id })
  await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
  const [message] = await engine.messages()
  matches(
    t,
    message?.body,
    containing(`This is for ${name} Did you forget it, ${name}... or ${name}?`),
  )
  // The session of the previous days has ended.
  const ada = await logIn(backend, ADMIN)
  t.equal((await ada.send('POST', '/settings/account', { name: 'Vries B.V.' })).status, 200)
  const lists = ['invoices', 'payments', 'messages'].map((path) => `${path}?debtor_id=${debtor.id}`)
  for (const path of [...lists, 'sender', 'login-details']) {
    const { text } = await ada.page(`/settings/${path}`)
    matches(t, text, /B\.V\.</, path)
    t.notMatch(text.replace(/<[^>]*>/g, ''), /B\.V\.\./, path)
  }
})

t.test('the default wording can be restored', async (t) => {
  const { engine, ada } = await startEngineWithUsers(t)
  const { json: standard } = await ada.get(PATH)
  t.equal((await ada.submit(PATH, WORDING)).status, 303)
  matches(t, (await ada.page(PATH)).text, /Saved\. .*Restore the default/s)
  t.equal((await ada.submit(`${PATH}/reset`, {})).status, 303)
  t.strictSame((await ada.get(PATH)).json, standard)
  const { is_default: _, object, id, stage, language, variables, ...texts } = standard
  await ada.send('PUT', PATH, texts)
  matches(
    t,
    (await ada.get(PATH)).json,
    { is_default: true },
    'texts that equal the default do not count as changed',
  )
  t.strictSame(await engine.service.auditActions('account.wording'), [
    'account.wording_changed',
    'account.wording_reset',
  ])
})

t.test('the preview shows a real invoice, in a document without scripts', async (t) => {
  const { engine, ada } = await startEngineWithUsers(t)
  const sample = await ada.page(`${PATH}/preview`)
  matches(t, sample.text, containing('INV-1001'))
  matches(t, (await ada.page(PATH)).text, containing('the preview shows a made-up invoice'))
  const debtor = await engine.createDebtor({ name: 'Zoë <i>& Co' })
  const invoice = await engine.createInvoice('2026-11-20', { debtor_id: debtor.id, number: 'R-7' })
  await engine.createInvoice('2026-11-10', { number: 'R-8' })
  matches(
    t,
    (await ada.page(`${PATH}/preview`)).text,
    containing('R-8'),
    'the invoice with the earliest due date',
  )
  const shown = await ada.submit(`${PATH}/preview`, { ...WORDING, invoice: invoice.number })
  t.equal(shown.status, 200)
  matches(t, shown.text, containing('Hi Zoë &lt;i&gt;&amp; Co,'))
  matches(t, shown.text, containing('Still open: invoice R-7'))
  const policy = shown.headers.get('content-security-policy') ?? ''
  matches(t, policy, /^default-src 'none';.* sandbox; frame-ancestors 'self'$/)
  matches(t, await ada.send('POST', `${PATH}/preview`, { ...WORDING, invoice: 'R-7' }), {
    status: 200,
    json: { object: 'reminder_preview', subject: /R-7/, text: /Hi Zoë <i>& Co,/, html: String },
  })
  const faulty = await ada.submit(`${PATH}/preview`, {
    ...WORDING,
    subject: '<b>',
    invoice: 'none',
  })
  matches(t, faulty, { status: 422, text: /Subject must contain \{invoices\}/ })
  const unknown = await ada.submit(`${PATH}/preview`, { ...WORDING, invoice: 'none' })
  matches(t, unknown, {
    status: 422,
    text: /Invoice number must be the number of an existing invoice/,
  })
  matches(t, (await ada.get(PATH)).json, { is_default: true }, 'nothing is saved')
  t.strictSame(await engine.messages(), [])
})

// Regression: the preview demanded an amount that the customer had already paid on account.
t.test('the preview deducts money on account, as the reminder does', async (t) => {
  const { engine, ada } = await startEngineWithUsers(t)
  const { id: debtor_id } = await engine.createDebtor()
  const newer = await engine.createInvoice('2026-11-20', { debtor_id })
  const older = await engine.createInvoice('2026-11-10', { debtor_id })
  const payment = { debtor_id, currency: 'EUR', amount: 14_000 }
  await engine.testAccount.create('/api/v1/payments', payment)
  const previewOf = async ({ number }: Json) =>
    String(
      (await ada.send('POST', `${PATH}/preview`, { ...WORDING, invoice: number })).json['text'],
    )
  matches(t, await previewOf(newer), /We miss €60\.00.*Received on account: -€40\.00/s)
  t.notMatch(
    await previewOf(older),
    /Received on account/,
    'no reminder is sent about this invoice',
  )
})

t.test('a test mail is sent to the Admin who requests it, at most ten times an hour', async (t) => {
  const { engine, backend, ada } = await startEngineWithUsers(t)
  await createUserIn(backend, engine.testAccount.accountId, 'tess@acme.nl', 'admin')
  const tess = await logIn(backend, 'tess@acme.nl')
  await engine.createInvoice('2026-11-10', { number: 'R-8' })
  const sent = await tess.submit(`${PATH}/test`, { ...WORDING, invoice: '' })
  matches(t, sent, { status: 200, text: /The test mail is on its way to you\./ })
  matches(t, sent.text, containing('Hi {customer},'), 'unsaved texts stay in the form')
  const { json: dropped } = await ada.send('POST', `${PATH}/test`, WORDING)
  t.strictSame(dropped, { object: 'test_reminder', to: ADMIN, route: 'dropped' })
  await engine.service.sendNotices()
  const [mail] = engine.smtp.mails
  t.strictSame(mail?.to, ['tess@acme.nl'])
  t.equal(mail?.mail.subject, '[Test] Still open: invoice R-8 – Acme Ltd')
  matches(t, mail?.mail.text, /We miss €100\.00/)
  matches(t, mail?.mail.from, { name: 'Acme Ltd' })
  matches(t, (await tess.submit(`${PATH}/test`, { ...WORDING, opening: '{x}' })).status, 422)
  for (let more = 0; more < 9; more++) {
    t.equal((await tess.send('POST', `${PATH}/test`, WORDING)).status, 200)
  }
  const rejected = await tess.send('POST', `${PATH}/test`, WORDING)
  matches(t, rejected, { status: 429, json: { code: 'too_many_test_mails' } })
  t.equal(rejected.headers.get('retry-after'), '3600')
  // Regression: the page said that the mail was on its way, although no mail is sent to reserved domains.
  matches(t, await ada.submit(`${PATH}/test`, { ...WORDING, invoice: '' }), {
    status: 200,
    text: /No test mail was sent: the domain of your address is reserved for examples/,
  })
  t.equal((await engine.service.auditActions('account.test_reminder')).length, 12)
})

t.test('Members can only read the wording', async (t) => {
  const { engine, backend } = await startEngineWithUsers(t)
  const mia = await logIn(backend, MEMBER)
  const page = await mia.page(PATH)
  matches(t, page, { status: 200, text: /<textarea[^>]* disabled/ })
  t.notMatch(page.text, /<button[^>]*>(?:Save|Preview|Send)/)
  for (const path of [PATH, `${PATH}/reset`, `${PATH}/preview`, `${PATH}/test`]) {
    t.equal((await mia.submit(path, path === PATH ? WORDING : {})).status, 403, path)
  }
  const ada = await logIn(backend, ADMIN)
  for (const path of [PATH, `${PATH}/reset`, `${PATH}/preview`, `${PATH}/test`]) {
    t.equal(
      (await ada.submit(path, { csrf_token: 'x' })).status,
      403,
      `${path} without a CSRF token`,
    )
  }
  t.strictSame(await engine.service.auditActions('account.'), ['account.created'])
})

t.test(
  'forms offer the supported languages, and keep the customer’s stored language if it is another',
  async (t) => {
    const { engine, ada } = await startEngineWithUsers(t)
    const offered = async (path: string) =>
      [
        ...(await ada.page(path)).text.matchAll(/<option value="([\w-]*)"( selected)?>([^<]*)/g),
      ].map(([, tag, selected, text]) => `${tag}${selected ?? ''}: ${text}`)
    const supported = ['en: English', 'nl: Dutch', 'de: German', 'fr: French']
    const unknown = ': Unknown: reminders in English'
    t.strictSame(await offered('/settings/customers/new'), [` selected${unknown}`, ...supported])
    const debtor = await engine.createDebtor({ language: 'ja' })
    const path = `/settings/customers/${debtor.id}`
    t.strictSame(await offered(`${path}/edit`), [
      unknown,
      ...supported,
      'ja selected: ja (reminders in English)',
    ])
    matches(t, (await ada.page(path)).text, containing('ja (reminders in English)'))
    t.equal((await ada.submit(path, { name: 'Jansen', language: 'de' })).status, 303)
    matches(t, (await ada.page(path)).text, containing('<dd translate="no">German'))
  },
)
