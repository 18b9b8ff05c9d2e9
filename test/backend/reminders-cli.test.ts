// What operators do at the command line, on a data directory of its own, while no backend runs.
import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createAccount } from '../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { createDebtor } from '../../backend/debtors/debtors.ts'
import { createInvoice } from '../../backend/invoices/invoices.ts'
import { openTestDatabase } from '../fixtures/database.ts'

const NONE = {
  externalId: null,
  phone: null,
  language: null,
  timezone: null,
  currency: null,
  paymentTermsDays: null,
  address: null,
  taxId: null,
  companyNumber: null,
  metadata: {},
}

/** An account with an invoice that fell due on 2 November, and the command line beside it. */
async function prepare(t: Test) {
  const directory = t.testdir()
  const url = `sqlite:${join(directory, 'receivables.db')}`
  const database = await openTestDatabase(t, { url, user: 'operator' })
  const now = new Date('2026-11-03T10:00:00.000Z')
  const accountId = await database.transaction(async (tx) => {
    const act = { actor: OPERATOR, now }
    const account = await createAccount(tx, { name: 'Acme', timezone: 'Europe/Amsterdam' }, act)
    const owner = {
      accountId: account.id,
      isDemo: false,
      timezone: account.timezone,
      paymentTermsDays: 30,
    }
    const named = { name: 'Jansen Bouw', email: 'ap@jansen-bouw.nl' }
    const debtor = await createDebtor(tx, owner, { ...NONE, ...named }, now)
    await createInvoice(
      tx,
      owner,
      {
        debtor: { id: debtor.id },
        number: 'F-1',
        externalId: null,
        currency: 'EUR',
        amount: 12_500,
        lines: [],
        issueDate: '2026-10-03',
        dueDate: '2026-11-02',
        status: 'open',
        poNumber: null,
        notes: null,
        paymentUrl: null,
        metadata: {},
      },
      now,
    )
    return account.id
  })
  const run = (args: readonly string[], env: Record<string, string> = { REHEARSAL: 'on' }) =>
    new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
      const options = {
        env: {
          PATH: process.env['PATH'] ?? '',
          DATA_DIR: directory,
          SECRET_BOX_KEY: 'a-box-key-of-tests-that-is-long-enough',
          ...env,
        },
      }
      execFile(process.execPath, ['backend/cli.ts', ...args], options, (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr })
      })
    })
  const json = async (...args: string[]) => {
    const { stdout, stderr } = await run([...args, '--json'])
    if (stderr !== '') throw new Error(stderr)
    return JSON.parse(stdout)
  }
  const audit = async () => {
    const rows = await database.read
      .selectFrom('audit_log')
      .select(['action', 'actor_type'])
      .orderBy('id')
      .execute()
    return rows.map(({ action, actor_type }) => `${actor_type} ${action}`)
  }
  return { directory, accountId, run, json, audit }
}

t.test('rehearse: preview, run, approve, and a file for what left', async (t) => {
  const { directory, accountId, json, run, audit } = await prepare(t)
  const { messages } = await json('reminders', 'preview', '--account', accountId, '--days', '60')
  t.match(messages[0], {
    debtor_name: 'Jansen Bouw',
    to: 'a•••@jansen-bouw.nl',
    stage: 'friendly',
    invoices: [{ number: 'F-1', amount_due: 12_500, currency: 'EUR' }],
    requires_approval: false,
    refusal: null,
    message: null,
  })
  t.same(
    messages.map(({ stage }: { stage: string }) => stage),
    ['friendly', 'reminder', 'firm', 'final'],
  )
  const at = (now: string) => json('reminders', 'run', '--now', now, '--account', accountId)
  t.match(await at('2026-11-05T10:00:00+01:00'), {
    messages: [{ stage: 'friendly', status: 'sent' }],
  })
  await at('2026-11-12T10:00:00+01:00')
  const firm = await at('2026-11-23T10:00:00+01:00')
  t.match(firm.messages, [{ stage: 'firm', status: 'awaiting_approval' }])
  const [approval] = await json('reminders', 'approvals', '--account', accountId)
  t.match(approval, { id: firm.messages[0].id, body: /F-1/ })
  t.match((await run(['reminders', 'approve', approval.id])).stdout, 'is approved')
  t.match((await run(['reminders', 'approve', approval.id])).stderr, 'does not wait')
  t.match(await at('2026-11-24T10:00:00+01:00'), { messages: [{ stage: 'firm', status: 'sent' }] })
  t.equal(readdirSync(join(directory, 'mail')).length, 3)
  t.same((await audit()).slice(1), [
    'operator reminders.rehearsed',
    'operator reminders.rehearsed',
    'operator reminders.rehearsed',
    'operator message.approved',
    'operator reminders.rehearsed',
  ])
})

t.test('nothing is rehearsed beside a backend that works by itself', async (t) => {
  const { run } = await prepare(t)
  const { code, stderr } = await run(['reminders', 'run', '--now', '2026-11-24T10:00:00Z'], {})
  t.equal(code, 1)
  t.match(stderr, 'REHEARSAL=on')
  t.equal((await run(['reminders', 'run', '--now', 'tomorrow'])).code, 2)
})

t.test('the kill switch, of an account and of all', async (t) => {
  const { accountId, json, run, audit } = await prepare(t)
  t.equal((await run(['kill-switch', 'on'])).code, 2, 'a reason is required')
  t.match(await json('kill-switch', 'on', '--reason', 'An audit', '--account', accountId), {
    scope: 'account',
    account_id: accountId,
    on: true,
    reason: 'An audit',
    changed_by: 'operator',
  })
  const { messages } = await json('reminders', 'preview', '--account', accountId)
  t.match(messages[0].refusal, { reason: 'kill_switch', detail: /An audit/ })
  t.match(await json('reminders', 'run', '--now', '2026-11-24T10:00:00Z'), {
    messages: [{ status: 'suppressed', suppression: { reason: 'kill_switch' } }],
  })
  t.match(await json('kill-switch', 'off', '--account', accountId), { on: false, reason: null })
  t.match(await json('kill-switch', 'on', '--reason', 'All'), { scope: 'installation', on: true })
  t.match(await json('kill-switch', 'status'), [{ scope: 'installation' }, { scope: 'account' }])
  t.match((await audit()).slice(1), [
    'operator kill_switch.put_on',
    'operator reminders.rehearsed',
    'operator kill_switch.put_off',
    'operator kill_switch.put_on',
  ])
})

t.test('the schedule is shown and changed', async (t) => {
  const { accountId, json, run } = await prepare(t)
  const schedule = (...args: string[]) =>
    json('reminders', 'schedule', '--account', accountId, ...args)
  t.match(await schedule(), { ladder: { friendly: 3, courtesy: null }, chase_from: null })
  t.match(
    await schedule('--ladder', '5,12,25,40', '--courtesy', '3', '--chase-from', '2026-11-01'),
    { ladder: { courtesy: -3, friendly: 5, final: 40 }, chase_from: '2026-11-01' },
  )
  t.match(await schedule('--holidays', '2026-12-25,2026-12-24'), {
    holidays: ['2026-12-24', '2026-12-25'],
    ladder: { friendly: 5 },
  })
  const bad = ['--ladder', '5,5,25,40', '--account', accountId]
  t.match((await run(['reminders', 'schedule', ...bad])).stderr, 'later than friendly')
})
