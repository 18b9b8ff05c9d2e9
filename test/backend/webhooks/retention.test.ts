import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { applyAllRetentionRules } from '../../../backend/retention/retention.ts'
import { redeliver } from '../../../backend/webhooks/delivery-log.ts'
import { pauseEndpoint, resumeEndpoint, rotateSecret } from '../../../backend/webhooks/endpoints.ts'
import { WEBHOOK_RETENTION } from '../../../backend/webhooks/retention.ts'
import { BOX, openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { matches } from '../../fixtures/matches.ts'
import { startReceiver } from '../../fixtures/servers/receiver.ts'
import { until } from '../../fixtures/service/until.ts'

const DAY_MS = 24 * 3_600_000

const ruleOf = (wanted: string) => WEBHOOK_RETENTION.find(({ name }) => name === wanted)

t.test('the delivery log is deleted after 30 days, except for pending deliveries', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const { database } = backend
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  const worker = webhooks.startWorker()
  await webhooks.testAccount.createDebtor()
  await webhooks.untilAll(({ status }) => status === 'delivered', 'delivered')
  await worker.drain()
  const pausedEndpoint = await webhooks.createEndpoint(receiver.url, ['debtor.created'])
  const actionContext = { actor: OPERATOR, now: backend.now }
  await database.transaction((tx) => pauseEndpoint(tx, pausedEndpoint.row, actionContext))
  await webhooks.testAccount.createDebtor()

  webhooks.advanceClock(30 * DAY_MS - 1000)
  await applyAllRetentionRules(database, backend.now)
  t.equal((await webhooks.deliveries()).length, 3)
  webhooks.advanceClock(2000)
  await applyAllRetentionRules(database, backend.now)
  const kept = await webhooks.deliveries()
  t.strictSame(new Set(kept.map(({ status }) => status)), new Set(['pending']))
  t.strictSame(await webhooks.attempts(), [])
  const events = await database.read.selectFrom('webhook_events').select('id').execute()
  t.strictSame(new Set(events.map(({ id }) => id)), new Set(kept.map((row) => row.event_id)))
})

// Regression: a delivery that was redelivered while retention ran was deleted before it was sent.
t.test('a delivery that is redelivered when it expires is sent', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend, accountId } = webhooks.testAccount
  const { database } = backend
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  webhooks.startWorker()
  await webhooks.testAccount.createDebtor()
  const [delivery] = await webhooks.untilAll(({ status }) => status === 'delivered', 'delivered')
  webhooks.advanceClock(31 * DAY_MS)
  const rule = ruleOf('webhook deliveries')
  const expired = (await rule?.findExpired(database.read, backend.now)) ?? []
  t.equal(expired.length, 1)
  const id = delivery?.id ?? ''
  await database.transaction(async (tx) => {
    await redeliver(tx, accountId, id, { actor: OPERATOR, now: backend.now })
    await rule?.applyTo(tx, expired)
  })
  await until(() => receiver.webhooks.length === 2, 'the event is delivered again')
})

t.test('an old secret is deleted when it expires', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const { row } = await webhooks.createEndpoint('https://example.com/')
  const actionContext = { actor: OPERATOR, now: backend.now }
  await backend.database.transaction((tx) => rotateSecret(tx, row, BOX, actionContext))
  await applyAllRetentionRules(backend.database, backend.now)
  t.type((await webhooks.readEndpoint(row.id)).old_secret, 'string')
  webhooks.advanceClock(DAY_MS)
  await applyAllRetentionRules(backend.database, backend.now)
  matches(t, await webhooks.readEndpoint(row.id), { old_secret: null, old_secret_expires_at: null })
})

t.test(
  'the previous secret is kept if the secret is rotated when an older one expires',
  async (t) => {
    const webhooks = await openWebhooks(t)
    const { database } = webhooks.testAccount.backend
    const { row } = await webhooks.createEndpoint('https://example.com/')
    const rotate = async () => {
      const endpoint = await webhooks.readEndpoint(row.id)
      const actionContext = { actor: OPERATOR, now: webhooks.testAccount.backend.now }
      await database.transaction((tx) => rotateSecret(tx, endpoint, BOX, actionContext))
    }
    await rotate()
    webhooks.advanceClock(DAY_MS)
    const rule = ruleOf('webhook secrets')
    const expired = (await rule?.findExpired(database.read, webhooks.testAccount.backend.now)) ?? []
    t.equal(expired.length, 1)
    await rotate()
    await database.transaction(async (tx) => rule?.applyTo(tx, expired))
    t.type((await webhooks.readEndpoint(row.id)).old_secret, 'string')
  },
)

t.test('a delivery is sent if its endpoint is resumed before retention fails it', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const { database } = backend
  const receiver = await startReceiver(t)
  const { row } = await webhooks.createEndpoint(receiver.url)
  await webhooks.testAccount.createDebtor()
  await database.transaction((tx) =>
    tx
      .updateTable('webhook_endpoints')
      .set({ status: 'disabled', disabled_reason: 'gone' })
      .where('id', '=', row.id)
      .execute(),
  )
  const rule = ruleOf('stranded webhook deliveries')
  const stranded = (await rule?.findExpired(database.read, backend.now)) ?? []
  t.equal(stranded.length, 1)
  const endpoint = await webhooks.readEndpoint(row.id)
  await database.transaction(async (tx) => {
    await resumeEndpoint(tx, endpoint, { actor: OPERATOR, now: backend.now })
    await rule?.applyTo(tx, stranded)
  })
  webhooks.startWorker()
  await webhooks.untilAll(({ status }) => status === 'delivered', 'delivered')
})
