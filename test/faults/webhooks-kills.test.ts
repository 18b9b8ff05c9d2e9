import t from 'tap'
import { createAccount } from '../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../backend/accounts/audit.ts'
import { deriveKey } from '../../backend/config.ts'
import { openDatabase } from '../../backend/database/open.ts'
import { recordEvent } from '../../backend/events/events.ts'
import { createEndpoint } from '../../backend/webhooks/endpoints.ts'
import { sampleOf } from '../../backend/webhooks/samples.ts'
import { createSecretBox } from '../../backend/webhooks/secret-box.ts'
import { type ReceivedWebhook, startReceiver, verify } from '../fixtures/servers/receiver.ts'
import { SILENT } from '../fixtures/service/database.ts'
import { copySqliteTemplate } from '../fixtures/service/database-url.ts'
import { type StartedProcess, startProcess } from '../fixtures/service/process.ts'
import { until } from '../fixtures/service/until.ts'

/** `KILLS=200 npx tap test/faults/webhooks-kills.test.ts` kills more often. */
const KILLS = Number(process.env['KILLS'] ?? 3)
const EVENTS_PER_KILL = 40

t.setTimeout(600_000 + KILLS * 20_000)
const BOX_KEY = 'box+of+the+tests+0123456789abcdefghijklmn'

t.test('every event arrives, whenever the delivering backend is killed', async (t) => {
  const directory = t.testdir()
  await copySqliteTemplate(`${directory}/receivables.db`)
  const database = await openDatabase({
    url: `sqlite:${directory}/receivables.db`,
    log: SILENT,
    openedBy: 'operator',
  })
  t.teardown(() => database.close())
  const receiver = await startReceiver(t)
  const actionContext = { actor: OPERATOR, now: new Date() }
  const secretBox = createSecretBox([deriveKey(BOX_KEY, 'webhook secrets')])
  const { accountId, secret } = await database.transaction(async (tx) => {
    const { id } = await createAccount(tx, { name: 'Acme Ltd' }, actionContext)
    const input = { url: receiver.url, description: '', eventTypes: null }
    const made = await createEndpoint(
      tx,
      id,
      input,
      { secretBox, privateTargetPolicy: 'allow' },
      actionContext,
    )
    return { accountId: id, secret: made.secret }
  })
  const recordEvents = () =>
    database.transaction(async (tx) => {
      for (let n = 0; n < EVENTS_PER_KILL; n++) {
        const event = { accountId, type: 'webhook.test', subjectId: accountId } as const
        await recordEvent(
          tx,
          { ...event, represent: () => sampleOf(event.type).object },
          new Date(),
        )
      }
    })
  const start = (): Promise<StartedProcess> =>
    startProcess(t, 'backend/main.ts', {
      DATA_DIR: directory,
      KEY_PEPPER: 'v1:pepper+of+the+tests+0123456789abcdefghij',
      SECRET_BOX_KEY: BOX_KEY,
      GATEWAY_SECRET: 'gateways+of+the+tests+0123456789abcdefghi',
      WEBHOOK_PRIVATE_TARGETS: 'allow',
      BACKEND_PORT: '0',
      BACKEND_OPERATIONS_PORT: '0',
    })

  // Signatures are verified on arrival, because they expire after five minutes.
  const invalid: string[] = []
  const verifyOnArrival = (webhook: ReceivedWebhook) => {
    try {
      verify(webhook, secret)
    } catch (error) {
      invalid.push(`${webhook.event.id}: ${error}`)
    }
  }

  for (let kill = 0; kill < KILLS; kill++) {
    await recordEvents()
    // The backend is killed while it waits for the response to the webhook with the number `killedAt`, or later: at any
    // point between claiming a delivery and recording its outcome.
    const { promise: mayKill, resolve: allowKill } = Promise.withResolvers<void>()
    const killedAt = receiver.webhooks.length + 1 + Math.floor(Math.random() * EVENTS_PER_KILL)
    receiver.respondWith((webhook, res) => {
      verifyOnArrival(webhook)
      if (receiver.webhooks.length >= killedAt) allowKill()
      if (receiver.webhooks.length !== killedAt || Math.random() < 0.5) res.writeHead(204).end()
    })
    const backend = await start()
    await mayKill
    await backend.stop('SIGKILL')
    if (kill % 25 === 24) t.comment(`${kill + 1} kills`)
  }
  receiver.respondWith((webhook, res) => {
    verifyOnArrival(webhook)
    res.writeHead(204).end()
  })
  const backend = await start()
  const undelivered = () =>
    database.read
      .selectFrom('webhook_deliveries')
      .select('id')
      .where('status', '!=', 'delivered')
      .execute()
  await until(async () => (await undelivered()).length === 0, 'everything is delivered', 30_000)
  const events = await database.read.selectFrom('webhook_events').select(['id', 'body']).execute()
  const received = new Map(receiver.webhooks.map((webhook) => [webhook.event.id, webhook]))
  t.equal(events.length, KILLS * EVENTS_PER_KILL)
  t.strictSame([...received.keys()].sort(), events.map(({ id }) => id).sort())
  t.strictSame(invalid, [])
  for (const { id, body } of events) {
    const webhook = received.get(id)
    if (webhook?.body !== body) t.fail(`${id} was received with another body`)
  }
  t.comment({
    kills: KILLS,
    events: events.length,
    repeated: receiver.webhooks.length - events.length,
  })
  t.equal(await backend.stop(), 0, 'the backend drains')
})
