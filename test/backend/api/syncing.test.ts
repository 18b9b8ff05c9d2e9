// A client's copy of an account's records becomes equal to the records, even if the clocks of backends differ: the
// client misses no change, and the state with the highest revision is the latest state.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { Reader } from '../../../backend/database/tables.ts'
import { allocatePayment } from '../../../backend/payments/reallocation.ts'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { fc } from '../../fixtures/properties.ts'
import { startMailService } from '../../fixtures/reminders/mail-service.ts'
import { startBackend } from '../../fixtures/service/backend.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { byId, createSyncedCopy } from '../../fixtures/service/synced-copy.ts'

const RUNS = Number(process.env['SYNC_RUNS'] ?? 25)

t.test('each change raises updated_at, even if the clock of the backend is behind', async (t) => {
  const testAccount = await openTestAccount(t)
  const { backend } = testAccount
  const start = backend.now
  const debtor = await testAccount.createDebtor()
  const pay = () =>
    testAccount.create('/api/v1/payments', { debtor_id: debtor.id, currency: 'EUR', amount: 1 })
  const read = () => testAccount.read(`/api/v1/debtors/${debtor.id}`)
  t.strictSame([debtor.revision, debtor.updated_at], [1, start.toISOString()])
  backend.now = new Date(start.getTime() + 20_000)
  await pay()
  t.strictSame(
    [(await read()).revision, (await read()).updated_at],
    [2, '2026-11-21T10:15:20.000Z'],
  )
  backend.now = start
  const payment = await pay()
  t.strictSame(
    [(await read()).revision, (await read()).updated_at],
    [3, '2026-11-21T10:15:20.001Z'],
  )
  t.strictSame([payment.revision, payment.created_at], [1, start.toISOString()])
})

t.test(
  'an event has the revision of its object, both in the object and beside the object',
  async (t) => {
    const { testAccount } = await startMailService(t)
    const invoice = await testAccount.createInvoice()
    const pay = (amount: number) =>
      testAccount.create('/api/v1/payments', { invoice_id: invoice.id, currency: 'EUR', amount })
    await pay(1)
    await pay(1)
    await pay(9998)
    const rows = await testAccount.backend.database.read
      .selectFrom('webhook_events')
      .select('body')
      .where('subject_id', '=', invoice.id)
      .orderBy('id')
      .execute()
    const events = rows.map(({ body }) => JSON.parse(body))
    t.strictSame(
      events.map(({ type, data }) => [type, data.revision, data.object.revision]),
      [
        ['invoice.created', 1, 1],
        ['invoice.partially_paid', 2, 2],
        ['invoice.partially_paid', 3, 3],
        ['invoice.paid', 4, 4],
      ],
    )
    t.strictSame(
      events.at(-1)?.data.object,
      await testAccount.read(`/api/v1/invoices/${invoice.id}`),
    )
  },
)

// Regression: balances and allocations were read after the rows of a page. If they changed in between, the list showed
// the new ones with the previous revision: the amounts of a payment did not add up.
t.test(
  'an object in a list is of one revision, even if it changes while the list is read',
  async (t) => {
    const database = await openTestDatabase(t)
    const testAccount = await openTestAccount(t, {}, { database })
    const { accountId, key, backend } = testAccount
    const debtor = await testAccount.createDebtor()
    const { id: invoiceId } = await testAccount.createInvoice({ debtor_id: debtor.id })
    const money = { currency: 'EUR', amount: 500 }
    const payment = await testAccount.create('/api/v1/payments', { debtor_id: debtor.id, ...money })
    let isChanging = false
    const actionContext = { actor: OPERATOR, now: backend.now }
    const change = () =>
      database.transaction((tx) =>
        allocatePayment(tx, accountId, payment.id, [{ invoiceId, amount: 1 }], actionContext),
      )
    const { read } = database
    const changingRead: Reader = {
      selectFrom: read.selectFrom.bind(read),
      fn: read.fn,
      dynamic: read.dynamic,
      getExecutor: () => read.getExecutor(),
      async executeQuery(query) {
        const result = await read.executeQuery(query)
        if (isChanging && 'isPage' in query) await change()
        return result
      },
    }
    const changingDatabase = new Proxy(database, {
      get(target, name) {
        if (name === 'read') return changingRead
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const changing = await startBackend(t, { database: changingDatabase })
    for (const type of ['debtors', 'payments']) {
      const { data: before } = await testAccount.read(`/api/v1/${type}`)
      isChanging = true
      const { json } = await changing.call(key, 'GET', `/api/v1/${type}`)
      isChanging = false
      t.strictSame(json['data'], before)
      const { data: after } = await testAccount.read(`/api/v1/${type}`)
      t.ok(after[0].revision > before[0].revision)
    }
  },
)

const arbitraryChange = fc.record({
  do: fc.constant('change' as const),
  debtorIndex: fc.nat(2),
  skewSeconds: fc.constantFrom(-120, -20, 0, 20, 120),
})

const arbitraryStep = fc.oneof(
  { weight: 4, arbitrary: arbitraryChange },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      seconds: fc.constantFrom(1, 30, 299, 301, 900),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('sync' as const),
      // The number of the page, from 0, after which the client is killed; undefined if the client is not killed.
      killedAfterPage: fc.option(fc.nat(3), { nil: undefined }),
      meanwhile: fc.array(arbitraryChange, { maxLength: 3 }),
    }),
  },
)

t.test(
  'a copy that is kept as docs/syncing.md recommends equals the records of the account',
  { timeout: 0 },
  async (t) => {
    const shared = await openTestAccount(t)
    const { backend } = shared
    await fc.assert(
      fc.asyncProperty(fc.array(arbitraryStep, { maxLength: 30, size: 'max' }), async (steps) => {
        const testAccount = await shared.otherAccount()
        let now = new Date('2026-11-21T10:15:00.000Z')
        backend.now = now
        const debtors = [
          await testAccount.createDebtor(),
          await testAccount.createDebtor(),
          await testAccount.createDebtor(),
        ]
        const copy = createSyncedCopy('debtors', 1, testAccount.get)

        async function apply({
          debtorIndex,
          skewSeconds,
        }: {
          debtorIndex: number
          skewSeconds: number
        }) {
          backend.now = new Date(now.getTime() + skewSeconds * 1000)
          const debtor_id = debtors[debtorIndex]?.id
          await testAccount.create('/api/v1/payments', { debtor_id, currency: 'EUR', amount: 1 })
          backend.now = now
        }

        for (const step of steps) {
          if (step.do === 'change') await apply(step)
          if (step.do === 'wait') now = new Date(now.getTime() + step.seconds * 1000)
          backend.now = now
          if (step.do !== 'sync') continue
          const changes = step.meanwhile.values()
          await copy.run(now, async (page) => {
            const next = changes.next()
            if (!next.done) await apply(next.value)
            return page !== step.killedAfterPage
          })
        }
        await copy.run(now)
        const expected = JSON.stringify(byId(await copy.readAll()))
        if (JSON.stringify(byId(copy.objects)) !== expected) throw new Error('the copy differs')
      }),
      { numRuns: RUNS },
    )
    t.pass(`${RUNS} histories`)
  },
)
