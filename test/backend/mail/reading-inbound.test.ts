// The forms in which mail programs and servers write replies, automatic replies and reports.
import t from 'tap'
import { type InboundMail, readInboundMail } from '../../../backend/inbound-mail/inbound-mail.ts'
import { matches } from '../../fixtures/matches.ts'
import { deliveryReport, reply } from '../../fixtures/servers/inbound.ts'

const ID = 'msg_01KDZ3CV3NSJPBXHTGA1R5EY8Q'

async function contentOf(raw: string): Promise<InboundMail['content']> {
  return (await readInboundMail(Buffer.from(raw))).content
}

async function textOfHtml(body: string): Promise<string | undefined> {
  const content = await contentOf(reply(ID, { body }).replace('text/plain', 'text/html'))
  return content.kind === 'reply' ? content.text : undefined
}

t.test('the text of a reply in HTML has the lines and letters that people see', async (t) => {
  // Regression: umlauts and accents stayed `&uuml;` and `&eacute;`.
  t.equal(
    await textOfHtml('<div>Gr&uuml;&szlig;e, d&eacute;j&agrave; pay&eacute;&hellip;</div>\n'),
    'Grüße, déjà payé…',
  )
  // Regression: the cells of a table were joined, and the line breaks of the source became lines.
  const table = '<tr><td>Betrag</td><td>5 EUR</td></tr>\n<tr><td>Datum</td><td>heute</td></tr>'
  t.equal(
    await textOfHtml(`<p>We\npaid\n  today.</p><table>${table}</table><p>&nbsp;</p><p>Jan</p>\n`),
    'We paid today.\nBetrag 5 EUR\nDatum heute\n\nJan',
  )
  // Regression: comments of Outlook, and the title, became text.
  const word = '<xml><w:View>Normal</w:View><w:Zoom>0</w:Zoom></xml>'
  const head = `<title>Mail</title><!--[if gte mso 9]>${word}<![endif]--><!-- a > b -->`
  t.equal(
    await textOfHtml(`<head>${head}</head><p>Paid.<!--[if !supportLists]-->!<!--[endif]--></p>\n`),
    'Paid. !',
  )
})

t.test('automatic replies are recognized, also without the header of RFC 3834', async (t) => {
  for (const headers of [
    'X-Precedence: auto_reply\n',
    'X-Autoresponder: yes\n',
    'X-Autoreply-From: jan@jansen.nl\n',
    'X-Mail-Autoreply: yes\n',
  ]) {
    matches(t, await contentOf(reply(ID, { headers })), { kind: 'auto_reply' }, headers)
  }
  const from = 'MAILER-DAEMON@jansen.nl'
  matches(t, await contentOf(reply(ID, { from })), { kind: 'auto_reply' })
  // Systems in which people write mails also send this header. It requests that no automatic reply is sent to the mail.
  const headers = 'X-Auto-Response-Suppress: All\n'
  matches(t, await contentOf(reply(ID, { headers })), { kind: 'reply' })
})

t.test(
  'a report with comments, or about a mail with addresses beyond ASCII, is read',
  async (t) => {
    const report = deliveryReport({ action: 'failed (user unknown)', status: '5.1.1 (no mailbox)' })
    matches(t, await contentOf(report), {
      kind: 'bounce',
      failures: [{ bounce: { type: 'hard', code: '5.1.1' }, address: 'ap@jansen.nl' }],
    })
    const international = deliveryReport({ references: { envelopeId: false } })
      .replace('message/delivery-status', 'message/global-delivery-status')
      .replace('text/rfc822-headers', 'message/global-headers')
    matches(t, await readInboundMail(Buffer.from(international)), { content: { kind: 'bounce' } })
    t.ok((await readInboundMail(Buffer.from(international))).references.includes(ID))
  },
)

t.test('a report that a person attaches to a reply is not taken for a bounce', async (t) => {
  const part = deliveryReport()
  const body = part.slice(part.indexOf('--A8F5'))
  const attached = reply(ID, { body }).replace(
    'text/plain; charset=utf-8',
    'multipart/mixed; boundary="A8F5C4001D.1700000000/mx.jansen.nl"',
  )
  matches(t, await contentOf(attached), { kind: 'reply', text: /could not be delivered/ })
})

t.test(
  'the reason at the end of a reply of qmail decides whether a failure is permanent',
  async (t) => {
    for (const [diagnostic, type] of [
      ['smtp; 550 sorry, no mailbox here by that name. (#5.1.1)', 'hard'],
      ['smtp; 550 sorry, your message was rejected (#5.7.1)', 'soft'],
      // Regression: a customer got no more reminders because our server was on a block list.
      ['smtp; 550 192.0.2.1 is blocked, see zen.spamhaus.org', 'soft'],
    ] as const) {
      const content = await contentOf(deliveryReport({ status: '5.0.0', diagnostic }))
      matches(t, content, { kind: 'bounce', failures: [{ bounce: { type } }] }, diagnostic)
    }
  },
)

t.test('a reply without readable text says so', async (t) => {
  // Regression: the logged text and the notice were empty, and Admins did not know why.
  const encrypted = reply(ID, { body: '--x\n\n-----BEGIN PGP MESSAGE-----\n--x--\n' }).replace(
    'text/plain; charset=utf-8',
    'multipart/encrypted; boundary=x',
  )
  const attachment = reply(ID, { body: 'eJ8+Ig==\n' }).replace('text/plain', 'application/ms-tnef')
  for (const raw of [
    attachment,
    encrypted.replace('--x\r\n', '--x\r\nContent-Type: application/octet-stream\r\n'),
  ]) {
    matches(t, await contentOf(raw), { kind: 'reply', text: /has no text that can be shown/ })
  }
})

t.test('a rejection of the text does not count as an invalid address', async (t) => {
  // Regression: if a content filter without enhanced codes rejected a mail, the customer got no more reminders.
  for (const said of [
    '550 Rejected by content filter (in reply to end of DATA command)',
    'SMTP error from remote mail server after end of data:\r\n    550 Rejected by content filter',
  ]) {
    const report = deliveryReport({ status: '5.0.0', diagnostic: 'smtp; 550 Rejected' })
    const content = await contentOf(report.replace('could not be delivered.', said))
    matches(t, content, { kind: 'bounce', failures: [{ bounce: { type: 'soft', code: '5.0.0' } }] })
  }
})

t.test('the reason in a report of OpenSMTPD, which has no Diagnostic-Code, is read', async (t) => {
  // Regression: each of these reports counted as permanent, even that of a full mailbox.
  for (const [reason, bounce] of [
    ['552 5.2.2 Mailbox full', { type: 'soft', code: '5.2.2', detail: '552 5.2.2 Mailbox full' }],
    ['550-5.1.1 The account does not exist', { type: 'hard', code: '5.1.1' }],
    ['550 Invalid recipient', { type: 'hard', code: '5.0.0' }],
  ] as const) {
    const report = openSmtpdReport(`ap@jansen.nl: ${reason}`)
    matches(t, await contentOf(report), { kind: 'bounce', failures: [{ bounce }] }, reason)
  }
})

/** Returns a report of OpenSMTPD, which is not a `multipart/report`. */
function openSmtpdReport(reason: string): string {
  return deliveryReport({ status: '5.0.0' })
    .replace(/^Return-Path: <>\r\n/, '')
    .replace('Auto-Submitted: auto-replied\r\n', '')
    .replace('multipart/report; report-type=delivery-status', 'multipart/mixed')
    .replace(/^Diagnostic-Code: .*\r\n.*\r\n/m, '')
    .replace(/^I'm sorry.*$/m, `    Hi!\r\n\r\n${reason}`)
}
