// Each error of a mail server is classified: does it concern the recipient, and may the server have received the mail?
import t from 'tap'
import type { HandOverResult } from '../../../backend/mail/mail.ts'
import { parseSmtpUrl, type SmtpAddress } from '../../../backend/mail/smtp-url.ts'
import { createHandOverMetrics } from '../../../backend/metrics.ts'
import { createMetrics } from '../../../shared/process/metrics.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { recordLog } from '../../fixtures/recorded-log.ts'
import { newMailer, sampleMail, sendNow } from '../../fixtures/reminders/mail.ts'
import { createCertificate } from '../../fixtures/servers/certificate.ts'
import { type SmtpPhase, startSmtpServer } from '../../fixtures/servers/smtp.ts'
import { until } from '../../fixtures/service/until.ts'

t.test('an accepted mail has the id that the server assigned', async (t) => {
  const smtp = await startSmtpServer(t)
  t.strictSame(await sendNow(newMailer(t, smtp.url)), {
    outcome: 'accepted',
    providerMessageId: '1',
  })
  matches(t, smtp.mails, [{ from: 'reminders@mail.receivables.io', to: ['ap@jansen.nl'] }])
})

t.test(
  'the ids that Exim, Sendmail and OpenSMTPD assign are read from their replies',
  async (t) => {
    for (const [text, id] of [
      ['OK id=1xX0N6-00041Z-0t', '1xX0N6-00041Z-0t'],
      ['2.0.0 5ARIBXa5012345 Message accepted for delivery', '5ARIBXa5012345'],
      ['2.0.0 e1f2a3b4 Message accepted for delivery', 'e1f2a3b4'],
      ['2.0.0 OK', null],
    ] as const) {
      const smtp = await startSmtpServer(t, {
        server: {
          onData: (stream, _session, next) => stream.on('end', () => next(null, text)).resume(),
        },
      })
      const expected = { outcome: 'accepted', providerMessageId: id }
      t.strictSame(await sendNow(newMailer(t, smtp.url)), expected)
    }
  },
)

t.test('the mail server is greeted with the domain of MAIL_FROM', async (t) => {
  // Regression: in a container, the greeting was `EHLO [127.0.0.1]`, which the relay of Google Workspace rejects.
  const smtp = await startSmtpServer(t)
  await sendNow(newMailer(t, smtp.url))
  matches(t, smtp.mails, [{ clientName: 'mail.receivables.io' }])
})

/** Replies of the server, each with the outcome of the hand-over. */
const REPLIES: readonly (readonly [SmtpPhase, number, string, object])[] = [
  ['connect', 421, '4.3.2 Too many connections', { outcome: 'abandoned' }],
  ['connect', 554, 'No SMTP service here', { outcome: 'abandoned' }],
  ['mail', 451, '4.3.0 Temporary trouble', { outcome: 'abandoned' }],
  ['mail', 550, '5.7.1 Sender refused', { outcome: 'abandoned' }],
  ['rcpt', 450, '4.7.1 Greylisted, come back later', soft('4.7.1')],
  ['rcpt', 452, '4.2.2 Mailbox full', soft('4.2.2')],
  ['rcpt', 451, '4.4.3 Nameserver away', { outcome: 'refused', type: 'soft' }],
  ['rcpt', 451, '4.3.0 Queue file write error', { outcome: 'abandoned' }],
  ['rcpt', 421, '4.7.0 Closing', { outcome: 'abandoned' }],
  ['rcpt', 550, '5.1.1 No such user', hard('5.1.1')],
  ['rcpt', 550, 'No such user', hard('550')],
  ['rcpt', 552, 'Mailbox full', soft('552')],
  ['rcpt', 552, '5.2.2 Mailbox full', soft('5.2.2')],
  ['rcpt', 554, '5.7.1 Relay access denied', { outcome: 'abandoned', isDenied: true }],
  ['rcpt', 530, 'Authentication required', { outcome: 'abandoned' }],
  // Regression: these replies of a relay that is wrongly configured counted as bounces of all customers.
  [
    'rcpt',
    454,
    '4.7.1 <ap@jansen.nl>: Relay access denied',
    { outcome: 'abandoned', isDenied: true },
  ],
  ['rcpt', 550, 'Relay not permitted', { outcome: 'abandoned', isDenied: true }],
  ['rcpt', 550, 'Administrative prohibition', { outcome: 'abandoned', isDenied: true }],
  ['rcpt', 513, 'Relaying denied.', { outcome: 'abandoned', isDenied: true }],
  ['rcpt', 450, '4.7.25 Client host rejected: cannot find your hostname', { isDenied: true }],
  ['data', 550, '5.7.26 The mail is not authenticated', { outcome: 'abandoned', isDenied: true }],
  // Regression: the address counted as invalid, although our server was on a block list.
  ['rcpt', 550, 'Host 192.0.2.1 is in a black list at zen.spamhaus.org', soft('550')],
  ['rcpt', 550, 'relay@jansen.nl: No such user', hard('550')],
  [
    'rcpt',
    553,
    "Sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
    { isDenied: true },
  ],
  ['rcpt', 550, 'Sorry, no mailbox here by that name. (#5.1.1)', hard('5.1.1')],
  ['rcpt', 556, '5.1.10 The domain takes no mail', hard('5.1.10')],
  ['data', 451, '4.7.1 Greylisted, come back later', soft('4.7.1')],
  ['data', 452, '4.3.1 Disk full', { outcome: 'abandoned' }],
  ['data', 550, '5.1.1 No such user', hard('5.1.1')],
  ['data', 554, '5.7.1 Looks like spam', soft('5.7.1')],
  ['data', 550, 'Refused', soft('550')],
]

function hard(code: string) {
  return { outcome: 'refused', type: 'hard', code }
}

function soft(code: string) {
  return { outcome: 'refused', type: 'soft', code }
}

t.test(
  'only a rejection that concerns the recipient is counted against the recipient',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const mailer = newMailer(t, smtp.url)
    for (const [phase, code, text, expected] of REPLIES) {
      smtp.recover()
      smtp.failAt(phase, { code, text })
      const result = await sendNow(mailer)
      matches(t, result, expected, `${phase}: ${code} ${text}`)
      matches(t, result, { detail: /[A-Z]/ })
    }
    t.strictSame(smtp.mails, [])
  },
)

// Regression: operators who watched for `abandoned` missed these mails, because another word was logged and counted.
t.test('the log and the metrics name the outcome of a hand-over as documented', async (t) => {
  const smtp = await startSmtpServer(t)
  const metrics = createMetrics('backend')
  const { log, lines } = recordLog<{ msg: string }>()
  const mailer = newMailer(t, smtp.url, { log, onHandOver: createHandOverMetrics(metrics) })
  await sendNow(mailer)
  smtp.failAt('rcpt', { code: 550, text: '5.1.1 No such user' })
  await sendNow(mailer)
  smtp.failAt('mail', { code: 550, text: '5.7.1 Sender refused' })
  await sendNow(mailer)
  t.strictSame(
    lines.map(({ msg }) => msg),
    ['mail handed over', 'mail refused', 'mail abandoned'],
  )
  const page = await metrics.registry.metrics()
  for (const outcome of ['accepted', 'refused', 'abandoned']) {
    matches(t, page, containing(`receivables_backend_mails_total{outcome="${outcome}"} 1`))
  }
})

t.test(
  'if a server stops responding before the message data is sent, the mail is abandoned',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const mailer = newMailer(t, smtp.url)
    for (const phase of ['connect', 'mail', 'rcpt'] as const) {
      smtp.recover()
      smtp.failAt(phase, 'hang')
      matches(t, await sendNow(mailer, { withinMs: 200 }), { outcome: 'abandoned' }, phase)
    }
    smtp.recover()
    t.strictSame(smtp.mails, [])
  },
)

t.test(
  'if a server stops responding after it received the mail, the outcome is unknown',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const mailer = newMailer(t, smtp.url, { replyMsMax: 50 })
    smtp.failAt('data', 'hang')
    matches(t, await sendNow(mailer), { outcome: 'unknown' })
    t.equal(smtp.mails.length, 1)
  },
)

t.test(
  'if a connection breaks before the message data is sent, the mail is abandoned; after that, the outcome is unknown',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const mailer = newMailer(t, smtp.url)
    const drop = async (phase: SmtpPhase): Promise<HandOverResult> => {
      smtp.recover()
      smtp.failAt(phase, 'drop')
      return sendNow(mailer)
    }
    for (const phase of ['connect', 'mail', 'rcpt'] as const) {
      matches(t, await drop(phase), { outcome: 'abandoned' }, phase)
    }
    matches(t, await drop('data'), { outcome: 'unknown' })
    t.equal(smtp.mails.length, 1, 'the server received the mail nevertheless')
    smtp.recover()
    matches(t, await sendNow(mailer), { outcome: 'accepted' })
    t.equal(
      smtp.mails[0]?.mail.messageId,
      smtp.mails[1]?.mail.messageId,
      'the recipient can recognize the repeat',
    )
  },
)

t.test('no hand-over begins after its deadline, or while no server listens', async (t) => {
  const smtp = await startSmtpServer(t)
  const mailer = newMailer(t, smtp.url)
  matches(t, await sendNow(mailer, { withinMs: 0 }), { outcome: 'abandoned', detail: /in time/ })
  t.equal(smtp.connections(), 0)
  await smtp.stop()
  matches(t, await sendNow(mailer), { outcome: 'abandoned', detail: /ECONNREFUSED/ })
  await smtp.start()
  matches(t, await sendNow(mailer), { outcome: 'accepted' })
})

t.test('a mail is accepted even if the server delays its greeting by 300 ms', async (t) => {
  const smtp = await startSmtpServer(t, {
    server: { onConnect: (_session, next) => void setTimeout(next, 300) },
  })
  matches(t, await sendNow(newMailer(t, smtp.url)), { outcome: 'accepted' })
})

t.test('TLS is used if the server offers it, and protects the login', async (t) => {
  const tls = await createCertificate(t, 'DNS:mx.test')
  const smtp = await startSmtpServer(t, { tls, login: { user: 'us', password: 'p@ss%word' } })
  const url = (password: string) => smtp.url.replace('//', `//us:${encodeURIComponent(password)}@`)
  matches(t, await sendNow(newMailer(t, url('p@ss%word'))), { outcome: 'accepted' })
  t.equal(smtp.mails[0]?.isSecure, true)
  const rejected = await sendNow(newMailer(t, url('wrong')))
  matches(
    t,
    rejected,
    { outcome: 'abandoned', detail: /^535/ },
    'a wrong login is not counted against the recipient',
  )
})

t.test('a login that hangs or breaks is not counted against the recipient', async (t) => {
  const smtp = await startSmtpServer(t, { login: { user: 'us', password: 'secret' } })
  const mailer = newMailer(t, smtp.url.replace('//', '//us:secret@'))
  for (const fault of ['hang', 'drop', { code: 454, text: '4.7.0 Later' }] as const) {
    smtp.recover()
    smtp.failAt('auth', fault)
    const name = JSON.stringify(fault)
    matches(t, await sendNow(mailer, { withinMs: 300 }), { outcome: 'abandoned' }, name)
  }
  smtp.recover()
  matches(t, await sendNow(mailer), { outcome: 'accepted' })
})

t.test('a password is sent over a network only with TLS and a valid certificate', async (t) => {
  const login = { user: 'us', password: 'secret' }
  const asRemote = (url: string): SmtpAddress => ({ ...parseSmtpUrl(url), isLocal: false })
  const plain = await startSmtpServer(t, { login })
  const url = plain.url.replace('//', '//us:secret@')
  matches(t, await sendNow(newMailer(t, undefined, { server: asRemote(url) })), {
    outcome: 'abandoned',
    // Regression: the detail was only the reply, such as `502 5.5.1 Error: command not implemented`.
    detail: /STARTTLS/,
  })
  const selfSigned = await startSmtpServer(t, { tls: await createCertificate(t, 'DNS:mx.test') })
  matches(t, await sendNow(newMailer(t, undefined, { server: asRemote(selfSigned.url) })), {
    outcome: 'abandoned',
    detail: /self.signed/,
  })
  t.strictSame([...plain.mails, ...selfSigned.mails], [])
})

t.test('a mail that greylisting rejected is accepted at the next attempt', async (t) => {
  const smtp = await startSmtpServer(t)
  const mailer = newMailer(t, smtp.url)
  smtp.failAt('rcpt', { code: 450, text: '4.7.1 Greylisted' }, 1)
  matches(t, await sendNow(mailer), { outcome: 'refused', type: 'soft' })
  matches(t, await sendNow(mailer), { outcome: 'accepted' })
})

t.test(
  'delivery reports are requested, with the id of the message, from servers that support them',
  async (t) => {
    const envelopes: object[] = []
    const smtp = await startSmtpServer(t, {
      server: {
        hideDSN: false,
        onData(stream, { envelope }, next) {
          envelopes.push(envelope)
          stream.on('end', () => next()).resume()
        },
      },
    })
    await sendNow(newMailer(t, smtp.url))
    await sendNow(newMailer(t, smtp.url, { wantsSuccessReports: true }))
    const failures = ['FAILURE', 'DELAY']
    matches(
      t,
      envelopes,
      [failures, [...failures, 'SUCCESS']].map((notify) => ({
        dsn: { envid: 'msg_01KDZ3CV3NSJPBXHTGA1R5EY8Q', ret: 'HDRS' },
        rcptTo: [{ dsn: { notify } }],
      })),
    )
  },
)

t.test(
  'closing abandons a mail whose message data is unsent, and waits briefly for the results of other mails',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const mailer = newMailer(t, smtp.url)
    smtp.failAt('rcpt', 'hang')
    const waiting = sendNow(mailer)
    await smtp.connected()
    await mailer.close()
    // Regression: the detail was that the hand-over did not start in time.
    const stopped = { outcome: 'abandoned', detail: 'the process is stopping' }
    matches(t, await waiting, stopped)
    matches(t, await sendNow(mailer), stopped)

    const otherMailer = newMailer(t, smtp.url)
    smtp.recover()
    smtp.failAt('data', 'hang')
    const pending = sendNow(otherMailer)
    await until(() => smtp.mails.length === 1, 'the server has received the message data')
    await otherMailer.close()
    matches(
      t,
      await pending,
      { outcome: 'unknown' },
      'closing waits for a result only for a limited time',
    )
  },
)

t.test('a mail to a reserved domain is rejected without a connection', async (t) => {
  const smtp = await startSmtpServer(t)
  const mailer = newMailer(t, smtp.url)
  for (const to of [
    'a@example.com',
    'a@mail.example.org',
    'a@EXAMPLE.NET',
    'a@acme.example',
    'a@acme.test',
    'a@acme.invalid',
    'a@localhost',
  ]) {
    matches(
      t,
      await mailer.send(sampleMail({ to }), { startBefore: new Date(Date.now() + 5000) }),
      {
        outcome: 'refused',
        code: 'reserved_domain',
      },
    )
  }
  t.equal(smtp.connections(), 0)
})

t.test('SMTP_URL is parsed or rejected, and no error contains its password', async (t) => {
  matches(t, parseSmtpUrl('smtps://u:p%40ss@mx.acme.nl'), {
    host: 'mx.acme.nl',
    port: 465,
    isTlsImplicit: true,
    login: { user: 'u', pass: 'p@ss' },
    isLocal: false,
  })
  // Regression: the host was encoded as %XX, and never found.
  matches(t, parseSmtpUrl('smtp://mail.müller.de'), { host: 'mail.xn--mller-kva.de' })
  matches(t, parseSmtpUrl('smtp://[::1]:2525'), { host: '::1', port: 2525, isLocal: true })
  for (const url of [
    'mx.acme.nl:25',
    'http://mx.acme.nl',
    'smtp://',
    'smtp://hunter2@mx.acme.nl',
    'smtp://u:hunter2@mx.acme.nl/path',
    'smtp://u:hunter2@mx.acme.nl?tls=off',
    'smtp://u:hunter2%@mx.acme.nl',
    // Regression: the backend started, and every hand-over failed.
    'smtp://u:hunter2@mx.acme.nl:0',
  ]) {
    const error: Error = t.throws(() => parseSmtpUrl(url)) as never
    t.notMatch(error.message, /hunter2/, url)
  }
})
