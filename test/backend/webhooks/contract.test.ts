// Events match their schemas in the OpenAPI document.
import t from 'tap'
import { setStatus } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { revokeApiKey } from '../../../backend/api-keys/api-keys.ts'
import { EVENT_TYPES } from '../../../backend/events/event-types.ts'
import { withRevision } from '../../../backend/events/events.ts'
import { sampleOf } from '../../../backend/webhooks/samples.ts'
import { readContractDocument } from '../../../shared/contract/contract.ts'
import { openWebhooks } from '../../fixtures/accounts/webhooks.ts'
import { faultsOf } from '../../fixtures/contract/schema.ts'
import { containing, matches } from '../../fixtures/matches.ts'

const { webhooks: documented } = JSON.parse(readContractDocument().json)

function schemaOf(type: string): string {
  const { schema } = documented[type].post.requestBody.content['application/json']
  return schema.$ref.split('/').at(-1)
}

t.test('the document describes the existing event types, and no others', async (t) => {
  t.strictSame(Object.keys(documented), EVENT_TYPES)
})

t.test('a test event of each type matches its schema', async (t) => {
  for (const type of EVENT_TYPES) {
    const event = {
      id: 'evt_00000000000000000000000000',
      type,
      timestamp: '2026-11-21T10:15:00.000Z',
      api_version: 'v1',
      account_id: 'acct_00000000000000000000000000',
      test: true,
      data: withRevision(sampleOf(type)),
    }
    t.strictSame(faultsOf(schemaOf(type), event), [], type)
  }
})

// Regression: the sample of each event about a message was a reminder that had been sent, with another status.
t.test('a test event about a message shows what the event reports', async (t) => {
  for (const [type, object, previous] of [
    ['message.awaiting_approval', { approval: { status: 'pending' }, sent_at: null }, null],
    ['message.sent', { sent_at: containing('T') }, { status: 'queued', sent_at: null }],
    ['message.delivered', { delivery: { delivered_at: containing('T') } }, { status: 'sent' }],
    ['message.bounced', { delivery: { bounce: { type: 'hard' } } }, { status: 'sent' }],
    ['message.suppressed', { suppression: { reason: 'kill_switch' } }, { suppression: null }],
    ['message.received', { direction: 'inbound', kind: 'reply', to: null }, null],
  ] as const) {
    matches(t, sampleOf(type), { object, previous }, type)
  }
})

t.test('recorded events match their schemas', async (t) => {
  const webhooks = await openWebhooks(t)
  const { testAccount } = webhooks
  const { backend, accountId } = testAccount
  await webhooks.createEndpoint('https://example.com/hook')
  const invoice = await testAccount.createInvoice()
  for (const amount of [4000, 6000]) {
    await testAccount.create('/api/v1/payments', {
      amount,
      currency: 'EUR',
      invoice_id: invoice.id,
    })
  }
  const { row } = await backend.issueKey(accountId)
  const actionContext = { actor: OPERATOR, now: backend.now }
  await backend.database.transaction((tx) => revokeApiKey(tx, row.id, actionContext))
  await backend.database.transaction((tx) => setStatus(tx, accountId, 'suspended', actionContext))
  const events = await backend.database.read.selectFrom('webhook_events').selectAll().execute()
  const types = new Set(events.map(({ type }) => type))
  t.equal(types.size, 8)
  for (const { type, body } of events)
    t.strictSame(faultsOf(schemaOf(type), JSON.parse(body)), [], type)
})
