/**
 * Events: written by the state transition itself, in its transaction, so that an event exists if and
 * only if what it tells of was committed. A replay makes no transition and a rollback takes its
 * events with it; nothing is sent from here.
 *
 * Where no endpoint wants an event none is written: nobody could ever be sent it, who did what is in
 * the audit log, and an account without webhooks pays one look at an index. An endpoint that is made
 * later therefore begins with what happens then.
 */
import { createId } from '../../shared/contract/id.ts'
import { todayIn } from '../calendar/calendar.ts'
import { prepared } from '../database/prepared.ts'
import type { Transaction, WebhookDeliveryRow, WebhookEventRow } from '../database/tables.ts'
import type { EventType } from './event-types.ts'

export interface DomainEvent {
  readonly accountId: string
  readonly type: EventType
  /** What it happened to. */
  readonly subjectId: string
  /** What GET shows of it now; `today` is the account's. Called only where someone wants to know. */
  render(today: string): object | Promise<object>
  /** What GET showed before; absent where there was nothing. */
  renderBefore?(today: string): object | Promise<object>
}

export async function recordEvent(tx: Transaction, event: DomainEvent, now: Date): Promise<void> {
  const endpoints = await findInterested(tx, event)
  const [first] = endpoints
  if (first === undefined) return
  const { accountId, type, subjectId } = event
  const today = todayIn(first.timezone, now)
  const object = await event.render(today)
  const before = await event.renderBefore?.(today)
  const id = await insertEvent(
    tx,
    { accountId, type, subjectId },
    { object, previous: before === undefined ? null : formerMembers(before, object) },
    now,
  )
  for (const { id: endpointId } of endpoints) {
    await insertDelivery(tx, newDelivery({ accountId, eventId: id, endpointId, type }, now))
  }
}

const insertDelivery = prepared((tx: Transaction, delivery: WebhookDeliveryRow) =>
  tx.insertInto('webhook_deliveries').values(delivery),
)

export type EventHead = Pick<DomainEvent, 'accountId' | 'type' | 'subjectId'>

export interface EventData {
  readonly object: object
  /** The members that changed, as they were; null where there was nothing before. */
  readonly previous: object | null
}

/** The event alone, for `recordEvent` and test events. Returns its id. */
export async function insertEvent(
  tx: Transaction,
  { accountId, type, subjectId }: EventHead,
  data: EventData,
  now: Date,
  marks: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const id = createId('evt')
  const created_at = now.toISOString()
  const head = { id, type, timestamp: created_at, api_version: 'v1', account_id: accountId }
  const body = JSON.stringify({ ...head, ...marks, data: withRevision(data) })
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

/** As an event carries it: the revision of the object stands beside it, null where it has none. */
export function withRevision({ object, previous }: EventData) {
  return { object, previous, revision: 'revision' in object ? object.revision : null }
}

/** Due at once. */
export function newDelivery(head: DeliveryHead, now: Date): WebhookDeliveryRow {
  return {
    id: createId('whd'),
    account_id: head.accountId,
    event_id: head.eventId,
    endpoint_id: head.endpointId,
    event_type: head.type,
    status: 'pending',
    attempts: 0,
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

/** Enabled and paused ones: what a paused one misses waits for it. */
async function findInterested(tx: Transaction, { accountId, type }: DomainEvent) {
  const endpoints = await readEndpoints(tx, { accountId })
  return endpoints.filter(({ event_types }) => {
    if (event_types === null) return true
    const types: unknown = JSON.parse(event_types)
    return Array.isArray(types) && types.includes(type)
  })
}

const readEndpoints = prepared((tx: Transaction, { accountId }: { accountId: string }) =>
  tx
    .selectFrom('webhook_endpoints')
    .innerJoin('accounts', 'accounts.id', 'webhook_endpoints.account_id')
    .select(['webhook_endpoints.id', 'webhook_endpoints.event_types', 'accounts.timezone'])
    .where('webhook_endpoints.account_id', '=', accountId)
    .where('webhook_endpoints.status', '!=', 'disabled'),
)

function formerMembers(before: object, now: object): object {
  const current = new Map(Object.entries(now))
  const changed = Object.entries(before).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(current.get(name)),
  )
  return Object.fromEntries(changed)
}
