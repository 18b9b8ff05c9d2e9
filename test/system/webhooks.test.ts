import t from 'tap'
import { matches } from '../fixtures/matches.ts'
import { startReceiver, verify } from '../fixtures/servers/receiver.ts'
import { call } from '../fixtures/service/call.ts'
import { startSystem } from '../fixtures/service/system.ts'
import { until } from '../fixtures/service/until.ts'

const PASSWORD = 'correct horse battery'

t.test(
  'each event of a payment is sent once, to the endpoint that was created in Settings',
  async (t) => {
    // Over plain http, Settings accept a password only if the base URL is a loopback address.
    const baseUrl = { BASE_URL: 'http://127.0.0.1:8080' }
    const system = await startSystem(t, {
      backendEnv: { ...baseUrl, WEBHOOK_PRIVATE_TARGETS: 'allow' },
      gatewayEnv: baseUrl,
    })
    matches(t, system.backend.log(), /WEBHOOK_PRIVATE_TARGETS=allow: anyone/)
    const { url, operator } = system
    const account = await operator.createAccount()
    const admin = ['--email', 'ada@acme.example', '--role', 'admin', '--password', PASSWORD]
    await operator.cli('users', 'create', '--account', account, ...admin)
    const { secret: key } = await operator.issueKey(account)
    const receiver = await startReceiver(t)

    const acceptJson = { accept: 'application/json' }
    const login = await call(`${url}/settings/login`, {
      headers: acceptJson,
      body: { email: 'ada@acme.example', password: PASSWORD },
    })
    const cookie = String(login.headers['set-cookie']).split(';')[0] ?? ''
    const headers = { ...acceptJson, cookie, 'x-csrf-token': login.json.csrf_token }
    const endpoint = await call(`${url}/settings/webhook-endpoints`, {
      headers,
      body: { url: receiver.url, events: ['payment.recorded', 'invoice.paid'] },
    })
    t.equal(endpoint.status, 201, endpoint.text)

    const post = (path: string, body: object, idempotency = {}) =>
      call(`${url}/api/v1/${path}`, { key, body, headers: idempotency })
    const debtor = await post('debtors', { name: 'Jansen' })
    const owed = { debtor_id: debtor.json.id, currency: 'EUR', amount: 12_500 }
    const invoice = await post('invoices', owed)
    const payment = { invoice_id: invoice.json.id, currency: 'EUR', amount: 12_500 }
    const idempotency = { 'idempotency-key': 'bank-1' }
    const first = await post('payments', payment, idempotency)
    t.equal(first.status, 201)
    t.equal((await post('payments', payment, idempotency)).text, first.text)
    const testEvent = await call(`${url}/settings/webhook-endpoints/${endpoint.json.id}/test`, {
      headers,
      body: {},
    })
    // The response may come before the delivery has ended.
    const delivery = await until(async () => {
      const { json } = await call(`${url}/settings/webhook-deliveries/${testEvent.json.id}`, {
        headers,
      })
      return json.status === 'pending' ? undefined : json
    }, 'the test event is delivered')
    matches(t, delivery, { status: 'delivered', attempts: [{ status_code: 204 }] })
    await until(() => receiver.webhooks.length >= 3, 'all webhooks have arrived')
    for (const webhook of receiver.webhooks) t.ok(verify(webhook, endpoint.json.secret))
    // Deliveries are stored with their event, so a repeated delivery would be in the log even before it is sent.
    const log = await call(`${url}/settings/webhook-deliveries`, { headers })
    t.equal(log.json.data.length, 3, 'one delivery of each event')
    t.strictSame(receiver.webhooks.map(({ event }) => event.type).sort(), [
      'invoice.paid',
      'payment.recorded',
      'webhook.test',
    ])
    const recorded = receiver.webhooks.find(({ event }) => event.type === 'payment.recorded')
    t.strictSame(recorded?.event.data.object, first.json)
    t.equal(await system.backend.stop(), 0)
  },
)
