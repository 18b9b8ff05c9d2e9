// Decisions on reminders: pages state the consequences, and a decision can be taken back until the reminder is sent.
import t, { type Test } from 'tap'
import { formOf } from '../../fixtures/accounts/money-settings.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startEngineWithUsers } from '../../fixtures/reminders/engine.ts'
import { ADMIN, createUserIn, logIn, MEMBER } from '../../fixtures/service/settings.ts'

/** Starts on 23 November, at the given time in UTC, with a firm reminder that waits for approval. */
async function openQueue(t: Test, time: string) {
  const { engine, backend, logInAdmin } = await startEngineWithUsers(t)
  const invoice = await engine.createInvoice('2026-11-02')
  for (const day of ['05', '12', '23']) await engine.planAndSendAt(`2026-11-${day}T10:00:00.000Z`)
  backend.now = new Date(`2026-11-23T${time}:00.000Z`)
  const id = (await engine.messages()).at(-1)?.id ?? ''
  const path = `/settings/approvals/${id}`
  const ada = await logInAdmin()
  const lastLogEntry = async () => (await engine.messageLog()).at(-1)
  return { engine, invoice, ada, path, id, lastLogEntry }
}

type Queue = Awaited<ReturnType<typeof openQueue>>

/** Opens the confirmation from the page of the reminder, and confirms. */
async function approve({ ada, path }: Queue) {
  const [, href = ''] =
    /href="([^"]+)" data-dialog-page>Approve/.exec((await ada.page(path)).text) ?? []
  const confirmation = await ada.page(href)
  const response = await ada.submit(
    `${path}/approve`,
    Object.fromEntries(formOf(confirmation, `${path}/approve`)),
  )
  return { confirmation, response }
}

t.test('in business hours an approval is final, and the confirmation says so', async (t) => {
  const queue = await openQueue(t, '10:30')
  const { confirmation, response } = await approve(queue)
  matches(t, confirmation.text, /is sent to.*ap1@jansen-bouw\.nl.* now.*This cannot be undone/s)
  matches(t, response, { status: 303 })
  const after = await queue.ada.page('/settings/approvals')
  matches(t, after.text, /Approved\. The reminder is being sent\./)
  t.notMatch(after.text, /class="undo"/)
  await queue.engine.planAndSendAt('2026-11-23T10:31:00.000Z')
  t.equal(await queue.lastLogEntry(), 'firm:sent')
  matches(t, await queue.ada.send('POST', `${queue.path}/take-back`), {
    status: 409,
    json: { code: 'approval_decided' },
  })
})

// Regression: the response said that it was too late to take the decision back.
t.test('before a decision, there is none to take back', async (t) => {
  const { ada, path } = await openQueue(t, '10:30')
  matches(t, await ada.send('POST', `${path}/take-back`), {
    status: 409,
    json: { code: 'approval_decided', detail: /neither approved nor rejected/ },
  })
})

// Regression: the confirmation said that the reminder is sent now and that this cannot be undone, and there was no
// Undo.
t.test('an approval on a day on which another reminder was sent can be taken back', async (t) => {
  const queue = await openQueue(t, '10:30')
  const { engine, invoice, ada, path } = queue
  const { debtor_id } = invoice
  const sentToday = await engine.createInvoice('2026-11-20', { debtor_id })
  await engine.planAndSendAt('2026-11-23T10:31:00.000Z')
  matches(t, await engine.testAccount.read(`/api/v1/invoices/${sentToday.id}`), {
    chasing: { last_message_at: '2026-11-23T10:31:00.000Z' },
  })
  const { confirmation } = await approve(queue)
  matches(t, confirmation.text, /is sent to.*24 Nov 2026.*you can take the approval back/s)
  const after = await ada.page('/settings/approvals')
  // Regression: the page said only that the reminder is sent in the next business hours.
  matches(t, after.text, /another reminder was already sent today, on the next business day\./)
  matches(t, after.text, /class="undo"/)
  await engine.planAndSendAt('2026-11-23T10:32:00.000Z')
  t.strictSame((await engine.messageLog()).slice(2), ['firm:approved', 'friendly:sent'])
  matches(t, await ada.send('POST', `${path}/take-back`), { status: 200 })
})

t.test('a link with a malformed id leads to a page that does not exist', async (t) => {
  // Regression: the response was 500, because a header cannot contain the characters of the id.
  const { ada } = await openQueue(t, '20:00')
  const { status, headers } = await ada.page('/settings/approvals/%F0%9F%98%80/approve')
  t.equal(status, 303)
  t.equal(headers.get('location'), '/settings/messages/%F0%9F%98%80')
  t.equal((await ada.page('/settings/messages/%F0%9F%98%80')).status, 404)
})

t.test('outside of business hours an approval can be taken back', async (t) => {
  const queue = await openQueue(t, '20:00')
  const { engine, ada, path, lastLogEntry } = queue
  const { confirmation } = await approve(queue)
  matches(t, confirmation.text, /on .*24 Nov 2026, 08:00.*business hours begin.*Until then/s)
  const after = await ada.page('/settings/approvals')
  matches(t, after.text, /Approved\. The reminder is sent when/)
  matches(t, after.text, containing(`action="${path}/take-back" class="undo"`))
  const message = await ada.page(`/settings/messages/${queue.id}`)
  matches(t, message.text, /Take the approval back/)
  matches(t, await ada.submit(`${path}/take-back`, {}), { status: 303 })
  t.equal(await lastLogEntry(), 'firm:awaiting_approval')
  await engine.planAndSendAt('2026-11-24T10:00:00.000Z')
  t.equal(await lastLogEntry(), 'firm:awaiting_approval', 'nothing is sent')
  t.strictSame(await engine.service.auditActions('message.'), [
    'message.approved',
    'message.approval_taken_back',
  ])
  // The session of the previous day has ended.
  await approve({ ...queue, ada: await logIn(engine.testAccount.backend, ADMIN) })
  await engine.planAndSendAt('2026-11-24T10:01:00.000Z')
  t.equal(await lastLogEntry(), 'firm:sent')
})

t.test('after a rejection is taken back, the reminder is planned again', async (t) => {
  const { engine, ada, path, lastLogEntry, invoice } = await openQueue(t, '10:30')
  await ada.submit(`${path}/reject`, { reason: 'They called' })
  matches(t, (await ada.page('/settings/approvals')).text, containing(`action="${path}/take-back"`))
  matches(t, await ada.submit(`${path}/take-back`, {}), { status: 303 })
  matches(t, (await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)).chasing, {
    status: 'active',
    blocked_reason: null,
  })
  await engine.planAndSendAt('2026-11-23T10:45:00.000Z')
  t.equal(await lastLogEntry(), 'firm:awaiting_approval')
  matches(t, await ada.send('POST', `${path}/take-back`), { status: 409 })
})

t.test('a rejection cannot be taken back after a later reminder was rejected', async (t) => {
  const { engine, ada, path, invoice } = await openQueue(t, '10:30')
  await ada.submit(`${path}/reject`, { reason: 'They called' })
  await ada.send('POST', `/settings/invoices/${invoice.id}/resume`)
  await engine.planAndSendAt('2026-11-23T10:45:00.000Z')
  await engine.decide({ approve: false, reason: 'They are moving' })
  matches(t, await ada.send('POST', `${path}/take-back`), { status: 409 })
  const { blocked_reason: blocked } = (
    await engine.testAccount.read(`/api/v1/invoices/${invoice.id}`)
  ).chasing
  t.equal(blocked, 'approval_rejected')
})

t.test('Members and other accounts cannot take a decision back', async (t) => {
  const queue = await openQueue(t, '20:00')
  const { engine, ada, path, id, lastLogEntry } = queue
  const { backend } = engine.testAccount
  await approve(queue)
  const other = await backend.createAccount()
  await createUserIn(backend, other.id, 'eve@other.example', 'admin')
  const [mia, eve] = [await logIn(backend, MEMBER), await logIn(backend, 'eve@other.example')]
  matches(t, await mia.send('POST', `${path}/take-back`), {
    status: 403,
    json: { code: 'admin_required' },
  })
  t.notMatch((await mia.page(`/settings/messages/${id}`)).text, /take-back/)
  t.equal((await ada.submit(`${path}/take-back`, { csrf_token: 'x' })).status, 403)
  for (const action of ['take-back', 'approve', 'reject']) {
    const body = action === 'reject' ? { reason: 'x' } : undefined
    t.equal((await eve.send('POST', `${path}/${action}`, body)).status, 404, action)
  }
  for (const url of [path, `/settings/messages/${id}`, `/settings/messages/${id}/html`]) {
    t.equal((await eve.get(url)).status, 404, url)
  }
  t.equal(await lastLogEntry(), 'firm:approved')
})

t.test('the approval queue has pages, the oldest reminders first', async (t) => {
  // Regression: the queue ended after 100 reminders, and JSON said that there were no more.
  const { engine, logInAdmin } = await startEngineWithUsers(t)
  for (let n = 0; n < 3; n++) await engine.createInvoice('2026-11-02')
  for (const day of ['05', '12', '23']) await engine.planAndSendAt(`2026-11-${day}T10:00:00.000Z`)
  const ada = await logInAdmin()
  const read = async (query: string) => {
    const { json } = await ada.get(`/settings/approvals?${query}`)
    return {
      ids: (json['data'] as { id: string }[]).map(({ id }) => id),
      next: json['next_cursor'],
    }
  }
  const all = await read('')
  t.equal(all.ids.length, 3)
  t.equal(all.next, null)
  const first = await read('limit=2')
  t.strictSame(first, { ids: all.ids.slice(0, 2), next: all.ids[1] })
  t.strictSame(await read(`limit=2&cursor=${first.next}`), { ids: all.ids.slice(2), next: null })
  const page = await ada.page('/settings/approvals?limit=2')
  matches(t, page.text, containing('3 reminders wait for approval. The oldest are shown first.'))
  matches(t, page.text, containing(`/settings/approvals?limit=2&amp;cursor=${first.next}`))
  t.equal((await ada.get('/settings/approvals?cursor=msg_1')).status, 400)
})
