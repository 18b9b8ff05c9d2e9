// The operators' commands for reminders, run while no backend uses the data directory.
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { containing, matches } from '../../fixtures/matches.ts'
import { prepareReminderCli, type ReminderCli } from '../../fixtures/reminders/cli.ts'
import { PNG } from '../../fixtures/reminders/images.ts'

async function auditOf({ database }: ReminderCli): Promise<string[]> {
  const rows = await database.read
    .selectFrom('audit_log')
    .select(['action', 'actor_type'])
    .orderBy('id')
    .execute()
  return rows.map(({ action, actor_type }) => `${actor_type} ${action}`)
}

t.test('in a rehearsal, reminders are approved, and each mail is written to a file', async (t) => {
  const cli = await prepareReminderCli(t)
  const { directory, accountId, json, run } = cli
  const { messages } = await json('reminders', 'preview', '--account', accountId, '--days', '60')
  matches(t, messages[0], {
    debtor_name: 'Jansen Bouw',
    to: 'a•••@jansen-bouw.nl',
    stage: 'friendly',
    invoices: [{ number: 'F-1', amount_due: 12_500, currency: 'EUR' }],
    requires_approval: false,
    refusal: null,
    message: null,
  })
  t.strictSame(
    messages.map(({ stage }: { stage: string }) => stage),
    ['friendly', 'reminder', 'firm', 'final'],
  )
  const runAt = (now: string) => json('reminders', 'run', '--now', now, '--account', accountId)
  matches(t, await runAt('2026-11-05T10:00:00+01:00'), {
    messages: [{ stage: 'friendly', status: 'sent' }],
  })
  await runAt('2026-11-12T10:00:00+01:00')
  const firm = await runAt('2026-11-23T10:00:00+01:00')
  matches(t, firm.messages, [{ stage: 'firm', status: 'awaiting_approval' }])
  const [approval] = await json('reminders', 'approvals', '--account', accountId)
  matches(t, approval, { id: firm.messages[0].id, body: /F-1/ })
  matches(t, (await run(['reminders', 'approve', approval.id])).stdout, containing('is approved'))
  matches(t, await runAt('2026-11-24T10:00:00+01:00'), {
    messages: [{ stage: 'firm', status: 'sent' }],
  })
  t.equal(readdirSync(join(directory, 'mail')).length, 3)
  t.strictSame((await auditOf(cli)).slice(1), [
    'operator reminders.rehearsed',
    'operator reminders.rehearsed',
    'operator reminders.rehearsed',
    'operator message.approved',
    'operator reminders.rehearsed',
  ])
})

t.test('reminders about a rejected reminder’s invoices stop until they are resumed', async (t) => {
  const cli = await prepareReminderCli(t)
  const { accountId, json, run } = cli
  const runAt = (day: string) =>
    json('reminders', 'run', '--now', `2026-11-${day}T10:00:00+01:00`, '--account', accountId)
  for (const day of ['05', '12', '23']) await runAt(day)
  const [approval] = await json('reminders', 'approvals', '--account', accountId)
  const reject = ['reminders', 'reject', approval.id, '--reason', 'Paid in cash']
  matches(t, (await run(reject)).stdout, containing('is rejected'))
  matches(t, await run(reject), { code: 1, stderr: containing('because it is rejected') })
  t.strictSame((await runAt('24')).messages, [])
  const chase = ['debtors', 'chase-held', approval.debtor_id]
  matches(t, (await run(chase)).stdout, containing('receives reminders about its blocked invoices'))
  matches(t, (await runAt('25')).messages, [{ stage: 'firm', status: 'awaiting_approval' }])
  const audit = await auditOf(cli)
  t.ok(audit.includes('operator message.rejected'))
  t.ok(audit.includes('operator debtor.invoices_resumed'))
})

t.test('a rehearsal is rejected unless REHEARSAL is on', async (t) => {
  const { run } = await prepareReminderCli(t)
  const { code, stderr } = await run(['reminders', 'run', '--now', '2026-11-24T10:00:00Z'], {})
  t.equal(code, 1)
  matches(t, stderr, containing('REHEARSAL=on'))
})

t.test('an account’s kill switch suppresses reminders; the installation has one too', async (t) => {
  const cli = await prepareReminderCli(t)
  const { accountId, json } = cli
  matches(t, await json('kill-switch', 'on', '--reason', 'An audit', '--account', accountId), {
    scope: 'account',
    account_id: accountId,
    on: true,
    reason: 'An audit',
    changed_by: 'operator',
  })
  const { messages } = await json('reminders', 'preview', '--account', accountId)
  matches(t, messages[0].refusal, { reason: 'kill_switch', detail: /An audit/ })
  matches(t, await json('reminders', 'run', '--now', '2026-11-24T10:00:00Z'), {
    messages: [{ status: 'suppressed', suppression: { reason: 'kill_switch' } }],
  })
  matches(t, await json('kill-switch', 'off', '--account', accountId), { on: false, reason: null })
  matches(t, await json('kill-switch', 'on', '--reason', 'All'), {
    scope: 'installation',
    on: true,
  })
  matches(t, await json('kill-switch', 'status'), [{ scope: 'installation' }, { scope: 'account' }])
  matches(t, (await auditOf(cli)).slice(1), [
    'operator kill_switch.put_on',
    'operator reminders.rehearsed',
    'operator kill_switch.put_off',
    'operator kill_switch.put_on',
  ])
})

t.test('the schedule of reminders is shown and changed', async (t) => {
  const { accountId, json, run } = await prepareReminderCli(t)
  const schedule = (...args: string[]) =>
    json('reminders', 'schedule', '--account', accountId, ...args)
  matches(t, await schedule(), { ladder: { friendly: 3, courtesy: null }, chase_from: null })
  const days = ['--ladder', '5,12,25,40', '--courtesy', '3']
  const dates = ['--chase-from', '2026-11-01', '--holidays', '2026-12-25,2026-12-24']
  matches(t, await schedule(...days, ...dates), {
    ladder: { courtesy: -3, friendly: 5, final: 40 },
    holidays: ['2026-12-24', '2026-12-25'],
    chase_from: '2026-11-01',
  })
  const tooClose = ['--ladder', '5,5,25,40', '--account', accountId]
  matches(
    t,
    (await run(['reminders', 'schedule', ...tooClose])).stderr,
    containing('at least 5 days after friendly'),
  )
})

t.test('sender, wording and payment details are shown, changed and reset', async (t) => {
  const cli = await prepareReminderCli(t)
  const { accountId, directory, json, run } = cli
  const reminders = (command: string, ...args: string[]) =>
    json('reminders', command, '--account', accountId, ...args)
  t.strictSame(await reminders('sender'), { name: 'Acme', is_default: true, logo: null })
  const logo = join(directory, 'logo.png')
  writeFileSync(logo, PNG)
  matches(t, await reminders('sender', '--name', 'Acme Billing', '--logo', logo), {
    ...{ name: 'Acme Billing', is_default: false, logo: { width: 320, height: 80 } },
  })
  matches(t, await reminders('sender', '--name', 'none', '--logo', 'none'), {
    ...{ name: 'Acme', is_default: true, logo: null },
  })

  const firm = ['--stage', 'firm', '--language', 'nl']
  const standard = await reminders('wording', ...firm)
  const file = join(directory, 'firm-nl.json')
  // Regression: a byte order mark, as editors on Windows write it, was rejected as if the file were not JSON.
  writeFileSync(file, `\uFEFF${JSON.stringify({ sign_off: 'Groeten,' })}`)
  const changed = { ...standard, sign_off: 'Groeten,' }
  t.strictSame(await reminders('wording', ...firm, '--from', file), changed)
  t.strictSame(await reminders('wording', ...firm), changed)
  t.strictSame(await reminders('wording', ...firm, '--reset'), standard)
  const command = ['reminders', 'wording', '--account', accountId, ...firm, '--from', file]
  for (const content of [JSON.stringify({ signature: 'X' }), '{ "sign_off": ']) {
    writeFileSync(file, content)
    matches(t, await run(command), {
      code: 2,
      stderr:
        /firm-nl\.json must contain a JSON object with one or more of these members, each a text: subject/,
    })
  }

  t.strictSame(await reminders('payment'), [])
  const bank = ['--currency', 'eur', '--holder', 'Acme B.V.', '--number', 'NL91 ABNA 0417 1643 00']
  matches(t, await reminders('payment', ...bank), [
    { currency: 'EUR', account_holder: 'Acme B.V.', account_number: 'NL91ABNA0417164300' },
  ])
  t.strictSame(await reminders('payment', '--currency', 'EUR', '--remove'), [])
  t.strictSame((await auditOf(cli)).slice(1), [
    'operator account.sender_changed',
    'operator account.logo_changed',
    'operator account.sender_changed',
    'operator account.logo_removed',
    'operator account.wording_changed',
    'operator account.wording_reset',
    'operator account.payment_details_changed',
    'operator account.payment_details_removed',
  ])
})
