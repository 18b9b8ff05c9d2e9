import type { ServerResponse } from 'node:http'
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { DELIVERY_LEASES } from '../../../backend/webhooks/deliveries.ts'
import {
  ENDPOINTS_MAX,
  expireOldSecret,
  pauseEndpoint,
  resumeEndpoint,
  rotateSecret,
  updateEndpoint,
} from '../../../backend/webhooks/endpoints.ts'
import { BOX, openWebhooks, type Webhooks } from '../../fixtures/accounts/webhooks.ts'
import { matches, rejectsWith } from '../../fixtures/matches.ts'
import { startReceiver, verify } from '../../fixtures/servers/receiver.ts'
import { until } from '../../fixtures/service/until.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const isDelivered = ({ status }: { status: string }) => status === 'delivered'

t.test('an event is delivered with a signature, and logged', async (t) => {
  const webhooks = await openWebhooks(t)
  const receiver = await startReceiver(t, {
    respond: (_, res) => res.writeHead(201, { 'x-note': 'seen' }).end('thank you'),
  })
  const { secret, row } = await webhooks.createEndpoint(`${receiver.url}hook?a=b`)
  webhooks.startWorker()
  const debtor = await webhooks.testAccount.createDebtor()
  const [delivery] = await webhooks.untilAll(isDelivered, 'delivered')
  const [webhook] = receiver.webhooks
  if (webhook === undefined || delivery === undefined) throw new Error('nothing was delivered')
  t.equal(webhook.path, '/hook?a=b')
  matches(t, webhook.headers, {
    'content-type': 'application/json',
    'user-agent': 'Receivables-Webhooks/1 (+https://receivables.test/docs)',
    'webhook-id': delivery.event_id,
  })
  matches(t, verify(webhook, secret), {
    type: 'debtor.created',
    data: { object: { id: debtor.id } },
  })
  t.throws(() => verify({ ...webhook, body: webhook.body.replace('Jansen', 'Janssen') }, secret))
  matches(t, delivery, { attempts: 1, last_status_code: 201, last_error: null, run_at: null })
  const [attempt] = await webhooks.attempts()
  matches(t, attempt, {
    number: 1,
    endpoint_id: row.id,
    succeeded: 1,
    status_code: 201,
    error: null,
    response_body: 'thank you',
  })
  matches(t, JSON.parse(attempt?.request_headers ?? ''), { 'webhook-id': delivery.event_id })
  matches(t, JSON.parse(attempt?.response_headers ?? ''), { 'x-note': 'seen' })
  t.notMatch(
    JSON.stringify(await webhooks.readEndpoint(row.id)),
    secret,
    'the stored secret is encrypted',
  )
})

t.test(
  'after a rotation, webhooks are signed with both secrets until the old secret expires',
  async (t) => {
    const webhooks = await openWebhooks(t)
    const { backend } = webhooks.testAccount
    const receiver = await startReceiver(t)
    const { row, secret: old } = await webhooks.createEndpoint(receiver.url)
    webhooks.startWorker()
    const actionContext = () => ({ actor: OPERATOR, now: backend.now })
    const { row: rotated, secret: current } = await backend.database.transaction((tx) =>
      rotateSecret(tx, row, BOX, actionContext()),
    )
    const receiveNext = async () => {
      const count = receiver.webhooks.length
      await webhooks.testAccount.createDebtor()
      return until(() => receiver.webhooks[count], 'another webhook')
    }
    const overlapping = await receiveNext()
    t.ok(verify(overlapping, old))
    t.ok(verify(overlapping, current))
    await rejectsWith(
      t,
      backend.database.transaction((tx) => rotateSecret(tx, rotated, BOX, actionContext())),
      { code: 'webhook_secret_overlap' },
    )
    await backend.database.transaction((tx) => expireOldSecret(tx, rotated, actionContext()))
    const after = await receiveNext()
    t.throws(() => verify(after, old))
    t.ok(verify(after, current))
    t.equal(String(after.headers['webhook-signature']).split(' ').length, 1)

    const rotatedAgain = await backend.database.transaction((tx) =>
      rotateSecret(tx, { ...rotated, old_secret_expires_at: null }, BOX, actionContext()),
    )
    t.equal(
      rotatedAgain.row.old_secret_expires_at,
      new Date(+backend.now + 24 * HOUR_MS).toISOString(),
    )
    webhooks.advanceClock(24 * HOUR_MS)
    const nextDay = await receiveNext()
    t.equal(
      String(nextDay.headers['webhook-signature']).split(' ').length,
      1,
      'the old secret has expired',
    )
  },
)

t.test('a delivery that fails is attempted ten times in about three days', async (t) => {
  const webhooks = await openWebhooks(t)
  const receiver = await startReceiver(t, { respond: (_, res) => res.writeHead(500).end('no') })
  await webhooks.createEndpoint(receiver.url)
  webhooks.startWorker()
  await webhooks.testAccount.createDebtor()
  const delays = [5000, 5 * MINUTE_MS, 30 * MINUTE_MS]
  delays.push(...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR_MS))
  for (const [n, delay] of delays.entries()) {
    const [delivery] = await webhooks.untilAll(
      ({ attempts, status }) => attempts === n + 1 && status === 'pending',
      `attempt ${n + 1}`,
    )
    // The random number of these tests is 0.5, which means no jitter.
    const dueIn = Date.parse(delivery?.run_at ?? '') - +webhooks.testAccount.backend.now
    t.equal(dueIn, delay, `attempt ${n + 2} is due in ${delay} ms`)
    webhooks.advanceClock(delay)
  }
  await webhooks.untilAll(({ status }) => status === 'failed', 'the delivery has failed')
  t.equal(receiver.webhooks.length, 10)
  t.equal(new Set(receiver.webhooks.map(({ headers }) => headers['webhook-id'])).size, 1)
  const stamps = receiver.webhooks.map(({ headers }) => Number(headers['webhook-timestamp']))
  t.equal(new Set(stamps).size, 10, 'each attempt has its own timestamp')
  t.strictSame(
    (await webhooks.attempts()).map(({ number, status_code }) => [number, status_code]),
    Array.from({ length: 10 }, (_, n) => [n + 1, 500]),
  )
})

t.test(
  'a response with status 410 disables the endpoint and records a notice for the Admins',
  async (t) => {
    const webhooks = await openWebhooks(t)
    const { database } = webhooks.testAccount.backend
    const receiver = await startReceiver(t, { respond: (_, res) => res.writeHead(500).end() })
    const { row } = await webhooks.createEndpoint(receiver.url)
    webhooks.startWorker()
    await webhooks.testAccount.createDebtor()
    await webhooks.untilAll(({ attempts }) => attempts === 1, 'a delivery waits for its retry')
    receiver.respondWith((_, res) => void res.writeHead(410).end())
    await webhooks.testAccount.createDebtor()
    await webhooks.untilAll(({ status }) => status === 'failed', 'both have failed')
    matches(t, await webhooks.readEndpoint(row.id), { status: 'disabled', disabled_reason: 'gone' })
    const notices = await database.read.selectFrom('notices').selectAll().execute()
    matches(t, notices, [
      { kind: 'webhook_endpoint.disabled', subject_id: row.id, mailed_at: null },
    ])
    await webhooks.testAccount.createDebtor()
    t.equal((await webhooks.deliveries()).length, 2, 'a disabled endpoint gets no deliveries')
  },
)

t.test(
  'an endpoint without a success for five days is disabled; a success restarts the period',
  async (t) => {
    const webhooks = await openWebhooks(t)
    let status = 500
    const receiver = await startReceiver(t, { respond: (_, res) => res.writeHead(status).end() })
    const { row } = await webhooks.createEndpoint(receiver.url)
    webhooks.startWorker()
    const sendEvent = async (outcome: 'delivered' | 'failing') => {
      const before = (await webhooks.attempts()).length
      await webhooks.testAccount.createDebtor()
      await until(async () => (await webhooks.attempts()).length > before, 'attempted')
      const { failing_since } = await webhooks.readEndpoint(row.id)
      t.equal(failing_since === null, outcome === 'delivered')
    }
    await sendEvent('failing')
    webhooks.advanceClock(4 * 24 * HOUR_MS)
    status = 200
    await webhooks.untilAll(isDelivered, 'delivered')
    matches(t, await webhooks.readEndpoint(row.id), { status: 'enabled', failing_since: null })
    status = 500
    await sendEvent('failing')
    webhooks.advanceClock(5 * 24 * HOUR_MS - 1000)
    await until(async () => (await webhooks.deliveries()).at(-1)?.attempts === 2, 'attempted again')
    matches(t, await webhooks.readEndpoint(row.id), { status: 'enabled' })
    webhooks.advanceClock(5 * MINUTE_MS)
    await until(
      async () => (await webhooks.readEndpoint(row.id)).status === 'disabled',
      'the endpoint is disabled',
    )
    matches(t, await webhooks.readEndpoint(row.id), { disabled_reason: 'failing' })
  },
)

t.test('at an endpoint that fails, one attempt is made at a time', async (t) => {
  const webhooks = await openWebhooks(t, { attemptMsMax: 60_000 })
  const { createDebtor } = webhooks.testAccount
  const failing = await startReceiver(t, { respond: (_, res) => res.writeHead(500).end() })
  const { row } = await webhooks.createEndpoint(failing.url)
  webhooks.startWorker()
  await createDebtor()
  await webhooks.untilAll(({ attempts }) => attempts === 1, 'the first attempt has failed')
  failing.respondWith(() => {})
  const other = await startReceiver(t)
  await webhooks.createEndpoint(other.url)
  for (let n = 0; n < 3; n++) await createDebtor()
  const deliveriesTo = async (isFailing: boolean) =>
    (await webhooks.deliveries()).filter(({ endpoint_id: id }) => (id === row.id) === isFailing)
  await until(async () => (await deliveriesTo(false)).every(isDelivered), 'the worker has run')
  const statuses = (await deliveriesTo(true)).map(({ status }) => status)
  t.strictSame(statuses.toSorted(), ['pending', 'pending', 'pending', 'sending'])
})

t.test('Retry-After delays all deliveries to the endpoint', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const receiver = await startReceiver(t, {
    respond: (_, res) => res.writeHead(503, { 'retry-after': '3600' }).end(),
  })
  const { row } = await webhooks.createEndpoint(receiver.url)
  webhooks.startWorker()
  await webhooks.testAccount.createDebtor()
  const [delivery] = await webhooks.untilAll(({ attempts }) => attempts === 1, 'first attempt')
  const inAnHour = new Date(+backend.now + HOUR_MS).toISOString()
  t.equal(delivery?.run_at, inAnHour)
  t.equal((await webhooks.readEndpoint(row.id)).hold_until, inAnHour)
  const otherReceiver = await startReceiver(t)
  await webhooks.createEndpoint(otherReceiver.url)
  webhooks.advanceClock(HOUR_MS - 1)
  receiver.respondWith((_, res) => void res.writeHead(204).end())
  await webhooks.testAccount.createDebtor()
  await until(() => otherReceiver.webhooks.length === 1, 'the worker has run')
  t.equal(receiver.webhooks.length, 1)
  webhooks.advanceClock(1)
  await webhooks.untilAll(isDelivered, 'all are delivered')
  t.equal(receiver.webhooks.length, 3)
  matches(t, await webhooks.readEndpoint(row.id), { hold_until: null, failing_since: null })
})

// Regression: the success of an attempt that was in progress ended the delay, and a 503 shortened it to 5 seconds.
t.test('other attempts in progress do not shorten the delay of Retry-After', async (t) => {
  const webhooks = await openWebhooks(t, { attemptMsMax: 60_000 })
  const { backend } = webhooks.testAccount
  const responses: ServerResponse[] = []
  const receiver = await startReceiver(t, { respond: (_, res) => void responses.push(res) })
  const { row } = await webhooks.createEndpoint(receiver.url)
  webhooks.startWorker()
  for (let n = 0; n < 3; n++) await webhooks.testAccount.createDebtor()
  await until(() => responses.length === 3, 'all attempts are in progress')
  for (const status of [429, 503, 204]) {
    const headers = status === 429 ? { 'retry-after': '3600' } : {}
    responses.pop()?.writeHead(status, headers).end()
    await until(
      async () => (await webhooks.attempts()).some(({ status_code }) => status_code === status),
      `the attempt with status ${status} is recorded`,
    )
    const { hold_until } = await webhooks.readEndpoint(row.id)
    t.equal(hold_until, new Date(+backend.now + HOUR_MS).toISOString(), `after ${status}`)
  }
})

// Regression: the delay that the previous receiver had requested also applied to the new one, and a response of the
// previous receiver could disable the endpoint.
t.test(
  'a previous receiver neither delays nor disables an endpoint with another URL',
  async (t) => {
    const webhooks = await openWebhooks(t, { attemptMsMax: 60_000 })
    const { backend, createDebtor } = webhooks.testAccount
    const responses: ServerResponse[] = []
    const previous = await startReceiver(t, { respond: (_, res) => void responses.push(res) })
    const receiver = await startReceiver(t)
    const { row } = await webhooks.createEndpoint(previous.url)
    webhooks.startWorker()
    await createDebtor()
    await createDebtor()
    await until(() => responses.length === 2, 'both attempts are in progress')
    responses.pop()?.writeHead(429, { 'retry-after': '3600' }).end()
    const isHeld = async () => (await webhooks.readEndpoint(row.id)).hold_until !== null
    await until(isHeld, 'the receiver delays the endpoint')
    await backend.database.transaction((tx) => {
      const input = { url: receiver.url, description: '', eventTypes: null }
      return updateEndpoint(tx, { row, input }, 'allow', { actor: OPERATOR, now: backend.now })
    })
    responses.pop()?.writeHead(410).end()
    await until(async () => (await webhooks.attempts()).length === 2, 'both attempts are recorded')
    await createDebtor()
    await until(() => receiver.webhooks.length === 1, 'the event is delivered')
    matches(t, await webhooks.readEndpoint(row.id), { status: 'enabled', failing_since: null })
  },
)

t.test('deliveries wait while their endpoint is paused', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const receiver = await startReceiver(t)
  const otherReceiver = await startReceiver(t)
  const { row } = await webhooks.createEndpoint(receiver.url)
  await webhooks.createEndpoint(otherReceiver.url)
  const actionContext = { actor: OPERATOR, now: backend.now }
  const paused = await backend.database.transaction((tx) => pauseEndpoint(tx, row, actionContext))
  webhooks.startWorker()
  await webhooks.testAccount.createDebtor()
  await until(
    () => otherReceiver.webhooks.length === 1,
    'the other endpoint has received the event',
  )
  t.equal(receiver.webhooks.length, 0)
  await backend.database.transaction((tx) => resumeEndpoint(tx, paused, actionContext))
  await webhooks.untilAll(isDelivered, 'delivered')
  t.equal(receiver.webhooks.length, 1)
})

t.test('a worker that drains releases its unfinished deliveries', async (t) => {
  const webhooks = await openWebhooks(t, { attemptMsMax: 60_000 })
  const receiver = await startReceiver(t, { respond: () => {} })
  await webhooks.createEndpoint(receiver.url)
  const worker = webhooks.startWorker()
  await webhooks.testAccount.createDebtor()
  await until(() => receiver.webhooks.length === 1, 'the delivery is in progress')
  await worker.drain()
  matches(t, await webhooks.deliveries(), [{ status: 'pending', attempts: 0, lease: null }])
  receiver.respondWith((_, res) => void res.writeHead(204).end())
  webhooks.startWorker()
  await webhooks.untilAll(isDelivered, 'delivered by the next worker')
})

// Regression: slow receivers of four accounts occupied all 512 attempts of a process.
t.test('slow receivers of other accounts delay no event', async (t) => {
  const webhooks = await openWebhooks(t, { attemptMsMax: 60_000 })
  const { testAccount } = webhooks
  const slow = await startReceiver(t, { respond: () => {} })
  const others = await Promise.all(Array.from({ length: 4 }, () => testAccount.otherAccount()))
  for (const { accountId, createDebtor } of others) {
    for (let n = 0; n < ENDPOINTS_MAX; n++) {
      await webhooks.createEndpoint(`${slow.url}${n}`, undefined, accountId)
    }
    for (let n = 0; n < 16; n++) await createDebtor()
  }
  webhooks.startWorker()
  await until(() => slow.webhooks.length > 300, 'the slow receivers have most of the attempts')
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  await testAccount.createDebtor()
  await until(() => receiver.webhooks.length === 1, 'the event is delivered')
})

// Regression: the last attempt was reserved for other accounts, but no account could use it.
t.test('an account without attempts can use the last free attempt', async (t) => {
  const webhooks = await openWebhooks(t, { attemptMsMax: 600_000 })
  const { testAccount } = webhooks
  const slow = await startReceiver(t, { respond: () => {} })
  webhooks.startWorker()
  // Each of these accounts takes half of the remaining attempts, up to 160.
  for (const total of [160, 320, 416, 464, 488, 500, 506, 509, 510, 511]) {
    const { accountId, createDebtor } = await testAccount.otherAccount()
    for (let n = 0; n < ENDPOINTS_MAX; n++) {
      await webhooks.createEndpoint(`${slow.url}${n}`, undefined, accountId)
    }
    for (let n = 0; n < 16; n++) await createDebtor()
    await until(() => slow.webhooks.length === total, `${total} attempts are in progress`)
  }
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  await testAccount.createDebtor()
  await until(() => receiver.webhooks.length === 1, 'the event is delivered')
})

t.test('several workers send each delivery once', async (t) => {
  const webhooks = await openWebhooks(t)
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  const { testAccount } = webhooks
  await Promise.all(Array.from({ length: 50 }, () => testAccount.createDebtor()))
  for (let n = 0; n < 3; n++) webhooks.startWorker({ isOnlyBackend: false })
  await webhooks.untilAll(isDelivered, 'delivered')
  t.equal(receiver.webhooks.length, 50)
  t.equal(new Set(receiver.webhooks.map(({ event }) => event.id)).size, 50)
})

/** Creates a delivery, and claims it like a worker that is killed before it sends anything. Resolves with the id. */
async function claimAndDie({ testAccount, deliveries }: Webhooks): Promise<string> {
  const { backend } = testAccount
  await testAccount.createDebtor()
  const [delivery] = await deliveries()
  const id = delivery?.id ?? ''
  await backend.database.transaction((tx) =>
    DELIVERY_LEASES.claim(tx, [id], backend.now, { status: 'sending' }),
  )
  return id
}

t.test('a delivery of a dead worker is sent when its lease has expired', async (t) => {
  const webhooks = await openWebhooks(t)
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  const claimedId = await claimAndDie(webhooks)
  webhooks.startWorker({ isOnlyBackend: false })
  const otherReceiver = await startReceiver(t)
  await webhooks.createEndpoint(otherReceiver.url)
  await webhooks.testAccount.createDebtor()
  await until(() => otherReceiver.webhooks.length === 1, 'the worker has run')
  const [leased] = await webhooks.deliveries()
  matches(t, leased, { id: claimedId, status: 'sending' })
  webhooks.advanceClock(DELIVERY_LEASES.leaseMs)
  await webhooks.untilAll(isDelivered, 'delivered')
})

t.test(
  'the late outcome of a worker that has lost its lease does not disable the endpoint',
  async (t) => {
    // Regression: the endpoint was disabled, although the log showed only the success of the other worker.
    const webhooks = await openWebhooks(t, { attemptMsMax: 60_000 })
    const { promise: isReleased, resolve: release } = Promise.withResolvers<void>()
    const receiver = await startReceiver(t, {
      respond: (_, res) => void isReleased.then(() => res.writeHead(410).end()),
    })
    const { row } = await webhooks.createEndpoint(receiver.url)
    const worker = webhooks.startWorker({ isOnlyBackend: false, drainMsMax: 60_000 })
    await webhooks.testAccount.createDebtor()
    await until(() => receiver.webhooks.length === 1, 'the first attempt is in progress')
    receiver.respondWith((_, res) => void res.writeHead(204).end())
    webhooks.advanceClock(DELIVERY_LEASES.leaseMs)
    await webhooks.untilAll(isDelivered, 'delivered after the lease has expired')
    release()
    await worker.drain()
    matches(t, await webhooks.readEndpoint(row.id), { status: 'enabled', failing_since: null })
    matches(t, await webhooks.attempts(), [{ number: 1, status_code: 204 }])
  },
)

// Regression: when a backend reclaimed the deliveries of its killed predecessor, it violated a constraint, and
// nothing was delivered.
t.test('the only backend sends the deliveries of its killed predecessor immediately', async (t) => {
  const webhooks = await openWebhooks(t)
  const receiver = await startReceiver(t)
  await webhooks.createEndpoint(receiver.url)
  await claimAndDie(webhooks)
  webhooks.startWorker({ isOnlyBackend: true })
  await webhooks.untilAll(isDelivered, 'delivered')
  t.equal(receiver.webhooks.length, 1)
})
