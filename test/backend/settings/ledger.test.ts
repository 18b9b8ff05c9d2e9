// Customers, invoices and payments in Settings, as pages and as JSON.
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { suppressAddress } from '../../../backend/debtors/contactability.ts'
import { eraseDebtor } from '../../../backend/erasure/erasure.ts'
import { changeChasingSettings } from '../../../backend/reminders/chasing-settings.ts'
import { DEFAULT_LADDER } from '../../../backend/reminders/planning/ladder.ts'
import { recordHandOverResult } from '../../../backend/reminders/sending/hand-over-result.ts'
import { runSendCheck } from '../../../backend/reminders/sending/send-check.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngineWithUsers } from '../../fixtures/reminders/engine.ts'
import { ADMIN, logIn, MEMBER, startSettings } from '../../fixtures/service/settings.ts'

async function openLedger(t: Test) {
  const { backend, account, createUser } = await startSettings(t)
  const key = await backend.issueKey(account.id)
  let idempotencyKeys = 0
  const create = async (path: string, body: object): Promise<Json> => {
    const headers = { 'idempotency-key': `test-${idempotencyKeys++}` }
    const response = await backend.call(key, 'POST', `/api/v1/${path}`, { body, headers })
    if (response.status !== 201) throw new Error(response.text)
    return response.json
  }
  return {
    backend,
    account,
    createUser,
    create,
    createDebtor: (fields: object = {}) =>
      create('debtors', { name: 'Globex', email: 'ap@globex.example', ...fields }),
    createInvoice: (debtor: Json, fields: object = {}) =>
      create('invoices', { debtor_id: debtor.id, currency: 'EUR', amount: 10_000, ...fields }),
    pay: (invoice: Json, amount: number) =>
      create('payments', { invoice_id: invoice.id, currency: 'EUR', amount }),
    read: async (path: string) => (await backend.call(key, 'GET', `/api/v1/${path}`)).json,
  }
}

t.test('customers are found by the beginning of words, page by page', async (t) => {
  const ledger = await openLedger(t)
  for (const name of [
    'Ärzte 100% Bio',
    'Bakker & Zonen',
    'Jansen Bouw',
    'de Bakkerij',
    'bak_huis',
  ]) {
    await ledger.createDebtor({ name })
  }
  const ada = await logIn(ledger.backend, ADMIN)
  const names = async (query: string) => {
    const { json } = await ada.get(`/settings/customers?${query}`)
    return (json['data'] as Json[]).map(({ name }) => name)
  }
  t.strictSame(await names(''), [
    'bak_huis',
    'Bakker & Zonen',
    'de Bakkerij',
    'Jansen Bouw',
    'Ärzte 100% Bio',
  ])
  t.strictSame(await names('q=BAKKER'), ['Bakker & Zonen', 'de Bakkerij'])
  t.strictSame(await names('q=%25'), [], 'a percent sign is not a wildcard')
  t.strictSame(await names('q=100%25'), ['Ärzte 100% Bio'])
  t.strictSame(await names('q=hui'), ['bak_huis'])
  t.equal((await names('q=ap@glob')).length, 5)
  t.strictSame(await names('q=lob'), [], 'an address is found by its beginning')
  const first = await ada.get('/settings/customers?limit=2')
  matches(t, first.json, { has_more: true, next_cursor: /^none_deb_/ })
  const rest = `limit=200&cursor=${first.json['next_cursor']}`
  t.strictSame(await names(rest), ['de Bakkerij', 'Jansen Bouw', 'Ärzte 100% Bio'])
  for (const query of ['cursor=deb_none', 'view=none', 'limit=0', 'colour=red']) {
    t.equal((await ada.get(`/settings/customers?${query}`)).status, 400, query)
  }
  const page = await ada.page('/settings/customers?q=%3Cb%3E')
  matches(t, page.text, containing('No customer matches “&lt;b&gt;”.'))
})

t.test('each view lists the customers in its state, such as overdue or unreachable', async (t) => {
  const ledger = await openLedger(t)
  const late = await ledger.createDebtor({ name: 'Late' })
  await ledger.createInvoice(late, { issue_date: '2026-01-01', due_date: '2026-01-31' })
  const paused = await ledger.createDebtor({ name: 'Paused' })
  const silent = await ledger.createDebtor({ name: 'Silent', email: null })
  await ledger.createInvoice(silent, { issue_date: '2026-01-01', due_date: '2027-01-31' })
  await ledger.createDebtor({ name: 'Silent, and owes nothing', email: null })
  const gone = await ledger.createDebtor({ name: 'Gone' })
  const ada = await logIn(ledger.backend, ADMIN)
  await ada.send('POST', `/settings/customers/${paused.id}/pause`, { reason: 'A plan' })
  await ada.send('POST', `/settings/customers/${gone.id}/archive`)
  for (const [view, name] of [
    ['overdue', 'Late'],
    ['paused', 'Paused'],
    ['unreachable', 'Silent'],
    ['archived', 'Gone'],
  ] as const) {
    const { json } = await ada.get(`/settings/customers?view=${view}`)
    matches(t, json['data'], [{ name }], view)
    t.equal((json['data'] as Json[]).length, 1, view)
    matches(t, (await ada.page(`/settings/customers?view=${view}`)).text, containing(name))
  }
})

t.test('an Admin changes, pauses and archives a customer; the API shows the changes', async (t) => {
  const ledger = await openLedger(t)
  const { id } = await ledger.createDebtor()
  const path = `/settings/customers/${id}`
  const ada = await logIn(ledger.backend, ADMIN)
  const put = await ada.send('PUT', path, { email: 'new@globex.example', city: 'Utrecht' })
  t.strictSame(put.json, await ledger.read(`debtors/${id}`))
  matches(t, put.json, {
    name: 'Globex',
    email: 'new@globex.example',
    address: { city: 'Utrecht' },
  })
  matches(t, await ada.send('PUT', path, { email: 'x', country: 'ZZ' }), {
    status: 422,
    json: { errors: [{ pointer: '/email' }, { pointer: '/country' }] },
  })
  matches(t, await ada.send('POST', `${path}/pause`, { reason: 'A plan', until: '2026-12-01' }), {
    json: { chasing: { status: 'paused', until: '2026-11-30T23:00:00.000Z' } },
  })
  matches(t, await ada.send('POST', `${path}/pause`, { reason: 'x', until: 'soon' }), {
    status: 422,
    json: { errors: [{ pointer: '/until' }] },
  })
  matches(t, await ada.send('POST', `${path}/resume`), { json: { chasing: { status: 'active' } } })
  matches(t, await ada.send('POST', `${path}/archive`), { json: { status: 'archived' } })
  matches(t, await ada.send('POST', `${path}/resume`), {
    status: 409,
    json: { code: 'debtor_state_conflict', debtor_status: 'archived' },
  })
  matches(t, await ada.send('POST', `${path}/restore`), { json: { status: 'active' } })
  t.equal((await ada.get('/settings/customers/deb_none')).status, 404)

  const past = await ada.submit(`${path}/pause`, { reason: 'A plan', until: '2026-01-01' })
  matches(t, past.text, /id="until-fault">The end of the pause must be in the future/)
  const rejected = await ada.submit(`${path}/pause`, { reason: ' ', until: '' })
  t.equal(rejected.status, 422)
  matches(t, rejected.text, /<details class="action" open>.*Enter a reason\./s)
  const saved = await ada.submit(path, { name: '<b>Globex</b>', email: '' })
  matches(t, saved, { status: 303 })
  const { text } = await ada.page(path)
  matches(t, text, /&lt;b&gt;Globex&lt;\/b&gt;.*No address/s)
  // Regression: the page said that reminders were active, although none can be sent.
  matches(t, text, /No reminder is sent:<\/strong> the customer has no e-mail address\./)
  t.notMatch(text, /<strong>Active\.<\/strong>/)
})

t.test(
  'after mail bounced, a customer receives mail again when an Admin confirms that the address works',
  async (t) => {
    const ledger = await openLedger(t)
    const { backend, account } = ledger
    const { id } = await ledger.createDebtor({ email: 'old@globex.nl' })
    const suppress = (address: string, reason: 'bounced' | 'complained') =>
      backend.database.transaction((tx) =>
        suppressAddress(
          tx,
          { accountId: account.id, address, reason, detail: null, messageId: null },
          backend.now,
        ),
      )
    await suppress('old@globex.nl', 'bounced')
    const ada = await logIn(backend, ADMIN)
    const path = `/settings/customers/${id}`
    matches(t, (await ada.page(path)).text, /Bounced.*Paused.*mail to the address bounced/s)
    await ada.send('PUT', path, { email: 'new@globex.nl' })
    matches(
      t,
      await ledger.read(`debtors/${id}`),
      { contactability: { email: 'bounced' } },
      'a new address alone is not enough',
    )
    matches(t, await ada.submit(`${path}/clear-contact`, {}), { status: 303 })
    matches(t, await ledger.read(`debtors/${id}`), {
      contactability: { email: 'ok' },
      chasing: { status: 'active' },
    })
    await suppress('new@globex.nl', 'complained')
    const rejected = await ada.submit(`${path}/clear-contact`, {})
    matches(t, rejected, { status: 409, text: /has reported our mail as unwanted/ })
    matches(t, await ada.send('POST', `${path}/clear-contact`), {
      json: { code: 'address_suppressed' },
    })
  },
)

t.test(
  'an Admin finalizes, voids and disputes invoices, resumes reminders, and reverses payments',
  async (t) => {
    const ledger = await openLedger(t)
    const debtor = await ledger.createDebtor()
    const invoice = await ledger.createInvoice(debtor)
    const draft = await ledger.createInvoice(debtor, { status: 'draft' })
    const ada = await logIn(ledger.backend, ADMIN)
    const perform = (id: string, name: string, reason?: string) =>
      ada.send(
        'POST',
        `/settings/invoices/${id}/${name}`,
        reason === undefined ? undefined : { reason },
      )
    matches(t, await perform(draft.id, 'finalise'), { json: { status: 'open' } })
    matches(t, await perform(draft.id, 'void', 'Sent twice'), { json: { status: 'void' } })
    matches(t, await perform(draft.id, 'void', 'Again'), {
      status: 409,
      json: { code: 'invoice_state_conflict', invoice_status: 'void' },
    })
    matches(t, await perform(invoice.id, 'dispute'), {
      status: 422,
      json: { errors: [{ pointer: '/reason' }] },
    })
    matches(t, await perform(invoice.id, 'dispute', 'Damaged'), {
      json: { chasing: { blocked_reason: 'disputed' } },
    })
    matches(t, await perform(invoice.id, 'resume'), { status: 409 })
    matches(t, await perform(invoice.id, 'resolve', 'Replaced'), {
      json: { chasing: { status: 'active' } },
    })
    const payment = await ledger.pay(invoice, 4000)
    matches(
      t,
      await perform(invoice.id, 'resume'),
      { json: { chasing: { status: 'active' } } },
      'an Admin can resume reminders before the pause after a payment ends',
    )
    await ledger.pay(invoice, 1000)
    const customer = await ada.page(`/settings/customers/${debtor.id}`)
    matches(t, customer.text, containing('Resume these reminders'))
    await ada.send('POST', `/settings/customers/${debtor.id}/chase-held`)
    matches(t, await ledger.read(`invoices/${invoice.id}`), { chasing: { status: 'active' } })
    const reverse = (id: string) =>
      ada.send('POST', `/settings/payments/${id}/reverse`, { reason: 'It bounced' })
    matches(t, await reverse(payment.id), {
      status: 200,
      json: { id: payment.id, status: 'reversed' },
    })
    matches(t, await reverse(payment.id), {
      status: 409,
      json: { code: 'payment_already_reversed' },
    })
    matches(t, await perform(invoice.id, 'write-off', 'Bankrupt'), {
      json: { status: 'written_off' },
    })
    matches(t, await ada.get(`/settings/payments?debtor_id=${debtor.id}`), {
      json: {
        data: [{ status: 'recorded' }, { id: payment.id, status: 'reversed' }],
        has_more: false,
      },
    })
    matches(t, await ada.get(`/settings/invoices?debtor_id=${debtor.id}&status=void`), {
      json: { data: [{ id: draft.id }] },
    })
    matches(
      t,
      (await ada.page(`/settings/payments/${payment.id}`)).text,
      /Reversed.*Allocations before the reversal/s,
    )
    matches(t, (await ada.page(`/settings/invoices/${invoice.id}`)).text, /Written off/)
    const { text } = await ada.page(`/settings/customers/${debtor.id}`)
    matches(t, text, /Other invoices.*Void/s)
    const first = await ada.get('/settings/invoices?limit=1')
    matches(t, first.json, { has_more: true })
    const cursor = String(first.json['next_cursor'])
    matches(t, await ada.get(`/settings/invoices?limit=1&cursor=${cursor}`), {
      json: { data: [{ id: invoice.id }], has_more: false },
    })
  },
)

t.test('a Member can read but not change records; another account cannot see them', async (t) => {
  const ledger = await openLedger(t)
  const debtor = await ledger.createDebtor()
  const invoice = await ledger.createInvoice(debtor)
  const payment = await ledger.pay(invoice, 1000)
  const other = await ledger.backend.createAccount({ name: 'Other' })
  await ledger.createUser(other.id, 'eve@other.example', 'admin')
  const mia = await logIn(ledger.backend, MEMBER)
  const eve = await logIn(ledger.backend, 'eve@other.example')
  const pages = [
    `/settings/customers/${debtor.id}`,
    `/settings/invoices/${invoice.id}`,
    `/settings/payments/${payment.id}`,
  ]
  for (const path of [
    '/settings/customers',
    '/settings/invoices',
    '/settings/payments',
    ...pages,
  ]) {
    const page = await mia.page(path)
    t.equal(page.status, 200, path)
    t.notMatch(
      page.text,
      /<form method="post" action="(?!\/settings\/logout)/,
      `${path}: no form to submit`,
    )
  }
  for (const path of pages) t.equal((await eve.get(path)).status, 404)
  const actions = [
    ...['pause', 'resume', 'archive', 'restore', 'clear-contact', 'chase-held'].map(
      (name) => `${pages[0]}/${name}`,
    ),
    ...['finalise', 'void', 'write-off', 'dispute', 'resolve', 'resume'].map(
      (name) => `${pages[1]}/${name}`,
    ),
    `${pages[2]}/reverse`,
  ]
  for (const path of actions) {
    matches(
      t,
      await mia.send('POST', path, {}),
      { status: 403, json: { code: 'admin_required' } },
      path,
    )
    const body = /pause$|void|write|dispute|resolve|reverse/.test(path) ? { reason: 'x' } : {}
    t.equal((await eve.send('POST', path, body)).status, 404, path)
  }
  t.equal((await mia.send('PUT', pages[0] ?? '', { name: 'X' })).status, 403)
  t.equal((await mia.get(`${pages[0]}/edit`)).status, 403)
})

t.test('the page of a reversed payment shows when it was reversed', async (t) => {
  const { backend, create, createDebtor } = await openLedger(t)
  const debtor = await createDebtor()
  const money = { currency: 'EUR', amount: 1000, reference: 'Globex, transfer 7' }
  const payment = await create('payments', { debtor_id: debtor.id, ...money })
  const path = `/settings/payments/${payment.id}`
  const ada = await logIn(backend, ADMIN)
  await ada.send('POST', `${path}/reverse`, { reason: 'It bounced' })
  const reversed = /<dt>Reversed<\/dt><dd>21 Nov 2026, 11:15<\/dd>/
  matches(t, (await ada.page(path)).text, reversed)
  backend.now = new Date('2026-11-30T09:00:00.000Z')
  const clock = () => backend.now
  const request = { actor: OPERATOR, clock, reason: 'The customer asked for it' }
  await eraseDebtor(backend.database, debtor.id, request)
  // Regression: the page showed the time of the erasure, which also changed the payment.
  const again = await logIn(backend, ADMIN)
  matches(t, (await again.page(path)).text, reversed)
  // Regression: `reversed_at` was the time of the erasure too, and missing if an allocation was rejected.
  const repeated = { code: 'payment_already_reversed', reversed_at: '2026-11-21T10:15:00.000Z' }
  const bodies = {
    reverse: { reason: 'It bounced' },
    allocate: { allocations: [], idempotency_key: 'again' },
  }
  for (const [action, body] of Object.entries(bodies)) {
    matches(t, await again.send('POST', `${path}/${action}`, body), { status: 409, json: repeated })
  }
})

// Regression: the page showed “None, 3 days ago”.
t.test('after a courtesy reminder, the page of the invoice shows when it was sent', async (t) => {
  const { engine, backend, accountId, logInAdmin } = await startEngineWithUsers(t)
  const ladder = { ...DEFAULT_LADDER, courtesy: -3 }
  await backend.database.transaction((tx) =>
    changeChasingSettings(tx, accountId, { ladder }, { actor: OPERATOR, now: backend.now }),
  )
  const { id } = await engine.createInvoice('2026-12-04')
  const lastReminder = async () => {
    const { text } = await (await logInAdmin()).page(`/settings/invoices/${id}`)
    return /<dt>Last reminder<\/dt><dd>(.*?)<\/dd>/.exec(text)?.[1]?.replaceAll(/<[^>]*>/g, '')
  }
  t.equal(await lastReminder(), 'None')
  await engine.planAndSendAt('2026-12-01T08:00:00.000Z')
  t.strictSame(await engine.messageLog(), ['null:sent'])
  backend.now = new Date('2026-12-04T08:00:00.000Z')
  t.equal(await lastReminder(), '3 days ago')
  await engine.planAndSendAt('2026-12-08T08:00:00.000Z')
  t.equal(await lastReminder(), 'Friendly, just now')
})

// Regression: the page showed the stage of the previous reminder, with the time of the interrupted one.
t.test('a last reminder with an unknown outcome is shown with its own stage', async (t) => {
  const { engine, backend, logInAdmin } = await startEngineWithUsers(t)
  const { database } = backend
  const { id } = await engine.createInvoice('2026-11-19')
  const lastReminder = async () => {
    const { text } = await (await logInAdmin()).page(`/settings/invoices/${id}`)
    return /<dt>Last reminder<\/dt><dd>(.*?)<\/dd>/.exec(text)?.[1]?.replaceAll(/<[^>]*>/g, '')
  }
  await engine.planAndSendAt('2026-11-24T08:00:00.000Z')
  await engine.plan('2026-12-01T08:00:00.000Z')
  t.equal(await lastReminder(), 'Friendly, 7 days ago')
  const messageId = (await engine.messages()).at(-1)?.id ?? ''
  for (const status of ['queued', 'failed']) {
    const handOver = await database.transaction((tx) =>
      runSendCheck(tx, engine.deps, messageId, backend.now),
    )
    if (handOver === undefined) throw new Error('the send check blocked the message')
    const result = { outcome: 'unknown', detail: 'the connection was lost' } as const
    await database.transaction((tx) => recordHandOverResult(tx, handOver, result, backend.now))
    t.strictSame(await engine.messageLog(), ['friendly:sent', `reminder:${status}`])
    t.equal(await lastReminder(), 'Reminder, just now (may not have arrived)')
    backend.now = new Date('2026-12-01T10:00:00.000Z')
  }
})

// Regression: after an erasure, or if a person had changed nothing, the link led to an empty audit log.
t.test('“Who changed this” is shown if the audit log has an action on the record', async (t) => {
  const { backend, create, createDebtor } = await openLedger(t)
  const { id: debtor_id } = await createDebtor()
  const money = { debtor_id, currency: 'EUR', amount: 1000, reference: 'Globex, transfer 7' }
  const [erased, reversed] = [await create('payments', money), await create('payments', money)]
  const paths = [`payments/${erased.id}`, `payments/${reversed.id}`, `customers/${debtor_id}`]
  const ada = await logIn(backend, ADMIN)
  const actionsOn = async (path: string) => {
    const { text } = await ada.page(`/settings/${path}`)
    const [, link] = /href="([^"]+)">Who changed this</.exec(text) ?? []
    if (link === undefined) return undefined
    const { json } = await ada.get(link)
    return (json['data'] as Json[]).map(({ action }) => action)
  }
  const all = () => Promise.all(paths.map(actionsOn))
  t.strictSame(await all(), [undefined, undefined, undefined])
  await ada.send('POST', `/settings/payments/${reversed.id}/reverse`, { reason: 'It bounced' })
  const clock = () => backend.now
  const request = { actor: OPERATOR, clock, reason: 'The customer asked for it' }
  await eraseDebtor(backend.database, debtor_id, request)
  t.strictSame(await all(), [undefined, ['payment.reversed'], ['debtor.erased']])
})
