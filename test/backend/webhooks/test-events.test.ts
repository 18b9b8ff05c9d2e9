// Test events are sent once, and their failures have no effect on the endpoint.
import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { redeliver, redeliverFailed } from '../../../backend/webhooks/delivery-log.ts'
import { lockEndpoint, pauseEndpoint } from '../../../backend/webhooks/endpoints.ts'
import { sendTestEvent } from '../../../backend/webhooks/test-event.ts'
import { BOX, openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { matches } from '../../fixtures/matches.ts'
import { startReceiver } from '../../fixtures/servers/receiver.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'
import { SILENT } from '../../fixtures/service/database.ts'

const DAY_MS = 86_400_000

/** Starts a receiver that rejects every event, and an endpoint with its URL. */
async function openFailingEndpoint(t: Test, status = 500) {
  const respond = (_: unknown, response: ServerResponse) => void response.writeHead(status).end()
  const receiver = await startReceiver(t, { respond })
  const webhooks = await openWebhooks(t)
  const { backend, accountId } = webhooks.testAccount
  const { row } = await webhooks.createEndpoint(receiver.url)
  const actionContext = () => ({ actor: OPERATOR, now: backend.now })
  return {
    ...webhooks,
    accountId,
    database: backend.database,
    actionContext,
    endpoint: () => webhooks.readEndpoint(row.id),
    async sendTest() {
      const services = {
        sender: webhooks.sender,
        secretBox: BOX,
        clock: () => backend.now,
        baseUrl: BASE_URL,
        privateTargetPolicy: 'allow' as const,
      }
      const deps = { database: backend.database, webhooks: services, log: SILENT }
      const endpoint = await webhooks.readEndpoint(row.id)
      return await sendTestEvent(endpoint, 'webhook.test', deps, actionContext())
    },
    async pause() {
      await backend.database.transaction(async (tx) =>
        pauseEndpoint(tx, await lockEndpoint(tx, accountId, row.id), actionContext()),
      )
    },
    async deliveryLog() {
      const deliveries = await webhooks.deliveries()
      return deliveries.map((row) => `${row.event_type}:${row.status}:${row.attempts}`)
    },
  }
}

for (const status of [500, 410]) {
  // Regression: the second one disabled the endpoint, so that waiting events failed and later ones were not recorded.
  t.test(`test events that fail with ${status} do not disable a paused endpoint`, async (t) => {
    const webhooks = await openFailingEndpoint(t, status)
    await webhooks.pause()
    await webhooks.testAccount.createDebtor()
    await webhooks.sendTest()
    webhooks.advanceClock(5 * DAY_MS)
    await webhooks.sendTest()
    await webhooks.testAccount.createDebtor()
    matches(t, await webhooks.endpoint(), { status: 'paused', failing_since: null })
    t.strictSame((await webhooks.deliveryLog()).sort(), [
      ...['debtor.created:pending:0', 'debtor.created:pending:0'],
      ...['webhook.test:failed:1', 'webhook.test:failed:1'],
    ])
  })
}

// Regression: the first failed event disabled the endpoint, because a test event had failed five days before.
t.test('the five days of failures do not begin with a test event', async (t) => {
  const webhooks = await openFailingEndpoint(t)
  await webhooks.sendTest()
  webhooks.advanceClock(5 * DAY_MS)
  await webhooks.testAccount.createDebtor()
  webhooks.startWorker()
  await webhooks.untilAll(({ attempts }) => attempts === 1, 'the event is sent once')
  matches(t, await webhooks.endpoint(), { status: 'enabled' })
  t.strictSame(await webhooks.deliveryLog(), ['webhook.test:failed:1', 'debtor.created:pending:1'])
})

// Regression: it was retried for three days, and "redeliver all failed" included it.
t.test(
  'a redelivered test event is sent once, and only if it is redelivered by itself',
  async (t) => {
    const webhooks = await openFailingEndpoint(t)
    const { database, accountId, actionContext } = webhooks
    const id = await webhooks.sendTest()
    const since = actionContext().now
    webhooks.advanceClock(1000)
    const all = { since, isTimeOver: () => false }
    const redelivered = await redeliverFailed(
      database,
      await webhooks.endpoint(),
      all,
      actionContext(),
    )
    t.equal(redelivered.count, 0)
    await database.transaction((tx) => redeliver(tx, accountId, id, actionContext()))
    webhooks.startWorker()
    await webhooks.untilAll(({ attempts }) => attempts === 2, 'the test event is sent again')
    t.strictSame(await webhooks.deliveryLog(), ['webhook.test:failed:2'])
  },
)
