// In Settings, people record, allocate and reverse payments, and take allocations back.
import t from 'tap'
import {
  formOf,
  PAST_DUE,
  startMoneySettings,
  submit,
  textOf,
} from '../../fixtures/accounts/money-settings.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { ADMIN } from '../../fixtures/service/settings.ts'

t.test('a payment is recorded in two steps; a double click records it once', async (t) => {
  const settings = await startMoneySettings(t)
  const { ada, debtor } = settings
  const late = await settings.createInvoice(PAST_DUE)
  const later = await settings.createInvoice({ amount: 5000 })
  const form = await ada.page(`/settings/payments/new?debtor_id=${debtor.id}`)
  matches(t, form, { status: 200, text: containing('Oldest invoices first') })
  const entered: [string, string][] = [
    ['debtor_id', debtor.id],
    ['currency', 'EUR'],
    ['amount', '1,2x'],
    ['received_on', '2026-11-20'],
    ['method', 'cheque'],
    ['reference', 'Cheque <77>'],
    ['put_to', 'oldest_first'],
  ]
  const wrong = await submit(settings, ada, '/settings/payments/preview', entered)
  matches(t, wrong, { status: 422, text: containing('must be a number such as 1234.50') })
  matches(t, wrong.text, containing('value="1,2x"'))
  const right = entered.map(([name, value]): [string, string] =>
    name === 'amount' ? [name, '120.00'] : [name, value],
  )
  const preview = await submit(settings, ada, '/settings/payments/preview', right)
  matches(t, preview, { status: 200, text: containing('Record this payment?') })
  matches(t, preview.text, containing('Cheque &lt;77&gt;'))
  t.strictSame(await settings.payments(), [], 'a preview records nothing')
  matches(t, await settings.read(`invoices/${late.id}`), {
    status: 'open',
    revision: late.revision,
  })
  const fields = formOf(preview, '/settings/payments')
  const edit = await submit(settings, ada, '/settings/payments/edit', fields)
  matches(t, edit, { status: 200, text: containing('value="120.00"') })
  const clicks = await Promise.all(
    [1, 2, 3].map(() => submit(settings, ada, '/settings/payments', fields)),
  )
  const [payment, ...others] = await settings.payments()
  t.strictSame(others, [])
  for (const click of clicks) {
    t.equal(click.status, 303)
    t.equal(click.headers.get('location'), `/settings/payments/${payment.id}`)
  }
  matches(t, payment, {
    amount: 12_000,
    method: 'cheque',
    reference: 'Cheque <77>',
    received_on: '2026-11-20',
    source: 'app',
    recorded_by: { type: 'user', label: ADMIN },
    idempotency_key: null,
    allocations: [
      { invoice_id: late.id, amount: 10_000 },
      { invoice_id: later.id, amount: 2000 },
    ],
  })
  const shown = await ada.page(`/settings/payments/${payment.id}`)
  matches(t, shown.text, /Payment recorded\..*€120\.00.*Take back…/s)
  // Regression: the pages used the words for clients of the API.
  const changed = fields.map(([name, value]): [string, string] => [
    name,
    name === 'amount' ? '130.00' : value,
  ])
  matches(t, await submit(settings, ada, '/settings/payments', changed), {
    status: 422,
    text: containing('This form has already been sent with other values'),
  })
  const future = right.map(([name, value]): [string, string] => [
    name,
    name === 'received_on' ? '2030-01-01' : value,
  ])
  matches(t, await submit(settings, ada, '/settings/payments/preview', future), {
    status: 422,
    text: containing('Received on must not be after tomorrow.'),
  })
  const again = await submit(settings, ada, '/settings/payments/preview', right)
  matches(t, again.text, containing('is already recorded'))
})

t.test(
  'a JSON client can preview a payment, which is then recorded once per idempotency key',
  async (t) => {
    const settings = await startMoneySettings(t)
    const { ada, debtor } = settings
    const one = await settings.createInvoice(PAST_DUE)
    const body = {
      debtor_id: debtor.id,
      currency: 'EUR',
      amount: 10_500,
      method: 'cash',
      allocations: [{ invoice_id: one.id, amount: 10_000 }],
      idempotency_key: 'till-1',
    }
    matches(t, await ada.send('POST', '/settings/payments/preview', body), {
      status: 200,
      json: {
        object: 'preview',
        invoices: [
          {
            id: one.id,
            before: { status: 'open', amount_due: 10_000 },
            after: { status: 'paid', amount_due: 0 },
          },
        ],
        on_account: [{ currency: 'EUR', before: 0, after: 500 }],
        messages_cancelled: 0,
      },
    })
    const first = await ada.send('POST', '/settings/payments', body)
    matches(t, first, { status: 201, json: { unapplied_amount: 500, method: 'cash' } })
    t.strictSame((await ada.send('POST', '/settings/payments', body)).json, first.json)
    matches(t, await ada.send('POST', '/settings/payments', { ...body, amount: 11_000 }), {
      status: 422,
      json: { code: 'idempotency_key_reused', original_id: first.json['id'] },
    })
    const { idempotency_key: _, ...keyless } = body
    matches(t, await ada.send('POST', '/settings/payments', keyless), {
      status: 400,
      json: { code: 'idempotency_key_required' },
    })
    for (const [fields, pointer] of [
      [{ amount: 0 }, '/amount'],
      [{ amount: 1.5 }, '/amount'],
      [{ currency: 'XXX' }, '/currency'],
      [{ received_on: '2026-11-30' }, '/received_on'],
      [{ method: 'barter' }, '/method'],
      [{ allocations: [{ invoice_id: one.id, amount: 1 }] }, '/allocations/0/amount'],
      [{ put_to: 'someone' }, '/put_to'],
    ] as const) {
      const wrong = { ...body, idempotency_key: 'till-2', ...fields }
      const { status, json } = await ada.send('POST', '/settings/payments', wrong)
      matches(t, { status, json }, { status: 422, json: { errors: [{ pointer }] } }, pointer)
    }
    t.equal((await settings.payments()).length, 1)
  },
)

t.test('money on account is allocated and taken back, each after a preview', async (t) => {
  const settings = await startMoneySettings(t)
  const { ada } = settings
  const one = await settings.createInvoice(PAST_DUE)
  const payment = await settings.payOnAccount(15_000)
  const path = `/settings/payments/${payment.id}`
  const form = await ada.page(`${path}/allocate`)
  matches(t, form, { status: 200, text: containing('value="100.00"') })
  const preview = await submit(
    settings,
    ada,
    `${path}/allocate/preview`,
    formOf(form, `${path}/allocate/preview`),
  )
  matches(t, textOf(preview), /Allocate this money\?.*€100\.00 less is on account.*Paid/s)
  const fields = formOf(preview, `${path}/allocate`)
  const [first, second] = await Promise.all([
    submit(settings, ada, `${path}/allocate`, fields),
    submit(settings, ada, `${path}/allocate`, fields),
  ])
  t.strictSame([first?.status, second?.status], [303, 303])
  matches(t, await settings.read(`invoices/${one.id}`), { status: 'paid', amount_paid: 10_000 })

  const takeBack = await ada.page(`${path}/take-back?invoice_id=${one.id}`)
  matches(
    t,
    textOf(takeBack),
    /Take this allocation back\?.*€100\.00 more is on account.*will be due/s,
  )
  const withoutReason = formOf(takeBack, `${path}/take-back`, { reason: ' ' })
  const rejected = await submit(settings, ada, `${path}/take-back`, withoutReason)
  matches(t, rejected, { status: 422, text: containing('Enter a reason.') })
  const withReason = formOf(takeBack, `${path}/take-back`, { reason: 'For another' })
  const clicks = await Promise.all(
    [1, 2].map(() => submit(settings, ada, `${path}/take-back`, withReason)),
  )
  t.strictSame(
    clicks.map(({ status }) => status),
    [303, 303],
  )
  matches(t, await settings.read(`invoices/${one.id}`), { status: 'open', amount_paid: 0 })
  const reverse = await ada.page(`${path}/reverse`)
  matches(t, textOf(reverse), containing('€150.00 less is on account'))
  matches(t, await ada.send('POST', `${path}/reverse`, { reason: 'It bounced' }), {
    status: 200,
    json: { status: 'reversed' },
  })
  t.strictSame(
    (await settings.audit()).filter((action) => action.startsWith('payment.')),
    ['payment.allocated', 'payment.allocation_taken_back', 'payment.reversed'],
  )
  matches(t, (await ada.page(path)).text, /href="(.*audit-log[^"]+)">Who changed this</)
})

t.test('a currency may be entered in lower case', async (t) => {
  const settings = await startMoneySettings(t)
  const invoice = await settings.createInvoice()
  const entered: [string, string][] = [
    ['debtor_id', settings.debtor.id],
    ['currency', 'eur'],
    ['amount', '120.00'],
    ['put_to', 'chosen'],
    ['allocations/invoice_id', invoice.id],
    ['allocations/amount', '100.00'],
  ]
  const preview = await submit(settings, settings.ada, '/settings/payments/preview', entered)
  matches(t, textOf(preview), containing('€120.00'))
  await submit(settings, settings.ada, '/settings/payments', formOf(preview, '/settings/payments'))
  matches(t, await settings.payments(), [
    { amount: 12_000, currency: 'EUR', unapplied_amount: 2000 },
  ])
})

// Regression: the preview did not list the written-off invoice.
t.test('the preview of a payment of a written-off invoice shows what is paid', async (t) => {
  const settings = await startMoneySettings(t)
  const { ada } = settings
  const { id } = await settings.createInvoice()
  await ada.send('POST', `/settings/invoices/${id}/write-off`, { reason: 'Bankrupt' })
  const { json } = await ada.send('POST', '/settings/payments/preview', {
    invoice_id: id,
    amount: 4000,
    put_to: 'chosen',
    allocations: [{ invoice_id: id, amount: 4000 }],
  })
  matches(t, json['invoices'], [
    {
      id,
      before: { status: 'written_off', amount_due: 10_000 },
      after: { status: 'written_off', amount_due: 6000 },
    },
  ])
})

t.test('invalid amounts are rejected, even in the requests of the Undo button', async (t) => {
  const settings = await startMoneySettings(t)
  const invoice = await settings.createInvoice()
  const payment = await settings.payOnAccount(1000)
  const path = `/settings/payments/${payment.id}`
  const keyField = () => ({ idempotency_key: crypto.randomUUID() })
  for (const amount of [-1, 0]) {
    const allocations = [{ invoice_id: invoice.id, amount }]
    const allocated = await settings.ada.send('POST', `${path}/allocate`, {
      allocations,
      ...keyField(),
    })
    t.equal(allocated.status, 422)
    const redo = { invoice_id: invoice.id, amount, ...keyField() }
    t.equal((await settings.ada.send('POST', `${path}/redo-allocation`, redo)).status, 422)
  }
  for (const amount of ['-1', '', '1.5', 'x']) {
    const redo = { invoice_id: invoice.id, amount, ...keyField() }
    const { status } = await settings.ada.submit(`${path}/redo-allocation`, redo)
    t.equal(status, 422, amount)
  }
  matches(t, await settings.read(`invoices/${invoice.id}`), { amount_paid: 0, amount_due: 10_000 })
})

t.test('of two concurrent allocations of the same money, one is rejected', async (t) => {
  const settings = await startMoneySettings(t)
  const [one, two] = [await settings.createInvoice(PAST_DUE), await settings.createInvoice()]
  const payment = await settings.payOnAccount(10_000)
  const outcomes = await Promise.all(
    [one, two].map(({ id }, index) =>
      settings.ada.send('POST', `/settings/payments/${payment.id}/allocate`, {
        allocations: [{ invoice_id: id, amount: 10_000 }],
        idempotency_key: `person-${index}`,
      }),
    ),
  )
  t.strictSame(outcomes.map(({ status }) => status).toSorted(), [200, 422])
  const rejected = outcomes.find(({ status }) => status === 422)
  t.equal(rejected?.json['code'], 'allocation_exceeds_payment')
})

// Regression: after Back, the browser loads the preview again, which had a new key, so that a second payment was
// recorded.
t.test('two previews of one form record one payment', async (t) => {
  const settings = await startMoneySettings(t)
  const { ada, debtor } = settings
  const form = await ada.page(`/settings/payments/new?debtor_id=${debtor.id}`)
  const given = { amount: '12.50', currency: 'EUR', method: 'cheque' }
  const entered = formOf(form, '/settings/payments/preview', given)
  const locations: unknown[] = []
  for (const _ of [1, 2]) {
    const preview = await submit(settings, ada, '/settings/payments/preview', entered)
    const fields = formOf(preview, '/settings/payments')
    const recorded = await submit(settings, ada, '/settings/payments', fields)
    locations.push(recorded.headers.get('location'))
  }
  const [payment, ...others] = await settings.payments()
  t.strictSame(others, [])
  t.strictSame(new Set(locations), new Set([`/settings/payments/${payment.id}`]))
})

// Regression: the money was allocated to open invoices, although the person chose to keep it on account.
t.test('the allocation that a person chooses applies instead of the setting', async (t) => {
  const settings = await startMoneySettings(t)
  const { ada, debtor } = settings
  await ada.send('POST', '/settings/schedule', { apply_credit: 'oldest_first' })
  const oldest = await settings.createInvoice(PAST_DUE)
  const later = await settings.createInvoice({ amount: 5000 })
  const payment = { debtor_id: debtor.id, amount: 3000 }
  const choices = [
    { put_to: 'on_account' },
    { put_to: 'chosen', allocations: [{ invoice_id: later.id, amount: 1000 }] },
    // A script that chooses nothing leaves the decision to the setting.
    {},
  ]
  const outcomes: unknown[] = []
  for (const choice of choices) {
    const { json: preview } = await ada.send('POST', '/settings/payments/preview', {
      ...payment,
      ...choice,
    })
    const { json: recorded } = await ada.send('POST', '/settings/payments', {
      ...payment,
      ...choice,
      idempotency_key: crypto.randomUUID(),
    })
    const onAccount = (preview['on_account'] as Json[]).map(({ before, after }) => after - before)
    outcomes.push([onAccount, recorded['unapplied_amount'], recorded['allocations']])
  }
  t.strictSame(outcomes, [
    [[3000], 3000, []],
    [[2000], 2000, [{ invoice_id: later.id, amount: 1000 }]],
    [[], 0, [{ invoice_id: oldest.id, amount: 3000 }]],
  ])
})

// Regression: "1.234,50" was rejected, although an imported file may have such amounts.
t.test('an amount may have a decimal comma if the amount is unambiguous', async (t) => {
  const settings = await startMoneySettings(t)
  const preview = (amount: string) =>
    submit(settings, settings.ada, '/settings/payments/preview', [
      ['debtor_id', settings.debtor.id],
      ['currency', 'EUR'],
      ['amount', amount],
      ['received_on', '2026-11-20'],
      ['method', 'cheque'],
      ['put_to', 'on_account'],
    ])
  for (const [text, shown] of [
    ['1.234,50', '€1,234.50'],
    ['1,234.50', '€1,234.50'],
    ['1 234,5', '€1,234.50'],
    ['12,50', '€12.50'],
    ['1,500', '€1,500.00'],
  ] as const) {
    matches(t, (await preview(text)).text, containing(shown), text)
  }
  for (const text of ['0,500', '1.500', '1,234,5', '1.234.50', '1,2,3', ',50']) {
    t.equal((await preview(text)).status, 422, text)
  }
})

// Regression: instead of the next reminder, the page showed a dash, as for an invoice that is not owed.
t.test('until the worker has scheduled a reminder, the page of the invoice says so', async (t) => {
  const settings = await startMoneySettings(t)
  const invoice = await settings.createInvoice(PAST_DUE)
  const payment = await settings.payOnAccount(10_000)
  const allocations = [{ invoice_id: invoice.id, amount: 10_000 }]
  const path = `/settings/payments/${payment.id}`
  await settings.ada.send('POST', `${path}/allocate`, { allocations, idempotency_key: 'x' })
  const nextReminder = async () =>
    /<dt>Next reminder<\/dt><dd>([^<]*)/.exec(
      (await settings.ada.page(`/settings/invoices/${invoice.id}`)).text,
    )?.[1]
  t.equal(await nextReminder(), '–')
  await settings.ada.send('POST', `${path}/reverse`, { reason: 'It bounced' })
  t.equal(await nextReminder(), 'Not scheduled yet')
})
