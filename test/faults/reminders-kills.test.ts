import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { prepareReminderCli } from '../fixtures/reminders/cli.ts'
import { startSmtpServer } from '../fixtures/servers/smtp.ts'
import { until } from '../fixtures/service/until.ts'

const RUN = ['reminders', 'run', '--now', '2026-11-05T10:00:00+01:00'] as const

t.test(
  'if the process is killed during a hand-over, the same message is sent once more',
  async (t) => {
    const smtp = await startSmtpServer(t)
    const { runUntil, json } = await prepareReminderCli(t, smtp.url)
    smtp.failAt('data', 'hang', 1)
    await runUntil(
      RUN,
      until(() => smtp.mails.length === 1, 'the mail server has the message'),
    )
    matches(t, await json(...RUN), { messages: [{ stage: 'friendly', status: 'sent' }] })
    t.equal(smtp.mails.length, 2)
    t.equal(new Set(smtp.mails.map(({ mail }) => mail.messageId)).size, 1)
    matches(t, await json(...RUN), { messages: [] })
    t.equal(smtp.mails.length, 2)
  },
)

t.test('two runs at the same time send a reminder only once', async (t) => {
  const smtp = await startSmtpServer(t)
  const { run } = await prepareReminderCli(t, smtp.url)
  const outcomes = await Promise.all([run(RUN), run(RUN)])
  matches(t, outcomes, [{ code: 0 }, { code: 0 }])
  t.equal(smtp.mails.length, 1)
})
