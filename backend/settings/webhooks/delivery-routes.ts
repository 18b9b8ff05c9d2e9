import type { WebhookDeliveryRow } from '../../database/tables.ts'
import {
  DELIVERY_STATUSES,
  type DeliveryFilters,
  getDelivery,
  listDeliveries,
  redeliver,
} from '../../webhooks/delivery-log.ts'
import {
  getEndpointEvenIfDeleted,
  listEndpoints,
  readEndpointUrls,
} from '../../webhooks/endpoints.ts'
import { representDelivery, representDeliveryDetail } from '../../webhooks/representation.ts'
import { choiceOf, type ListQuery, listOf, parseListQuery } from '../shell/list-query.ts'
import type { SessionPage } from '../shell/page-request.ts'
import { renderDeliveries, renderDeliveryPage } from './deliveries-page.ts'
import { WEBHOOK_ADMINS_ONLY } from './endpoint-routes.ts'

const DELIVERIES_PATH = '/settings/webhook-deliveries'

export const webhookDeliveryPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: DELIVERIES_PATH,
    async handle({ session, query, now }, { database }) {
      const { filters, list } = parseQuery(query)
      const { id: accountId } = session.account
      const { limit } = list
      const found = await listDeliveries(database.read, accountId, filters, { limit })
      const endpoints = await listEndpoints(database.read, accountId)
      // The filter offers `endpoints`. The list also shows deliveries to deleted endpoints, whose URLs are in `urls`.
      const urls = await readEndpointUrls(database.read, accountId)
      return {
        json: listOf(found.rows.map(representDelivery), found.next),
        page: (frame) =>
          renderDeliveries(frame, {
            session,
            ...found,
            endpoints,
            urls,
            filters,
            limit: list.value('limit'),
            now,
          }),
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
      const endpoint = await getEndpointEvenIfDeleted(
        database.read,
        session.account.id,
        endpoint_id,
      )
      return {
        json: representDeliveryDetail(detail, { withBodies }),
        page: (frame) => renderDeliveryPage(frame, { session, detail, endpoint }),
      }
    },
  },
  {
    method: 'POST',
    path: `${DELIVERIES_PATH}/{id}/redeliver`,
    adminsOnlyMessage: WEBHOOK_ADMINS_ONLY,
    async handle({ session, id, actionContext, performAction }) {
      const row = await performAction(
        // `redeliver` changes nothing while the delivery is being sent.
        ({ status }: WebhookDeliveryRow) => ({
          name: status === 'sending' ? 'webhook_being_sent' : 'webhook_redelivered',
        }),
        (tx) => redeliver(tx, session.account.id, id, actionContext),
      )
      return { json: representDelivery(row), location: `${DELIVERIES_PATH}/${id}` }
    },
  },
]

/** Throws `Problem` 400. */
function parseQuery(query: URLSearchParams): { filters: DeliveryFilters; list: ListQuery } {
  const list = parseListQuery(query, ['endpoint_id', 'status', 'type'])
  const filters = {
    endpointId: list.value('endpoint_id'),
    status: choiceOf(list, 'status', DELIVERY_STATUSES),
    type: list.value('type'),
    before: list.cursor,
  }
  return { filters, list }
}
