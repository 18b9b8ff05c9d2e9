/** The log of deliveries: what was sent where, what came of it; and sending it again. */
import { Problem } from '../../shared/problem.ts'
import { setFlash } from '../sessions/sessions.ts'
import {
  DELIVERY_STATUSES,
  type DeliveryFilters,
  getDelivery,
  listDeliveries,
  redeliver,
} from '../webhooks/delivery-log.ts'
import { getEndpoint, listEndpoints } from '../webhooks/endpoints.ts'
import { renderDelivery, renderDeliveryDetail } from '../webhooks/representation.ts'
import type { StayPage } from './visit.ts'
import { renderDeliveries, renderDeliveryPage } from './webhook-deliveries-page.ts'
import { WEBHOOK_ADMINS_ONLY } from './webhook-endpoint-pages.ts'

export const DELIVERIES_PATH = '/settings/webhook-deliveries'

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200
const PARAMETERS = ['endpoint_id', 'status', 'type', 'cursor', 'limit']

export const webhookDeliveryPages: readonly StayPage[] = [
  {
    method: 'GET',
    path: DELIVERIES_PATH,
    async handle({ session, query, now }, { database }) {
      const { filters, limit } = parseListQuery(query)
      const { id: accountId } = session.account
      const found = await listDeliveries(database.read, accountId, filters, limit + 1)
      const endpoints = await listEndpoints(database.read, accountId)
      const rows = found.slice(0, limit)
      const next = found.length > limit ? (rows.at(-1)?.id ?? null) : null
      return {
        json: {
          object: 'list',
          data: rows.map(renderDelivery),
          has_more: next !== null,
          next_cursor: next,
        },
        page: (frame) => renderDeliveries(frame, { session, rows, endpoints, filters, next, now }),
      }
    },
  },
  {
    method: 'GET',
    path: `${DELIVERIES_PATH}/{id}`,
    async handle({ session, id }, { database }) {
      const detail = await getDelivery(database.read, session.account.id, id)
      const withBodies = session.user.role === 'admin'
      const { endpoint_id } = detail.delivery
      const endpoint = await getEndpoint(database.read, session.account.id, endpoint_id)
      return {
        json: renderDeliveryDetail(detail, { withBodies }),
        page: (frame) => renderDeliveryPage(frame, { session, detail, endpoint }),
      }
    },
  },
  {
    method: 'POST',
    path: `${DELIVERIES_PATH}/{id}/redeliver`,
    admins: WEBHOOK_ADMINS_ONLY,
    async handle({ session, id, act, wantsJson }, { database }) {
      const row = await database.transaction(async (tx) => {
        if (!wantsJson) await setFlash(tx, session.token, 'webhook_redelivered')
        return redeliver(tx, session.account.id, id, act)
      })
      return { json: renderDelivery(row), location: `${DELIVERIES_PATH}/${id}` }
    },
  },
]

/** An empty parameter is what a form sends of a filter that is not set. Throws `Problem` 400. */
function parseListQuery(query: URLSearchParams): { filters: DeliveryFilters; limit: number } {
  for (const name of query.keys()) {
    if (!PARAMETERS.includes(name)) {
      throw new Problem('unknown_query_parameter', `${name} is not a parameter of this.`)
    }
  }
  const value = (name: string) => query.get(name) || undefined
  const asked = value('status')
  const status = DELIVERY_STATUSES.find((known) => known === asked)
  if (asked !== undefined && status === undefined) {
    throw invalid(`status is one of ${DELIVERY_STATUSES.join(', ')}.`)
  }
  const filters = {
    endpointId: value('endpoint_id'),
    status,
    type: value('type'),
    before: value('cursor'),
  }
  return { filters, limit: limitOf(value('limit')) }
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return LIMIT_DEFAULT
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= LIMIT_MAX) return limit
  throw invalid(`limit is a whole number from 1 to ${LIMIT_MAX}.`)
}

function invalid(detail: string): Problem {
  return new Problem('invalid_query_parameter', detail)
}
