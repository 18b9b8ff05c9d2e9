/**
 * Records the outcomes of attempts to deliver webhooks. For each attempt, the same transaction writes the attempt in
 * the log, the delivery's next attempt, and the endpoint's status. Otherwise, an endpoint could be disabled because of
 * an attempt that the log does not show. Nothing is written if the worker no longer has the delivery's lease.
 */
import { recordAudit } from '../accounts/audit.ts'
import type {
  Transaction,
  WebhookAttemptRow,
  WebhookDeliveryRow,
  WebhookEndpointRow,
  WebhookEventRow,
} from '../database/tables.ts'
import { recordNotice } from '../mail/notices.ts'
import { countAttempts } from './attempt-hours.ts'
import { type ClaimedDelivery, DELIVERY_LEASES, failPendingDeliveries } from './deliveries.ts'
import { holdUntil, nextAttemptAt } from './retry-schedule.ts'
import type { AttemptResult } from './sender.ts'

/** An endpoint is disabled when all attempts have failed for this long, counted from the first of these failures. */
const FAILING_MS_MAX = 5 * 24 * 3_600_000

export interface Outcome {
  readonly delivery: Pick<
    ClaimedDelivery,
    'id' | 'lease' | 'account_id' | 'endpoint_id' | 'url' | 'body'
  >
  readonly requestHeaders: Readonly<Record<string, string>>
  readonly result: AttemptResult
  readonly startedAt: Date
  readonly endedAt: Date
}

/**
 * Returns the number of recorded attempts. An attempt is not recorded if its worker no longer has the lease of the
 * delivery. `random` returns numbers from 0 to 1, for the jitter of the retry schedule.
 */
export async function recordOutcomes(
  tx: Transaction,
  outcomes: readonly Outcome[],
  random: () => number,
): Promise<number> {
  const attempts: WebhookAttemptRow[] = []
  const endpoints = new Map<string, WebhookEndpointRow>()
  // Every backend locks endpoints in this order, which prevents deadlocks.
  for (const outcome of outcomes.toSorted(byEndpointId)) {
    const { endpoint_id: id } = outcome.delivery
    const claimed = await findClaimed(tx, outcome)
    if (claimed === undefined) continue
    const before = endpoints.get(id) ?? (await readEndpoint(tx, id, outcomes))
    const change = changeOfHealth(before, outcome, claimed)
    const endpoint = { ...before, ...change }
    const mayRetry = endpoint.status !== 'disabled'
    const row = await recordDelivery(tx, outcome, claimed, mayRetry, random())
    endpoints.set(id, row === undefined ? before : endpoint)
    // `findClaimed` does not lock the delivery, so another worker may have claimed it since.
    if (row === undefined) continue
    if (change !== undefined) await writeHealth(tx, endpoint, change, outcome.endedAt)
    const attempt = attemptRow(outcome, row.attempts)
    // The response may repeat the event, from which personal data was erased during the attempt.
    const isErased = claimed.body !== outcome.delivery.body
    attempts.push(isErased ? { ...attempt, response_headers: null, response_body: null } : attempt)
  }
  if (attempts.length > 0) {
    await tx.insertInto('webhook_attempts').values(attempts).execute()
    await countAttempts(tx, attempts)
  }
  return attempts.length
}

function byEndpointId({ delivery: a }: Outcome, { delivery: b }: Outcome): number {
  if (a.endpoint_id === b.endpoint_id) return 0
  return a.endpoint_id < b.endpoint_id ? -1 : 1
}

/**
 * Reads the endpoint, and locks its row if the outcomes may change it. Without the lock, two workers with failures at
 * the same time would both disable the endpoint. Most attempts succeed and change nothing about the endpoint, so they
 * need no lock.
 */
async function readEndpoint(
  tx: Transaction,
  id: string,
  outcomes: readonly Outcome[],
): Promise<WebhookEndpointRow> {
  const query = tx.selectFrom('webhook_endpoints').selectAll().where('id', '=', id)
  const haveAllSucceeded = outcomes.every(
    ({ delivery, result }) => delivery.endpoint_id !== id || result.succeeded,
  )
  if (haveAllSucceeded) {
    const endpoint = await query.executeTakeFirstOrThrow()
    if (endpoint.failing_since === null && endpoint.hold_until === null) return endpoint
  }
  return query.forNoKeyUpdate().executeTakeFirstOrThrow()
}

type Claimed = Pick<WebhookDeliveryRow, 'attempts' | 'step'> &
  Pick<WebhookEventRow, 'body' | 'subject_id'>

/** Returns undefined if the worker no longer has the lease. */
function findClaimed(tx: Transaction, { delivery }: Outcome): Promise<Claimed | undefined> {
  return tx
    .selectFrom('webhook_deliveries')
    .innerJoin('webhook_events', 'webhook_events.id', 'webhook_deliveries.event_id')
    .select(['webhook_deliveries.attempts', 'webhook_deliveries.step'])
    .select(['webhook_events.body', 'webhook_events.subject_id'])
    .where('webhook_deliveries.id', '=', delivery.id)
    .where('webhook_deliveries.lease', '=', delivery.lease)
    .executeTakeFirst()
}

/** Returns undefined if the worker no longer has the lease. */
async function recordDelivery(
  tx: Transaction,
  { delivery, result, startedAt, endedAt }: Outcome,
  claimed: Claimed,
  mayRetry: boolean,
  random: number,
): Promise<Pick<WebhookDeliveryRow, 'attempts'> | undefined> {
  const attempts = claimed.attempts + 1
  // Unlike `attempts`, the position in the retry schedule begins again at 0 when the delivery is redelivered.
  const step = claimed.step + 1
  const next =
    result.succeeded || !mayRetry ? undefined : nextAttemptAt(step, result, endedAt, random)
  const finalStatus = result.succeeded ? 'delivered' : 'failed'
  const isRecorded = await DELIVERY_LEASES.finish(tx, delivery, next ?? null, {
    status: next === undefined ? finalStatus : 'pending',
    attempts,
    step,
    last_attempt_at: startedAt.toISOString(),
    last_status_code: result.statusCode,
    last_error: result.error,
    updated_at: endedAt.toISOString(),
  })
  return isRecorded ? { attempts } : undefined
}

type Health = Partial<
  Pick<
    WebhookEndpointRow,
    'failing_since' | 'hold_until' | 'status' | 'status_since' | 'disabled_reason' | 'updated_at'
  >
>

/**
 * Returns undefined if nothing changes. An attempt at a previous URL of the endpoint changes nothing. Nor does a
 * failure while the endpoint is paused, because its server may be down for work. A failed test event can delay other
 * events, but counts as a failure only after 410: the server may not be ready yet.
 */
function changeOfHealth(
  endpoint: WebhookEndpointRow,
  { delivery, result, startedAt, endedAt }: Outcome,
  event: Pick<WebhookEventRow, 'subject_id'>,
): Health | undefined {
  if (delivery.url !== endpoint.url) return undefined
  if (result.succeeded) {
    // Deliveries are paused until `hold_until`. This attempt may have begun before the pause, so its success does not
    // end the pause.
    const { hold_until: until } = endpoint
    const hold = until !== null && until > endedAt.toISOString() ? until : null
    if (endpoint.failing_since === null && endpoint.hold_until === hold) return undefined
    return { failing_since: null, hold_until: hold }
  }
  if (endpoint.status !== 'enabled') return undefined
  const hold = laterOf(holdUntil(result, endedAt)?.toISOString() ?? null, endpoint.hold_until)
  const isGone = result.statusCode === 410
  if (event.subject_id === endpoint.id && !isGone) {
    return hold === endpoint.hold_until ? undefined : { hold_until: hold }
  }
  const failingSince = endpoint.failing_since ?? startedAt.toISOString()
  const failingMs = endedAt.getTime() - Date.parse(failingSince)
  const reason = isGone ? 'gone' : failingMs >= FAILING_MS_MAX ? 'failing' : undefined
  if (reason !== undefined) {
    const now = endedAt.toISOString()
    return {
      status: 'disabled',
      status_since: now,
      disabled_reason: reason,
      failing_since: failingSince,
      updated_at: now,
    }
  }
  if (endpoint.failing_since !== null && hold === endpoint.hold_until) return undefined
  return { failing_since: failingSince, hold_until: hold }
}

function laterOf(a: string | null, b: string | null): string | null {
  return a === null || (b !== null && b > a) ? b : a
}

/** `endpoint` already contains the change. */
async function writeHealth(
  tx: Transaction,
  endpoint: WebhookEndpointRow,
  change: Health,
  now: Date,
): Promise<void> {
  await tx.updateTable('webhook_endpoints').set(change).where('id', '=', endpoint.id).execute()
  const { disabled_reason: reason } = change
  if (reason) await completeDisabling(tx, endpoint, reason, now)
}

const SYSTEM = { type: 'system', id: null, label: 'webhook deliveries', address: null } as const

async function completeDisabling(
  tx: Transaction,
  endpoint: WebhookEndpointRow,
  reason: 'gone' | 'failing',
  now: Date,
): Promise<void> {
  const { id, account_id: accountId, url, failing_since } = endpoint
  await failPendingDeliveries(tx, id, now)
  const detail = { url, reason, failing_since }
  await recordNotice(
    tx,
    { accountId, kind: 'webhook_endpoint.disabled', subjectId: id, detail },
    now,
  )
  const action = 'webhook_endpoint.disabled'
  await recordAudit(tx, { actor: SYSTEM, now }, { accountId, action, subjectId: id, detail })
}

function attemptRow(
  { delivery, requestHeaders, result, startedAt }: Outcome,
  number: number,
): WebhookAttemptRow {
  return {
    delivery_id: delivery.id,
    number,
    account_id: delivery.account_id,
    endpoint_id: delivery.endpoint_id,
    started_at: startedAt.toISOString(),
    duration_ms: result.durationMs,
    succeeded: result.succeeded ? 1 : 0,
    status_code: result.statusCode,
    error: result.error,
    request_headers: JSON.stringify(requestHeaders),
    response_headers:
      result.responseHeaders === null ? null : JSON.stringify(result.responseHeaders),
    response_body: result.responseBody,
  }
}
