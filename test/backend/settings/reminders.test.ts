// Reminders in Settings: the preview, approvals, the schedule, and the kill switch.
import t, { type Test } from 'tap'
import { getAccount } from '../../../backend/accounts/accounts.ts'
import { addDays } from '../../../backend/calendar/calendar.ts'
import { createDebtor } from '../../../backend/debtors/debtors.ts'
import { createInvoice } from '../../../backend/invoices/invoices.ts'
import { countUpcomingDebtors } from '../../../backend/invoices/upcoming-reminders.ts'
import { reminderPages } from '../../../backend/settings/reminders/reminder-routes.ts'
import { plainDebtor, plainInvoice } from '../../fixtures/accounts/plain-records.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngineWithUsers } from '../../fixtures/reminders/engine.ts'
import type { MailServiceOptions } from '../../fixtures/reminders/mail-service.ts'
import { ADMIN, logIn, MEMBER } from '../../fixtures/service/settings.ts'
import { until } from '../../fixtures/service/until.ts'

/** Starts on 23 November with a firm reminder that waits for approval. */
async function openQueue(t: Test, options?: MailServiceOptions) {
  const { engine, backend, logInAdmin } = await startEngineWithUsers(t, options)
  const debtor = await engine.createDebtor({ name: 'Jansen <b>Bouw</b>' })
  const invoice = await engine.createInvoice('2026-11-02', { debtor_id: debtor.id })
  for (const day of ['05', '12', '23']) await engine.planAndSendAt(`2026-11-${day}T10:00:00.000Z`)
  const message = (await engine.messages()).at(-1)
  return {
    engine,
    backend,
    debtor,
    invoice,
    messageId: message?.id ?? '',
    ada: await logInAdmin(),
  }
}

t.test(
  'an approval shows the text of the reminder, and a decision applies only to that text',
  async (t) => {
    const { engine, messageId, invoice, ada } = await openQueue(t)
    const path = `/settings/approvals/${messageId}`
    const { json } = await ada.get('/settings/approvals')
    matches(t, json['data'], [
      {
        ...{ id: messageId, stage: 'firm', status: 'awaiting_approval', invoice_ids: [invoice.id] },
        ...{ body: /INV-000001/, expires_at: /^2026-11-30/, seen: String, amount_due: 10_000 },
      },
    ])
    const [{ seen }] = json['data'] as Json[]
    const list = await ada.page('/settings/approvals')
    matches(t, list.text, /Jansen &lt;b&gt;Bouw&lt;\/b&gt;/)
    const page = await ada.page(path)
    matches(
      t,
      page.text,
      containing(`<iframe class="mail-html" sandbox="" src="/settings/messages/${messageId}/html"`),
    )
    matches(t, page.text, containing(seen))
    matches(t, await ada.send('POST', `${path}/approve`, { seen: 'something else' }), {
      status: 409,
      json: { code: 'approval_outdated' },
    })
    matches(t, await ada.send('POST', `${path}/approve`, { seen }), {
      status: 200,
      json: { status: 'approved', approval: { status: 'approved', decided_by: ADMIN } },
    })
    matches(t, await ada.send('POST', `${path}/approve`, { seen }), {
      status: 409,
      json: { code: 'approval_decided', approval_status: 'approved' },
    })
    matches(t, await ada.submit(`${path}/reject`, { seen, reason: 'x' }), { status: 409 })
    matches(
      t,
      (await ada.page('/settings/approvals')).text,
      /No reminder waits for approval.*Approved/s,
    )
    t.equal((await ada.page(path)).status, 303, 'a decided approval redirects to the log')
    await engine.planAndSendAt('2026-11-23T11:00:00.000Z')
    t.strictSame((await engine.messageLog()).at(-1), 'firm:sent')
  },
)

t.test(
  'a rejection needs a reason, which is stored, and stops reminders until a person resumes them',
  async (t) => {
    const { messageId, invoice, ada, engine } = await openQueue(t)
    const path = `/settings/approvals/${messageId}`
    const { json } = await ada.get(path)
    const rejected = await ada.submit(`${path}/reject`, { seen: String(json['seen']), reason: '' })
    matches(t, rejected, { status: 422, text: /open>.*Enter a reason\./s })
    matches(t, await ada.send('POST', `${path}/reject`, { reason: 'They called' }), {
      json: {
        status: 'suppressed',
        suppression: { reason: 'approval_rejected', detail: 'They called' },
      },
    })
    matches(t, (await ada.page('/settings/approvals')).text, /Rejected.*They called/s)
    matches(
      t,
      (await ada.page(`/settings/invoices/${invoice.id}`)).text,
      /Blocked: the reminder was rejected.*Resume reminders/s,
    )
    const resumed = await ada.send('POST', `/settings/invoices/${invoice.id}/resume`)
    matches(t, resumed, {
      status: 200,
      json: { chasing: { status: 'active', blocked_reason: null } },
    })
    await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
    t.equal(
      (await engine.messageLog()).at(-1),
      'firm:awaiting_approval',
      'approval is requested again',
    )
  },
)

t.test(
  'a reminder that waits for approval lapses after a pause or a payment, with the reason',
  async (t) => {
    const { engine, debtor, ada, invoice } = await openQueue(t)
    await ada.send('POST', `/settings/customers/${debtor.id}/pause`, { reason: 'A plan' })
    const lapsed = await ada.page('/settings/approvals')
    matches(
      t,
      lapsed.text,
      /No reminder waits for approval.*Lapsed.*the customer was paused: A plan/s,
    )
    await ada.send('POST', `/settings/customers/${debtor.id}/resume`)
    await engine.planAndSendAt('2026-11-23T10:20:00.000Z')
    matches(t, (await ada.get('/settings/approvals')).json['data'], [
      { status: 'awaiting_approval' },
    ])
    const body = { amount: 10_000, currency: 'EUR', invoice_id: invoice.id }
    await engine.testAccount.create('/api/v1/payments', body)
    matches(t, (await ada.page('/settings/approvals')).text, /Lapsed.*a payment was recorded/s)
  },
)

// Regression: the pages claimed that replies are kept in the message log.
t.test(
  'without inbound mail, the pages say where replies go, and what they do not do',
  async (t) => {
    const { ada, messageId } = await openQueue(t, { receivesReplies: false })
    const sender = 'the address from which reminders are sent'
    const approval = await ada.page(`/settings/approvals/${messageId}`)
    matches(t, approval.text, containing(`<dt>Replies go to</dt><dd translate="no">${sender}</dd>`))
    const schedule = await ada.page('/settings/schedule')
    matches(
      t,
      schedule.text,
      containing('They are not kept in the message log, and reminders continue'),
    )
  },
)

// Regression: the page of the reminder named the Admin who had approved it as the one by whom it had lapsed.
t.test('if an approved reminder is cancelled, its page says that it was not sent', async (t) => {
  const { engine, messageId, invoice, ada } = await openQueue(t)
  const { json } = await ada.get('/settings/approvals')
  const [{ seen }] = json['data'] as Json[]
  const approve = () => ada.send('POST', `/settings/approvals/${messageId}/approve`, { seen })
  matches(t, await approve(), { status: 200 })
  const body = { amount: 10_000, currency: 'EUR', invoice_id: invoice.id }
  await engine.testAccount.create('/api/v1/payments', body)
  const { text } = await ada.page(`/settings/messages/${messageId}`)
  matches(t, text, /<dt>Decided<\/dt><dd>approved, but no longer applies, /)
  matches(t, await approve(), {
    status: 409,
    json: { code: 'approval_decided', detail: /because it is cancelled\./ },
  })
})

t.test(
  'the log shows sent messages, and messages that were not sent, with the reason',
  async (t) => {
    const { messageId, debtor, ada } = await openQueue(t)
    await ada.send('POST', `/settings/approvals/${messageId}/reject`, { reason: 'They called' })
    const stages = async (query: string) =>
      ((await ada.get(`/settings/messages?${query}`)).json['data'] as Json[]).map(
        ({ stage }) => stage,
      )
    t.strictSame(await stages(''), ['firm', 'reminder', 'friendly'])
    t.strictSame(await stages('view=sent'), ['reminder', 'friendly'])
    t.strictSame(await stages('view=not_sent'), ['firm'])
    t.strictSame(await stages('reason=approval_rejected'), ['firm'])
    t.strictSame(await stages(`stage=friendly&debtor_id=${debtor.id}`), ['friendly'])
    t.strictSame(await stages('debtor_id=deb_none'), [])
    t.equal((await ada.get('/settings/messages?view=none')).status, 400)
    const page = await ada.page('/settings/messages?reason=approval_rejected')
    matches(t, page.text, /the reminder was rejected/)
    const detail = await ada.get(`/settings/messages/${messageId}`)
    const history = detail.json['history'] as Json[]
    t.strictSame(history.at(-1).status, 'suppressed')
    matches(
      t,
      (await ada.page(`/settings/messages/${messageId}`)).text,
      /They called.*History.*Awaits approval/s,
    )
    const mail = await ada.page(`/settings/messages/${messageId}/html`)
    matches(t, mail.text, containing('Jansen &lt;b&gt;Bouw'))
    const policy = mail.headers.get('content-security-policy') ?? ''
    matches(t, policy, /^default-src 'none';.* sandbox; frame-ancestors 'self'$/)
    t.notMatch(policy, 'script')
    t.equal(mail.headers.get('x-frame-options'), 'SAMEORIGIN')
    t.equal((await ada.page('/settings/messages/msg_none/html')).status, 404)
  },
)

t.test(
  'the kill switch needs a reason, is shown on other pages, and can be released',
  async (t) => {
    const { ada, engine } = await openQueue(t)
    const activate = (body: object) => ada.send('POST', '/settings/kill-switch/on', body)
    matches(t, await activate({}), { status: 422, json: { errors: [{ pointer: '/reason' }] } })
    matches(t, await ada.submit('/settings/kill-switch/on', { reason: '' }), {
      status: 422,
      text: /Enter a reason\./,
    })
    matches(t, await activate({ reason: 'Wrong <amounts>' }), {
      status: 200,
      json: { on: true, reason: 'Wrong <amounts>', changed_by: ADMIN, installation: { on: false } },
    })
    for (const path of ['/settings/api-keys', '/settings/customers', '/settings/login-details']) {
      matches(
        t,
        (await ada.page(path)).text,
        /Reminders are stopped\..*Wrong &lt;amounts&gt;/s,
        path,
      )
    }
    await engine.send()
    matches(t, await ada.get('/settings/reminders'), { status: 200 })
    matches(t, (await ada.get('/settings/kill-switch')).json, { on: true })
    matches(t, await ada.submit('/settings/kill-switch/off', { reason: '' }), { status: 303 })
    t.notMatch((await ada.page('/settings/customers')).text, 'Reminders are stopped')
    await engine.killSwitch({ on: true, reason: 'Provider is down' }, true)
    matches(
      t,
      (await ada.page('/settings/kill-switch')).text,
      /stopped by the operator.*Provider is down/s,
    )
  },
)

t.test('all holidays of a long list are stored, or none of a list that is too long', async (t) => {
  // Regression: the holidays after the 200th were dropped without an error.
  const { ada } = await startEngineWithUsers(t)
  const dates = Array.from({ length: 501 }, (_, n) => addDays('2026-01-01', n))
  const put = (holidays: readonly string[]) => ada.send('PUT', '/settings/schedule', { holidays })
  const most = dates.slice(1)
  matches(t, await put(most), { status: 200, json: { holidays: most } })
  matches(t, await put(dates), {
    status: 422,
    json: { errors: [{ pointer: '/holidays', code: 'too_many' }] },
  })
  matches(t, (await ada.get('/settings/schedule')).json, { holidays: most })
})

t.test(
  'an error quotes the start of a long line of the holidays, without half a character',
  async (t) => {
    // Regression: the quote could end with half of an emoji, which was shown as U+FFFD.
    const { ada } = await startEngineWithUsers(t)
    const { status, text } = await ada.submit('/settings/schedule', {
      ...{ 'ladder/courtesy': '', 'ladder/friendly': '3', 'ladder/reminder': '10' },
      ...{ 'ladder/firm': '21', 'ladder/final': '35', chase_from: '', reply_to: '' },
      holidays: `${'x'.repeat(39)}🎄🎄`,
    })
    t.equal(status, 422)
    matches(t, text, containing(`Line 1, “${'x'.repeat(39)}”, is not a date`))
  },
)

t.test('the schedules of the account and of a customer are shown and changed', async (t) => {
  const { ada, debtor } = await openQueue(t)
  const put = (body: object) => ada.send('PUT', '/settings/schedule', body)
  matches(t, await ada.get('/settings/schedule'), {
    json: { ladder: { courtesy: null, friendly: 3, reminder: 10, firm: 21, final: 35 } },
  })
  matches(
    t,
    await put({
      ladder: { courtesy: -3, friendly: 5 },
      holidays: ['2026-12-25'],
      chase_from: '2026-01-01',
    }),
    {
      status: 200,
      json: {
        ladder: { courtesy: -3, friendly: 5, reminder: 10 },
        holidays: ['2026-12-25'],
        chase_from: '2026-01-01',
      },
    },
  )
  matches(t, await put({ ladder: { firm: 40, reminder: 2.5 } }), {
    status: 422,
    json: { errors: [{ pointer: '/ladder/reminder', code: 'invalid_type' }] },
  })
  matches(t, await put({ ladder: { firm: 40 } }), {
    status: 422,
    json: { errors: [{ pointer: '/ladder/final' }] },
  })
  matches(t, await put({ ladder: { colour: 1 } }), {
    json: { errors: [{ pointer: '/ladder/colour' }] },
  })
  matches(t, await put({ ladder: { courtesy: null }, chase_from: '' }), {
    json: { ladder: { courtesy: null, friendly: 5 }, chase_from: null },
  })
  const form = {
    ...{ 'ladder/courtesy': '', 'ladder/friendly': 'x', 'ladder/reminder': '10' },
    ...{
      'ladder/firm': '21',
      'ladder/final': '35',
      chase_from: '',
      reply_to: '',
      holidays: '2026-12-25\r\n\r\n2026-13-01\r\n25.12.2026',
    },
  }
  const faulty = await ada.submit('/settings/schedule', form)
  t.equal(faulty.status, 422)
  matches(t, faulty.text, /href="#holidays">Line 3, “2026-13-01”, is not a date/)
  matches(t, faulty.text, /id="holidays-fault">Line 3, [^<]*<br>Line 4, “25\.12\.2026”, is not/)
  matches(t, faulty.text, /id="ladder\/friendly-fault">Friendly must be 1 to 365/)
  const tooClose = await ada.submit('/settings/schedule', { ...form, 'ladder/firm': '11' })
  matches(t, tooClose.text, /id="ladder\/firm-fault">Firm must be at least 5 days after reminder\./)
  const valid = { ...form, 'ladder/friendly': '4', holidays: '2026-12-26\r\n2026-12-25' }
  t.equal((await ada.submit('/settings/schedule', valid)).status, 303)
  matches(t, (await ada.get('/settings/schedule')).json, {
    ladder: { friendly: 4 },
    holidays: ['2026-12-25', '2026-12-26'],
  })
  const ownPath = `/settings/customers/${debtor.id}/schedule`
  matches(t, (await ada.get(ownPath)).json, { own: false, ladder: { friendly: 4 } })
  // Regression: after a rejected form, the page said that the customer had its own schedule.
  const unsaved = { 'ladder/friendly': 'x', own: 'yes' }
  const first = await ada.submit(ownPath, unsaved)
  matches(t, first, { status: 422, text: /follows the account’s schedule\./ })
  t.notMatch(first.text, /value="no"/)
  matches(t, await ada.send('PUT', ownPath, { ladder: { friendly: 5 } }), {
    json: { own: true, ladder: { friendly: 5 } },
  })
  matches(t, (await ada.submit(ownPath, unsaved)).text, /has its own schedule\..*value="no"/s)
  matches(
    t,
    (await ada.page(`/settings/customers/${debtor.id}`)).text,
    containing('Friendly after 5 days'),
  )
  // Regression: the page did not show the courtesy reminder of the customer's own schedule.
  await ada.send('PUT', ownPath, { ladder: { courtesy: -3 } })
  matches(
    t,
    (await ada.page(`/settings/customers/${debtor.id}`)).text,
    containing('Courtesy 3 days before the due date, Friendly after 5 days'),
  )
  matches(t, await ada.send('PUT', ownPath, { own: 'no' }), {
    json: { own: false, ladder: { friendly: 4 } },
  })
  t.equal((await ada.page(ownPath)).status, 200)
})

t.test(
  'the preview shows scheduled reminders, and blocked reminders with the reason',
  async (t) => {
    const { ada, engine, debtor } = await openQueue(t)
    const soon = await engine.createInvoice('2026-11-23', { amount: 5000 })
    const paused = await engine.createInvoice('2026-11-01')
    await ada.send('POST', `/settings/customers/${paused.debtor_id}/pause`, { reason: 'A plan' })
    const { json } = await ada.get('/settings/reminders')
    const data = json['data'] as Json[]
    const remindersOf = (id: string) => data.filter(({ debtor_id }) => debtor_id === id)
    matches(t, remindersOf(debtor.id)[0], {
      stage: 'firm',
      requires_approval: true,
      message: { status: 'awaiting_approval' },
    })
    matches(t, remindersOf(soon.debtor_id)[0], {
      ...{ stage: 'friendly', refusal: null, at: /^2026-11-26/ },
      invoices: [{ id: soon.id, amount_due: 5000 }],
    })
    matches(t, remindersOf(paused.debtor_id)[0], { refusal: { reason: 'debtor_paused' } })
    const page = await ada.page('/settings/reminders')
    matches(t, page.text, /Thursday 26 November.*1 reminder/s)
    matches(t, page.text, /Blocked.*the customer is paused/s)
    t.equal((await ada.page('/settings/reminders?day=2026-11-26')).status, 200)
    for (const query of ['days=0', 'days=32', 'day=soon', 'colour=red']) {
      t.equal((await ada.get(`/settings/reminders?${query}`)).status, 400, query)
    }
  },
)

t.test('if every reminder is blocked, the page of a day also shows the reasons', async (t) => {
  // Regression: the page of a day said that the reasons are below, but did not show them.
  const { engine, ada } = await startEngineWithUsers(t)
  const { debtor_id } = await engine.createInvoice('2026-11-23')
  await ada.send('POST', `/settings/customers/${debtor_id}/pause`, { reason: 'A plan' })
  for (const query of ['', '?day=2026-11-26']) {
    const { text } = await ada.page(`/settings/reminders${query}`)
    matches(t, text, /blocked, for the reasons below.*the customer is paused/s, query)
  }
})

t.test('the numbers of planned and blocked reminders lead to these reminders', async (t) => {
  const { engine, ada } = await startEngineWithUsers(t)
  await engine.createInvoice('2026-11-23')
  const other = await engine.createDebtor({ name: 'Paused' })
  const { debtor_id } = await engine.createInvoice('2026-11-23', { debtor_id: other.id })
  await ada.send('POST', `/settings/customers/${debtor_id}/pause`, { reason: 'A plan' })
  const all = await ada.page('/settings/reminders')
  for (const query of ['', '?day=2026-11-26']) {
    const { text } = await ada.page(`/settings/reminders${query}`)
    const anchors = [
      ...text.matchAll(/<dd><a href="\/settings\/reminders#([^"]+)">\d+<\/a><\/dd>/g),
    ]
    t.strictSame(
      anchors.map(([, anchor]) => anchor),
      ['day-2026-11-26', 'blocked'],
      query,
    )
    for (const [, anchor] of anchors) matches(t, all.text, containing(`id="${anchor}"`))
  }
})

t.test('the links of a preview of more days lead to the same number of days', async (t) => {
  // Regression: the links led to the preview of 14 days, in which later days have no reminders.
  const { engine, ada } = await startEngineWithUsers(t)
  await engine.createInvoice('2026-12-16')
  const days = await ada.page('/settings/reminders?days=31')
  matches(
    t,
    days.text,
    containing('<a href="/settings/reminders?days=31&amp;day=2026-12-21#day-2026-12-21">'),
  )
  const day = await ada.page('/settings/reminders?days=31&day=2026-12-21')
  matches(t, day.text, /id="day-2026-12-21">.*1 reminder/s)
  matches(t, day.text, containing('<a href="/settings/reminders?days=31">All days</a>'))
  for (const { text } of [days, day]) {
    matches(t, text, containing('<dd><a href="/settings/reminders?days=31#day-2026-12-21">1</a>'))
  }
})

t.test('the page of a day says if it does not show every reminder of the day', async (t) => {
  // Regression: this page linked to itself as the page with all reminders of the day.
  const { backend, accountId, ada } = await startEngineWithUsers(t)
  const owner = { accountId, isDemo: false, timezone: 'Europe/Amsterdam', paymentTermsDays: 30 }
  await backend.database.transaction(async (tx) => {
    for (let n = 0; n < 501; n++) {
      const debtor = await createDebtor(tx, owner, plainDebtor(), backend.now)
      await createInvoice(tx, owner, plainInvoice({ debtor, dueDate: '2026-11-23' }), backend.now)
    }
  })
  // On a busy machine, computing the preview takes longer than a page waits.
  const complete = (path: string) =>
    until(async () => {
      const page = await ada.page(path)
      return !page.text.includes('data-reload') && page
    }, 'the preview is complete')
  const days = await complete('/settings/reminders')
  matches(t, days.text, /">The first 500 of 501 reminders of this day</)
  const day = await complete('/settings/reminders?day=2026-11-26')
  matches(t, day.text, /Only the first 500 reminders of this day are shown\./)
  t.notMatch(day.text, /501 reminders of this day/)
})

t.test('a Member can read all pages of reminders, but not decide or change anything', async (t) => {
  const { backend, messageId, debtor } = await openQueue(t)
  const mia = await logIn(backend, MEMBER)
  for (const path of [
    ...['reminders', 'schedule', 'approvals', 'messages', 'kill-switch'],
    ...[`approvals/${messageId}`, `messages/${messageId}`, `customers/${debtor.id}/schedule`],
  ]) {
    const page = await mia.page(`/settings/${path}`)
    t.equal(page.status, 200, path)
    t.notMatch(
      page.text,
      /<button(?![^<]*(?:Log out|Filter|Search))/,
      `${path}: no button that changes anything`,
    )
  }
  t.notMatch(
    (await mia.page(`/settings/messages/${messageId}`)).text,
    'ap1@jansen-bouw.nl',
    'the address is masked',
  )
  for (const [method, path] of [
    ['POST', `approvals/${messageId}/approve`],
    ['POST', `approvals/${messageId}/reject`],
    ['POST', `approvals/${messageId}/take-back`],
    ['POST', 'kill-switch/on'],
    ['POST', 'kill-switch/off'],
    ['PUT', 'schedule'],
    ['POST', 'schedule'],
    ['PUT', `customers/${debtor.id}/schedule`],
  ] as const) {
    matches(t, await mia.send(method, `/settings/${path}`, {}), { status: 403 }, path)
  }
  t.equal((await mia.page(`/settings/approvals/${messageId}/approve`)).status, 403)
})

// Regression: a reminder on the eighth day, before the present time of day, made Home say that not all were counted.
t.test('the count of the reminders of some days ends with the last of these days', async (t) => {
  const { engine, backend, accountId } = await startEngineWithUsers(t)
  for (const dueOn of ['2026-11-22', '2026-11-28']) await engine.createInvoice(dueOn)
  await engine.plan('2026-11-24T10:15:00.000Z')
  const { read } = backend.database
  const account = await getAccount(read, accountId)
  const count = (days: number) => countUpcomingDebtors(read, account, backend.now, { days, max: 1 })
  const week = await count(7)
  t.strictSame(
    week.days.filter(({ debtors }) => debtors > 0),
    [{ date: '2026-11-25', debtors: 1 }],
  )
  t.equal(week.isTruncated, false)
  t.equal((await count(8)).isTruncated, true)
})

// Regression: the member of the JSON was named `debtors`, and not as in the OpenAPI document.
t.test('the JSON of Home counts the customers who will be reminded on each day', async (t) => {
  const { engine, logInAdmin } = await startEngineWithUsers(t)
  await engine.createInvoice('2026-11-22')
  await engine.plan('2026-11-24T10:15:00.000Z')
  const { reminders } = (await (await logInAdmin()).get('/settings')).json as Json
  t.strictSame(reminders.by_day.slice(0, 2), [
    { date: '2026-11-24', customers: 0 },
    { date: '2026-11-25', customers: 1 },
  ])
})

// Regression: Home said that no reminder was due, although the calendar showed one at the end of the pause.
t.test('Home says that it does not count reminders after a pause', async (t) => {
  const { engine, logInAdmin } = await startEngineWithUsers(t)
  const { id } = await engine.createInvoice('2026-11-13')
  await engine.planAndSendAt('2026-11-17T10:00:00.000Z')
  const payment = { invoice_id: id, currency: 'EUR', amount: 4000 }
  await engine.testAccount.create('/api/v1/payments', payment)
  await engine.plan('2026-11-23T08:00:00.000Z')
  const ada = await logInAdmin()
  matches(t, (await ada.page('/settings/reminders')).text, /Tuesday 24 November/)
  const { text } = await ada.page('/settings')
  matches(
    t,
    text,
    /No reminder is scheduled for the next seven days\. .+ paused now are not counted/,
  )
})

// Regression: the last day ended at the present time of day, so in the morning the calendar showed no reminder on it.
t.test('the preview covers the whole of its last day', async (t) => {
  const { engine, backend, logInAdmin } = await startEngineWithUsers(t)
  const { id } = await engine.createInvoice('2026-12-05')
  const { debtor_id } = await engine.createInvoice('2026-12-06')
  await engine.plan('2026-11-24T06:00:00.000Z')
  const ada = await logInAdmin()
  const { json } = await ada.get('/settings/reminders')
  matches(t, json['data'], [{ at: '2026-12-08T07:00:00.000Z', invoices: [{ id }] }])
  const { text } = await ada.page('/settings/reminders')
  matches(t, text, /class="day has-reminders"><a href="\/settings\/reminders\?day=2026-12-08#/)
  matches(t, text, /class="day outside"><time datetime="2026-12-09">/)
  backend.now = new Date('2026-11-25T06:00:00.000Z')
  const tomorrow = await (await logInAdmin()).get('/settings/reminders')
  matches(t, tomorrow.json['data'], [{ invoices: [{ id }] }, { debtor_id }])
})

// Regression: the page was empty after five seconds if many customers owe something.
t.test(
  'before the preview is computed, the page counts the customers with a reminder',
  async (t) => {
    const { engine, backend, accountId, ada } = await startEngineWithUsers(t)
    for (const dueOn of ['2026-11-20', '2026-11-20', '2026-11-23'])
      await engine.createInvoice(dueOn)
    await engine.plan('2026-11-21T10:15:00.000Z')
    const [page] = reminderPages(0)
    const { timezone } = await getAccount(backend.database.read, accountId)
    const session = { user: { role: 'admin' }, account: { id: accountId, timezone, isDemo: false } }
    const request = {
      session,
      query: new URLSearchParams('days=10'),
      now: backend.now,
      wantsJson: false,
    }
    const response = await page?.handle(request as never, { database: backend.database } as never)
    const frame = { session, csrfToken: '', flash: null, killSwitch: undefined }
    const { text = '' } = response?.page?.(frame as never) ?? {}
    matches(
      t,
      text,
      /data-reload>.*still being computed.*href="\/settings\/reminders\?days=10">Reload</s,
    )
    matches(t, text, /class="amount">2<\/td>.*class="amount">1<\/td>/s)
    matches(t, (await ada.page('/settings/reminders')).text, /To be sent/)
  },
)
