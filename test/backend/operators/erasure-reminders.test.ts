// Erasing a person also erases the personal data in sent reminders and in replies to them.
import type { Kysely } from 'kysely'
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { readAnyTable } from '../../../backend/database/any-table.ts'
import { readTableShapes } from '../../../backend/database/shape.ts'
import type { Reader } from '../../../backend/database/tables.ts'
import { pauseChasing, resumeChasing } from '../../../backend/debtors/chasing.ts'
import { eraseDebtor } from '../../../backend/erasure/erasure.ts'
import type { HandOverResult, Mail } from '../../../backend/mail/mail.ts'
import { decideApproval, listPendingApprovals } from '../../../backend/reminders/approvals.ts'
import { runPlanning } from '../../../backend/reminders/planning/planning-run.ts'
import { sendRound } from '../../../backend/reminders/sending/send-worker.ts'
import { startEngine } from '../../fixtures/reminders/engine.ts'
import { startMailService } from '../../fixtures/reminders/mail-service.ts'
import { deliveryReport, reply } from '../../fixtures/servers/inbound.ts'
import { openTestDatabase, SILENT } from '../../fixtures/service/database.ts'

const DAY_MS = 86_400_000

/** Matches the person's name and e-mail addresses, but not the address of the webhook receiver. */
const PERSON = /Jansen|jan jansen|@jansen/

/** Returns a function that resolves with all rows that contain personal data, from every table. */
async function searchRows(t: Test, reader: Reader): Promise<() => Promise<string[]>> {
  const sqliteDatabase = await openTestDatabase(t, { url: `sqlite:${t.testdirName}/tables.db` })
  const shapes = await sqliteDatabase.transaction((tx) =>
    readTableShapes(tx as unknown as Kysely<unknown>),
  )
  return async () => {
    const found: string[] = []
    for (const { name } of shapes) {
      const rows = await readAnyTable(reader).selectFrom(name).selectAll().execute()
      const marked = rows.map((row) => JSON.stringify(row)).filter((text) => PERSON.test(text))
      found.push(...marked.map((text) => `${name}: ${text}`))
    }
    return found
  }
}

t.test(
  'an erased person is no longer named in sent, bounced or rejected reminders, or in replies',
  async (t) => {
    const service = await startMailService(t)
    const { testAccount } = service
    const { backend, accountId } = testAccount
    const { database } = backend
    const debtor = await testAccount.createDebtor({ name: 'Jan Jansen', email: 'ap@jansen.nl' })
    const invoice = { debtor_id: debtor.id, issue_date: '2026-11-01', due_date: '2026-11-02' }
    await testAccount.createInvoice(invoice)
    const sent: Mail[] = []
    const deps = {
      database,
      log: SILENT,
      clock: () => backend.now,
      unsubscribeLinks: { linkFor: () => 'https://receivables.test/stop', open: () => undefined },
      mailer: {
        async send(mail: Mail) {
          sent.push(mail)
          return { outcome: 'accepted', providerMessageId: null } as const
        },
        messageIdOf: (id: string) => id,
        close: async () => {},
      },
    }
    const actionContext = () => ({ actor: OPERATOR, now: backend.now })
    // The planner and the sender run on five Mondays, after which a reminder waits for approval.
    for (let week = 0; week < 5; week += 1) {
      backend.now = new Date(Date.parse('2026-11-09T11:00:00.000Z') + week * 7 * DAY_MS)
      await runPlanning(deps)
      await sendRound(deps, 1)
    }
    t.ok(sent.length >= 2, `${sent.length} reminders were sent`)
    const [requested] = await listPendingApprovals(database.read, accountId)
    t.ok(requested, 'a reminder waits for approval')
    if (requested !== undefined) {
      const decision = { approve: false, reason: 'Jansen called' } as const
      await database.transaction((tx) =>
        decideApproval(tx, accountId, requested.message.id, decision, actionContext()),
      )
    }
    const [first = '', second = ''] = sent.map(({ messageId }) => messageId)
    t.equal((await service.post(reply(first))).status, 200)
    t.equal((await service.post(deliveryReport({ messageId: second }))).status, 200)
    await database.transaction(async (tx) => {
      const pause = { reason: 'Jansen is ill', until: null }
      await pauseChasing(tx, accountId, debtor.id, pause, actionContext())
      await resumeChasing(tx, accountId, debtor.id, actionContext())
    })

    const rowsWithPerson = await searchRows(t, database.read)
    t.ok((await rowsWithPerson()).length > 15)
    backend.now = new Date(backend.now.getTime() + DAY_MS)
    await eraseDebtor(database, debtor.id, {
      actor: OPERATOR,
      clock: () => backend.now,
      reason: 'asked',
    })
    t.strictSame(await rowsWithPerson(), [])
    // Regression: if a mail arrived after the erasure, its sender was stored.
    t.equal((await service.post(reply(second))).status, 200)
    t.strictSame(await rowsWithPerson(), [])

    backend.now = new Date(backend.now.getTime() + 30 * DAY_MS)
    const before = sent.length
    await runPlanning(deps)
    await sendRound(deps, 1)
    t.equal(sent.length, before, 'nothing is sent after the erasure')
  },
)

t.test('the reply of a mail server that arrives after an erasure is not recorded', async (t) => {
  // Regression: the reply, and the suppressed address, stayed until somebody repeated the erasure.
  const { testAccount, deps, createInvoice } = await startEngine(t)
  const { backend } = testAccount
  const rowsWithPerson = await searchRows(t, backend.database.read)
  const text = '550 <ap@jansen.nl>: rejected'
  const results: readonly HandOverResult[] = [
    { outcome: 'refused', type: 'hard', code: '5.1.1', detail: text },
    { outcome: 'refused', type: 'soft', code: '4.2.0', detail: text },
    { outcome: 'abandoned', detail: text },
    { outcome: 'unknown', detail: text },
  ]
  for (const result of results) {
    backend.now = new Date('2026-11-24T08:00:00.000Z')
    const debtor = await testAccount.createDebtor({ name: 'Jan Jansen', email: 'ap@jansen.nl' })
    await createInvoice('2026-11-19', { debtor_id: debtor.id })
    await runPlanning(deps)
    const erase = () =>
      eraseDebtor(backend.database, debtor.id, {
        actor: OPERATOR,
        clock: () => backend.now,
        reason: 'asked',
      })
    const mailer = {
      ...deps.mailer,
      async send() {
        await erase()
        return result
      },
    }
    await sendRound({ ...deps, mailer }, 1)
    t.strictSame(await rowsWithPerson(), [], result.outcome)
    t.strictSame((await erase()).erased, {}, 'a repeated erasure finds nothing')
  }
})
