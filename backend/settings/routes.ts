/** Settings: the pages for the people who hold the account, and the same as JSON for scripts. */
import type { ServerRoute } from '@hapi/hapi'
import { Problem } from '../../shared/problem.ts'
import type { WebhookServices } from '../webhooks/webhooks.ts'
import { approvalPages } from './approval-pages.ts'
import { assetRoutes } from './assets.ts'
import { auditPages } from './audit-pages.ts'
import { cookiesFor } from './cookies.ts'
import { customerPages } from './customer-pages.ts'
import { invitationPages } from './invitation-pages.ts'
import { invoicePages } from './invoice-pages.ts'
import { allowancePages, keyPages } from './key-pages.ts'
import { killSwitchPages } from './kill-switch-pages.ts'
import { loginPages, sessionPages } from './login-pages.ts'
import { messagePages } from './message-pages.ts'
import { paymentPages } from './payment-pages.ts'
import { peoplePages } from './people-pages.ts'
import { reminderPages } from './reminder-pages.ts'
import { schedulePages } from './schedule-pages.ts'
import { openRoute, type SettingsDeps, stayRoute } from './visit.ts'
import { webhookDeliveryPages } from './webhook-delivery-pages.ts'
import { webhookEndpointPages } from './webhook-endpoint-pages.ts'

export interface SettingsOptions extends Omit<SettingsDeps, 'cookies'> {
  /** Absent: no pages for webhooks. */
  readonly webhooks?: WebhookServices
}

export function settingsRoutes({ webhooks, ...given }: SettingsOptions): ServerRoute[] {
  const cookies = cookiesFor(given.baseUrl)
  if (cookies === undefined) {
    given.log.warn({ baseUrl: given.baseUrl }, 'no Settings pages: BASE_URL is not https')
    return everyPath(
      new Problem('service_unavailable', 'Settings are served over https: set BASE_URL.'),
    )
  }
  const deps = { ...given, cookies }
  const stayPages = [
    ...sessionPages,
    ...customerPages,
    ...invoicePages,
    ...paymentPages,
    ...reminderPages(),
    ...approvalPages,
    ...messagePages,
    ...schedulePages,
    ...killSwitchPages,
    ...keyPages,
    ...allowancePages,
    ...(webhooks === undefined ? [] : [...webhookEndpointPages(webhooks), ...webhookDeliveryPages]),
    ...peoplePages,
    ...auditPages,
  ]
  return [
    ...[...loginPages, ...invitationPages].map((page) => openRoute(page, deps)),
    ...stayPages.map((page) => stayRoute(page, deps)),
    ...assetRoutes(),
    ...everyPath(new Problem('route_not_found', 'There is no such page.')),
  ]
}

/** Whatever nothing else answers. */
function everyPath({ code, message }: Problem): ServerRoute[] {
  return ['/settings', '/settings/{path*}'].map((path) => ({
    method: '*',
    path,
    handler() {
      throw new Problem(code, message)
    },
  }))
}
