// Due deliveries wake the worker immediately; its slow poll is only a fallback.
import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { announce } from '../../../backend/database/announcements.ts'
import { databaseOf } from '../../../backend/database/database.ts'
import { recordEvent } from '../../../backend/events/events.ts'
import { DELIVERY_LEASES } from '../../../backend/webhooks/deliveries.ts'
import {
  type DeliveryWorkerDeps,
  startDeliveryWorker,
} from '../../../backend/webhooks/delivery-worker.ts'
import {
  createEndpoint,
  pauseEndpoint,
  resumeEndpoint,
} from '../../../backend/webhooks/endpoints.ts'
import { WEBHOOK_RETENTION } from '../../../backend/webhooks/retention.ts'
import { BOX, openWebhooks, type Webhooks } from '../../fixtures/accounts/webhooks.ts'
import { startReceiver } from '../../fixtures/servers/receiver.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { until } from '../../fixtures/service/until.ts'

const HOUR_MS = 3_600_000

/** The maximum number of concurrent attempts of a worker. */
const ATTEMPTS_MAX = 512

/** Starts a worker that polls once an hour and uses the real clock. */
function startHourlyWorker(
  t: Test,
  { sender, testAccount }: Webhooks,
  deps: Partial<DeliveryWorkerDeps> = {},
) {
  const worker = startDeliveryWorker({
    database: testAccount.backend.database,
    sender,
    secretBox: BOX,
    clock: () => new Date(),
    log: SILENT,
    baseUrl: 'https://receivables.test',
    isOnlyBackend: true,
    random: () => 0.5,
    pollMs: HOUR_MS,
    drainMsMax: 200,
    ...deps,
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

// Regression: the worker was woken just before the recorded attempts freed their capacity, so it slept until its next
// poll.
t.test('a backlog is delivered without waiting for a poll', async (t) => {
  const webhooks = await openWebhooks(t, { attemptMsMax: 600_000 })
  const { database, now } = webhooks.testAccount.backend
  const responses: ServerResponse[] = []
  const receiver = await startReceiver(t, { respond: (_, res) => void responses.push(res) })
  // The first events of these accounts use the whole capacity of the worker, so that the second events wait.
  await database.transaction(async (tx) => {
    const context = { actor: OPERATOR, now }
    const settings = { url: receiver.url, description: '', eventTypes: null }
    for (let n = 0; n < ATTEMPTS_MAX; n++) {
      const { id: accountId } = await createAccount(tx, { name: 'Acme Ltd' }, context)
      await createEndpoint(
        tx,
        accountId,
        settings,
        { secretBox: BOX, privateTargetPolicy: 'allow' },
        context,
      )
      for (const subjectId of ['deb_1', 'deb_2']) {
        const head = { accountId, type: 'debtor.created', subjectId } as const
        await recordEvent(tx, { ...head, represent: () => ({}) }, now)
      }
    }
  })
  const { promise: mayRecord, resolve: allowRecording } = Promise.withResolvers<void>()
  let attempts = 0
  startHourlyWorker(t, webhooks, {
    database: {
      ...databaseOf(database, webhooks.testAccount.accountId),
      async transaction(work) {
        // The worker has no capacity to claim more deliveries, so it can only record outcomes.
        if (receiver.webhooks.length === ATTEMPTS_MAX) await mayRecord
        return database.transaction(work)
      },
    },
    onAttempt: () => void attempts++,
  })
  await until(() => responses.length === ATTEMPTS_MAX, 'the whole capacity is used')
  receiver.respondWith((_, res) => void res.writeHead(204).end())
  for (const res of responses) res.writeHead(204).end()
  await until(() => attempts === ATTEMPTS_MAX, 'all attempts have ended')
  allowRecording()
  await until(() => receiver.webhooks.length === 2 * ATTEMPTS_MAX, 'all events are delivered')
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
    for (const { findExpired, applyTo } of WEBHOOK_RETENTION) {
      const keys = await findExpired(database.read, now)
      if (keys.length > 0) await database.transaction((tx) => applyTo(tx, keys))
    }
  }
  await applyRules(webhooks.testAccount.backend.now)
  const statuses = (await webhooks.deliveries()).map(({ status }) => status)
  t.strictSame(statuses, ['sending', 'failed'], 'an attempt in progress is not ended')
  await applyRules(new Date(webhooks.testAccount.backend.now.getTime() + 31 * 24 * HOUR_MS))
  t.strictSame(await webhooks.deliveries(), [])
  t.strictSame(await webhooks.eventTypes(), [])
})
