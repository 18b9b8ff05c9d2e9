// An attempt ends before the lease of its delivery, even if the clocks of two backends differ.
import t, { type Test } from 'tap'
import { attemptDelivery } from '../../../backend/webhooks/attempt.ts'
import { DELIVERY_LEASES, readClaimed } from '../../../backend/webhooks/deliveries.ts'
import { ATTEMPT_MS_MAX } from '../../../backend/webhooks/sender.ts'
import { BOX, openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { matches } from '../../fixtures/matches.ts'
import { startReceiver } from '../../fixtures/servers/receiver.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'

/** Creates a delivery and claims it. */
async function claimDelivery(t: Test) {
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const { database, now } = backend
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  await webhooks.testAccount.createDebtor()
  const ids = await DELIVERY_LEASES.findDue(database.read, now, { limit: 1 })
  const { lease, startBefore } = await database.transaction((tx) =>
    DELIVERY_LEASES.claim(tx, ids, now, { status: 'sending' }),
  )
  const [delivery] = await readClaimed(database.read, ids, lease)
  if (delivery === undefined) throw new Error('the delivery was not claimed')
  return { webhooks, database, receiver, delivery, startBefore }
}

// Regression: the lease ended 15 s after the attempt, so a backend whose clock was 20 s ahead sent the event again.
t.test('a backend whose clock is ahead does not repeat an attempt in progress', async (t) => {
  const { database, delivery, startBefore } = await claimDelivery(t)
  const attemptEnd = startBefore.getTime() + ATTEMPT_MS_MAX
  const dueAt = (ms: number) => DELIVERY_LEASES.findDue(database.read, new Date(ms), { limit: 1 })
  t.strictSame(await dueAt(attemptEnd + 20_000), [])
  t.strictSame(await dueAt(attemptEnd + 30_000), [delivery.id])
})

// Regression: a backend that was stopped after it had claimed an event could send it after another backend had.
t.test('an attempt that could end after the lease is not started', async (t) => {
  const { webhooks, receiver, delivery, startBefore } = await claimDelivery(t)
  const attemptAt = (now: Date) =>
    attemptDelivery(delivery, startBefore, {
      ...{ sender: webhooks.sender, secretBox: BOX, baseUrl: BASE_URL, clock: () => now },
    })
  const late = new Date(startBefore.getTime() + 1)
  matches(t, await attemptAt(late), { result: { error: 'aborted' } })
  t.equal(receiver.webhooks.length, 0)
  matches(t, await attemptAt(startBefore), { result: { succeeded: true } })
})
