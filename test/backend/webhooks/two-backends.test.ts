import { sql } from 'kysely'
import t from 'tap'
import { createAccount } from '../../../backend/accounts/accounts.ts'
import { OPERATOR } from '../../../backend/accounts/audit.ts'
import type { OpenDatabase } from '../../../backend/database/database.ts'
import { recordEvent } from '../../../backend/events/events.ts'
import { DELIVERY_LEASES, readClaimed } from '../../../backend/webhooks/deliveries.ts'
import { createEndpoint } from '../../../backend/webhooks/endpoints.ts'
import { type Outcome, recordOutcomes } from '../../../backend/webhooks/outcomes.ts'
import { BOX } from '../../fixtures/accounts/webhooks.ts'
import { openTestDatabase } from '../../fixtures/service/database.ts'
import { newPostgresUrl } from '../../fixtures/service/database-url.ts'
import { connect } from '../../fixtures/service/two-backends.ts'
import { until } from '../../fixtures/service/until.ts'

const NO_RESPONSE = {
  succeeded: false,
  statusCode: null,
  error: 'timeout',
  responseHeaders: null,
  responseBody: null,
  durationMs: 15_000,
} as const

// Regression: a backend locked failing endpoints in the order in which their attempts had ended. While several
// endpoints failed, two backends ran into deadlocks and lost outcomes, so that they repeated these attempts.
t.test('two backends record failures of the same endpoints without a deadlock', async (t) => {
  const url = await newPostgresUrl(t)
  const database = await openTestDatabase(t, { url })
  const now = new Date()
  const endpointIds = await createEndpointsWithDeliveries(database, now)
  const [firstId] = endpointIds
  const batches = [
    await claimAndFail(database, endpointIds, now),
    await claimAndFail(database, endpointIds.toReversed(), now),
  ]
  const session = await connect(t, url)
  await session.query('begin')
  await session.query('select from webhook_endpoints where id = $1 for no key update', [firstId])
  let runs = 0
  const recording: Promise<number>[] = []
  for (const outcomes of batches) {
    const recorded = database.transaction((tx) => {
      runs++
      return recordOutcomes(tx, outcomes, () => 0.5)
    })
    recording.push(recorded)
    const areWaiting = async () => (await countWaiting(database)) === recording.length
    await until(areWaiting, 'each transaction waits for the lock of the first endpoint')
  }
  await session.query('commit')
  t.strictSame(await Promise.all(recording), [2, 2])
  t.equal(runs, 2, 'no transaction was repeated')
})

// Regression: the endpoint was disabled because of an attempt that was not recorded.
t.test(
  'an attempt does not disable its endpoint if its delivery is claimed before the outcome is recorded',
  async (t) => {
    const url = await newPostgresUrl(t)
    const database = await openTestDatabase(t, { url })
    const now = new Date()
    const [endpointId = ''] = await createEndpointsWithDeliveries(database, now)
    const failed = await claimAndFail(database, [endpointId], now)
    const outcomes = failed.map((outcome) => ({
      ...outcome,
      result: { ...NO_RESPONSE, statusCode: 410, error: null },
    }))
    const session = await connect(t, url)
    await session.query('begin')
    await session.query('select from webhook_endpoints where id = $1 for no key update', [
      endpointId,
    ])
    const recording = database.transaction((tx) => recordOutcomes(tx, outcomes, () => 0.5))
    const isWaiting = async () => (await countWaiting(database)) === 1
    await until(isWaiting, 'the transaction has read the delivery, and waits for the endpoint')
    const expired = new Date(now.getTime() + 3_600_000)
    const ids = outcomes.map(({ delivery }) => delivery.id)
    await database.transaction((tx) => DELIVERY_LEASES.claim(tx, ids, expired))
    await session.query('commit')
    t.equal(await recording, 0)
    const endpoint = await database.read
      .selectFrom('webhook_endpoints')
      .select(['status', 'failing_since'])
      .where('id', '=', endpointId)
      .executeTakeFirstOrThrow()
    t.strictSame(endpoint, { status: 'enabled', failing_since: null })
  },
)

/** Creates two endpoints, each with two deliveries that are due. Resolves with the ids of the endpoints. */
async function createEndpointsWithDeliveries(
  database: OpenDatabase,
  now: Date,
): Promise<readonly string[]> {
  return await database.transaction(async (tx) => {
    const context = { actor: OPERATOR, now }
    const { id: accountId } = await createAccount(tx, { name: 'Acme Ltd' }, context)
    const settings = { url: 'https://example.com/', description: '', eventTypes: null }
    const deps = { secretBox: BOX, privateTargetPolicy: 'refuse' } as const
    const first = await createEndpoint(tx, accountId, settings, deps, context)
    const second = await createEndpoint(tx, accountId, settings, deps, context)
    for (const subjectId of ['deb_1', 'deb_2']) {
      const head = { accountId, type: 'debtor.created', subjectId } as const
      await recordEvent(tx, { ...head, represent: () => ({}) }, now)
    }
    return [first.row.id, second.row.id].sort()
  })
}

/** Claims a delivery to each endpoint. Resolves with failures of their attempts, in the order of the endpoints. */
async function claimAndFail(
  database: OpenDatabase,
  endpointIds: readonly string[],
  now: Date,
): Promise<readonly Outcome[]> {
  const due = await Promise.all(
    endpointIds.map((endpoint_id) =>
      DELIVERY_LEASES.findDue(database.read, now, { limit: 1, where: { endpoint_id } }),
    ),
  )
  const ids = due.flat()
  const { lease } = await database.transaction((tx) =>
    DELIVERY_LEASES.claim(tx, ids, now, { status: 'sending' }),
  )
  const claimed = await readClaimed(database.read, ids, lease)
  return claimed
    .toSorted((a, b) => endpointIds.indexOf(a.endpoint_id) - endpointIds.indexOf(b.endpoint_id))
    .map((delivery) => ({
      ...{ delivery, requestHeaders: {}, startedAt: now, endedAt: now },
      result: NO_RESPONSE,
    }))
}

/** Resolves with the number of sessions that wait for a lock. */
async function countWaiting({ read }: OpenDatabase): Promise<number> {
  const waiting = sql<{ pid: number }>`(
    select pid from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
  )`
  const rows = await read.selectFrom(waiting.as('waiting')).select('pid').execute()
  return rows.length
}
