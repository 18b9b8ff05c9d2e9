import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { nextRevision } from '../../../backend/database/revision.ts'
import type { Transaction } from '../../../backend/database/tables.ts'
import {
  archiveDebtor,
  type Pause,
  pauseChasing,
  restoreDebtor,
  resumeChasing,
} from '../../../backend/debtors/chasing.ts'
import { type DebtorDetails, editDebtor } from '../../../backend/debtors/details.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { faultsOf } from '../../fixtures/contract/schema.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'

async function openLedger(t: Test) {
  const { testAccount, createEndpoint } = await openWebhooks(t)
  const { database } = testAccount.backend
  const { accountId } = testAccount
  await createEndpoint('https://example.com/hook')
  const actionContext = () => ({ actor: OPERATOR, now: testAccount.backend.now })
  const perform = <T>(work: (tx: Transaction) => Promise<T>) => database.transaction(work)
  return {
    testAccount,
    read: (id: string): Promise<Json> => testAccount.read(`/api/v1/debtors/${id}`),
    edit: (id: string, details: DebtorDetails) =>
      perform((tx) => editDebtor(tx, accountId, id, details, actionContext())),
    pause: (id: string, pause: Pause) =>
      perform((tx) => pauseChasing(tx, accountId, id, pause, actionContext())),
    resume: (id: string) => perform((tx) => resumeChasing(tx, accountId, id, actionContext())),
    archive: (id: string) => perform((tx) => archiveDebtor(tx, accountId, id, actionContext())),
    restore: (id: string) => perform((tx) => restoreDebtor(tx, accountId, id, actionContext())),
    setColumns: (id: string, values: object) =>
      perform((tx) =>
        tx
          .updateTable('debtors')
          .set({ ...values, ...nextRevision(tx, actionContext().now.toISOString()) })
          .where('id', '=', id)
          .execute(),
      ),
    async events(): Promise<Json[]> {
      const rows = await database.read
        .selectFrom('webhook_events')
        .select('body')
        .orderBy('id')
        .execute()
      return rows
        .map(({ body }) => JSON.parse(body))
        .filter(({ type }) => type !== 'debtor.created')
    },
    async audit() {
      const rows = await database.read
        .selectFrom('audit_log')
        .selectAll()
        .where('action', 'like', 'debtor.%')
        .orderBy('id')
        .execute()
      return rows.map(({ action, detail }) => ({ action, ...JSON.parse(detail) }))
    },
  }
}

t.test('an edit changes the fields that it names, and causes one event', async (t) => {
  const ledger = await openLedger(t)
  const before = await ledger.testAccount.createDebtor({
    address: { line1: 'Oudegracht 1', city: 'Utrecht', country: 'NL' },
    language: 'nl',
  })
  await ledger.testAccount.createInvoice({ debtor_id: before.id })
  await ledger.edit(before.id, {
    name: ' Jansen B.V. ',
    line1: '',
    phone: '+31205550142',
    language: '',
  })
  const after = await ledger.read(before.id)
  matches(t, after, {
    ...{ name: 'Jansen B.V.', phone: '+31205550142', language: null, email: before.email },
    address: { line1: null, city: 'Utrecht', country: 'NL' },
    balances: [{ outstanding: 10_000 }],
  })
  matches(t, await ledger.testAccount.read('/api/v1/debtors?q=jansen%20b.v'), {
    data: [{ id: before.id }],
  })
  const [, updated, ...others] = await ledger.events()
  matches(t, updated, {
    type: 'debtor.updated',
    data: { object: after, previous: { name: before.name, language: 'nl', phone: null } },
  })
  t.strictSame(faultsOf('DebtorEvent', updated), [])
  t.strictSame(others, [])
  matches(t, await ledger.audit(), [
    {
      action: 'debtor.edited',
      name: 'Jansen B.V.',
      changed: ['phone', 'language', 'name', 'address'],
    },
  ])
  await ledger.edit(before.id, { name: 'Jansen B.V.', city: 'Utrecht' })
  t.equal((await ledger.audit()).length, 1, 'equal values are not a change')
  await ledger.edit(before.id, { city: '', country: '' })
  t.equal((await ledger.read(before.id)).address, null)
})

t.test('every invalid field of an edit is reported, and nothing is changed', async (t) => {
  const ledger = await openLedger(t)
  const { id } = await ledger.testAccount.createDebtor()
  const details = { name: '', email: 'nowhere', country: 'XX', timezone: 'Mars/Olympus' }
  const error: Json = await ledger.edit(id, details).catch((thrown: unknown) => thrown)
  t.strictSame(
    error.members.errors.map(({ pointer }: Json) => pointer),
    ['/name', '/email', '/timezone', '/country'],
  )
  t.strictSame(await ledger.audit(), [])
  await rejectsWith(t, ledger.edit('deb_none', { name: 'X' }), { code: 'not_found' })
  const theirs = await (await ledger.testAccount.otherAccount()).createDebtor()
  await rejectsWith(t, ledger.edit(theirs.id, { name: 'X' }), { code: 'not_found' })
})

t.test(
  'a debtor whose mail bounced is still marked as bounced after a change of the address',
  async (t) => {
    const ledger = await openLedger(t)
    const { id } = await ledger.testAccount.createDebtor({ email: null })
    await ledger.edit(id, { email: 'ap@jansen.example' })
    matches(
      t,
      await ledger.read(id),
      { contactability: { email: 'ok' } },
      'a first address makes a debtor reachable',
    )
    await ledger.setColumns(id, { contactability_email: 'bounced' })
    await ledger.edit(id, { email: 'new@jansen.example' })
    matches(t, await ledger.read(id), { contactability: { email: 'bounced' } })
    await ledger.edit(id, { email: '' })
    matches(t, await ledger.read(id), { email: null, contactability: { email: 'missing' } })
    t.strictSame(
      (await ledger.events()).map(({ type }) => type),
      [
        ...['debtor.contactability_changed', 'debtor.updated'],
        'debtor.updated',
        ...['debtor.contactability_changed', 'debtor.updated'],
      ],
    )
  },
)

t.test('chasing is paused until a time or indefinitely, and can be resumed', async (t) => {
  const ledger = await openLedger(t)
  const invoice = await ledger.testAccount.createInvoice()
  const { debtor_id: id } = invoice
  const message = await ledger.testAccount.insertMessage([invoice], {
    status: 'awaiting_approval',
    approval_required: 1,
    approval_status: 'pending',
  })
  const until = new Date(ledger.testAccount.backend.now.getTime() + 86_400_000)
  await ledger.pause(id, { reason: ' A payment plan ', until })
  matches(t, (await ledger.read(id)).chasing, {
    ...{ status: 'paused', reason: 'A payment plan', until: until.toISOString() },
  })
  matches(t, (await ledger.testAccount.read('/api/v1/messages')).data, [
    { id: message, status: 'cancelled', approval: { status: 'lapsed' } },
  ])
  await ledger.pause(id, { reason: 'Longer', until: null })
  t.strictSame((await ledger.read(id)).chasing, { status: 'paused', reason: 'Longer', until: null })
  await ledger.resume(id)
  t.strictSame((await ledger.read(id)).chasing, { status: 'active', reason: null, until: null })
  await ledger.resume(id)
  const updates = (await ledger.events()).filter(({ type }) => type === 'debtor.updated')
  t.equal(updates.length, 3, 'the second resumption changes nothing')
  await rejectsWith(t, ledger.pause(id, { reason: '', until: null }), { code: 'validation_failed' })
  const past = { reason: 'x', until: ledger.testAccount.backend.now }
  const invalidUntil = { code: 'validation_failed', members: { errors: [{ pointer: '/until' }] } }
  await rejectsWith(t, ledger.pause(id, past), invalidUntil)
})

t.test('an archived debtor is not chased, and can still pay', async (t) => {
  const ledger = await openLedger(t)
  const invoice = await ledger.testAccount.createInvoice()
  const { debtor_id: id } = invoice
  await ledger.archive(id)
  await ledger.archive(id)
  matches(t, await ledger.read(id), { status: 'archived', chasing: { status: 'stopped' } })
  matches(t, await ledger.testAccount.read('/api/v1/debtors?status=archived'), { data: [{ id }] })
  const conflict = { code: 'debtor_state_conflict', members: { debtor_status: 'archived' } }
  await rejectsWith(t, ledger.resume(id), conflict)
  await rejectsWith(t, ledger.pause(id, { reason: 'x', until: null }), conflict)
  const body = { amount: 10_000, currency: 'EUR', invoice_id: invoice.id }
  t.equal((await ledger.testAccount.post('/api/v1/payments', body)).status, 201)
  await ledger.restore(id)
  matches(t, await ledger.read(id), {
    status: 'active',
    chasing: { status: 'active', reason: null },
  })
  t.strictSame(
    (await ledger.audit()).map(({ action }) => action),
    ['debtor.archived', 'debtor.restored'],
  )
  await ledger.setColumns(id, { erased_at: ledger.testAccount.backend.now.toISOString() })
  await rejectsWith(t, ledger.edit(id, { name: 'X' }), { code: 'debtor_state_conflict' })
})
