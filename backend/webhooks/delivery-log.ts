/** The delivery log of webhooks: lists deliveries and their attempts, and sends deliveries again. */

import { type SqlBool, sql } from 'kysely'
import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { announce } from '../database/announcements.ts'
import type { Database } from '../database/database.ts'
import type {
  Reader,
  Transaction,
  WebhookAttemptRow,
  WebhookDeliveryRow,
  WebhookEndpointRow,
} from '../database/tables.ts'
import { DELIVERIES_DUE } from '../events/events.ts'
import type { ScannedPage } from '../lists/scan.ts'
import { ATTEMPTS_MAX } from './retry-schedule.ts'

export const DELIVERY_STATUSES = ['pending', 'delivered', 'failed'] as const

export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]

export interface DeliveryFilters {
  readonly endpointId?: string | undefined
  readonly status?: DeliveryStatus | undefined
  readonly type?: string | undefined
  /** The cursor: `next` of the previous page, the id of the last delivery that was returned or searched. */
  readonly before?: string | undefined
}

/** Only a literal, not a parameter, matches the condition of a partial index. */
const HAS_FAILED = sql<SqlBool>`status = 'failed'`

/**
 * The maximum number of deliveries that one page searches if no index serves its filters. On SQLite, the search takes
 * about 10 ms, even if the log contains many more deliveries.
 */
const SCAN_MAX = 50_000

/** Returns up to `limit` deliveries, the newest first. */
export async function listDeliveries(
  reader: Reader,
  accountId: string,
  { endpointId, status, type, before }: DeliveryFilters,
  { limit, scanMax = SCAN_MAX }: { readonly limit: number; readonly scanMax?: number },
): Promise<ScannedPage<WebhookDeliveryRow>> {
  let scanned = reader
    .selectFrom('webhook_deliveries')
    .where('account_id', '=', accountId)
    .orderBy('id', 'desc')
  if (endpointId !== undefined) scanned = scanned.where('endpoint_id', '=', endpointId)
  if (status === 'failed') scanned = scanned.where(HAS_FAILED)
  if (before !== undefined) scanned = scanned.where('id', '<', before)
  const isIndexed = type === undefined && (status === undefined || status === 'failed')
  /** The last delivery that this page searches; undefined if the search has no limit or reaches the end. */
  const lastSearched = isIndexed
    ? undefined
    : await scanned
        .select('id')
        .limit(1)
        .offset(scanMax - 1)
        .executeTakeFirst()
  let query = scanned.selectAll()
  if (lastSearched !== undefined) query = query.where('id', '>=', lastSearched.id)
  // A delivery that is being sent is shown as pending.
  if (status === 'pending') query = query.where('status', 'in', ['pending', 'sending'])
  if (status === 'delivered') query = query.where('status', '=', status)
  if (type !== undefined) query = query.where('event_type', '=', type)
  const found = await query.limit(limit + 1).execute()
  const rows = found.slice(0, limit)
  if (found.length > limit) return { rows, next: rows.at(-1)?.id ?? null, isPartial: false }
  return { rows, next: lastSearched?.id ?? null, isPartial: lastSearched !== undefined }
}

export interface DeliveryDetail {
  readonly delivery: WebhookDeliveryRow
  readonly attempts: readonly WebhookAttemptRow[]
  /** The event as JSON, as it is sent. If its debtor has been erased, it contains no personal data of the debtor. */
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
 * Makes a delivery due now, even if it succeeded before, and restarts its retry schedule. The delivery keeps its
 * `webhook-id`. Changes nothing if the delivery is being sent. Throws `Problem` `not_found`,
 * `webhook_endpoint_disabled`.
 */
export async function redeliver(
  tx: Transaction,
  accountId: string,
  id: string,
  actionContext: ActionContext,
): Promise<WebhookDeliveryRow> {
  const delivery = await readDelivery(tx, accountId, id)
  const endpoint = await tx
    .selectFrom('webhook_endpoints')
    .select(['status', 'deleted_at'])
    .where('id', '=', delivery.endpoint_id)
    .executeTakeFirstOrThrow()
  rejectDisabled(endpoint)
  const isMadeDue = (await makeDue(tx, [id], actionContext.now)) > 0
  if (isMadeDue) {
    await recordAudit(tx, actionContext, {
      accountId,
      action: 'webhook_delivery.redelivered',
      subjectId: id,
      detail: { event_id: delivery.event_id, endpoint_id: delivery.endpoint_id },
    })
  }
  return readDelivery(tx, accountId, id)
}

/**
 * How many deliveries one transaction changes. The number is small, because SQLite has one writer: a payment must wait
 * until the transaction ends.
 */
const BATCH_MAX = 200

export interface Redelivered {
  readonly count: number
  /** Whether failed deliveries may remain, because `isTimeOver` returned true. */
  readonly hasMore: boolean
}

/**
 * Redelivers the failed deliveries that were created for the endpoint at or after `since`, except those of test events,
 * the newest first, until `isTimeOver` returns true. Throws `Problem` `webhook_endpoint_disabled`.
 */
export async function redeliverFailed(
  database: Database,
  endpoint: WebhookEndpointRow,
  { since, isTimeOver }: { readonly since: Date; readonly isTimeOver: () => boolean },
  actionContext: ActionContext,
): Promise<Redelivered> {
  rejectDisabled(endpoint)
  const { id, account_id: accountId } = endpoint
  let count = 0
  let hasMore = true
  while (!isTimeOver()) {
    const rows = await database.read
      .selectFrom('webhook_deliveries')
      .select('id')
      .where('endpoint_id', '=', id)
      .where(HAS_FAILED)
      .where((eb) => eb.not(IS_OF_TEST_EVENT))
      .where('created_at', '>=', since.toISOString())
      // Without this condition, a delivery that fails again meanwhile would be redelivered again.
      .where('updated_at', '<', actionContext.now.toISOString())
      .orderBy('id', 'desc')
      .limit(BATCH_MAX)
      .execute()
    if (rows.length === 0) {
      hasMore = false
      break
    }
    const ids = rows.map((row) => row.id)
    count += await database.transaction((tx) => makeDue(tx, ids, actionContext.now))
  }
  await database.transaction((tx) =>
    recordAudit(tx, actionContext, {
      accountId,
      action: 'webhook_endpoint.redelivered_failed',
      subjectId: id,
      detail: { since: since.toISOString(), redelivered: count },
    }),
  )
  return { count, hasMore }
}

/** Whether the delivery is one of a test event, whose subject is the endpoint itself. */
const IS_OF_TEST_EVENT = sql<SqlBool>`exists (
  select 1 from webhook_events
  where webhook_events.id = webhook_deliveries.event_id
    and webhook_events.subject_id = webhook_deliveries.endpoint_id
)`

/**
 * Makes the deliveries due now, except deliveries that are being sent. Returns how many it made due. A test event has
 * only one attempt left, because it is not retried.
 */
async function makeDue(tx: Transaction, ids: readonly string[], now: Date): Promise<number> {
  const result = await tx
    .updateTable('webhook_deliveries')
    .set({
      status: 'pending',
      step: sql<number>`case when ${IS_OF_TEST_EVENT} then ${sql.lit(ATTEMPTS_MAX - 1)} else 0 end`,
      run_at: now.toISOString(),
      updated_at: now.toISOString(),
    })
    .where('id', 'in', ids)
    .where('status', '!=', 'sending')
    .executeTakeFirstOrThrow()
  announce(tx, DELIVERIES_DUE)
  return Number(result.numUpdatedRows)
}

type EndpointState = Pick<WebhookEndpointRow, 'status' | 'deleted_at'>

function rejectDisabled({ status, deleted_at }: EndpointState): void {
  if (status !== 'disabled') return
  throw new Problem(
    'webhook_endpoint_disabled',
    deleted_at === null
      ? 'The endpoint is disabled, so only test events are sent to it. Resume the endpoint first.'
      : 'The endpoint was deleted, so its deliveries cannot be sent again.',
  )
}

/** Returns the start of the last attempt to send to each endpoint, by endpoint id. Omits endpoints without attempts. */
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
