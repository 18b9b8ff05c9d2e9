// Two people change the same record: each has opened the form before the other saved it.
import t, { type Test } from 'tap'
import { SCOPES, type Scope } from '../../../backend/accounts/scopes.ts'
import {
  formOf,
  startMoneySettings,
  submit,
  unescaped,
} from '../../fixtures/accounts/money-settings.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'

type Values = Record<string, string | readonly string[]>

async function startWithForms(t: Test) {
  const settings = await startMoneySettings(t)
  const { ada } = settings
  /** Returns a function that sends the initial values of the form in the page, with `changes`, to `path`. */
  const formIn = (text: string, path: string) => {
    const shown = unescaped(/name="shown" value="([^"]*)"/.exec(text)?.[1] ?? '')
    return (changes: Values) => {
      const fields = Object.entries({ ...JSON.parse(shown), ...changes, shown } as Values)
      const pairs = fields.flatMap(([name, values]) =>
        [values].flat().map((value): [string, string] => [name, value]),
      )
      return submit(settings, ada, path, pairs)
    }
  }
  return {
    ...settings,
    formIn,
    openForm: async (form: string, path: string) => formIn((await ada.page(form)).text, path),
    readJson: async (path: string): Promise<Json> => (await ada.get(path)).json,
  }
}

t.test('saving a form does not revert what another person has changed meanwhile', async (t) => {
  // Regression: the form sent all values that it had shown, so that the other change was lost without notice.
  const { ada, debtor, createInvoice, openForm, readJson } = await startWithForms(t)
  const invoice = await createInvoice({ notes: 'Two\nlines' })
  const issued = await ada.send('POST', '/settings/api-keys', {
    name: 'ERP',
    scopes: ['debtors:read'],
  })
  const endpoint = await ada.send('POST', '/settings/webhook-endpoints', {
    url: 'https://hooks.example/in',
    events: ['invoice.paid'],
  })
  const customer = `/settings/customers/${debtor.id}`
  const key = `/settings/api-keys/${issued.json['id']}`
  const hook = `/settings/webhook-endpoints/${endpoint.json['id']}`
  const bill = `/settings/invoices/${invoice.id}`
  const account = '/settings/account'
  const schedule = '/settings/schedule'
  for (const [form, path, first, second, expected] of [
    [
      `${customer}/edit`,
      customer,
      { phone: '+31205550142' },
      { name: 'Globex 2' },
      { name: 'Globex 2', phone: '+31205550142' },
    ],
    [
      `${bill}/edit`,
      bill,
      { po_number: 'PO-9' },
      { due_date: '2027-01-31' },
      { po_number: 'PO-9', due_date: '2027-01-31', notes: 'Two\nlines' },
    ],
    [
      account,
      account,
      { name: 'Acme B' },
      { payment_terms_days: '21' },
      { name: 'Acme B', payment_terms_days: 21 },
    ],
    [
      schedule,
      schedule,
      { holidays: '2026-12-25\r\n2026-12-26' },
      { reply_to: 'ar@acme.example' },
      { holidays: ['2026-12-25', '2026-12-26'], reply_to: 'ar@acme.example' },
    ],
    [
      schedule,
      schedule,
      { 'ladder/final': '90' },
      { 'ladder/firm': '40' },
      { ladder: { firm: 40, final: 90 }, holidays: ['2026-12-25', '2026-12-26'] },
    ],
    [
      `${customer}/schedule`,
      `${customer}/schedule`,
      { 'ladder/final': '95', own: 'yes' },
      { 'ladder/firm': '41', own: 'yes' },
      { own: true, ladder: { firm: 41, final: 95 } },
    ],
    [
      `${key}/edit`,
      key,
      { allowed_addresses: '192.0.2.1\r\n192.0.2.2' },
      { name: 'ERP 2' },
      { name: 'ERP 2', allowed_addresses: ['192.0.2.1/32', '192.0.2.2/32'] },
    ],
    [
      `${hook}/edit`,
      hook,
      { events: ['invoice.paid', 'debtor.created'] },
      { description: 'ERP' },
      { description: 'ERP', events: ['debtor.created', 'invoice.paid'] },
    ],
  ] as const) {
    const [one, other] = [await openForm(form, path), await openForm(form, path)]
    t.equal((await one(first)).status, 303, `${path}: the first change`)
    t.equal((await other(second)).status, 303, `${path}: the second change`)
    matches(t, await readJson(path), expected, path)
  }
})

t.test(
  'a rejected form shows the entered values, and the stored values of all other fields',
  async (t) => {
    const { ada, debtor, openForm, readJson } = await startWithForms(t)
    const path = `/settings/customers/${debtor.id}`
    const send = await openForm(`${path}/edit`, path)
    await ada.send('PUT', path, { phone: '+31205550142' })
    const rejected = await send({ email: 'wrong', name: 'Globex 2' })
    t.equal(rejected.status, 422)
    for (const value of ['+31205550142', 'wrong', 'Globex 2']) {
      matches(t, rejected.text, containing(`value="${value}"`))
    }
    matches(t, await readJson(path), { name: 'Globex', phone: '+31205550142' })
  },
)

t.test('two people can change different account-wide permissions at the same time', async (t) => {
  // Regression: the later form silently allowed the permission again that the earlier form had removed.
  const settings = await startWithForms(t)
  const { ada, openForm, readJson } = settings
  const path = '/settings/scope-allowance'
  const open = () => openForm(path, path)
  const allBut = (...removed: Scope[]) => SCOPES.filter((scope) => !removed.includes(scope))
  const [one, other, last] = [await open(), await open(), await open()]
  const confirmations = [
    await one({ scopes: allBut('payments:write') }),
    await other({ scopes: allBut('messages:read') }),
  ]
  const saved = await Promise.all(
    confirmations.map((page) => submit(settings, ada, path, formOf(page, path))),
  )
  t.strictSame(
    saved.map(({ status }) => status),
    [303, 303],
  )
  matches(t, await readJson(path), { scopes: allBut('payments:write', 'messages:read') })
  const added = await (await open())({ scopes: allBut('messages:read') })
  t.equal(added.status, 303, 'no key loses a permission')
  matches(t, await readJson(path), { scopes: allBut('messages:read') })
  t.equal((await last({ scopes: [...SCOPES] })).status, 303, 'nothing is changed')
  matches(t, await readJson(path), { scopes: allBut('messages:read') })
  const empty = await last({ scopes: [] })
  t.equal((await submit(settings, ada, path, formOf(empty, path))).status, 303)
  matches(t, await readJson(path), { scopes: [] })
  t.equal((await (await open())({ scopes: ['debtors:read'] })).status, 303)
  matches(t, await readJson(path), { scopes: ['debtors:read'] })
})

t.test(
  'an endpoint whose events are all unchecked is rejected, even if nothing else changed',
  async (t) => {
    const { ada, openForm, readJson } = await startWithForms(t)
    const { json } = await ada.send('POST', '/settings/webhook-endpoints', {
      url: 'https://hooks.example/in',
      events: ['invoice.paid'],
    })
    const path = `/settings/webhook-endpoints/${json['id']}`
    const send = await openForm(`${path}/edit`, path)
    matches(t, await send({ events: [] }), {
      status: 422,
      text: containing('Choose at least one event'),
    })
    matches(t, await readJson(path), { events: ['invoice.paid'] })
  },
)

t.test('malformed initial values of a form are rejected', async (t) => {
  const settings = await startMoneySettings(t)
  const path = `/settings/customers/${settings.debtor.id}`
  for (const shown of ['{', '{"name":1}', '{"name":[["x"]]}']) {
    const sent: [string, string][] = [
      ['name', 'Other'],
      ['shown', shown],
    ]
    t.equal((await submit(settings, settings.ada, path, sent)).status, 400, shown)
  }
})

const WORDING = '/settings/wording/firm-en'

t.test('two people can change different texts of a wording at the same time', async (t) => {
  // Regression: the form sent all texts, so that the later form reverted the changes of the earlier one.
  const { openForm, readJson } = await startWithForms(t)
  const [one, other] = [await openForm(WORDING, WORDING), await openForm(WORDING, WORDING)]
  t.equal((await one({ greeting: 'Hello {customer},' })).status, 303)
  t.equal((await other({ opening: 'One\r\n\r\nTwo' })).status, 303)
  matches(t, await readJson(WORDING), { greeting: 'Hello {customer},', opening: 'One\n\nTwo' })
})

t.test('the preview contains the unchanged texts of the form too', async (t) => {
  const { openForm } = await startWithForms(t)
  const { status, text } = await (await openForm(WORDING, `${WORDING}/preview`))({
    greeting: 'Ahoy {customer},',
  })
  t.equal(status, 200)
  for (const part of ['Ahoy ', 'overdue']) matches(t, text, containing(part))
})

t.test(
  'a text that another person has changed meanwhile is replaced only on request',
  async (t) => {
    // Regression: the later form replaced the text without notice.
    const { formIn, openForm, readJson } = await startWithForms(t)
    const [one, other] = [await openForm(WORDING, WORDING), await openForm(WORDING, WORDING)]
    t.equal((await one({ closing: 'Theirs.' })).status, 303)
    const rejected = await other({ closing: 'Mine.', greeting: 'Hello {customer},' })
    t.equal(rejected.status, 422)
    matches(
      t,
      unescaped(rejected.text),
      containing(
        'After the invoices was changed while you had this form open, and is now “Theirs.”.',
      ),
    )
    matches(t, rejected.text, containing('Mine.</textarea>'))
    const stored = await readJson(WORDING)
    t.equal(stored['closing'], 'Theirs.')
    t.not(stored['greeting'], 'Hello {customer},', 'nothing is saved')
    const again = formIn(rejected.text, WORDING)
    t.equal((await again({ closing: 'Mine.', greeting: 'Hello {customer},' })).status, 303)
    matches(t, await readJson(WORDING), { closing: 'Mine.', greeting: 'Hello {customer},' })
  },
)

t.test(
  'the quote of a long text that another person has stored ends with a whole character',
  async (t) => {
    // Regression: the quote could end with half of an emoji, which was shown as U+FFFD.
    const { openForm } = await startWithForms(t)
    const [one, other] = [await openForm(WORDING, WORDING), await openForm(WORDING, WORDING)]
    t.equal((await one({ closing: `${'x'.repeat(199)}🎄🎄` })).status, 303)
    const rejected = await other({ closing: 'Mine.' })
    t.equal(rejected.status, 422)
    matches(t, unescaped(rejected.text), containing(`and is now “${'x'.repeat(199)}…”.`))
  },
)

const HOW_TO_PAY = '/settings/payment-details'
const ACCOUNT = {
  currency: 'EUR',
  account_holder: 'Acme B.V.',
  account_number: 'NL91ABNA0417164300',
  bank_code: 'ABNANL2A',
}
const OTHER_ACCOUNT = { account_number: 'DE89370400440532013000', bank_code: 'COBADEFF' }

t.test('a bank account never consists of the parts of two accounts', async (t) => {
  // Regression: the later form replaced all details without notice.
  const { ada, formIn, openForm, readJson } = await startWithForms(t)
  t.equal((await ada.send('POST', HOW_TO_PAY, ACCOUNT)).status, 200)
  const path = `${HOW_TO_PAY}/EUR`
  const open = () => openForm(path, HOW_TO_PAY)
  const [one, other, third, last] = [await open(), await open(), await open(), await open()]
  t.equal((await one({ currency: 'EUR', ...OTHER_ACCOUNT })).status, 303)
  const link = { currency: 'EUR', payment_link: 'https://pay.acme.example/' }
  t.equal((await other(link)).status, 303, 'the payment link is saved, whatever the account')
  matches(t, await readJson(path), { ...OTHER_ACCOUNT, payment_link: link.payment_link })
  const code = { currency: 'EUR', bank_code: 'ABNANL2AXXX' }
  const rejected = await third(code)
  t.equal(rejected.status, 422)
  matches(t, unescaped(rejected.text), containing('and is now “DE89370400440532013000”.'))
  matches(t, await readJson(path), OTHER_ACCOUNT)
  const named = await last({ currency: 'EUR', bank_name: 'ABN AMRO' })
  t.equal(named.status, 422)
  matches(t, unescaped(named.text), containing('BIC or bank code was changed while'))
  // Regression: the page also said this of the fields that only the user had changed.
  t.notMatch(unescaped(named.text), /Bank was changed while/)
  matches(t, await readJson(path), OTHER_ACCOUNT)
  const again = formIn(rejected.text, HOW_TO_PAY)
  const { account_holder, account_number } = ACCOUNT
  t.equal((await again({ ...code, account_holder, account_number })).status, 303)
  matches(t, await readJson(path), { ...ACCOUNT, ...code })
})

t.test('two people who add the same currency do not replace each other’s account', async (t) => {
  const { openForm, readJson } = await startWithForms(t)
  const open = () => openForm(`${HOW_TO_PAY}/new`, HOW_TO_PAY)
  const [one, other] = [await open(), await open()]
  t.equal((await one(ACCOUNT)).status, 303)
  const rejected = await other({ ...ACCOUNT, ...OTHER_ACCOUNT })
  matches(t, rejected, { status: 422, text: containing('How to pay in EUR') })
  matches(t, await readJson(`${HOW_TO_PAY}/EUR`), ACCOUNT)
})
