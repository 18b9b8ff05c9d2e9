// Actions on an endpoint with many deliveries.
import t from 'tap'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import { applyAllRetentionRules } from '../../../backend/retention/retention.ts'
import {
  type DeliveryFilters,
  listDeliveries,
  redeliverFailed,
} from '../../../backend/webhooks/delivery-log.ts'
import { deleteEndpoint, lockEndpoint } from '../../../backend/webhooks/endpoints.ts'
import { openWebhooks, type Webhooks } from '../../fixtures/accounts/webhooks.ts'

const ROWS_PER_STATEMENT = 250

/** Inserts deliveries to the endpoint, in the order of their ids. */
async function insertDeliveries(
  { testAccount: { accountId, backend } }: Webhooks,
  endpointId: string,
  status: 'pending' | 'failed',
  count: number,
): Promise<void> {
  const at = new Date(backend.now.getTime() - 60_000).toISOString()
  for (let from = 0; from < count; from += ROWS_PER_STATEMENT) {
    const numbers = Array.from({ length: ROWS_PER_STATEMENT }, (_, n) => `${10_000 + from + n}`)
    const event = { account_id: accountId, type: 'debtor.created', subject_id: 'deb_1' }
    const delivery = {
      ...{ account_id: accountId, endpoint_id: endpointId, event_type: 'debtor.created', status },
      ...{ attempts: 0, step: 0, run_at: status === 'pending' ? at : null, lease: null },
      ...{ last_attempt_at: null, last_status_code: null, last_error: null },
      ...{ created_at: at, updated_at: at },
    }
    await backend.database.transaction(async (tx) => {
      await tx
        .insertInto('webhook_events')
        .values(numbers.map((n) => ({ id: `evt_${n}`, ...event, body: '{}', created_at: at })))
        .execute()
      await tx
        .insertInto('webhook_deliveries')
        .values(numbers.map((n) => ({ id: `whd_${n}`, event_id: `evt_${n}`, ...delivery })))
        .execute()
    })
  }
}

// Regression: one statement failed all deliveries. With 100,000, it blocked all other writes for seconds on SQLite. On
// PostgreSQL, it exceeded the time limit of a statement, so that the endpoint could be neither disabled nor deleted.
t.test('1000 deliveries fail when their endpoint is deleted, and the rest later', async (t) => {
  const webhooks = await openWebhooks(t)
  const { accountId, backend } = webhooks.testAccount
  const { database } = backend
  const { row } = await webhooks.createEndpoint('https://receiver.example/')
  await insertDeliveries(webhooks, row.id, 'pending', 1250)
  const countPending = async () =>
    (await webhooks.deliveries()).filter(({ status }) => status === 'pending').length
  await database.transaction(async (tx) =>
    deleteEndpoint(tx, await lockEndpoint(tx, accountId, row.id), {
      actor: OPERATOR,
      now: backend.now,
    }),
  )
  t.equal(await countPending(), 250)
  await applyAllRetentionRules(database, backend.now)
  t.equal(await countPending(), 0)
})

// Regression: the request took minutes, and the gateway ended it after ten seconds.
t.test('redelivering many failed deliveries ends when its time is used up', async (t) => {
  const webhooks = await openWebhooks(t)
  const { backend } = webhooks.testAccount
  const { database } = backend
  const { row } = await webhooks.createEndpoint('https://receiver.example/')
  await insertDeliveries(webhooks, row.id, 'failed', 500)
  const redeliver = (batches: number) => {
    let left = batches
    const options = { since: new Date(0), isTimeOver: () => left-- <= 0 }
    return redeliverFailed(database, row, options, { actor: OPERATOR, now: backend.now })
  }
  t.strictSame(await redeliver(1), { count: 200, hasMore: true })
  const failed = (await webhooks.deliveries()).filter(({ status }) => status === 'failed')
  t.equal(failed.at(-1)?.id, 'whd_10299', 'the newest are sent first')
  t.strictSame(await redeliver(9), { count: 300, hasMore: false })
  t.ok((await webhooks.deliveries()).every(({ status }) => status === 'pending'))
})

// Regression: a page without matches read all deliveries of the account. With two million, SQLite took half a second.
t.test('a page of the delivery log searches a limited number of deliveries', async (t) => {
  const webhooks = await openWebhooks(t)
  const { accountId, backend } = webhooks.testAccount
  const { row } = await webhooks.createEndpoint('https://receiver.example/')
  await insertDeliveries(webhooks, row.id, 'failed', 250)
  await backend.database.transaction((tx) =>
    tx
      .updateTable('webhook_deliveries')
      .set({ status: 'pending', run_at: backend.now.toISOString() })
      .where('id', 'in', ['whd_10050', 'whd_10220', 'whd_10240'])
      .execute(),
  )
  const read = async (filters: DeliveryFilters, limit: number) => {
    const size = { limit, scanMax: 100 }
    const found = await listDeliveries(backend.database.read, accountId, filters, size)
    return { ids: found.rows.map(({ id }) => id), next: found.next, isPartial: found.isPartial }
  }
  const pending = { endpointId: row.id, status: 'pending' } as const
  t.strictSame(
    await read(pending, 1),
    { ids: ['whd_10240'], next: 'whd_10240', isPartial: false },
    'a full page',
  )
  t.strictSame(await read(pending, 5), {
    ids: ['whd_10240', 'whd_10220'],
    next: 'whd_10150',
    isPartial: true,
  })
  const rest = await read({ ...pending, before: 'whd_10150' }, 5)
  t.strictSame(rest, { ids: ['whd_10050'], next: 'whd_10050', isPartial: true })
  t.strictSame(await read({ ...pending, before: 'whd_10050' }, 5), {
    ids: [],
    next: null,
    isPartial: false,
  })
  const ofOtherType = { type: 'invoice.paid', status: 'failed' } as const
  t.strictSame(
    await read(ofOtherType, 5),
    { ids: [], next: 'whd_10148', isPartial: true },
    'only failed deliveries are searched',
  )
  const failed = await read({ status: 'failed' }, 247)
  t.equal(failed.ids.length, 247, 'an index serves this filter')
})
