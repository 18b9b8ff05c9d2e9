// The effects of inbound mail: bounces, complaints and replies.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { setReplyAddress } from '../../../backend/accounts/reply-address.ts'
import type { MessageRow, ReminderRow } from '../../../backend/database/tables.ts'
import { pauseChasing } from '../../../backend/debtors/chasing.ts'
import { clearSuppression } from '../../../backend/debtors/contactability.ts'
import type { TestAccount } from '../../fixtures/accounts/test-account.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import {
  INBOUND_SECRET,
  type MailService,
  startMailService,
} from '../../fixtures/reminders/mail-service.ts'
import { complaint, deliveryReport, readReceipt, reply } from '../../fixtures/servers/inbound.ts'
import { createUserIn } from '../../fixtures/service/settings.ts'

const EMAIL = 'ap@jansen.nl'

async function createSentReminder(
  { testAccount }: MailService,
  overrides: Partial<MessageRow> = {},
) {
  const debtor = await testAccount.createDebtor({ email: EMAIL })
  const invoice = await testAccount.createInvoice({ debtor_id: debtor.id })
  const sent_at = testAccount.backend.now.toISOString()
  const id = await testAccount.insertMessage([invoice], {
    status: 'sent',
    recipient: EMAIL,
    sent_at,
    ...overrides,
  })
  await testAccount.backend.database.transaction((tx) =>
    tx
      .insertInto('reminders')
      .values(plannedReminder(testAccount, debtor.id, id))
      .execute(),
  )
  return { debtor, invoice, id }
}

function plannedReminder(
  { accountId, backend }: TestAccount,
  debtorId: string,
  messageId: string,
): ReminderRow {
  return {
    message_id: messageId,
    account_id: accountId,
    debtor_id: debtorId,
    facts: '{}',
    approved_hash: null,
    payment_digest: null,
    run_at: null,
    lease: null,
    attempts: 1,
    unknown_outcomes: 0,
    planned_at: backend.now.toISOString(),
  }
}

async function messageOf({ testAccount }: MailService, id: string) {
  const { data } = await testAccount.read('/api/v1/messages')
  return data.find((message: { id: string }) => message.id === id)
}

t.test('a hard bounce stops reminders to the bounced address, and to no other', async (t) => {
  const service = await startMailService(t)
  const { testAccount, post } = service
  const { debtor, id } = await createSentReminder(service)
  const sameAddress = await testAccount.createDebtor({ email: EMAIL })
  const other = await testAccount.createDebtor({ email: 'info@jansen.nl' })
  matches(t, await post(deliveryReport({ messageId: id })), {
    status: 200,
    json: { kind: 'bounce', message_id: id },
  })
  matches(t, await messageOf(service, id), {
    status: 'bounced',
    delivery: { bounce: { type: 'hard', code: '5.1.1' } },
  })
  for (const { id } of [debtor, sameAddress]) {
    matches(t, await testAccount.read(`/api/v1/debtors/${id}`), {
      contactability: { email: 'bounced' },
      chasing: { status: 'paused', reason: 'bounced' },
    })
  }
  matches(t, await testAccount.read(`/api/v1/debtors/${other.id}`), {
    contactability: { email: 'ok' },
    chasing: { status: 'active' },
  })
  t.strictSame(await service.events(), [
    'message.bounced',
    'debtor.contactability_changed',
    'debtor.updated',
    'debtor.contactability_changed',
    'debtor.updated',
  ])
})

// Regression: after a report about one member of a mailing list, the account sent no more reminders to the list.
t.test(
  'a report about one address to which the recipient forwards mail has no effect',
  async (t) => {
    const service = await startMailService(t)
    const { debtor, id } = await createSentReminder(service)
    const contactability = async () =>
      (await service.testAccount.read(`/api/v1/debtors/${debtor.id}`)).contactability.email
    const forwarded = deliveryReport({ messageId: id, finalRecipient: 'left@jansen.nl' })
    matches(t, await service.post(forwarded), { json: { kind: 'bounce', message_id: id } })
    const soft = { status: '4.2.2', diagnostic: 'smtp; 452 4.2.2 full' }
    await service.post(deliveryReport({ messageId: id, finalRecipient: 'eve@jansen.nl', ...soft }))
    t.equal((await messageOf(service, id)).status, 'sent')
    t.equal(await contactability(), 'ok')
    // A report can be about several recipients.
    const both = forwarded.replace(
      '\r\nFinal-Recipient:',
      `\r\nFinal-Recipient: rfc822; <${EMAIL.toUpperCase()}>\r\nAction: failed\r\nStatus: 5.1.2\r\n\r\nFinal-Recipient:`,
    )
    await service.post(both)
    matches(t, await messageOf(service, id), {
      status: 'bounced',
      delivery: { bounce: { type: 'hard', code: '5.1.2' } },
    })
    t.equal(await contactability(), 'bounced')
  },
)

t.test('a report without a readable address is about the recipient', async (t) => {
  for (const lines of [
    '',
    'Final-Recipient: X400; /G=AP/\r\nOriginal-Recipient: rfc822;ap@jansen.nl\r\n',
  ]) {
    const service = await startMailService(t)
    const { id } = await createSentReminder(service)
    const report = deliveryReport({ messageId: id })
    await service.post(report.replace(/Final-Recipient: .*\r\n.*\r\n/, lines))
    t.equal((await messageOf(service, id)).status, 'bounced')
  }
})

t.test(
  'after a soft bounce, a message is retried three times in 48 hours; then it counts as bounced',
  async (t) => {
    const service = await startMailService(t)
    const { testAccount, post } = service
    const { debtor, id } = await createSentReminder(service)
    const start = testAccount.backend.now
    const soft = (n: number) =>
      deliveryReport({ messageId: id, status: '4.2.2', diagnostic: `smtp; 452 4.2.2 full (${n})` })
    const waitHours: number[] = []
    for (const n of [1, 2, 3]) {
      await post(soft(n))
      const { status, scheduled_for } = await messageOf(service, id)
      t.equal(status, 'queued')
      await post(soft(n + 10))
      t.equal(
        (await messageOf(service, id)).scheduled_for,
        scheduled_for,
        'the retry is scheduled only once',
      )
      waitHours.push((Date.parse(scheduled_for) - testAccount.backend.now.getTime()) / 3_600_000)
      testAccount.backend.now = new Date(scheduled_for)
      await service.setMessage(id, { status: 'sent' })
    }
    t.strictSame(waitHours, [0.5, 11.5, 36])
    t.equal(testAccount.backend.now.getTime() - start.getTime(), 48 * 3_600_000)
    await post(soft(4))
    matches(t, await messageOf(service, id), {
      status: 'bounced',
      delivery: { bounce: { type: 'soft' } },
    })
    matches(t, await testAccount.read(`/api/v1/debtors/${debtor.id}`), {
      contactability: { email: 'bounced' },
    })
  },
)

t.test('a report is matched to its message by any id that the report contains', async (t) => {
  const service = await startMailService(t)
  const providerMessageId = '<0102018b5c3c0a4f-77@eu-west-1.amazonses.com>'
  for (const [references, overrides] of [
    [{ envelopeId: false, header: '<changed@relay.nl>' }, {}],
    [{ envelopeId: false, ownHeader: false }, {}],
    [{ ownHeader: false, header: '<changed@relay.nl>' }, {}],
    [
      { envelopeId: false, ownHeader: false, header: providerMessageId },
      { provider_message_id: providerMessageId },
    ],
  ] as const) {
    const { id } = await createSentReminder(service, overrides)
    const response = await service.post(deliveryReport({ messageId: id, references }))
    matches(t, response.json, { kind: 'bounce', message_id: id }, JSON.stringify(references))
  }
})

t.test('reports of large mail servers are classified as hard or soft', async (t) => {
  const service = await startMailService(t)
  for (const [status, diagnostic, expected] of [
    [
      '5.1.1',
      'smtp; 550-5.1.1 The email account that you tried to reach does\n not exist.',
      'hard',
    ],
    ['5.0.0', 'smtp; 550 5.1.1 <ap@jansen.nl> User unknown', 'hard'],
    ['5.0.0', 'smtp; 550 No such user', 'hard'],
    // Regression: Exim reports 5.0.0 for every reply without an enhanced code, and a full mailbox was suppressed.
    ['5.0.0', 'smtp; 552 Mailbox full', 'soft'],
    ['5.0.0', 'x-local; unknown user', 'hard'],
    ['5.1.10', 'smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound; not found', 'hard'],
    ['5.2.2', 'smtp; 552-5.2.2 The inbox is out of storage space', 'soft'],
    ['5.7.1', 'smtp; 550 5.7.1 Our policy forbids it', 'soft'],
    ['4.4.7', 'smtp; 421 4.4.1 connection timed out', 'soft'],
  ] as const) {
    const { id } = await createSentReminder(service)
    await service.post(deliveryReport({ messageId: id, status, diagnostic }))
    const { delivery } = await messageOf(service, id)
    t.equal(delivery.bounce.type, expected, diagnostic)
  }
})

t.test(
  'a delivery report marks the message as delivered; a report of a delay changes nothing',
  async (t) => {
    const service = await startMailService(t)
    const { id } = await createSentReminder(service)
    await service.post(deliveryReport({ messageId: id, action: 'delayed', status: '4.4.1' }))
    matches(t, await messageOf(service, id), { status: 'sent' })
    await service.post(deliveryReport({ messageId: id, action: 'relayed', status: '2.0.0' }))
    matches(t, await messageOf(service, id), { status: 'sent' }, 'relayed is not delivered')
    await service.post(deliveryReport({ messageId: id, action: 'delivered', status: '2.1.5' }))
    const at = service.testAccount.backend.now.toISOString()
    matches(t, await messageOf(service, id), {
      status: 'delivered',
      delivery: { delivered_at: at },
    })
    t.strictSame(await service.events(), ['message.delivered'])
    const { id: toAlias } = await createSentReminder(service)
    await service.post(deliveryReport({ messageId: toAlias, action: 'expanded', status: '2.0.0' }))
    matches(t, await messageOf(service, toAlias), { status: 'delivered' })
  },
)

t.test('a soft bounce also undoes an earlier report of delivery', async (t) => {
  // Regression: the queued message still had the time of its delivery, and became `delivered` when it was sent.
  const service = await startMailService(t)
  const { id } = await createSentReminder(service)
  await service.post(deliveryReport({ messageId: id, action: 'delivered', status: '2.1.5' }))
  await service.post(deliveryReport({ messageId: id, status: '4.2.2' }))
  matches(t, await messageOf(service, id), {
    status: 'queued',
    sent_at: null,
    delivery: { delivered_at: null },
  })
})

t.test('a complaint stops reminders permanently, and cannot be cleared', async (t) => {
  const service = await startMailService(t)
  const { debtor, id } = await createSentReminder(service)
  await service.post(complaint(id, 'not-spam'))
  // Regression: a report of a failed DKIM or DMARC check counted as a complaint.
  await service.post(complaint(id, 'auth-failure'))
  matches(t, await service.testAccount.read(`/api/v1/debtors/${debtor.id}`), {
    contactability: { email: 'ok' },
  })
  matches(t, (await service.post(complaint(id))).json, { kind: 'complaint', message_id: id })
  matches(t, await service.testAccount.read(`/api/v1/debtors/${debtor.id}`), {
    contactability: { email: 'complained' },
    chasing: { status: 'paused', reason: 'complained' },
  })
  await rejectsWith(t, service.clearSuppression(debtor.id), { code: 'address_suppressed' })
})

t.test('a reply is logged, and pauses chasing until a person resumes it', async (t) => {
  const service = await startMailService(t)
  const { debtor, invoice, id } = await createSentReminder(service)
  await service.post(reply(id))
  const { data } = await service.testAccount.read('/api/v1/messages?status=received')
  matches(t, data, [
    {
      debtor_id: debtor.id,
      invoice_ids: [invoice.id],
      direction: 'inbound',
      kind: 'reply',
      subject: 'Re: Rechnung für INV-1',
      preview: 'We paid last week.',
    },
  ])
  matches(t, await service.testAccount.read(`/api/v1/debtors/${debtor.id}`), {
    chasing: { status: 'paused', reason: 'replied', until: null },
  })
  t.strictSame(await service.events(), ['message.received', 'debtor.updated'])
})

t.test('a reply removes the end of a pause', async (t) => {
  // Regression: reminders continued after the reply, at the time until which a person had paused them.
  const service = await startMailService(t)
  const { testAccount } = service
  const { debtor, id } = await createSentReminder(service)
  const { accountId, backend } = testAccount
  const pauseReminders = (reason: string, until: Date | null) =>
    backend.database.transaction((tx) =>
      pauseChasing(
        tx,
        accountId,
        debtor.id,
        { reason, until },
        { actor: OPERATOR, now: backend.now },
      ),
    )
  const chasing = async () => (await testAccount.read(`/api/v1/debtors/${debtor.id}`)).chasing
  await pauseReminders('pays on Friday', new Date(backend.now.getTime() + 86_400_000))
  await service.post(reply(id))
  t.strictSame(await chasing(), { status: 'paused', reason: 'replied', until: null })
  await pauseReminders('a lawyer is involved', null)
  await service.post(reply(id, { body: 'Please wait.\n' }))
  t.strictSame(
    await chasing(),
    { status: 'paused', reason: 'a lawyer is involved', until: null },
    'a pause without an end is kept',
  )
})

t.test('a reply pauses reminders that a bounce has already paused', async (t) => {
  // Regression: the reply did not change the pause, so clearing the bounce resumed reminders although nobody had read
  // the reply.
  const service = await startMailService(t)
  const { testAccount } = service
  const { debtor, id } = await createSentReminder(service)
  const { accountId, backend } = testAccount
  await service.post(deliveryReport({ messageId: id }))
  await service.post(reply(id))
  await backend.database.transaction((tx) =>
    clearSuppression(tx, accountId, debtor.id, { actor: OPERATOR, now: backend.now }),
  )
  matches(t, await testAccount.read(`/api/v1/debtors/${debtor.id}`), {
    contactability: { email: 'ok' },
    chasing: { status: 'paused', reason: 'replied', until: null },
  })
})

t.test(
  'a mail of the account’s own people does not count as a reply of the customer',
  async (t) => {
    // Regression: if staff replied to all in a thread with a customer, their mail paused reminders again.
    const service = await startMailService(t)
    const { testAccount, accountId } = service
    const { backend } = testAccount
    const replyAddress = 'Billing@acme.nl'
    await createUserIn(backend, accountId, 'ada@acme.nl', 'member')
    const { id } = await createSentReminder(service)
    const repliesFrom = async (from: string, messageId = id) => {
      await service.post(reply(messageId, { from }))
      return (await testAccount.read('/api/v1/messages?status=received')).data.length
    }
    t.equal(
      await repliesFrom('ada@acme.nl'),
      1,
      'without a reply address, a mail of a user counts as a reply',
    )
    await backend.database.transaction((tx) =>
      setReplyAddress(tx, accountId, replyAddress, { actor: OPERATOR, now: backend.now }),
    )
    t.equal(await repliesFrom('billing@Acme.nl'), 1)
    t.equal(await repliesFrom('Ada@acme.nl'), 1)
    t.equal(await repliesFrom('bob@acme.nl'), 2)
    const { id: toOneself } = await createSentReminder(service, { recipient: replyAddress })
    t.equal(
      await repliesFrom(replyAddress, toOneself),
      3,
      'a reply from the address to which the reminder was sent counts, such as in a trial',
    )
  },
)

t.test('a long reply is not cut within a character', async (t) => {
  // Regression: the subject in the event ended with half of a character, which json_decode of PHP rejects.
  const service = await startMailService(t)
  const { id } = await createSentReminder(service)
  const subject = `${'x'.repeat(299)}😀`
  await service.post(reply(id).replace(/^Subject: .*$/m, `Subject: ${subject}`))
  const { read } = service.testAccount.backend.database
  const { body } = await read
    .selectFrom('webhook_events')
    .select('body')
    .where('type', '=', 'message.received')
    .executeTakeFirstOrThrow()
  const { object } = JSON.parse(body).data
  t.equal(object.subject, 'x'.repeat(299))
  const { data } = await service.testAccount.read('/api/v1/messages?status=received')
  matches(t, data, [{ subject: object.subject }])
})

t.test('a reply in HTML only is logged as text', async (t) => {
  // Regression: character references, such as those of apostrophes, stayed in the text.
  const service = await startMailService(t)
  const { id } = await createSentReminder(service)
  const body = '<p>I&#39;ll pay&nbsp;&euro;5 &amp; &#x1F600; &#xD83D; &foo; &#0;&#9999999;</p>\n'
  await service.post(reply(id, { body }).replace('text/plain', 'text/html'))
  const { data } = await service.testAccount.read('/api/v1/messages?status=received')
  matches(t, data, [{ preview: "I'll pay €5 & 😀 \ufffd &foo; \ufffd\ufffd" }])
})

t.test('the logged text of a reply in HTML contains none of its styles', async (t) => {
  // Regression: if the end tag was not in the part that is read, the styles became text.
  const service = await startMailService(t)
  const { id } = await createSentReminder(service)
  const body = `<p>We paid.</p><style>${'p { color: red }\n'.repeat(1000)}</style><p>Jansen</p>\n`
  await service.post(reply(id, { body }).replace('text/plain', 'text/html'))
  const { read } = service.testAccount.backend.database
  const query = read.selectFrom('messages').select('body').where('status', '=', 'received')
  t.strictSame(await query.execute(), [{ body: 'We paid.\nJansen' }])
})

t.test('a reply in HTML with long styles before its text is logged with its text', async (t) => {
  // Regression: only the styles were in the part that is read, so the logged text was empty.
  const service = await startMailService(t)
  const { id } = await createSentReminder(service)
  const styles = (name: string) => `<${name} x=">">${'p { color: red }\n'.repeat(600)}</${name} >`
  const body = `${styles('STYLE')}${styles('script')}<p>We <styled>paid</styled>.</p>${styles('style')}\n`
  await service.post(reply(id, { body }).replace('text/plain', 'text/html'))
  const { read } = service.testAccount.backend.database
  const query = read.selectFrom('messages').select('body').where('status', '=', 'received')
  t.strictSame(await query.execute(), [{ body: 'We paid.' }])
})

/** Returns a reply that consists of several parts. */
function replyInParts(id: string, ...parts: readonly { type: string; content: string }[]): string {
  const body = parts.map(
    ({ type, content }) => `--part\r\nContent-Type: ${type}\r\n\r\n${content}\r\n`,
  )
  return reply(id, { body: `${body.join('')}--part--\r\n` }).replace(
    'text/plain; charset=utf-8',
    'multipart/mixed; boundary=part',
  )
}

async function loggedReply({ testAccount: { backend } }: MailService): Promise<string | null> {
  const query = backend.database.read.selectFrom('messages').select('body')
  return (await query.where('status', '=', 'received').executeTakeFirstOrThrow()).body
}

t.test('the texts of all parts of a reply are logged, also those in HTML', async (t) => {
  const service = await startMailService(t)
  const { id } = await createSentReminder(service)
  await service.post(
    replyInParts(
      id,
      { type: 'text/html', content: '<p>We <a href="https://bank.example">paid</a>.</p>' },
      { type: 'text/plain', content: 'This mail was scanned.' },
    ),
  )
  t.equal(await loggedReply(service), 'We paid.\nThis mail was scanned.')
})

t.test('a reply with a long link that is not closed is logged', async (t) => {
  // Regression: one such mail, which anyone could send, blocked the backend for minutes.
  const service = await startMailService(t)
  const { id } = await createSentReminder(service)
  const link = `<a href=${'href=x'.repeat(30_000)}`
  const response = await service.post(
    replyInParts(
      id,
      { type: 'text/plain', content: 'See this link:' },
      { type: 'text/html', content: link },
    ),
  )
  matches(t, response, { status: 200, json: { kind: 'reply', message_id: id } })
  const text = await loggedReply(service)
  t.equal(text?.slice(0, 40), `See this link:\n\n${link.slice(0, 24)}`)
})

t.test('an automatic response does not count as a reply', async (t) => {
  const service = await startMailService(t)
  const { debtor, id } = await createSentReminder(service)
  for (const headers of [
    'Auto-Submitted: auto-replied (vacation)\n',
    'Precedence: bulk\n',
    'X-Autoreply: yes\n',
    // Regression: the empty return path was not recognized.
    'Return-Path: <>\n',
  ]) {
    matches(t, (await service.post(reply(id, { headers }))).json, { kind: 'auto_reply' }, headers)
  }
  // Regression: a read receipt counted as a reply, and paused reminders.
  matches(t, (await service.post(readReceipt(id))).json, { kind: 'auto_reply', message_id: id })
  matches(t, await service.testAccount.read(`/api/v1/debtors/${debtor.id}`), {
    chasing: { status: 'active' },
  })
  for (const headers of ['Auto-Submitted: no\n', 'Auto-Submitted: no (a person wrote this)\n']) {
    matches(t, (await service.post(reply(id, { headers }))).json, { kind: 'reply' }, headers)
  }
})

t.test('a mail that is posted several times concurrently takes effect once', async (t) => {
  const service = await startMailService(t)
  const { id } = await createSentReminder(service)
  const responses = await Promise.all([1, 2, 3].map(() => service.post(reply(id))))
  for (const response of responses) {
    matches(t, response, { status: 200, json: { kind: 'reply', message_id: id } })
  }
  const { data } = await service.testAccount.read('/api/v1/messages?status=received')
  t.equal(data.length, 1)
})

t.test('after a person confirms that a bounced address works, chasing continues', async (t) => {
  const service = await startMailService(t)
  const { debtor, id } = await createSentReminder(service)
  const sameAddress = await service.testAccount.createDebtor({ email: EMAIL.toUpperCase() })
  await service.post(deliveryReport({ messageId: id }))
  await service.clearSuppression(debtor.id)
  // Regression: only one of the customers with the address could be contacted again.
  for (const { id } of [debtor, sameAddress]) {
    matches(t, await service.testAccount.read(`/api/v1/debtors/${id}`), {
      contactability: { email: 'ok' },
      chasing: { status: 'active', reason: null },
    })
  }
  t.strictSame(await service.auditActions('debtor.contactability'), [
    'debtor.contactability_cleared',
    'debtor.contactability_cleared',
  ])
  await service.clearSuppression(sameAddress.id)
  t.equal(
    (await service.auditActions('debtor.contactability')).length,
    2,
    'nothing is left to clear',
  )
  await service.post(deliveryReport({ messageId: id, status: '5.1.2' }))
  matches(t, await messageOf(service, id), { status: 'bounced' })
  matches(
    t,
    await service.testAccount.read(`/api/v1/debtors/${debtor.id}`),
    { contactability: { email: 'ok' } },
    'a repeated report does not block the address again',
  )
})

t.test('posting mail requires the secret and the media type of mail', async (t) => {
  const service = await startMailService(t)
  const raw = deliveryReport()
  const post = (headers: Record<string, string>, body = raw) =>
    service.request('POST', '/mail/inbound', {
      headers: { 'content-type': 'message/rfc822', ...headers },
      body,
    })
  const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`
  for (const authorization of [
    '',
    'Bearer wrong',
    `Digest ${INBOUND_SECRET}`,
    basic('post:wrong'),
  ]) {
    matches(t, await post({ authorization }), {
      status: 401,
      json: { code: 'invalid_mail_secret' },
    })
  }
  matches(t, await post({}), { status: 401 })
  matches(t, await post({ authorization: basic(`post:${INBOUND_SECRET}`) }), {
    status: 200,
    json: { kind: 'bounce', message_id: null },
  })
  const authorization = `Bearer ${INBOUND_SECRET}`
  matches(t, await post({ authorization, 'content-type': 'application/json' }), { status: 415 })
  matches(t, await post({ authorization }, ''), { status: 400 })
})

t.test('malformed inbound mail causes no error', async (t) => {
  const service = await startMailService(t)
  const nested = 'Content-Type: multipart/mixed; boundary=a\r\n\r\n--a\r\n'.repeat(500)
  for (const raw of [
    'x',
    '\0\xff\r\n\r\n',
    nested,
    `${'X-Header: y\r\n'.repeat(15_000)}\r\n`,
    `Subject: ${'é'.repeat(50_000)}\r\n\r\n${'<style '.repeat(20_000)}`,
    `Content-Type: text/html\r\n\r\n${'<style '.repeat(20_000)}`,
    `In-Reply-To: ${'<'.repeat(100_000)}\r\n\r\nx`,
    // PostgreSQL rejects a statement with a NUL, and providers post a mail again after each error.
    'In-Reply-To: <a\0b@jansen.nl>\r\n\r\nx',
    deliveryReport({ references: { header: '<a\0b@jansen.nl>' } }),
    deliveryReport({ status: 'nonsense', diagnostic: 'x' }),
    deliveryReport().replace('Action: failed\r\n', ''),
  ]) {
    matches(
      t,
      await service.post(raw),
      { status: 200, json: { message_id: null } },
      raw.slice(0, 30),
    )
  }
  const { id } = await createSentReminder(service)
  const hostile = { headers: 'Subject: a\0b\n', body: '<b>\0\ud800 =?x?=' }
  matches(t, await service.post(reply(id, hostile)), { status: 200, json: { message_id: id } })
})
