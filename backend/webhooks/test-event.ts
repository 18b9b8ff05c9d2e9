/**
 * Sends a test event: immediately, without retries, and even to a paused or disabled endpoint. If the attempt is
 * aborted, e.g. by a shutdown, the delivery waits for a worker like any other, and is sent only while the endpoint is
 * enabled.
 */
import type { Logger } from '../../shared/process/log.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import type { Database } from '../database/database.ts'
import type { WebhookEndpointRow } from '../database/tables.ts'
import { isEventType } from '../events/event-types.ts'
import { insertEvent, newDelivery } from '../events/events.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { attemptDelivery } from './attempt.ts'
import {
  type ClaimedDelivery,
  DELIVERY_LEASES,
  readClaimed,
  releaseDelivery,
} from './deliveries.ts'
import { recordOutcomes } from './outcomes.ts'
import { ATTEMPTS_MAX } from './retry-schedule.ts'
import { sampleOf } from './samples.ts'
import type { WebhookServices } from './webhooks.ts'

/**
 * The maximum time that a request waits for the outcome. With the default of `GATEWAY_UPSTREAM_TIMEOUT_MS`, the gateway
 * would respond with 504 after 10 seconds. An outcome that is recorded later is shown only in the delivery log.
 */
const WAIT_MS_MAX = 8000

export interface TestEventDeps {
  readonly database: Database
  readonly webhooks: WebhookServices
  readonly log: Logger
}

/**
 * Returns the delivery's id when the attempt has ended or `WAIT_MS_MAX` have passed. Throws `Problem`
 * `validation_failed` for an unknown event type.
 */
export async function sendTestEvent(
  endpoint: WebhookEndpointRow,
  type: string,
  { database, webhooks, log }: TestEventDeps,
  actionContext: ActionContext,
): Promise<string> {
  const testEvent = await recordTestEvent(endpoint, type, { database, webhooks }, actionContext)
  const sending = deliver(testEvent, database, webhooks).catch((error: unknown) => {
    log.error({ err: error, delivery: testEvent.claimed.id }, 'test event not sent or not recorded')
  })
  const { promise: timedOut, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, WAIT_MS_MAX)
  await Promise.race([sending, timedOut])
  clearTimeout(timer)
  return testEvent.claimed.id
}

interface ClaimedTestEvent {
  readonly claimed: ClaimedDelivery
  readonly startBefore: Date
}

/**
 * Records the delivery as claimed, so that no worker claims it, and with only one attempt left in the retry schedule,
 * so that it is not retried.
 */
async function recordTestEvent(
  endpoint: WebhookEndpointRow,
  type: string,
  { database, webhooks }: Pick<TestEventDeps, 'database' | 'webhooks'>,
  actionContext: ActionContext,
): Promise<ClaimedTestEvent> {
  if (!isEventType(type)) {
    const detail = `${type} is not an event type.`
    throw enteredValuesProblem([{ pointer: '/type', code: 'unknown_event_type', detail }])
  }
  const { id: endpointId, account_id: accountId } = endpoint
  const { id, lease, startBefore } = await database.transaction(async (tx) => {
    const eventHead = { accountId, type, subjectId: endpointId }
    const eventId = await insertEvent(tx, eventHead, sampleOf(type), actionContext.now, {
      test: true,
    })
    // The lease begins only now: the transaction may have waited for others.
    const now = webhooks.clock()
    const delivery = newDelivery({ accountId, eventId, endpointId, type }, now)
    const { id } = delivery
    await tx
      .insertInto('webhook_deliveries')
      .values({ ...delivery, step: ATTEMPTS_MAX - 1 })
      .execute()
    const claim = await DELIVERY_LEASES.claim(tx, [id], now, { status: 'sending' })
    await recordAudit(tx, actionContext, {
      accountId,
      action: 'webhook_endpoint.tested',
      subjectId: endpointId,
      detail: { url: endpoint.url, type },
    })
    return { id, ...claim }
  })
  const [claimed] = await readClaimed(database.read, [id], lease)
  if (claimed === undefined) throw new Error(`the test delivery ${id} no longer exists`)
  return { claimed, startBefore }
}

/** A test event is not retried, so no delay needs jitter. 0.5 would leave a delay unchanged. */
const noJitter = () => 0.5

async function deliver(
  { claimed, startBefore }: ClaimedTestEvent,
  database: Database,
  webhooks: WebhookServices,
): Promise<void> {
  const outcome = await attemptDelivery(claimed, startBefore, webhooks)
  await database.transaction(async (tx) => {
    if (outcome.result.error === 'aborted') await releaseDelivery(tx, claimed, webhooks.clock())
    else await recordOutcomes(tx, [outcome], noJitter)
  })
}
