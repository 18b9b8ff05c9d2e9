// Follows reminders from planning to mail, and then to a bounce or an unsubscription.
import { once } from 'node:events'
import { request } from 'node:http'
import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { deliveryReport } from '../fixtures/servers/inbound.ts'
import { startSmtpServer } from '../fixtures/servers/smtp.ts'
import { call } from '../fixtures/service/call.ts'
import { startSystem } from '../fixtures/service/system.ts'

const INBOUND_SECRET = 'posts+mail+that+came+in+0123456789abcdef'
/** The time at which reminders are sent: a Wednesday, in business hours. */
const RUN_AT = '2031-03-05T10:00:00+01:00'

t.test('a reminder is mailed, and its bounce and its unsubscription are recorded', async (t) => {
  const smtp = await startSmtpServer(t)
  const mailEnv = {
    SMTP_URL: smtp.url,
    MAIL_FROM: 'Receivables <reminders@mail.receivables.io>',
    MAIL_INBOUND_SECRET: INBOUND_SECRET,
    REHEARSAL: 'on',
  }
  const system = await startSystem(t, { backendEnv: mailEnv })
  Object.assign(system.env, mailEnv)
  const { url, operator } = system
  const { secret: key } = await operator.issueKey(await operator.createAccount())
  const post = async (path: string, body: object) =>
    (await call(`${url}/api/v1/${path}`, { key, body })).json
  const read = async (path: string) => (await call(`${url}/api/v1/${path}`, { key })).json
  const bill = { currency: 'EUR', amount: 12_500, issue_date: '2031-02-01', due_date: '2031-02-28' }
  const jansen = await post('debtors', { name: 'Jansen', email: 'ap@jansen.nl', language: 'nl' })
  const weber = await post('debtors', { name: 'Weber', email: 'ap@weber.de', language: 'de' })
  for (const { id } of [jansen, weber]) await post('invoices', { ...bill, debtor_id: id })

  await operator.cli('reminders', 'run', '--now', RUN_AT)
  t.strictSame(smtp.mails.flatMap(({ to }) => to).sort(), ['ap@jansen.nl', 'ap@weber.de'])
  const toJansen = smtp.mails.find(({ to }) => to.includes('ap@jansen.nl'))?.mail
  matches(t, toJansen, {
    from: { name: 'Acme Ltd', address: 'reminders@mail.receivables.io' },
    subject: /^Een vriendelijke herinnering: factuur \S+ – Acme Ltd$/,
    text: /125,00/,
    html: /<html lang="nl">/,
  })

  const [, link = ''] =
    /https:\/\/api\.test(\/mail\/unsubscribe\/[\w-]+)/.exec(toJansen?.text ?? '') ?? []
  matches(t, await call(url + link), { status: 200, text: /Herinneringen per e-mail stoppen\?/ })
  const click = { 'content-type': 'application/x-www-form-urlencoded' }
  const body = 'List-Unsubscribe=One-Click'
  t.equal((await call(url + link, { method: 'POST', headers: click, body })).status, 200)
  matches(t, await read(`debtors/${jansen.id}`), { contactability: { email: 'unsubscribed' } })

  const { data } = await read(`messages?debtor_id=${weber.id}`)
  matches(t, data, [
    { status: 'sent', to: 'a•••@weber.de', delivery: { provider_message_id: /^\d$/ } },
  ])
  const report = { 'content-type': 'message/rfc822' }
  // A report that contains the returned mail and its attachments can be larger than the body of an API call may be.
  const inbound = (headers: Record<string, string>) =>
    call(`${url}/mail/inbound`, {
      headers: { ...report, ...headers },
      body:
        deliveryReport({ messageId: data[0].id, finalRecipient: 'ap@weber.de' }) +
        'x'.repeat(1024 * 1024),
    })
  matches(t, await inbound({}), { status: 401, json: { code: 'invalid_mail_secret' } })
  matches(t, await inbound({ authorization: `Bearer ${INBOUND_SECRET}` }), {
    status: 200,
    json: { kind: 'bounce', message_id: data[0].id },
  })
  t.equal(await announceMail(url, 40 * 1024 * 1024 + 1), 413)
  matches(t, await read(`messages?debtor_id=${weber.id}`), { data: [{ status: 'bounced' }] })
  matches(t, await read(`debtors/${weber.id}`), { contactability: { email: 'bounced' } })
  // Regression: mails of many lines took so long to parse that the response was 504.
  const lines = '\n'.repeat(256 * 1024)
  const headers = { ...report, authorization: `Bearer ${INBOUND_SECRET}` }
  const mails = Array.from({ length: 14 }, () =>
    call(`${url}/mail/inbound`, { headers, body: lines }),
  )
  for (const mail of await Promise.all(mails)) matches(t, mail, { status: 200 })
  const log = system.backend.log()
  t.notMatch(log, /ap@(?:jansen|weber)/, 'addresses are not logged')
})

/** Announces mail of this length, and sends none of it. Resolves with the status of the response. */
async function announceMail(url: string, bytes: number): Promise<number> {
  const headers = { 'content-type': 'message/rfc822', 'content-length': bytes }
  const sent = request(`${url}/mail/inbound`, { method: 'POST', headers })
  sent.flushHeaders()
  const [response] = await once(sent, 'response')
  sent.on('error', () => {}).destroy()
  return response.statusCode
}
