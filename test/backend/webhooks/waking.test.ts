// Due deliveries wake the worker immediately; its slow poll is only a fallback.
import t, { type Test } from 'tap'
import { announce } from '../../../backend/database/announcements.ts'
import { recordEvent } from '../../../backend/events/events.ts'
import { DELIVERY_LEASES } from '../../../backend/webhooks/deliveries.ts'
import { startDeliveryWorker } from '../../../backend/webhooks/delivery-worker.ts'
import {
  ENDPOINTS_MAX,
  pauseEndpoint,
  resumeEndpoint,
} from '../../../backend/webhooks/endpoints.ts'
import { WEBHOOK_RETENTION } from '../../../backend/webhooks/retention.ts'
import { BOX, openWebhooks, type Webhooks } from '../../fixtures/accounts/webhooks.ts'
import { startReceiver } from '../../fixtures/servers/receiver.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const HOUR_MS = 3_600_000

/** Starts a worker that polls once an hour and uses the real clock. */
function startHourlyWorker(t: Test, { sender, testAccount }: Webhooks) {
  const worker = startDeliveryWorker({
    database: testAccount.backend.database,
    sender,
    box: BOX,
    clock: () => new Date(),
    log: SILENT,
    baseUrl: 'https://receivables.test',
    isOnlyBackend: true,
    random: () => 0.5,
    pollMs: HOUR_MS,
    drainMsMax: 200,
  })
  t.teardown(() => worker.drain())
}

/** Starts a worker. Resolves after its first round, which sends all deliveries that are already due. */
async function startIdleWorker(t: Test, webhooks: Webhooks) {
  const { database } = webhooks.testAccount.backend
  const before = database.activity().committed
  startHourlyWorker(t, webhooks)
  await until(() => database.activity().committed > before, 'the first round has ended')
}

t.test('an event wakes the worker', async (t) => {
  const webhooks = await openWebhooks(t)
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  await startIdleWorker(t, webhooks)
  await webhooks.testAccount.createDebtor()
  await until(() => receiver.webhooks.length === 1, 'the event is delivered')
})

t.test(
  'a failed delivery is retried when the retry is due, not only at the next poll',
  async (t) => {
    const webhooks = await openWebhooks(t)
    let attempts = 0
    const receiver = await startReceiver(t, {
      respond: (_, res) => {
        attempts += 1
        res.writeHead(attempts === 1 ? 500 : 204).end()
      },
    })
    await webhooks.createEndpoint(receiver.url)
    await startIdleWorker(t, webhooks)
    await webhooks.testAccount.createDebtor()
    await until(() => attempts === 2, 'the second attempt, five seconds later')
    const rows = await webhooks.untilAll(({ status }) => status === 'delivered', 'delivered')
    t.equal(rows[0]?.attempts, 2)
  },
)

// Regression: a round did not yet see the capacity of the recorded attempts, so the worker waited for its next poll.
t.test('a backlog is delivered without waiting for a poll', async (t) => {
  const webhooks = await openWebhooks(t)
  const receiver = await startReceiver(t)
  for (let n = 0; n < ENDPOINTS_MAX; n++) await webhooks.createEndpoint(`${receiver.url}${n}`)
  const { accountId, backend } = webhooks.testAccount
  await backend.database.transaction(async (tx) => {
    for (let n = 0; n < 300; n++) {
      const head = { accountId, type: 'debtor.created', subjectId: `dbt_${n}` } as const
      await recordEvent(tx, { ...head, render: () => ({}) }, backend.now)
    }
  })
  startHourlyWorker(t, webhooks)
  const isDone = () => receiver.webhooks.length === 300 * ENDPOINTS_MAX
  // On a busy machine, so many deliveries take over a minute.
  await until(isDone, 'all are delivered', 240_000)
})

t.test('resuming an endpoint wakes the worker', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const receiver = await startReceiver(t)
  const { row } = await webhooks.createEndpoint(receiver.url)
  const actionContext = {
    actor: { type: 'system', id: null, label: 'test', address: null },
    now: new Date(),
  } as const
  const paused = await backend.database.transaction((tx) => pauseEndpoint(tx, row, actionContext))
  await webhooks.testAccount.createDebtor()
  await startIdleWorker(t, webhooks)
  t.equal(receiver.webhooks.length, 0)
  await backend.database.transaction((tx) => resumeEndpoint(tx, paused, actionContext))
  await until(() => receiver.webhooks.length === 1, 'the event is delivered')
})

t.test(
  'an announcement calls its listeners after the commit, and not after a rollback',
  async (t) => {
    const { testAccount } = await openWebhooks(t)
    const { database } = testAccount.backend
    const calls: string[] = []
    const stopListening = database.listen('a', () => calls.push('a'))
    database.listen('b', () => calls.push('b'))
    // On PostgreSQL, a new connection calls all listeners, because earlier announcements may have been missed.
    if (database.isConcurrent)
      await until(() => calls.splice(0).length > 0, 'the call after connecting')
    await database
      .transaction(async (tx) => {
        announce(tx, 'a')
        throw new Error('thrown by the transaction')
      })
      .catch(() => {})
    await database.transaction(async (tx) => {
      announce(tx, 'b')
      t.strictSame(calls, [])
    })
    t.strictSame(calls, ['b'])
    await database.transaction(async (tx) => announce(tx, 'a'))
    stopListening()
    await database.transaction(async (tx) => announce(tx, 'a'))
    t.strictSame(calls, ['b', 'a'])
  },
)

t.test('unsent deliveries of a disabled endpoint are deleted when they expire', async (t) => {
  const webhooks = await openWebhooks(t)
  const { database } = webhooks.testAccount.backend
  const receiver = await startReceiver(t)
  const { row } = await webhooks.createEndpoint(receiver.url)
  await webhooks.testAccount.createDebtor()
  await webhooks.testAccount.createDebtor()
  const [claimed] = await webhooks.deliveries()
  await database.transaction(async (tx) => {
    // Regression: a delivery whose worker was killed during the attempt was kept forever.
    const ids = [claimed?.id ?? '']
    await DELIVERY_LEASES.claim(tx, ids, webhooks.testAccount.backend.now, { status: 'sending' })
    // A transaction that does not yet see that the endpoint is disabled may record the other delivery.
    await tx
      .updateTable('webhook_endpoints')
      .set({ status: 'disabled', disabled_reason: 'gone' })
      .where('id', '=', row.id)
      .execute()
  })
  const applyRules = async (now: Date) => {
    for (const { findExpired, deleteExpired } of WEBHOOK_RETENTION) {
      const keys = await findExpired(database.read, now)
      if (keys.length > 0) await database.transaction((tx) => deleteExpired(tx, keys))
    }
  }
  await applyRules(webhooks.testAccount.backend.now)
  const statuses = (await webhooks.deliveries()).map(({ status }) => status)
  t.strictSame(statuses, ['sending', 'failed'], 'an attempt in progress is not ended')
  await applyRules(new Date(webhooks.testAccount.backend.now.getTime() + 31 * 24 * HOUR_MS))
  t.strictSame(await webhooks.deliveries(), [])
  t.strictSame(await webhooks.eventTypes(), [])
})
