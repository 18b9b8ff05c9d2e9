import t, { type Test } from 'tap'
import { startDeliveryWorker } from '../../../backend/webhooks/delivery-worker.ts'
import { createSender } from '../../../backend/webhooks/sender.ts'
import type { Json } from '../../fixtures/accounts/test-account.ts'
import { BOX } from '../../fixtures/accounts/webhooks.ts'
import { containing, matches } from '../../fixtures/matches.ts'
import { startReceiver, verify } from '../../fixtures/servers/receiver.ts'
import { BASE_URL } from '../../fixtures/service/backend.ts'
import { SILENT } from '../../fixtures/service/database.ts'
import { ADMIN, logIn, MEMBER, startSettings } from '../../fixtures/service/settings.ts'
import { until } from '../../fixtures/service/until.ts'

const ENDPOINTS = '/settings/webhook-endpoints'
const DELIVERIES = '/settings/webhook-deliveries'

async function startEndpointSettings(t: Test) {
  const sender = createSender({ privateTargetPolicy: 'allow', attemptMsMax: 2000 })
  const webhooks = {
    sender,
    secretBox: BOX,
    clock: () => new Date(),
    baseUrl: BASE_URL,
    privateTargetPolicy: 'allow',
  } as const
  const settings = await startSettings(t, { webhooks, baseUrl: 'http://127.0.0.1:8080' })
  const { backend } = settings
  backend.now = new Date()
  t.teardown(() => sender.close())
  const admin = await logIn(backend, ADMIN)
  const receiver = await startReceiver(t)
  const create = async (fields: object = {}): Promise<Json> => {
    const response = await admin.send('POST', ENDPOINTS, { url: receiver.url, ...fields })
    t.equal(response.status, 201, response.text)
    return response.json
  }
  return {
    ...settings,
    sender,
    admin,
    receiver,
    create,
    startWorker() {
      const worker = startDeliveryWorker({
        ...webhooks,
        clock: () => backend.now,
        database: backend.database,
        log: SILENT,
        isOnlyBackend: true,
        pollMs: 5,
        drainMsMax: 200,
      })
      t.teardown(() => worker.drain())
    },
  }
}

t.test('the secret of an endpoint is shown when it is created, and never again', async (t) => {
  const { admin, create, receiver, backend } = await startEndpointSettings(t)
  const created = await create({ events: ['payment.recorded', 'invoice.paid'], description: 'ERP' })
  matches(t, created, {
    object: 'webhook_endpoint',
    id: /^whe_/,
    url: receiver.url,
    description: 'ERP',
    events: ['invoice.paid', 'payment.recorded'],
    status: 'enabled',
    secret: /^whsec_/,
    last_24_hours: { attempts: 0, success_rate: null },
  })
  const { secret, ...rest } = created
  matches(t, (await admin.get(`${ENDPOINTS}/${created.id}`)).json, { id: created.id })
  const list: Json = (await admin.get(ENDPOINTS)).json
  t.strictSame(list.data, [rest])
  const audit = await admin.get('/settings/audit-log')
  matches(t, audit.text, /webhook_endpoint\.created/)
  for (const { text } of [audit, await admin.get(`${ENDPOINTS}/${created.id}`)]) {
    t.notMatch(text, secret)
  }
  const rows = await backend.database.read.selectFrom('webhook_endpoints').selectAll().execute()
  t.notMatch(JSON.stringify(rows), secret)
})

t.test('every invalid field of an endpoint is reported', async (t) => {
  const { admin, create, receiver } = await startEndpointSettings(t)
  const wrong = { url: 'http://10.0.0.1/', description: 'a'.repeat(201), events: ['a.b'] }
  const response: Json = await admin.send('POST', ENDPOINTS, wrong)
  matches(t, response, { status: 422, json: { code: 'validation_failed' } })
  t.strictSame(
    response.json.errors.map(({ pointer }: Json) => pointer),
    ['/url', '/description', '/events/0'],
  )
  const noEvents = await admin.send('POST', ENDPOINTS, { url: receiver.url, events: [] })
  matches(t, noEvents, { status: 422, json: { detail: /at least one event/ } })
  for (let n = 0; n < 10; n++) await create()
  matches(t, await admin.send('POST', ENDPOINTS, { url: receiver.url }), {
    status: 409,
    json: { code: 'too_many_webhook_endpoints' },
  })
})

t.test('a Member can see everything but secrets and bodies, and change nothing', async (t) => {
  const { backend, create, admin } = await startEndpointSettings(t)
  const { id } = await create()
  const sent: Json = (await admin.send('POST', `${ENDPOINTS}/${id}/test`, {})).json
  const member = await logIn(backend, MEMBER)
  t.equal((await member.get(`${ENDPOINTS}/${id}`)).status, 200)
  const detail = await member.get(`${DELIVERIES}/${sent.id}`)
  matches(t, detail.json, { event: null, attempts: [{ status_code: 204, response_body: null }] })
  matches(t, (await admin.get(`${DELIVERIES}/${sent.id}`)).json, {
    event: { type: 'webhook.test' },
  })
  const paths = [
    ENDPOINTS,
    ...['', '/pause', '/resume', '/test', '/rotate-secret', '/expire-old-secret'].map(
      (action) => `${ENDPOINTS}/${id}${action}`,
    ),
    `${ENDPOINTS}/${id}/redeliver-failed`,
    `${DELIVERIES}/${sent.id}/redeliver`,
  ]
  for (const path of paths) {
    matches(t, await member.send('POST', path, {}), {
      status: 403,
      json: { code: 'admin_required' },
    })
  }
})

t.test('endpoints and deliveries of other accounts are not found', async (t) => {
  const { backend, create, admin, createUser } = await startEndpointSettings(t)
  const { id } = await create()
  const sent: Json = (await admin.send('POST', `${ENDPOINTS}/${id}/test`, {})).json
  const other = await backend.createAccount({ name: 'Other' })
  await createUser(other.id, 'eve@other.example', 'admin')
  const eve = await logIn(backend, 'eve@other.example')
  t.strictSame((await eve.get(ENDPOINTS)).json, {
    object: 'list',
    data: [],
    has_more: false,
    next_cursor: null,
  })
  const foreign = [await eve.get(`${ENDPOINTS}/${id}`), await eve.get(`${DELIVERIES}/${sent.id}`)]
  for (const action of ['pause', 'resume', 'test', 'rotate-secret', 'expire-old-secret']) {
    foreign.push(await eve.send('POST', `${ENDPOINTS}/${id}/${action}`, {}))
  }
  foreign.push(await eve.send('PUT', `${ENDPOINTS}/${id}`, { description: 'mine' }))
  foreign.push(await eve.send('POST', `${DELIVERIES}/${sent.id}/redeliver`, {}))
  const since = { since: '2026-01-01T00:00:00Z' }
  foreign.push(await eve.send('POST', `${ENDPOINTS}/${id}/redeliver-failed`, since))
  for (const response of foreign) matches(t, response, { status: 404, json: { code: 'not_found' } })
})

t.test(
  'the response to a request for a test event contains the result of its delivery',
  async (t) => {
    const { admin, create, receiver } = await startEndpointSettings(t)
    const { id, secret } = await create({ events: ['invoice.paid'] })
    receiver.respondWith((_, res) => res.writeHead(418).end('a teapot'))
    const response: Json = await admin.send('POST', `${ENDPOINTS}/${id}/test`, {
      type: 'invoice.paid',
    })
    matches(t, response, {
      status: 200,
      json: {
        event_type: 'invoice.paid',
        status: 'failed',
        event: { test: true, data: { object: { status: 'paid' }, previous: { status: 'open' } } },
        attempts: [{ number: 1, succeeded: false, status_code: 418, response_body: 'a teapot' }],
        next_attempt_at: null,
      },
    })
    const [webhook] = receiver.webhooks
    t.ok(webhook && verify(webhook, secret))
    matches(t, await admin.send('POST', `${ENDPOINTS}/${id}/test`, { type: 'a.b' }), {
      status: 422,
    })
    const before: Json = (await admin.send('GET', `${ENDPOINTS}/${id}`)).json
    t.type(before.last_delivery_at, 'string')
    const rotated: Json = (await admin.send('POST', `${ENDPOINTS}/${id}/rotate-secret`)).json
    t.equal(rotated.last_delivery_at, before.last_delivery_at, 'a rotation keeps past deliveries')
  },
)

t.test('a shutdown during a test event does not count as a failure of the endpoint', async (t) => {
  // Regression: the aborted attempt was recorded as failed, and the endpoint as failing.
  const { admin, create, receiver, sender } = await startEndpointSettings(t)
  const { id } = await create()
  receiver.respondWith(() => {})
  const response = admin.send('POST', `${ENDPOINTS}/${id}/test`, {})
  await until(() => receiver.webhooks.length === 1, 'the attempt is in progress')
  await sender.close()
  matches(t, await response, { status: 202, json: { status: 'pending', attempts: [] } })
  matches(t, (await admin.get(`${ENDPOINTS}/${id}`)).json, { failing_since: null })
})

t.test('an endpoint is changed, paused and resumed, and its secret is rotated', async (t) => {
  const { admin, create } = await startEndpointSettings(t)
  const created = await create()
  const path = `${ENDPOINTS}/${created.id}`
  matches(t, (await admin.send('PUT', path, { events: ['invoice.paid'] })).json, {
    url: created.url,
    events: ['invoice.paid'],
  })
  matches(t, (await admin.send('PUT', path, { events: ['*'] })).json, { events: ['*'] })
  matches(t, (await admin.send('POST', `${path}/pause`)).json, { status: 'paused' })
  matches(t, (await admin.send('POST', `${path}/resume`)).json, { status: 'enabled' })
  const rotated: Json = (await admin.send('POST', `${path}/rotate-secret`)).json
  matches(t, rotated.secret, /^whsec_/)
  t.not(rotated.secret, created.secret)
  t.type(rotated.old_secret_expires_at, 'string')
  matches(t, await admin.send('POST', `${path}/rotate-secret`), {
    status: 409,
    json: { code: 'webhook_secret_overlap' },
  })
  matches(t, (await admin.send('POST', `${path}/expire-old-secret`)).json, {
    old_secret_expires_at: null,
  })
  matches(t, await admin.send('POST', `${path}/rotate-secret`), { status: 200 })
})

t.test('a disabled endpoint cannot be paused', async (t) => {
  // Regression: pausing a disabled endpoint removed the reason for which it was disabled.
  const { admin, create, receiver } = await startEndpointSettings(t)
  const { id } = await create()
  receiver.respondWith((_, res) => res.writeHead(410).end())
  await admin.send('POST', `${ENDPOINTS}/${id}/test`, {})
  matches(t, await admin.send('POST', `${ENDPOINTS}/${id}/pause`), {
    status: 409,
    json: { code: 'webhook_endpoint_disabled' },
  })
  matches(t, (await admin.get(`${ENDPOINTS}/${id}`)).json, {
    status: 'disabled',
    disabled_reason: 'gone',
  })
})

t.test('the log can be filtered and paged; failed deliveries can be redelivered', async (t) => {
  const { admin, create, receiver, backend, account, startWorker } = await startEndpointSettings(t)
  const { id } = await create({ events: ['debtor.created'] })
  receiver.respondWith((_, res) => res.writeHead(410).end())
  const key = await backend.issueKey(account.id)
  const createDebtor = () =>
    backend.call(key, 'POST', '/api/v1/debtors', { body: { name: 'Jansen' } })
  for (let n = 0; n < 3; n++) await createDebtor()
  startWorker()
  const failedPath = `${DELIVERIES}?endpoint_id=${id}&status=failed`
  const read = async (path: string): Promise<Json> => (await admin.get(path)).json
  await until(async () => (await read(failedPath)).data.length === 3, 'all have failed')
  const first = await read(`${failedPath}&limit=2`)
  matches(t, first, { has_more: true, next_cursor: first.data[1].id })
  const second = await read(`${failedPath}&limit=2&cursor=${first.next_cursor}`)
  t.equal(second.data.length, 1)
  matches(t, (await admin.page(`${failedPath}&limit=2`)).text, /limit=2&amp;cursor=\w+" rel="next"/)
  t.strictSame((await read(`${DELIVERIES}?type=invoice.paid`)).data, [])
  t.equal((await admin.get(`${DELIVERIES}?status=lost`)).status, 400)
  t.equal((await admin.get(`${DELIVERIES}?state=failed`)).status, 400)

  const redeliverOnePath = `${DELIVERIES}/${first.data[0].id}/redeliver`
  matches(t, await admin.send('POST', redeliverOnePath), {
    json: { code: 'webhook_endpoint_disabled' },
  })
  await admin.send('POST', `${ENDPOINTS}/${id}/resume`)
  receiver.respondWith((_, res) => void res.writeHead(204).end())
  matches(t, (await admin.send('POST', redeliverOnePath)).json, { status: 'pending' })
  await until(async () => (await read(failedPath)).data.length === 2, 'one was delivered')
  backend.now = new Date(+backend.now + 60_000)
  const redeliverFailedPath = `${ENDPOINTS}/${id}/redeliver-failed`
  matches(t, await admin.send('POST', redeliverFailedPath, { since: 'yesterday' }), { status: 422 })
  const since = new Date(+backend.now - 3_600_000).toISOString()
  matches(t, (await admin.send('POST', redeliverFailedPath, { since })).json, {
    redelivered: 2,
    has_more: false,
  })
  const deliveredPath = `${DELIVERIES}?endpoint_id=${id}&status=delivered`
  await until(async () => (await read(deliveredPath)).data.length === 3, 'all were delivered')
  const ids = receiver.webhooks.map(({ headers }) => headers['webhook-id'])
  t.equal(new Set(ids).size, 3, 'each kept its id')
  const endpoint = await read(`${ENDPOINTS}/${id}`)
  matches(t, endpoint, { last_24_hours: { succeeded: 3 } })
  // An hour may begin during the test, so the attempts may be counted in two hours.
  const hours: { succeeded: number }[] = endpoint['attempts_by_hour']
  t.equal(
    hours.reduce((sum, { succeeded }) => sum + succeeded, 0),
    3,
  )
})

t.test('the page of a delivery says that a paused endpoint delays its next attempt', async (t) => {
  const { admin, create, receiver, backend, account, startWorker } = await startEndpointSettings(t)
  const { id } = await create({ events: ['debtor.created'] })
  let respond = () => {}
  receiver.respondWith((_, res) => {
    respond = () => void res.writeHead(500).end()
  })
  const key = await backend.issueKey(account.id)
  await backend.call(key, 'POST', '/api/v1/debtors', { body: { name: 'Jansen' } })
  startWorker()
  await until(() => receiver.webhooks.length === 1, 'the event is being sent')
  await admin.send('POST', `${ENDPOINTS}/${id}/pause`)
  const [delivery] = (await admin.get(`${DELIVERIES}?endpoint_id=${id}`)).json['data'] as Json[]
  const path = `${DELIVERIES}/${delivery?.id}`
  const nextAttempt = async () =>
    /<dt>Next attempt<\/dt><dd>(.*?)<\/dd>/.exec((await admin.page(path)).text)?.[1] ?? ''
  // Regression: the page showed “– (once the endpoint is resumed)”.
  t.equal(await nextAttempt(), '–')
  respond()
  await until(async () => (await admin.get(path)).json['attempts_made'] === 1, 'the attempt ended')
  matches(t, await nextAttempt(), /^When the endpoint is resumed, but not before .*\d/)
})

t.test('the page of a delivery shows when Retry-After allows its next attempt', async (t) => {
  const { admin, create, receiver, backend, account, startWorker } = await startEndpointSettings(t)
  const { id } = await create({ events: ['debtor.created'] })
  receiver.respondWith((_, res) => void res.writeHead(503, { 'retry-after': '3600' }).end())
  const key = await backend.issueKey(account.id)
  const createDebtor = () =>
    backend.call(key, 'POST', '/api/v1/debtors', { body: { name: 'Jansen' } })
  const pathsOfDeliveries = async () => {
    const { json } = await admin.get(`${DELIVERIES}?endpoint_id=${id}`)
    return (json['data'] as Json[]).map((delivery) => `${DELIVERIES}/${delivery['id']}`)
  }
  const nextAttempt = async (path = '') =>
    /<dt>Next attempt<\/dt><dd>(.*?)<\/dd>/.exec((await admin.page(path)).text)?.[1]
  await createDebtor()
  startWorker()
  const [rejected = ''] = await pathsOfDeliveries()
  await until(
    async () => (await admin.get(rejected)).json['attempts_made'] === 1,
    'it was rejected',
  )
  await createDebtor()
  const [delayed] = await pathsOfDeliveries()
  t.not(delayed, rejected)
  matches(t, await nextAttempt(rejected), /\d/)
  // Regression: the page showed the time at which the delivery was created.
  t.equal(await nextAttempt(delayed), await nextAttempt(rejected))
})

t.test('a delivery that is being sent is not redelivered', async (t) => {
  // Regression: the page said that the event was being sent again, and the audit log contained a redelivery.
  const { admin, create, receiver, backend, account, startWorker } = await startEndpointSettings(t)
  const { id } = await create({ events: ['debtor.created'] })
  let finish = () => {}
  receiver.respondWith((_, res) => {
    finish = () => void res.writeHead(204).end()
  })
  const key = await backend.issueKey(account.id)
  await backend.call(key, 'POST', '/api/v1/debtors', { body: { name: 'Jansen' } })
  startWorker()
  await until(() => receiver.webhooks.length === 1, 'the event is being sent')
  const [delivery] = (await admin.get(`${DELIVERIES}?endpoint_id=${id}`)).json['data'] as Json[]
  const path = `${DELIVERIES}/${delivery?.id}`
  t.equal((await admin.submit(`${path}/redeliver`, {})).status, 303)
  matches(t, (await admin.page(path)).text, containing('The event is already being sent'))
  const redeliveries = async () =>
    ((await admin.get('/settings/audit-log')).json['data'] as Json[]).filter(
      ({ action }) => action === 'webhook_delivery.redelivered',
    ).length
  t.equal(await redeliveries(), 0)
  finish()
  await until(
    async () => (await admin.get(path)).json['status'] === 'delivered',
    'it was delivered',
  )
  t.equal((await admin.send('POST', `${path}/redeliver`)).status, 200)
  t.equal(await redeliveries(), 1)
  await until(() => receiver.webhooks.length === 2, 'it is sent again')
  finish()
})

t.test(
  'pages show endpoints, the log and a delivery, but hide from Members what only Admins may see',
  async (t) => {
    const { backend, admin, create, receiver } = await startEndpointSettings(t)
    const { id, secret } = await create({ description: '<b>ERP</b>' })
    receiver.respondWith((_, res) => res.writeHead(500).end('<script>alert(1)</script>'))
    const sent: Json = (await admin.send('POST', `${ENDPOINTS}/${id}/test`, {})).json
    const member = await logIn(backend, MEMBER)
    const paths = [ENDPOINTS, `${ENDPOINTS}/${id}`, DELIVERIES, `${DELIVERIES}/${sent.id}`]
    for (const path of paths) {
      for (const person of [admin, member]) {
        const { status, text } = await person.page(path)
        t.equal(status, 200, path)
        t.notMatch(
          text,
          /<b>ERP|<script>alert|undefined|\[object/,
          `${path} is escaped and complete`,
        )
        t.notMatch(text, secret)
        if (person === member) t.notMatch(text, /method="post" action="\/settings\/webhook/)
      }
    }
    matches(t, (await admin.page(`${DELIVERIES}/${sent.id}`)).text, /alert\(1\)/)
    t.notMatch((await member.page(`${DELIVERIES}/${sent.id}`)).text, /alert\(1\)|webhook_test/)
    t.equal((await member.page(`${ENDPOINTS}/new`)).status, 403)
  },
)

t.test('forms add, change and test an endpoint', async (t) => {
  const { admin, receiver } = await startEndpointSettings(t)
  const form = await admin.page(`${ENDPOINTS}/new`)
  matches(
    t,
    form.text,
    /<h1>Add endpoint.*or with http:\/\/localhost or http:\/\/127\.0\.0\.1 if your server/s,
  )
  const wrong = await admin.submit(ENDPOINTS, { url: 'http://10.0.0.1/', description: 'ERP' })
  t.equal(wrong.status, 422)
  matches(t, wrong.text, /id="url-fault"/)
  // Regression: the page showed the name of the field in the API.
  matches(t, wrong.text, /Endpoint URL must begin with https:\/\/\./)
  matches(t, wrong.text, /Choose at least one event\./)
  const added = await admin.submit(ENDPOINTS, {
    url: receiver.url,
    description: 'ERP',
    events: 'invoice.paid',
  })
  t.equal(added.status, 201)
  matches(t, added.text, /value="whsec_/)
  const list: Json = (await admin.get(ENDPOINTS)).json
  const path = `${ENDPOINTS}/${list.data[0].id}`
  matches(t, (await admin.page(`${path}/edit`)).text, /value="invoice.paid" checked/)
  const changed = await admin.submit(path, { url: receiver.url, description: '', events: '*' })
  t.equal(changed.headers.get('location'), path)
  matches(t, (await admin.page(path)).text, /Every event/)
  const tested = await admin.submit(`${path}/test`, { type: 'webhook.test' })
  t.equal(tested.status, 303)
  matches(t, (await admin.page(tested.headers.get('location') ?? '')).text, /Attempt 1: 204/)
  for (const action of ['pause', 'resume']) {
    t.equal((await admin.submit(`${path}/${action}`, {})).headers.get('location'), path)
  }
  matches(t, (await admin.submit(`${path}/rotate-secret`, {})).text, /value="whsec_/)
  matches(t, (await admin.page(path)).text, /Expire the old secret now/)
  const redelivery = await admin.submit(`${path}/redeliver-failed`, { since: '2026-11-21T10:15' })
  t.equal(redelivery.status, 303)
})

t.test('a deleted endpoint is not found, and its pending deliveries are not sent', async (t) => {
  const { admin, create, backend } = await startEndpointSettings(t)
  const member = await logIn(backend, MEMBER)
  const { id } = await create()
  const other = await create({ events: ['webhook.test'] })
  await admin.send('POST', `${ENDPOINTS}/${id}/pause`)
  await admin.send('POST', `${ENDPOINTS}/${id}/test`, {})
  await backend.database.transaction((tx) =>
    tx.updateTable('webhook_deliveries').set({ status: 'pending', run_at: '2000' }).execute(),
  )
  const path = `${ENDPOINTS}/${id}/remove`
  t.equal((await member.send('POST', path)).status, 403)
  t.equal((await member.page(path)).status, 403)
  matches(t, await admin.page(path), { status: 200, text: /Delete this endpoint\?/ })
  t.equal((await admin.send('POST', path)).status, 204)
  t.equal((await admin.send('POST', path)).status, 404)
  t.equal((await admin.get(`${ENDPOINTS}/${id}`)).status, 404)
  t.equal((await admin.send('POST', `${ENDPOINTS}/${id}/resume`)).status, 404)
  const list: Json = (await admin.get(ENDPOINTS)).json
  t.strictSame(
    list.data.map((row: Json) => row.id),
    [other.id],
  )
  const log: Json = (await admin.get(`${DELIVERIES}?endpoint_id=${id}`)).json
  matches(t, log.data, [{ status: 'failed' }])
  matches(t, (await admin.get(`${DELIVERIES}/${log.data[0].id}`)).json, {
    event: { type: 'webhook.test' },
  })
  // Regression: the error told people to resume the endpoint, which is impossible.
  matches(t, await admin.send('POST', `${DELIVERIES}/${log.data[0].id}/redeliver`), {
    status: 409,
    json: { code: 'webhook_endpoint_disabled', detail: /was deleted/ },
  })
  matches(t, (await admin.get('/settings/audit-log')).text, /webhook_endpoint\.deleted/)
  const kept = await backend.database.read
    .selectFrom('webhook_endpoints')
    .select(['secret', 'old_secret'])
    .where('id', '=', id)
    .execute()
  t.strictSame(kept, [{ secret: '', old_secret: null }])
})

t.test('the chart of an endpoint contains every attempt of the last 24 hours', async (t) => {
  const { admin, backend, create } = await startEndpointSettings(t)
  const path = `${ENDPOINTS}/${(await create()).id}`
  const sent: Json = (await admin.send('POST', `${path}/test`, {})).json
  const startedAtMs = Date.parse(sent.attempts[0].started_at)
  backend.now = new Date(startedAtMs + 24 * 3_600_000 - 1)
  const { text } = await (await logIn(backend, ADMIN)).page(path)
  // Regression: the page said that no event was sent, because the chart began with the next full hour.
  matches(t, text, /1 attempt in 24 hours, 1 succeeded/)
  backend.now = new Date(startedAtMs + 25 * 3_600_000)
  const later = await (await logIn(backend, ADMIN)).page(path)
  matches(t, later.text, /No event was sent in the last 24 hours/)
})
