// Two people change the same record: each has opened the form before the other saved it.
import t, { type Test } from 'tap'
import { startMoneySettings, submit, unescaped } from '../../fixtures/accounts/money-settings.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'

type Values = Record<string, string | readonly string[]>

async function startWithForms(t: Test) {
  const settings = await startMoneySettings(t)
  const { ada } = settings
  return {
    ...settings,
    /** Opens a form. Resolves with a function that sends its first values, except `changes`, to `path`. */
    async openForm(form: string, path: string) {
      const { text } = await ada.page(form)
      const shown = unescaped(/name="shown" value="([^"]*)"/.exec(text)?.[1] ?? '')
      return (changes: Values) => {
        const fields = Object.entries({ ...JSON.parse(shown), ...changes, shown } as Values)
        const pairs = fields.flatMap(([name, values]) =>
          [values].flat().map((value): [string, string] => [name, value]),
        )
        return submit(settings, ada, path, pairs)
      }
    },
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

t.test('malformed first values are rejected', async (t) => {
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
