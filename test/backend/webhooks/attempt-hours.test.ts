import t from 'tap'
import { readAttemptHours } from '../../../backend/webhooks/attempt-hours.ts'
import { openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { startReceiver } from '../../fixtures/servers/receiver.ts'

t.test('attempts are counted by endpoint and hour', async (t) => {
  // Regression: pages counted the attempts themselves, which took longer the more attempts there were.
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const { database } = backend
  backend.now = new Date('2026-11-21T10:58:00.000Z')
  const receiver = await startReceiver(t)
  const [failing, other] = [
    await webhooks.createEndpoint(receiver.url),
    await webhooks.createEndpoint(receiver.url, ['invoice.created']),
  ]
  const hours = async (id = failing.row.id) =>
    (await readAttemptHours(database.read, [id], backend.now)).get(id)
  t.equal(await hours(), undefined)
  receiver.respondWith((_, res) => void res.writeHead(500).end())
  await webhooks.testAccount.createDebtor()
  webhooks.startWorker()
  await webhooks.untilAll(({ attempts }) => attempts === 1, 'one attempt has failed')
  const failed = { hour: '2026-11-21T10', attempts: 1, succeeded: 0 }
  t.strictSame(await hours(), [failed])

  receiver.respondWith((_, res) => void res.writeHead(204).end())
  backend.now = new Date('2026-11-21T11:30:00.000Z')
  await webhooks.untilAll(({ status }) => status === 'delivered', 'the retry has succeeded')
  await webhooks.testAccount.createDebtor()
  await webhooks.untilAll(({ status }) => status === 'delivered', 'another event was delivered')
  await database.transaction((tx) => tx.deleteFrom('webhook_attempts').execute())
  t.strictSame(await hours(), [failed, { hour: '2026-11-21T11', attempts: 2, succeeded: 2 }])
  t.equal(await hours(other.row.id), undefined)

  backend.now = new Date('2026-11-22T10:59:00.000Z')
  t.equal((await hours())?.length, 2)
  backend.now = new Date('2026-11-22T11:00:00.000Z')
  t.strictSame(await hours(), [{ hour: '2026-11-21T11', attempts: 2, succeeded: 2 }])
})
