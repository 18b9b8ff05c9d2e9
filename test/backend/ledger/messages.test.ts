import t from 'tap'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches } from '../../fixtures/matches.ts'

t.test(
  'a payment cancels unsent messages about its invoice, and reports the messages that are being sent',
  async (t) => {
    const testAccount = await openTestAccount(t)
    const paid = await testAccount.createInvoice()
    const other = await testAccount.createInvoice({ debtor_id: paid.debtor_id })
    const cancellable = ['scheduled', 'awaiting_approval', 'approved', 'queued'] as const
    const cancelled: string[] = []
    for (const status of cancellable)
      cancelled.push(await testAccount.insertMessage([other, paid], { status }))
    const sending = await testAccount.insertMessage([paid], { status: 'sending' })
    const sent = await testAccount.insertMessage([paid], { status: 'sent' })
    const inbound = await testAccount.insertMessage([paid], {
      status: 'received',
      direction: 'inbound',
    })
    const aboutOther = await testAccount.insertMessage([other])
    testAccount.backend.now = new Date('2026-11-22T00:00:00.000Z')
    const payment = await testAccount.create('/api/v1/payments', {
      invoice_id: paid.id,
      amount: 1,
      currency: 'EUR',
    })
    matches(t, payment.effects, { messages_cancelled: 4, messages_in_flight: [sending] })
    const { data } = await testAccount.read('/api/v1/messages')
    const statuses = new Map(
      data.map(({ id, status }: { id: string; status: string }) => [id, status]),
    )
    t.ok(cancelled.every((id) => statuses.get(id) === 'cancelled'))
    t.strictSame(
      [sending, sent, inbound, aboutOther].map((id) => statuses.get(id)),
      ['queued', 'sent', 'received', 'scheduled'],
    )
    const changed = await testAccount.read('/api/v1/messages?updated_since=2026-11-22T00:00:00Z')
    t.equal(changed.data.length, 4)
  },
)

t.test('a payment on account that covers no invoice cancels no messages', async (t) => {
  const testAccount = await openTestAccount(t)
  const invoice = await testAccount.createInvoice()
  await testAccount.insertMessage([invoice])
  const body = { debtor_id: invoice.debtor_id, amount: 1, currency: 'EUR' }
  t.equal((await testAccount.create('/api/v1/payments', body)).effects.messages_cancelled, 0)
})

t.test('a message shows its recipient masked and its text without markup', async (t) => {
  const testAccount = await openTestAccount(t)
  const invoice = await testAccount.createInvoice()
  const body = `<style>p { color: red }</style><p>Dear <b>Jansen</b>,</p>\n\n ${'word '.repeat(100)}`
  await testAccount.insertMessage([invoice], {
    body,
    status: 'bounced',
    stage: 'final',
    approval_required: 1,
    approval_status: 'approved',
    approval_decided_by: JSON.stringify({ type: 'user', id: 'usr_1', label: 'Sam' }),
    approval_decided_at: '2026-11-20T07:45:12.006Z',
    bounce_type: 'hard',
    bounce_code: '5.1.1',
    provider_message_id: '<1@mail.example>',
  })
  const { data } = await testAccount.read('/api/v1/messages')
  matches(t, data[0], {
    object: 'message',
    debtor_id: invoice.debtor_id,
    invoice_ids: [invoice.id],
    channel: 'email',
    direction: 'outbound',
    kind: 'reminder',
    stage: 'final',
    status: 'bounced',
    suppression: null,
    approval: { required: true, status: 'approved', decided_by: 'Sam' },
    to: 'a•••@jansen.example',
    amount_due: 10_000,
    currency: 'EUR',
    currency_exponent: 2,
    days_past_due: 3,
    delivery: {
      provider_message_id: '<1@mail.example>',
      delivered_at: null,
      bounce: { type: 'hard', code: '5.1.1' },
    },
  })
  matches(t, data[0].preview, /^Dear Jansen , word word .*…$/)
  t.equal([...data[0].preview].length, 200)
})

// Regression: if the end tag was not in the part that is used for the preview, the styles were shown as text.
t.test('the preview of a message contains none of its styles, however long they are', async (t) => {
  const testAccount = await openTestAccount(t)
  const invoice = await testAccount.createInvoice()
  const body = `<p>We paid.</p><style>${'p { color: red } '.repeat(300)}</style><p>Jansen</p>`
  await testAccount.insertMessage([invoice], { body })
  matches(t, (await testAccount.read('/api/v1/messages')).data, [{ preview: 'We paid.' }])
})

t.test('fields without a value are null', async (t) => {
  const testAccount = await openTestAccount(t)
  const empty = { stage: null, recipient: null, subject: null, body: null, amount_due: null }
  await testAccount.insertMessage([await testAccount.createInvoice()], {
    ...empty,
    currency: null,
    days_past_due: null,
    status: 'suppressed',
    suppression_reason: 'kill_switch',
  })
  const { data } = await testAccount.read('/api/v1/messages')
  matches(t, data[0], {
    stage: null,
    suppression: { reason: 'kill_switch', detail: null },
    approval: null,
    to: null,
    subject: null,
    preview: null,
    amount_due: null,
    currency: null,
    currency_exponent: null,
    delivery: { bounce: null },
  })
})

t.test('telephone numbers are masked, and postal addresses are hidden', async (t) => {
  const testAccount = await openTestAccount(t)
  const invoice = await testAccount.createInvoice()
  await testAccount.insertMessage([invoice], { channel: 'sms', recipient: '+31612345678' })
  await testAccount.insertMessage([invoice], {
    channel: 'letter',
    recipient: 'Keizersgracht 1, Amsterdam',
  })
  const { data } = await testAccount.read('/api/v1/messages?sort=created_at')
  t.strictSame(
    data.map(({ to }: { to: string }) => to),
    ['•••678', '•••'],
  )
})

t.test('messages are found by each filter', async (t) => {
  const testAccount = await openTestAccount(t)
  const a = await testAccount.createInvoice()
  const b = await testAccount.createInvoice()
  const sms = await testAccount.insertMessage([a], {
    channel: 'sms',
    stage: 'firm',
    status: 'sending',
  })
  const mail = await testAccount.insertMessage([a, b], {
    status: 'sent',
    sent_at: '2026-11-21T11:00:00.000Z',
  })
  const ids = async (query: string) =>
    (await testAccount.read(`/api/v1/messages?${query}`)).data.map(({ id }: { id: string }) => id)
  t.strictSame(await ids('channel=sms'), [sms])
  t.strictSame(await ids('stage=firm'), [sms])
  t.strictSame(await ids('status=queued'), [sms])
  t.strictSame(await ids(`invoice_id=${b.id}`), [mail])
  t.strictSame(await ids(`debtor_id=${a.debtor_id}`), [mail, sms])
  t.strictSame(await ids('sent_since=2026-11-21T11:00:00Z&sent_before=2026-11-21T11:00:01Z'), [
    mail,
  ])
  t.strictSame(await ids('sent_before=9999-12-31T23:59:59.999999Z'), [mail])
  t.equal((await testAccount.get('/api/v1/messages?status=sending')).status, 400)
  t.strictSame((await (await testAccount.otherAccount()).read('/api/v1/messages')).data, [])
})
