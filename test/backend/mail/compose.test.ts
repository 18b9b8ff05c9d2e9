// Outgoing mails: no name or subject can add a header, and texts arrive unchanged.
import { readdir, readFile, stat } from 'node:fs/promises'
import PostalMime from 'postal-mime'
import t from 'tap'
import { matches } from '../../fixtures/matches.ts'
import { newMailer, sampleMail, sendNow } from '../../fixtures/reminders/mail.ts'
import { startSmtpServer } from '../../fixtures/servers/smtp.ts'

const HOSTILE = 'Acme"\r\nBcc: victim@acme.nl\r\n\r\n<script>'

t.test('names and subjects cannot add a header or end the headers', async (t) => {
  const smtp = await startSmtpServer(t)
  await sendNow(newMailer(t, smtp.url), {
    fromName: `${HOSTILE} \u2028\u0000 <evil@acme.nl>`,
    subject: HOSTILE,
    replyTo: 'billing@acme.nl',
  })
  const [received] = smtp.mails
  t.strictSame(received?.to, ['ap@jansen.nl'])
  const { mail } = received ?? {}
  t.equal(mail?.bcc, undefined)
  t.equal(mail?.from?.address, 'reminders@mail.receivables.io')
  t.equal(mail?.subject, 'Acme" Bcc: victim@acme.nl <script>')
  t.strictSame(
    mail?.replyTo?.map(({ address }) => address),
    ['billing@acme.nl', 'reminders@mail.receivables.io'],
  )
  t.equal(mail?.text?.trim(), 'Dear Jansen')
})

t.test('encoded words in names and subjects are not decoded', async (t) => {
  const smtp = await startSmtpServer(t)
  const word = '=?utf-8?Q?ceo=40bank.nl?='
  await sendNow(newMailer(t, smtp.url), {
    fromName: word,
    subject: `Invoice ${word}`,
    replyTo: 'billing@acme.nl',
  })
  const { mail, raw = '' } = smtp.mails[0] ?? {}
  t.notMatch(raw, /=\?utf-8\?Q\?ceo/)
  t.equal(mail?.from?.name, '= ?utf-8?Q?ceo=40bank.nl?=')
  t.equal(mail?.subject, 'Invoice = ?utf-8?Q?ceo=40bank.nl?=')
})

t.test('texts in any script arrive as they were written', async (t) => {
  const smtp = await startSmtpServer(t)
  const text = `Zürich – 100 €\n.\n..\nFrom here\n${'未払い '.repeat(200)}\n🧾`
  await sendNow(newMailer(t, smtp.url), {
    fromName: 'Bäckerei Müller GmbH & Co. “Süß”',
    subject: 'Zahlungserinnerung – Rechnung № 7 🧾',
    text,
    html: `<p>${text}</p>`,
  })
  const { mail, raw = '' } = smtp.mails[0] ?? {}
  t.equal(mail?.text?.trimEnd(), text)
  t.equal(mail?.html?.trimEnd(), `<p>${text}</p>`)
  t.equal(mail?.subject, 'Zahlungserinnerung – Rechnung № 7 🧾')
  t.equal(mail?.from?.name, 'Bäckerei Müller GmbH & Co. “Süß”')
  t.ok(raw.split('\r\n').every((line) => line.length <= 998))
})

t.test(
  'a mail with an unsubscribe link has the headers for unsubscribing with one click',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const mailer = newMailer(t, smtp.url)
    const unsubscribeUrl = `https://receivables.io/mail/unsubscribe/${'x'.repeat(300)}`
    await sendNow(mailer, { unsubscribeUrl })
    await sendNow(mailer)
    const [withLink, withoutLink] = smtp.mails.map(
      ({ mail }) => new Map(mail.headers.map(({ key, value }) => [key, value])),
    )
    t.equal(withLink?.get('list-unsubscribe'), `<${unsubscribeUrl}>`)
    t.equal(withLink?.get('list-unsubscribe-post'), 'List-Unsubscribe=One-Click')
    t.equal(withLink?.get('auto-submitted'), 'auto-generated', 'automatic replies are not invited')
    t.equal(withLink?.get('x-receivables-id'), 'msg_01KDZ3CV3NSJPBXHTGA1R5EY8Q')
    t.notOk(withoutLink?.has('list-unsubscribe'))
  },
)

t.test('without a mail server, each message is written to one file', async (t) => {
  const directory = `${t.testdir({})}/mail`
  const mailer = newMailer(t, undefined, { directory })
  const text = 'Dear Jansen,\n\nThe invoice is due.'
  t.strictSame(await sendNow(mailer, { text }), { outcome: 'accepted', providerMessageId: null })
  await sendNow(mailer, { text })
  t.strictSame(await readdir(directory), ['msg_01KDZ3CV3NSJPBXHTGA1R5EY8Q.eml'])
  const file = `${directory}/msg_01KDZ3CV3NSJPBXHTGA1R5EY8Q.eml`
  t.equal((await stat(file)).mode & 0o777, 0o600)
  const raw = await readFile(file, 'utf8')
  const mail = await PostalMime.parse(raw)
  matches(t, mail, { messageId: sampleMail().messageId, subject: 'Invoice INV-1' })
  // Regression: the lines of the text ended with LF, and the size in MAIL FROM was therefore too small.
  t.notMatch(raw, /(?<!\r)\n/)
})

t.test('if the file cannot be written, the mail is not accepted', async (t) => {
  const directory = `${t.testdir({ occupied: 'a file' })}/occupied`
  matches(t, await sendNow(newMailer(t, undefined, { directory })), { outcome: 'abandoned' })
})
