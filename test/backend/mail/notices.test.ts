// Notices are mails other than reminders. Pages do not wait until a notice is sent. After an error, a notice may be
// sent twice.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { setReplyAddress } from '../../../backend/accounts/reply-address.ts'
import { revokeApiKey } from '../../../backend/api-keys/api-keys.ts'
import { recordKeyExpiry } from '../../../backend/api-keys/key-expiry.ts'
import { recordNotice } from '../../../backend/mail/notices.ts'
import { containing, matches, rejectsWith } from '../../fixtures/matches.ts'
import { type MailService, startMailService } from '../../fixtures/reminders/mail-service.ts'
import { deliveryReport, reply } from '../../fixtures/servers/inbound.ts'
import { startSmtpServer } from '../../fixtures/servers/smtp.ts'
import { createUserIn, logIn } from '../../fixtures/service/settings.ts'
import { until } from '../../fixtures/service/until.ts'

const DAY_MS = 24 * 3_600_000

async function logInAdmin({ testAccount: { backend }, accountId }: MailService) {
  await createUserIn(backend, accountId, 'ada@acme.nl', 'admin')
  return logIn(backend, 'ada@acme.nl')
}

async function recordEndpointNotice({ testAccount, accountId }: MailService): Promise<void> {
  const { backend } = testAccount
  const detail = { url: 'https://hooks.acme.nl/<b>', reason: 'gone', failing_since: null } as const
  const notice = {
    accountId,
    kind: 'webhook_endpoint.disabled',
    subjectId: 'whe_1',
    detail,
  } as const
  await backend.database.transaction((tx) => recordNotice(tx, notice, backend.now))
}

async function outboxOf({ testAccount }: MailService) {
  return testAccount.backend.database.read
    .selectFrom('mail_outbox')
    .select(['status', 'attempts', 'run_at', 'last_error'])
    .orderBy('id')
    .execute()
}

t.test('an invitation is mailed, and the link in the mail works', async (t) => {
  const smtp = await startSmtpServer(t)
  const service = await startMailService(t, smtp.url)
  const ada = await logInAdmin(service)
  const invited = await ada.send('POST', '/settings/people', {
    email: 'bob@acme.nl',
    role: 'member',
  })
  matches(t, invited, { status: 201, json: { mailed: true } })
  t.equal(smtp.mails.length, 0, 'the page does not wait for the mail')
  await service.sendNotices()
  await service.sendNotices()
  t.equal(smtp.mails.length, 1)
  const [{ to, mail } = { to: [], mail: undefined }] = smtp.mails
  t.strictSame(to, ['bob@acme.nl'])
  matches(t, mail, { subject: 'You are invited to Acme Ltd', text: /ada@acme\.nl invites you/ })
  matches(t, mail?.text, containing(String(invited.json['link'])), 'the same link as on the page')
  const [, code = ''] = /invitation#([\w-]{43})/.exec(mail?.text ?? '') ?? []
  matches(t, mail?.html, containing(`href="https://receivables.test/settings/invitation#${code}"`))
  const body = { code, password: 'staple battery horse' }
  const accepted = await service.request('POST', '/settings/invitation', {
    headers: { accept: 'application/json', 'content-type': 'application/json' },
    body,
  })
  t.equal(accepted.status, 201)
})

t.test('Admins see whether an invitation was sent, and whether it bounced later', async (t) => {
  const smtp = await startSmtpServer(t)
  const service = await startMailService(t, smtp.url)
  const ada = await logInAdmin(service)
  await ada.send('POST', '/settings/people', { email: 'bob@acme.nl', role: 'member' })
  const mailOf = async () => (await ada.get('/settings/people')).json['invitations']
  await service.sendNotices()
  matches(t, await mailOf(), [{ email: 'bob@acme.nl', mail: 'sent' }])
  const sent = String(smtp.mails[0]?.mail.messageId).replace(/^<|@.*$/g, '')
  await service.post(deliveryReport({ messageId: sent }))
  matches(t, await mailOf(), [{ mail: 'failed' }])
  matches(t, (await ada.page('/settings/people')).text, /The mail did not arrive/)
})

t.test('an invitation that is withdrawn before it is sent is not mailed', async (t) => {
  const smtp = await startSmtpServer(t)
  const service = await startMailService(t, smtp.url)
  const ada = await logInAdmin(service)
  const invited = await ada.send('POST', '/settings/people', {
    email: 'bob@acme.nl',
    role: 'admin',
  })
  await ada.send('POST', `/settings/invitations/${invited.json['id']}/withdraw`)
  await service.sendNotices()
  t.equal(smtp.connections(), 0)
  matches(t, await outboxOf(service), [{ status: 'failed', run_at: null }])
})

t.test(
  'Admins get a mail about a key that expires soon, unless it was revoked meanwhile',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const service = await startMailService(t, smtp.url)
    const { accountId } = service
    const { backend } = service.testAccount
    const { database, now } = backend
    await logInAdmin(service)
    const expiresAt = new Date(now.getTime() + 14 * DAY_MS + 1)
    const { row } = await backend.issueKey(accountId, { name: 'ERP', expiresAt })
    const revoked = await backend.issueKey(accountId, { name: 'Old', expiresAt })
    await recordKeyExpiry(database, new Date(now.getTime() + 1))
    await database.transaction((tx) => revokeApiKey(tx, revoked.row.id, { actor: OPERATOR, now }))
    await service.sendNotices()
    const about = smtp.mails.filter(({ mail }) => /expires soon/.test(String(mail.subject)))
    t.equal(about.length, 1)
    matches(t, about, [{ to: ['ada@acme.nl'], mail: { subject: 'The API key ERP expires soon' } }])
    const [{ mail } = { mail: undefined }] = about
    matches(t, mail?.text, containing(`The key ERP (${row.prefix}) expires on `))
    matches(t, mail?.text, containing('It was never used.'))
    matches(t, mail?.text, containing(`https://receivables.test/settings/api-keys/${row.id}`))
  },
)

t.test('without a mail server, the link is shown and nothing is mailed', async (t) => {
  const service = await startMailService(t)
  const ada = await logInAdmin(service)
  const invited = await ada.send('POST', '/settings/people', {
    email: 'bob@acme.nl',
    role: 'member',
  })
  matches(t, invited.json, { mailed: false, link: /#[\w-]{43}$/ })
  await service.sendNotices()
  t.strictSame(await outboxOf(service), [])
})

t.test('in a rehearsal no notice is mailed, and links are shown instead', async (t) => {
  const startService = async (isRehearsal: boolean) => {
    const smtp = await startSmtpServer(t)
    const service = await startMailService(t, smtp.url, { isRehearsal })
    const ada = await logInAdmin(service)
    await recordEndpointNotice(service)
    service.mailServices.start()
    return { smtp, service, ada }
  }
  const rehearsal = await startService(true)
  const { smtp } = await startService(false)
  await until(() => smtp.mails.length === 1, 'the notice is mailed outside of a rehearsal')
  const { ada, service } = rehearsal
  const invited = await ada.send('POST', '/settings/people', {
    email: 'bob@acme.nl',
    role: 'member',
  })
  matches(t, invited.json, { mailed: false, link: /#[\w-]{43}$/ })
  t.equal(rehearsal.smtp.connections(), 0)
  await service.sendNotices()
  matches(
    t,
    rehearsal.smtp.mails,
    [{ to: ['ada@acme.nl'] }],
    'the notice waited until the end of the rehearsal',
  )
})

t.test(
  'a notice is mailed once to every Admin who can log in, even by concurrent workers',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const service = await startMailService(t, smtp.url)
    const { backend } = service.testAccount
    for (const [email, role] of [
      ['ada@acme.nl', 'admin'],
      ['abe@acme.nl', 'admin'],
      ['mia@acme.nl', 'member'],
    ] as const) {
      await createUserIn(backend, service.accountId, email, role)
    }
    const deactivated = await createUserIn(backend, service.accountId, 'eve@acme.nl', 'admin')
    await backend.database.transaction((tx) =>
      tx
        .updateTable('users')
        .set({ status: 'deactivated' })
        .where('id', '=', deactivated.id)
        .execute(),
    )
    await recordEndpointNotice(service)
    await Promise.all([service.sendNotices(), service.sendNotices()])
    await service.sendNotices()
    t.strictSame(smtp.mails.flatMap(({ to }) => to).sort(), ['abe@acme.nl', 'ada@acme.nl'])
    const { mail } = smtp.mails[0] ?? {}
    matches(t, mail?.text, /Events are no longer sent to https:\/\/hooks\.acme\.nl\/<b>\./)
    t.notMatch(mail?.html, /<b>/)
  },
)

t.test(
  'a notice that the mail server rejects temporarily is retried for days, with the same Message-ID',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const service = await startMailService(t, smtp.url)
    const { backend } = service.testAccount
    await createUserIn(backend, service.accountId, 'ada@acme.nl', 'admin')
    await recordEndpointNotice(service)
    const start = backend.now
    smtp.failAt('data', 'drop', 1)
    await service.sendNotices()
    smtp.failAt('rcpt', { code: 451, text: '4.7.1 Later' })
    for (let tries = 1; tries < 10; tries++) {
      const [row] = await outboxOf(service)
      matches(t, row, { status: 'pending', attempts: tries })
      const connections = smtp.connections()
      await service.sendNotices()
      t.equal(smtp.connections(), connections, 'the notice is not retried early')
      backend.now = new Date(row?.run_at ?? 0)
      if (tries === 8) smtp.recover()
      await service.sendNotices()
      if (tries === 8) break
    }
    matches(t, await outboxOf(service), [{ status: 'sent', run_at: null, last_error: null }])
    t.equal(smtp.mails.length, 2)
    t.equal(smtp.mails[0]?.mail.messageId, smtp.mails[1]?.mail.messageId)
    const days = (backend.now.getTime() - start.getTime()) / 86_400_000
    t.ok(days > 1 && days < 4, `${days} days`)
  },
)

t.test('a mail server that rejects mail is reported at `/readyz`', async (t) => {
  const smtp = await startSmtpServer(t)
  const service = await startMailService(t, smtp.url)
  const { backend } = service.testAccount
  await createUserIn(backend, service.accountId, 'ada@acme.nl', 'admin')
  await recordEndpointNotice(service)
  smtp.failAt('rcpt', { code: 554, text: '5.7.1 <ada@acme.nl>: Relay access denied' }, 1)
  await service.sendNotices()
  const degraded = ['mail: 554 5.7.1 <address>: Relay access denied']
  t.strictSame(await backend.health(), { unready: [], degraded })
  backend.now = new Date(backend.now.getTime() + 60_000)
  await service.sendNotices()
  t.strictSame(await backend.health(), { unready: [], degraded: [] })
})

// Regression: during an upgrade, a backend of the previous version dropped notices that only the new version can write.
t.test('a notice of an unknown kind is retried, and delays no other notice', async (t) => {
  const smtp = await startSmtpServer(t)
  const service = await startMailService(t, smtp.url)
  const { backend } = service.testAccount
  const { database } = backend
  await createUserIn(backend, service.accountId, 'ada@acme.nl', 'admin')
  await recordEndpointNotice(service)
  await database.transaction((tx) =>
    tx.updateTable('notices').set({ kind: 'webhook_endpoint.future' }).execute(),
  )
  await recordEndpointNotice(service)
  await service.sendNotices()
  t.equal(smtp.mails.length, 1)
  const inAMinute = new Date(backend.now.getTime() + 60_000).toISOString()
  matches(t, await outboxOf(service), [
    { status: 'pending', attempts: 1, run_at: inAMinute },
    { status: 'sent', attempts: 1 },
  ])
})

t.test('a notice to an address that does not exist is not retried', async (t) => {
  const smtp = await startSmtpServer(t)
  const service = await startMailService(t, smtp.url)
  await createUserIn(service.testAccount.backend, service.accountId, 'ada@acme.nl', 'admin')
  await recordEndpointNotice(service)
  smtp.failAt('rcpt', { code: 550, text: '5.1.1 No such user' })
  await service.sendNotices()
  matches(t, await outboxOf(service), [
    { status: 'failed', attempts: 1, last_error: /No such user/ },
  ])
})

t.test(
  'Admins are notified of a reply, unless the account has its own reply address',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const service = await startMailService(t, smtp.url)
    const { testAccount } = service
    await createUserIn(testAccount.backend, service.accountId, 'ada@acme.nl', 'admin')
    const invoice = await testAccount.createInvoice()
    const receiveReply = async (body: string) => {
      const id = await testAccount.insertMessage([invoice], { status: 'sent' })
      await service.post(reply(id, { body }))
      await service.sendNotices()
    }
    await receiveReply('We paid <i>last</i> week.\n-- \nJan de Vries\n')
    const { mail } = smtp.mails[0] ?? {}
    // Regression: the space after the customer's `--` was kept, and mail programs hid the text below it, with the link.
    matches(t, mail, {
      subject: 'Jansen Bouw B.V. replied to a reminder',
      text: /We paid <i>last<\/i> week\.\n--\nJan de Vries\n[\s\S]*settings\/customers\/deb_/,
    })
    t.notMatch(mail?.html, /<i>/)
    const actionContext = { actor: OPERATOR, now: testAccount.backend.now }
    const setTo = (address: string) =>
      testAccount.backend.database.transaction((tx) =>
        setReplyAddress(tx, service.accountId, address, actionContext),
      )
    await rejectsWith(t, setTo('billing@acme.nl\nBcc: x@y.nl'), { code: 'validation_failed' })
    matches(t, await setTo('billing@acme.nl'), { reply_to: 'billing@acme.nl' })
    await receiveReply('Really.\n')
    t.equal(smtp.mails.length, 1)
  },
)
