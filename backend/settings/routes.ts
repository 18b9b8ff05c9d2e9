/** Settings: the pages for the people who hold the account, and the same as JSON for scripts. */
import type { ServerRoute } from '@hapi/hapi'
import { Problem } from '../../shared/contract/problem.ts'
import type { WebhookServices } from '../webhooks/webhooks.ts'
import { auditPages } from './audit/audit-routes.ts'
import { customerPages } from './customers/customer-routes.ts'
import { invoicePages } from './customers/invoice-routes.ts'
import { paymentPages } from './customers/payment-routes.ts'
import { allowancePages, keyPages } from './keys/routes.ts'
import { invitationPages } from './login/invitation-routes.ts'
import { loginPages, sessionPages } from './login/login-routes.ts'
import { peoplePages } from './people/routes.ts'
import { approvalPages } from './reminders/approval-routes.ts'
import { killSwitchPages } from './reminders/kill-switch-routes.ts'
import { messagePages } from './reminders/message-routes.ts'
import { reminderPages } from './reminders/reminder-routes.ts'
import { schedulePages } from './reminders/schedule-routes.ts'
import { assetRoutes } from './shell/assets.ts'
import { cookiesFor } from './shell/cookies.ts'
import { openRoute, type SettingsDeps, sessionRoute } from './shell/page-request.ts'
import { webhookDeliveryPages } from './webhooks/delivery-routes.ts'
import { webhookEndpointPages } from './webhooks/endpoint-routes.ts'

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
  const loggedInPages = [
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
    ...loggedInPages.map((page) => sessionRoute(page, deps)),
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
