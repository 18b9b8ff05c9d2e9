/**
 * The routes of webhook endpoints. The actions that choose where events are sent, or show a secret, require that the
 * password was entered recently: otherwise, a person who finds an abandoned session could have the account's data sent
 * to themselves, or sign forged events with the secret.
 */
import type { Problem } from '../../../shared/contract/problem.ts'
import { instantOf, isCalendarDate, parseInstant } from '../../calendar/calendar.ts'
import type { Reader, Transaction, WebhookEndpointRow } from '../../database/tables.ts'
import { setFlash } from '../../sessions/flash.ts'
import { getDelivery, listDeliveries, redeliverFailed } from '../../webhooks/delivery-log.ts'
import {
  createEndpoint,
  deleteEndpoint,
  type EndpointWithSecret,
  expireOldSecret,
  getEndpoint,
  lockEndpoint,
  pauseEndpoint,
  resumeEndpoint,
  rotateSecret,
  updateEndpoint,
} from '../../webhooks/endpoints.ts'
import {
  eventTypesOf,
  type RecentAttempts,
  representDeliveryDetail,
  representEndpoint,
} from '../../webhooks/representation.ts'
import type { PrivateTargetPolicy } from '../../webhooks/target-url.ts'
import { sendTestEvent } from '../../webhooks/test-event.ts'
import type { WebhookServices } from '../../webhooks/webhooks.ts'
import {
  type CreateOnceOptions,
  createOnce,
  IDEMPOTENCY_KEY_FIELD,
  renderIdempotencyKey,
} from '../forms/perform-once.ts'
import { rejectField, withFieldLabels } from '../shell/faults.ts'
import { type Fields, NO_FIELDS } from '../shell/fields.ts'
import type { FlashName } from '../shell/flash-words.ts'
import {
  EDIT_METHODS,
  type SessionPage,
  type SessionRequest,
  type SettingsDeps,
  startTimeLimit,
} from '../shell/page-request.ts'
import type { RenderPage } from '../shell/response.ts'
import { renderDeleteEndpoint } from './delete-endpoint-page.ts'
import { readAttemptsOf, readEndpointsWithAttempts } from './endpoint-attempts.ts'
import {
  ENDPOINT_LABELS,
  type EndpointForm,
  type EndpointValues,
  renderEndpointForm,
} from './endpoint-form-page.ts'
import { renderEndpointPage } from './endpoint-page.ts'
import { renderSecret } from './reveal-page.ts'
import { renderEndpoints } from './webhooks-page.ts'

const ENDPOINTS_PATH = '/settings/webhook-endpoints'
export const WEBHOOK_ADMINS_ONLY = 'Only an Admin can change webhooks.'

/** The maximum number of deliveries on the page of an endpoint. */
const DELIVERIES_MAX = 10

/** An endpoint with its secret, which is shown once. */
interface Revealed extends EndpointWithSecret {
  readonly recent: RecentAttempts
  readonly status: number
}

const NO_ATTEMPTS: RecentAttempts = { hours: [], lastAttemptAt: undefined }

const NEW_ENDPOINT = { id: undefined, stored: undefined }

const CREATION: CreateOnceOptions = {
  operation: 'settings.createWebhookEndpoint',
  repeatedFlash: 'webhook_already_added',
  location: endpointPath,
}

function valuesOf(row: WebhookEndpointRow): EndpointValues {
  const { url, description } = row
  return { url, description, events: eventTypesOf(row) ?? ['*'] }
}

export function webhookEndpointPages(webhooks: WebhookServices): readonly SessionPage[] {
  const { privateTargetPolicy } = webhooks
  return [
    {
      method: 'GET',
      path: ENDPOINTS_PATH,
      async handle({ session, now }, { database }) {
        const endpoints = await readEndpointsWithAttempts(database.read, session.account.id, now)
        const data = endpoints.map(({ row, recent }) => representEndpoint(row, recent))
        return {
          json: { object: 'list', data, has_more: false, next_cursor: null },
          page: (frame) => renderEndpoints(frame, { session, endpoints, now }),
        }
      },
    },
    {
      method: 'GET',
      path: `${ENDPOINTS_PATH}/new`,
      adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
      needsRecentPassword: true,
      handle: async () => ({
        page: renderForm(NEW_ENDPOINT, NO_FIELDS, privateTargetPolicy),
      }),
    },
    {
      method: 'POST',
      path: ENDPOINTS_PATH,
      adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
      needsRecentPassword: true,
      expected: { texts: ['url', 'description', IDEMPOTENCY_KEY_FIELD], lists: ['events'] },
      handle: (request, deps) => addEndpoint(request, deps, webhooks),
      rerender: async ({ fields }, problem) =>
        rerenderForm(NEW_ENDPOINT, fields, privateTargetPolicy, problem),
    },
    {
      method: 'GET',
      path: `${ENDPOINTS_PATH}/{id}`,
      async handle({ session, id, now }, { database }) {
        const row = await getEndpoint(database.read, session.account.id, id)
        const recent = await readRecentAttempts(database.read, row, now)
        const { id: accountId } = session.account
        const filters = { endpointId: id, status: undefined, type: undefined, before: undefined }
        const { rows: deliveries } = await listDeliveries(database.read, accountId, filters, {
          limit: DELIVERIES_MAX,
        })
        return {
          json: { ...representEndpoint(row, recent), attempts_by_hour: recent.hours },
          page: (frame) => renderEndpointPage(frame, { session, row, recent, deliveries, now }),
        }
      },
    },
    {
      method: 'GET',
      path: `${ENDPOINTS_PATH}/{id}/edit`,
      adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
      needsRecentPassword: true,
      async handle({ session, id }, { database }) {
        const row = await getEndpoint(database.read, session.account.id, id)
        return { page: renderForm({ id, stored: valuesOf(row) }, NO_FIELDS, privateTargetPolicy) }
      },
    },
    {
      // Omitted fields do not change.
      method: EDIT_METHODS,
      path: `${ENDPOINTS_PATH}/{id}`,
      adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
      needsRecentPassword: true,
      expected: { texts: ['url', 'description'], lists: ['events'], ignoresUnchangedFields: true },
      async handle({ session, fields, id, actionContext, now, performAction }, { database }) {
        const row = await performAction('webhook_changed', async (tx) => {
          const before = await lockEndpoint(tx, session.account.id, id)
          const change = { row: before, input: settingsOf(fields, before) }
          return updateEndpoint(tx, change, privateTargetPolicy, actionContext)
        })
        const recent = await readRecentAttempts(database.read, row, now)
        return { json: representEndpoint(row, recent), location: endpointPath(id) }
      },
      async rerender({ session, fields, id }, problem, { database }) {
        const stored = valuesOf(await getEndpoint(database.read, session.account.id, id))
        return rerenderForm({ id, stored }, fields, privateTargetPolicy, problem)
      },
    },
    changeAction('pause', 'webhook_paused', pauseEndpoint, {
      action: 'resume',
      ifItWas: 'enabled',
    }),
    changeAction('resume', 'webhook_resumed', resumeEndpoint, {
      action: 'pause',
      ifItWas: 'paused',
    }),
    changeAction('expire-old-secret', 'webhook_secret_expired', expireOldSecret),
    ...deletePages,
    ...actionPages(webhooks),
  ]
}

const deletePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${ENDPOINTS_PATH}/{id}/remove`,
    adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
    async handle({ session, id, now }, { database }) {
      const row = await getEndpoint(database.read, session.account.id, id)
      const recent = await readRecentAttempts(database.read, row, now)
      const { timezone } = session.account
      const view = { row, recent, times: { now, timezone } }
      return { page: (frame) => renderDeleteEndpoint(frame, view) }
    },
  },
  {
    method: 'POST',
    path: `${ENDPOINTS_PATH}/{id}/remove`,
    adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
    async handle({ session, id, actionContext, wantsJson, performAction }) {
      await performAction('webhook_deleted', async (tx) =>
        deleteEndpoint(tx, await lockEndpoint(tx, session.account.id, id), actionContext),
      )
      // The response to a JSON client is 204: there is no endpoint to return.
      return wantsJson ? {} : { location: ENDPOINTS_PATH }
    },
  },
]

/** Actions on an endpoint after which a page other than the endpoint's is shown. */
function actionPages(webhooks: WebhookServices): SessionPage[] {
  return [
    {
      method: 'POST',
      path: `${ENDPOINTS_PATH}/{id}/rotate-secret`,
      adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
      needsRecentPassword: true,
      async handle({ session, id, actionContext, now }, { database }) {
        // All reads come before the rotation: if a read after it failed, nobody would see the new secret.
        const endpoint = await getEndpoint(database.read, session.account.id, id)
        const recent = await readRecentAttempts(database.read, endpoint, now)
        const rotated = await database.transaction(async (tx) => {
          const row = await lockEndpoint(tx, session.account.id, id)
          return rotateSecret(tx, row, webhooks.secretBox, actionContext)
        })
        return reveal({ ...rotated, recent, status: 200 })
      },
    },
    {
      method: 'POST',
      path: `${ENDPOINTS_PATH}/{id}/test`,
      adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
      expected: { texts: ['type'] },
      handle: ({ session, fields, id, actionContext }, deps) =>
        sendTest(session, fields, id, actionContext, deps, webhooks),
    },
    {
      method: 'POST',
      path: `${ENDPOINTS_PATH}/{id}/redeliver-failed`,
      adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
      expected: { texts: ['since'] },
      async handle({ session, fields, id, actionContext, wantsJson }, { database, clock }) {
        const since = parseSince(fields.text('since'), session.account.timezone)
        const row = await getEndpoint(database.read, session.account.id, id)
        // If `hasMore` is true, the user must repeat the request to redeliver the remaining deliveries.
        const isTimeOver = startTimeLimit(clock, actionContext.now)
        const { count, hasMore } = await redeliverFailed(
          database,
          row,
          { since, isTimeOver },
          actionContext,
        )
        if (!wantsJson) {
          const flash = hasMore ? 'webhooks_redelivered_partly' : 'webhooks_redelivered'
          await database.transaction((tx) => setFlash(tx, session.token, flash))
        }
        return { json: { redelivered: count, has_more: hasMore }, location: deliveriesPath(id) }
      },
    },
  ]
}

function addEndpoint(request: SessionRequest, deps: SettingsDeps, webhooks: WebhookServices) {
  const { session, fields, actionContext } = request
  const input = settingsOf(fields, DEFAULT_SETTINGS)
  const create = async (tx: Transaction) => {
    const created = await createEndpoint(tx, session.account.id, input, webhooks, actionContext)
    return { ...created, json: representEndpoint(created.row, NO_ATTEMPTS) }
  }
  return createOnce(request, deps, CREATION, create, ({ row, secret }) =>
    reveal({ row, secret, recent: NO_ATTEMPTS, status: 201 }),
  )
}

function endpointPath(id: string): string {
  return `${ENDPOINTS_PATH}/${id}`
}

function deliveriesPath(endpointId: string): string {
  return `/settings/webhook-deliveries?endpoint_id=${endpointId}`
}

function rerenderForm(
  endpoint: Pick<EndpointForm, 'id' | 'stored'>,
  fields: Fields,
  privateTargetPolicy: PrivateTargetPolicy,
  problem: Problem,
): RenderPage | undefined {
  if (problem.code !== 'validation_failed') return undefined
  return renderForm(
    endpoint,
    fields,
    privateTargetPolicy,
    withFieldLabels(problem, ENDPOINT_LABELS),
  )
}

/** Renders the form with the values that were sent; a value that was not sent is the stored one. */
function renderForm(
  { id, stored }: Pick<EndpointForm, 'id' | 'stored'>,
  fields: Fields,
  privateTargetPolicy: PrivateTargetPolicy,
  problem?: Problem,
): RenderPage {
  const textOf = (name: 'url' | 'description') =>
    fields.has(name) ? fields.text(name) : (stored?.[name] ?? '')
  const events = fields.has('events') ? fields.list('events') : (stored?.events ?? [])
  const form = {
    ...{ id, stored, url: textOf('url'), description: textOf('description'), events },
    // Only a new endpoint needs an idempotency key: the same change twice has the effect of one change.
    keyField: id === undefined ? renderIdempotencyKey(fields) : undefined,
  }
  return (frame) => renderEndpointForm(frame, form, privateTargetPolicy, problem)
}

/**
 * If the endpoint had the status `undoneBy.ifItWas` before, the message after the action offers to undo it with
 * `undoneBy.action`.
 */
function changeAction(
  action: string,
  flash: FlashName,
  change: typeof pauseEndpoint,
  undoneBy?: { readonly action: string; readonly ifItWas: WebhookEndpointRow['status'] },
): SessionPage {
  return {
    method: 'POST',
    path: `${ENDPOINTS_PATH}/{id}/${action}`,
    adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
    async handle({ session, id, actionContext, now, performAction }, { database }) {
      const undo = undoneBy && { path: `${endpointPath(id)}/${undoneBy.action}`, fields: [] }
      const flashOf = ({ before }: { readonly before: WebhookEndpointRow }) => ({
        name: flash,
        undo: before.status === undoneBy?.ifItWas ? undo : undefined,
      })
      const { row } = await performAction(flashOf, async (tx) => {
        const before = await lockEndpoint(tx, session.account.id, id)
        return { before, row: await change(tx, before, actionContext) }
      })
      const recent = await readRecentAttempts(database.read, row, now)
      return { json: representEndpoint(row, recent), location: endpointPath(id) }
    },
  }
}

function reveal({ row, secret, recent, status }: Revealed) {
  const endpoint = representEndpoint(row, recent)
  const page: RenderPage = (frame) => renderSecret(frame, row, secret)
  return { status, json: { ...endpoint, secret }, page }
}

async function sendTest(
  session: SessionRequest['session'],
  fields: Fields,
  id: string,
  actionContext: SessionRequest['actionContext'],
  { database, log }: SettingsDeps,
  webhooks: WebhookServices,
) {
  const { id: accountId } = session.account
  const row = await getEndpoint(database.read, accountId, id)
  const type = fields.text('type') || 'webhook.test'
  const deliveryId = await sendTestEvent(row, type, { database, webhooks, log }, actionContext)
  const detail = await getDelivery(database.read, accountId, deliveryId)
  return {
    // 202 means that no attempt is recorded yet, usually because the attempt takes longer than a page can wait.
    status: detail.attempts.length === 0 ? 202 : 200,
    json: representDeliveryDetail(detail, { withBodies: true }),
    location: `/settings/webhook-deliveries/${deliveryId}`,
  }
}

type CurrentSettings = Pick<WebhookEndpointRow, 'url' | 'description' | 'event_types'>

/** The settings of a new endpoint, if the request omits them. JSON without a list of types subscribes to all types. */
const DEFAULT_SETTINGS: CurrentSettings = { url: '', description: '', event_types: null }

function settingsOf(fields: Fields, current: CurrentSettings) {
  const text = (name: 'url' | 'description') =>
    fields.has(name) ? fields.text(name) : current[name]
  return {
    url: text('url'),
    description: text('description'),
    eventTypes: typesOf(fields, current),
  }
}

/**
 * `*` means every type. The current types are kept if the person changed no checkbox of a form, or if JSON does not
 * contain the list. A form in which the person has unchecked all types means no type.
 */
function typesOf(fields: Fields, current: CurrentSettings): readonly string[] | null {
  const types = fields.list('events')
  if (types.includes('*')) return null
  return fields.missingMeansUnchanged && !fields.has('events') ? eventTypesOf(current) : types
}

const LOCAL_TIME = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):([0-5]\d)$/

/** A form sends a local time of the account's time zone, without seconds. JSON contains a time with a UTC offset. */
function parseSince(text: string, timezone: string): Date {
  const [, date, hours, minutes] = LOCAL_TIME.exec(text) ?? []
  const since =
    date !== undefined && isCalendarDate(date)
      ? instantOf(date, Number(hours) + Number(minutes) / 60, timezone)
      : parseInstant(text)
  return (
    since ??
    rejectField('since', 'since must be a time with a UTC offset, such as 2026-11-21T10:15:00Z.')
  )
}

async function readRecentAttempts(
  reader: Reader,
  row: WebhookEndpointRow,
  now: Date,
): Promise<RecentAttempts> {
  const [found] = await readAttemptsOf(reader, [row], now)
  return found?.recent ?? NO_ATTEMPTS
}
