/**
 * Creates, changes and deletes webhook endpoints. A secret is returned once and stored encrypted. The row of a deleted
 * endpoint is kept for the delivery log.
 */
import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { lockAccount } from '../accounts/accounts.ts'
import { type ActionContext, type AuditAction, recordAudit } from '../accounts/audit.ts'
import { announce } from '../database/announcements.ts'
import type { Reader, Transaction, WebhookEndpointRow } from '../database/tables.ts'
import { type EventType, isEventType } from '../events/event-types.ts'
import { DELIVERIES_DUE } from '../events/events.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { normalizeText } from '../validation/unicode.ts'
import { failPendingDeliveries } from './deliveries.ts'
import type { SecretBox } from './secret-box.ts'
import { createSigningSecret } from './signature.ts'
import { type PrivateTargetPolicy, parseTargetUrl } from './target-url.ts'

export const ENDPOINTS_MAX = 10
const DESCRIPTION_LENGTH_MAX = 200

/** How long deliveries are signed with both secrets after a rotation. */
const OVERLAP_MS = 24 * 3_600_000

/** Until `hold_until`, only test events are sent to a receiver that is overloaded or unavailable. */
const NO_FAILURES_OR_DELAY = { failing_since: null, hold_until: null }

export interface EndpointSettings {
  readonly url: string
  readonly description: string
  /** Null for all types, including types that are added later. */
  readonly eventTypes: readonly string[] | null
}

export interface EndpointWithSecret {
  readonly row: WebhookEndpointRow
  readonly secret: string
}

export interface EndpointDeps {
  readonly secretBox: SecretBox
  readonly privateTargetPolicy: PrivateTargetPolicy
}

/** Throws `Problem` `too_many_webhook_endpoints`, or `validation_failed` with all errors. */
export async function createEndpoint(
  tx: Transaction,
  accountId: string,
  input: EndpointSettings,
  { secretBox, privateTargetPolicy }: EndpointDeps,
  actionContext: ActionContext,
): Promise<EndpointWithSecret> {
  const settings = checkSettings(input, privateTargetPolicy)
  await lockAccount(tx, accountId)
  const others = await listEndpoints(tx, accountId)
  if (others.length >= ENDPOINTS_MAX) {
    throw new Problem(
      'too_many_webhook_endpoints',
      `An account can have at most ${ENDPOINTS_MAX} endpoints. Change or delete one that you no longer use.`,
    )
  }
  const id = createId('whe')
  const secret = createSigningSecret()
  const now = actionContext.now.toISOString()
  const row: WebhookEndpointRow = {
    id,
    account_id: accountId,
    ...settings,
    status: 'enabled',
    status_since: now,
    disabled_reason: null,
    failing_since: null,
    hold_until: null,
    secret: secretBox.seal(secret, { accountId, recordId: id }),
    old_secret: null,
    old_secret_expires_at: null,
    created_at: now,
    created_by: actionContext.actor.label,
    updated_at: now,
    deleted_at: null,
  }
  await tx.insertInto('webhook_endpoints').values(row).execute()
  await audit(tx, row, 'webhook_endpoint.created', actionContext, {
    url: row.url,
    events: input.eventTypes ?? 'all',
  })
  return { row, secret }
}

/**
 * Changes an endpoint. If the URL changes, failures at the previous URL no longer count, and `hold_until`, which
 * applied to the previous receiver, is cleared. Throws `Problem` `validation_failed` with all errors.
 */
export async function updateEndpoint(
  tx: Transaction,
  { row, input }: { readonly row: WebhookEndpointRow; readonly input: EndpointSettings },
  privateTargetPolicy: PrivateTargetPolicy,
  actionContext: ActionContext,
): Promise<WebhookEndpointRow> {
  const settings = checkSettings(input, privateTargetPolicy)
  const hasOtherUrl = settings.url !== row.url
  if (hasOtherUrl) announce(tx, DELIVERIES_DUE)
  const values = hasOtherUrl ? { ...settings, ...NO_FAILURES_OR_DELAY } : settings
  const changed = await updateRow(tx, row, values, actionContext)
  await audit(tx, row, 'webhook_endpoint.updated', actionContext, {
    url: changed.url,
    events: input.eventTypes ?? 'all',
  })
  return changed
}

/**
 * Pauses an endpoint. Its deliveries, including retries, wait until the endpoint is resumed. Throws `Problem`
 * `webhook_endpoint_disabled` for a disabled endpoint.
 */
export async function pauseEndpoint(
  tx: Transaction,
  row: WebhookEndpointRow,
  actionContext: ActionContext,
): Promise<WebhookEndpointRow> {
  if (row.status === 'disabled') {
    throw new Problem(
      'webhook_endpoint_disabled',
      'The endpoint is disabled, so it cannot be paused. Resume the endpoint first.',
    )
  }
  return row.status === 'paused' ? row : setStatus(tx, row, 'paused', actionContext)
}

/**
 * Resumes an endpoint. Deliveries that became due meanwhile are sent immediately. Deliveries that failed because the
 * endpoint was disabled are sent only if a person redelivers them.
 */
export async function resumeEndpoint(
  tx: Transaction,
  row: WebhookEndpointRow,
  actionContext: ActionContext,
): Promise<WebhookEndpointRow> {
  if (row.status === 'enabled') return row
  announce(tx, DELIVERIES_DUE)
  return setStatus(tx, row, 'enabled', actionContext)
}

/**
 * Creates a new secret. For a day, deliveries are signed with both secrets. Throws `Problem`
 * `webhook_secret_overlap` if deliveries are already signed with two secrets.
 */
export async function rotateSecret(
  tx: Transaction,
  row: WebhookEndpointRow,
  secretBox: SecretBox,
  actionContext: ActionContext,
): Promise<EndpointWithSecret> {
  const expiresAt = row.old_secret_expires_at
  if (expiresAt !== null && expiresAt > actionContext.now.toISOString()) {
    throw new Problem(
      'webhook_secret_overlap',
      `Deliveries are still signed with the previous secret too, until ${expiresAt}. Expire that secret first.`,
    )
  }
  const secret = createSigningSecret()
  const rotated = await updateRow(
    tx,
    row,
    {
      secret: secretBox.seal(secret, { accountId: row.account_id, recordId: row.id }),
      old_secret: row.secret,
      old_secret_expires_at: new Date(actionContext.now.getTime() + OVERLAP_MS).toISOString(),
    },
    actionContext,
  )
  await audit(tx, row, 'webhook_endpoint.secret_rotated', actionContext)
  return { row: rotated, secret }
}

export async function expireOldSecret(
  tx: Transaction,
  row: WebhookEndpointRow,
  actionContext: ActionContext,
): Promise<WebhookEndpointRow> {
  if (row.old_secret === null) return row
  await audit(tx, row, 'webhook_endpoint.old_secret_expired', actionContext)
  return updateRow(tx, row, { old_secret: null, old_secret_expires_at: null }, actionContext)
}

/** Deletes an endpoint. Its pending deliveries fail. Attempts in progress continue, but no others begin. */
export async function deleteEndpoint(
  tx: Transaction,
  row: WebhookEndpointRow,
  actionContext: ActionContext,
): Promise<void> {
  const now = actionContext.now.toISOString()
  await audit(tx, row, 'webhook_endpoint.deleted', actionContext)
  await updateRow(
    tx,
    row,
    {
      status: 'disabled',
      status_since: now,
      // The table requires a reason for each disabled endpoint. No page shows it for a deleted one.
      disabled_reason: row.disabled_reason ?? 'gone',
      secret: '',
      old_secret: null,
      old_secret_expires_at: null,
      deleted_at: now,
    },
    actionContext,
  )
  await failPendingDeliveries(tx, row.id, actionContext.now)
}

/** Returns the endpoints that are not deleted, in the order of their creation. */
export async function listEndpoints(
  reader: Reader,
  accountId: string,
): Promise<WebhookEndpointRow[]> {
  return await reader
    .selectFrom('webhook_endpoints')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('deleted_at', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

/** Throws `Problem` `not_found`. */
export async function getEndpoint(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<WebhookEndpointRow> {
  return (await selectEndpoint(reader, accountId, id).executeTakeFirst()) ?? noEndpoint()
}

/** Like `getEndpoint`, but also returns a deleted endpoint. */
export async function getEndpointEvenIfDeleted(
  reader: Reader,
  accountId: string,
  id: string,
): Promise<WebhookEndpointRow> {
  const row = await reader
    .selectFrom('webhook_endpoints')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  return row ?? noEndpoint()
}

/**
 * Returns the URLs of all endpoints by id, to show them in the delivery log. The URL of a deleted endpoint is followed
 * by ` (deleted)`.
 */
export async function readEndpointUrls(
  reader: Reader,
  accountId: string,
): Promise<ReadonlyMap<string, string>> {
  const rows = await reader
    .selectFrom('webhook_endpoints')
    .select(['id', 'url', 'deleted_at'])
    .where('account_id', '=', accountId)
    .execute()
  return new Map(
    rows.map(({ id, url, deleted_at }) => [id, deleted_at === null ? url : `${url} (deleted)`]),
  )
}

/** Like `getEndpoint`, but locks the row until the transaction ends. */
export async function lockEndpoint(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<WebhookEndpointRow> {
  const row = await selectEndpoint(tx, accountId, id).forNoKeyUpdate().executeTakeFirst()
  return row ?? noEndpoint()
}

function selectEndpoint(reader: Reader, accountId: string, id: string) {
  return reader
    .selectFrom('webhook_endpoints')
    .selectAll()
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .where('deleted_at', 'is', null)
}

function noEndpoint(): never {
  throw new Problem('not_found', 'There is no such webhook endpoint.')
}

async function setStatus(
  tx: Transaction,
  row: WebhookEndpointRow,
  status: 'enabled' | 'paused',
  actionContext: ActionContext,
): Promise<WebhookEndpointRow> {
  await audit(
    tx,
    row,
    status === 'paused' ? 'webhook_endpoint.paused' : 'webhook_endpoint.resumed',
    actionContext,
  )
  // A person has paused or resumed the endpoint, so earlier failures no longer count toward disabling it.
  const reset = { disabled_reason: null, ...NO_FAILURES_OR_DELAY }
  return updateRow(
    tx,
    row,
    { status, status_since: actionContext.now.toISOString(), ...reset },
    actionContext,
  )
}

async function updateRow(
  tx: Transaction,
  row: WebhookEndpointRow,
  values: Partial<WebhookEndpointRow>,
  { now }: ActionContext,
): Promise<WebhookEndpointRow> {
  return await tx
    .updateTable('webhook_endpoints')
    .set({ ...values, updated_at: now.toISOString() })
    .where('account_id', '=', row.account_id)
    .where('id', '=', row.id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

async function audit(
  tx: Transaction,
  row: Pick<WebhookEndpointRow, 'id' | 'account_id' | 'url'>,
  action: AuditAction,
  actionContext: ActionContext,
  detail: Readonly<Record<string, unknown>> = { url: row.url },
): Promise<void> {
  await recordAudit(tx, actionContext, {
    accountId: row.account_id,
    action,
    subjectId: row.id,
    detail,
  })
}

function checkSettings(
  { url, description, eventTypes }: EndpointSettings,
  privateTargetPolicy: PrivateTargetPolicy,
): Pick<WebhookEndpointRow, 'url' | 'description' | 'event_types'> {
  const target = parseTargetUrl(url, privateTargetPolicy)
  const errors = [
    ...('error' in target ? [fieldError('/url', 'invalid_url', `url ${target.error}.`)] : []),
    ...descriptionErrors(description),
    ...eventTypeErrors(eventTypes),
  ]
  if ('error' in target || errors.length > 0) throw enteredValuesProblem(errors)
  return {
    url: target.url,
    description: normalizeText(description.trim(), 'NFC'),
    event_types: eventTypes === null ? null : JSON.stringify(sortedUnique(eventTypes)),
  }
}

function descriptionErrors(description: string) {
  const isPlain = !/\p{Cc}/u.test(description)
  if (isPlain && [...description].length <= DESCRIPTION_LENGTH_MAX) return []
  const detail = `description must have at most ${DESCRIPTION_LENGTH_MAX} characters, none of them control characters.`
  return [fieldError('/description', 'invalid_length', detail)]
}

function eventTypeErrors(eventTypes: readonly string[] | null) {
  if (eventTypes === null) return []
  if (eventTypes.length === 0)
    return [fieldError('/events', 'required', 'Choose at least one event.')]
  return eventTypes.flatMap((type, at) => {
    if (isEventType(type)) return []
    return [fieldError(`/events/${at}`, 'unknown_event_type', `${type} is not an event type.`)]
  })
}

function sortedUnique(types: readonly string[]): EventType[] {
  return [...new Set(types)].filter(isEventType).sort()
}

function fieldError(pointer: string, code: string, detail: string) {
  return { pointer, code, detail }
}
