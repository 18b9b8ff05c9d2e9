/**
 * Records events and their deliveries, which a worker sends. An event is recorded in the transaction of the change that
 * it reports, so that no event is lost, and no event reports a change that was rolled back.
 *
 * An event without a subscribed endpoint is not recorded, so that a change in an account without webhooks costs only
 * one index look-up.
 */
import { createId } from '../../shared/contract/id.ts'
import { todayIn } from '../calendar/calendar.ts'
import { announce } from '../database/announcements.ts'
import { oncePerTransaction } from '../database/once-per-transaction.ts'
import { prepared } from '../database/prepared.ts'
import type {
  Reader,
  Transaction,
  WebhookDeliveryRow,
  WebhookEventRow,
} from '../database/tables.ts'
import type { EventType } from './event-types.ts'

/** The topic that a transaction announces when it has made deliveries due. */
export const DELIVERIES_DUE = 'webhook_deliveries'

export interface DomainEvent {
  readonly accountId: string
  readonly type: EventType
  readonly subjectId: string
  /**
   * Returns the JSON of the object after the change. Called only if an endpoint subscribes to the event. `today` is the
   * current date in the account's time zone.
   */
  represent(today: string): object | Promise<object>
  /**
   * Returns the JSON of the object before the change; absent if the object is new, or if the event, such as
   * `api_key.expiring`, does not report a change of the object.
   */
  representBefore?(today: string): object | Promise<object>
}

export async function recordEvent(tx: Transaction, event: DomainEvent, now: Date): Promise<void> {
  const endpoints = await findSubscribedEndpoints(tx, event)
  const [first] = endpoints
  if (first === undefined) return
  const { accountId, type, subjectId } = event
  const today = todayIn(first.timezone, now)
  const object = await event.represent(today)
  const before = await event.representBefore?.(today)
  const id = await insertEvent(
    tx,
    { accountId, type, subjectId },
    { object, previous: before === undefined ? null : previousValues(before, object) },
    now,
  )
  for (const { id: endpointId } of endpoints) {
    await insertDelivery(tx, newDelivery({ accountId, eventId: id, endpointId, type }, now))
  }
  announce(tx, DELIVERIES_DUE)
}

const insertDelivery = prepared((tx: Transaction, delivery: WebhookDeliveryRow) =>
  tx.insertInto('webhook_deliveries').values(delivery),
)

export type EventHead = Pick<DomainEvent, 'accountId' | 'type' | 'subjectId'>

export interface EventData {
  readonly object: object
  /** The previous values of changed members; null if the object is new, or if the event reports no change. */
  readonly previous: object | null
}

/** Inserts an event without deliveries, and returns its id. `extraMembers` are added to its body. */
export async function insertEvent(
  tx: Transaction,
  { accountId, type, subjectId }: EventHead,
  data: EventData,
  now: Date,
  extraMembers: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const id = createId('evt')
  const created_at = now.toISOString()
  const head = { id, type, timestamp: created_at, api_version: 'v1', account_id: accountId }
  const body = JSON.stringify({ ...head, ...extraMembers, data: withRevision(data) })
  await insertEventRow(tx, {
    id,
    account_id: accountId,
    type,
    subject_id: subjectId,
    body,
    created_at,
  })
  return id
}

const insertEventRow = prepared((tx: Transaction, event: WebhookEventRow) =>
  tx.insertInto('webhook_events').values(event),
)

export interface DeliveryHead {
  readonly accountId: string
  readonly eventId: string
  readonly endpointId: string
  readonly type: string
}

/** Returns the `data` of an event. `revision` is null if the object has none. */
export function withRevision({ object, previous }: EventData) {
  return { object, previous, revision: 'revision' in object ? object.revision : null }
}

/** Returns a delivery that is due immediately. */
export function newDelivery(head: DeliveryHead, now: Date): WebhookDeliveryRow {
  return {
    id: createId('whd'),
    account_id: head.accountId,
    event_id: head.eventId,
    endpoint_id: head.endpointId,
    event_type: head.type,
    status: 'pending',
    attempts: 0,
    // The position in the retry schedule, which starts again when the delivery is redelivered.
    step: 0,
    run_at: now.toISOString(),
    lease: null,
    last_attempt_at: null,
    last_status_code: null,
    last_error: null,
    created_at: now.toISOString(),
    updated_at: now.toISOString(),
  }
}

/** Includes paused endpoints. Their deliveries wait until the endpoints are resumed. */
async function findSubscribedEndpoints(tx: Transaction, { accountId, type }: DomainEvent) {
  const endpoints = await readEndpoints(tx, accountId)
  return endpoints.filter(({ event_types }) => {
    // Null subscribes to all types.
    if (event_types === null) return true
    const types: unknown = JSON.parse(event_types)
    return Array.isArray(types) && types.includes(type)
  })
}

/**
 * Reads the endpoints that `recordEvent` will need, so that a transaction can read them in the same round trip as other
 * data.
 */
export async function prefetchEndpoints(tx: Transaction, accountId: string): Promise<void> {
  await readEndpoints(tx, accountId)
}

/**
 * Reads the endpoints once in each transaction. This is enough, because no transaction first changes endpoints and then
 * records an event.
 */
const readEndpoints = oncePerTransaction((tx, accountId) => selectEndpoints(tx, { accountId }))

const selectEndpoints = prepared((tx: Transaction, { accountId }: { accountId: string }) =>
  selectEnabledOrPausedEndpoints(tx, accountId)
    .innerJoin('accounts', 'accounts.id', 'webhook_endpoints.account_id')
    .select(['webhook_endpoints.id', 'webhook_endpoints.event_types', 'accounts.timezone']),
)

export function selectEnabledOrPausedEndpoints(reader: Reader, accountId: string) {
  return reader
    .selectFrom('webhook_endpoints')
    .where('webhook_endpoints.account_id', '=', accountId)
    .where('webhook_endpoints.status', '!=', 'disabled')
}

function previousValues(before: object, after: object): object {
  const current = new Map(Object.entries(after))
  const changed = Object.entries(before).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(current.get(name)),
  )
  return Object.fromEntries(changed)
}
