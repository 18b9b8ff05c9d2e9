/** What was sent where, what came of it, and sending it again. */
import { sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import { type Act, recordAudit } from '../accounts/audit.ts'
import type { Database } from '../database/database.ts'
import type {
  Reader,
  Transaction,
  WebhookAttemptRow,
  WebhookDeliveryRow,
  WebhookEndpointRow,
} from '../database/tables.ts'

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed'] as const

export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]

export interface DeliveryFilters {
  readonly endpointId?: string | undefined
  readonly status?: DeliveryStatus | undefined
  readonly type?: string | undefined
  /** The id of the last one of the page before. */
  readonly before?: string | undefined
}

/** The newest first. */
export async function listDeliveries(
  reader: Reader,
  accountId: string,
  { endpointId, status, type, before }: DeliveryFilters,
  limit: number,
): Promise<WebhookDeliveryRow[]> {
  let rows = reader.selectFrom('webhook_deliveries').selectAll().where('account_id', '=', accountId)
  if (endpointId !== undefined) rows = rows.where('endpoint_id', '=', endpointId)
  // What is being sent has not arrived yet.
  if (status === 'pending') rows = rows.where('status', 'in', ['pending', 'sending'])
  else if (status !== undefined) rows = rows.where('status', '=', status)
  if (type !== undefined) rows = rows.where('event_type', '=', type)
  if (before !== undefined) rows = rows.where('id', '<', before)
  return await rows.orderBy('id', 'desc').limit(limit).execute()
}

export interface DeliveryDetail {
  readonly delivery: WebhookDeliveryRow
  readonly attempts: readonly WebhookAttemptRow[]
  /** What was sent, byte for byte. */
  readonly body: string
}

/** Throws `Problem` `not_found`. */
export async function getDelivery(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<DeliveryDetail> {
  const delivery = await readDelivery(reader, accountId, id)
  const [event, attempts] = await Promise.all([
    reader
      .selectFrom('webhook_events')
      .select('body')
      .where('id', '=', delivery.event_id)
      .executeTakeFirstOrThrow(),
    reader
      .selectFrom('webhook_attempts')
      .selectAll()
      .where('delivery_id', '=', id)
      .orderBy('number')
      .execute(),
  ])
  return { delivery, attempts, body: event.body }
}

async function readDelivery(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<WebhookDeliveryRow> {
  const row = await reader
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) throw new Problem('not_found', 'There is no such webhook delivery.')
  return row
}

/**
 * Sent again at once, with the same `webhook-id`, whatever came of it before; the schedule begins
 * anew. Throws `Problem` `not_found`, `webhook_endpoint_disabled`.
 */
export async function redeliver(
  tx: Transaction,
  accountId: string,
  id: string,
  act: Act,
): Promise<WebhookDeliveryRow> {
  const delivery = await readDelivery(tx, accountId, id)
  const endpoint = await tx
    .selectFrom('webhook_endpoints')
    .select('status')
    .where('id', '=', delivery.endpoint_id)
    .executeTakeFirstOrThrow()
  refuseDisabled(endpoint)
  await recordAudit(tx, act, {
    accountId,
    action: 'webhook_delivery.redelivered',
    subjectId: id,
    detail: { event_id: delivery.event_id, endpoint_id: delivery.endpoint_id },
  })
  await makeDue(tx, [id], act.now)
  return readDelivery(tx, accountId, id)
}

/** In one transaction: a payment never waits for longer than that. */
const BATCH_MAX = 200

/** All that failed and happened at `since` or later. Returns how many. */
export async function redeliverFailed(
  database: Database,
  endpoint: WebhookEndpointRow,
  since: Date,
  act: Act,
): Promise<number> {
  refuseDisabled(endpoint)
  const { id, account_id: accountId } = endpoint
  let count = 0
  for (;;) {
    const rows = await database.read
      .selectFrom('webhook_deliveries')
      .select('id')
      .where('endpoint_id', '=', id)
      .where('status', '=', 'failed')
      .where('created_at', '>=', since.toISOString())
      // What fails again while this runs is not taken up again.
      .where('updated_at', '<', act.now.toISOString())
      .limit(BATCH_MAX)
      .execute()
    if (rows.length === 0) break
    const ids = rows.map((row) => row.id)
    await database.transaction((tx) => makeDue(tx, ids, act.now))
    count += ids.length
  }
  await database.transaction((tx) =>
    recordAudit(tx, act, {
      accountId,
      action: 'webhook_endpoint.redelivered_failed',
      subjectId: id,
      detail: { since: since.toISOString(), redelivered: count },
    }),
  )
  return count
}

/** What is being sent now stays as it is. */
async function makeDue(tx: Transaction, ids: readonly string[], now: Date): Promise<void> {
  await tx
    .updateTable('webhook_deliveries')
    .set({
      status: 'pending',
      step: 0,
      run_at: now.toISOString(),
      updated_at: now.toISOString(),
    })
    .where('id', 'in', ids)
    .where('status', '!=', 'sending')
    .execute()
}

function refuseDisabled({ status }: Pick<WebhookEndpointRow, 'status'>): void {
  if (status !== 'disabled') return
  throw new Problem(
    'webhook_endpoint_disabled',
    'Nothing is sent to an endpoint that is disabled. Resume it first.',
  )
}

/** Attempts in one hour. */
export interface HourOfAttempts {
  /** UTC, `2026-11-21T10`. */
  readonly hour: string
  readonly attempts: number
  readonly succeeded: number
}

const DAY_MS = 24 * 3_600_000

/** Of the last 24 hours, by endpoint; hours without attempts are left out. */
export async function readAttemptHours(
  reader: Reader,
  endpointIds: readonly string[],
  now: Date,
): Promise<ReadonlyMap<string, readonly HourOfAttempts[]>> {
  const byEndpoint = new Map<string, HourOfAttempts[]>(endpointIds.map((id) => [id, []]))
  if (endpointIds.length === 0) return byEndpoint
  const hour = sql<string>`substr(started_at, 1, 13)`
  const rows = await reader
    .selectFrom('webhook_attempts')
    .where('endpoint_id', 'in', endpointIds)
    .where('started_at', '>=', new Date(now.getTime() - DAY_MS).toISOString())
    .groupBy(['endpoint_id', hour])
    .orderBy(hour)
    .select((eb) => [
      'endpoint_id',
      hour.as('hour'),
      eb.fn.countAll<number | string>().as('attempts'),
      eb.fn.sum<number | string>('succeeded').as('succeeded'),
    ])
    .execute()
  for (const row of rows) {
    byEndpoint.get(row.endpoint_id)?.push({
      hour: row.hour,
      // Databases that count beyond 53 bits give text.
      attempts: Number(row.attempts),
      succeeded: Number(row.succeeded),
    })
  }
  return byEndpoint
}

/** When something was last sent to each endpoint. */
export async function readLastAttempts(
  reader: Reader,
  endpointIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await Promise.all(
    endpointIds.map((id) =>
      reader
        .selectFrom('webhook_attempts')
        .select('started_at')
        .where('endpoint_id', '=', id)
        .orderBy('started_at', 'desc')
        .limit(1)
        .executeTakeFirst(),
    ),
  )
  return new Map(
    rows.flatMap((row, at) => {
      const id = endpointIds[at]
      return row === undefined || id === undefined ? [] : [[id, row.started_at] as const]
    }),
  )
}
