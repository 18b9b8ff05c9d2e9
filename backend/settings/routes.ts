/** Settings: HTML pages for the users of an account, and the same resources as JSON for scripts. */
import type { ServerRoute } from '@hapi/hapi'
import { Problem } from '../../shared/contract/problem.ts'
import { createIdempotency } from '../idempotency/idempotency.ts'
import { relyingPartyOf } from '../sessions/relying-party.ts'
import type { WebhookServices } from '../webhooks/webhooks.ts'
import { accountPages } from './account/account-routes.ts'
import { accountStatePages } from './account/account-state.ts'
import { auditPages } from './audit/audit-routes.ts'
import { customerPages } from './customers/customer-routes.ts'
import { editInvoicePages } from './customers/edit-invoice.ts'
import { invoicePages } from './customers/invoice-routes.ts'
import { newCustomerPages } from './customers/new-customer.ts'
import { newInvoicePages } from './customers/new-invoice.ts'
import { paymentPages } from './customers/payment-routes.ts'
import { homePages } from './home/home-routes.ts'
import { importPages } from './imports/import-routes.ts'
import { importHistoryPages } from './imports/past-import-routes.ts'
import { keyChangePages } from './keys/change-routes.ts'
import { keyPages, scopeAllowancePages } from './keys/routes.ts'
import { customerListPages } from './lists/customer-list.ts'
import { invoiceListPages } from './lists/invoice-list.ts'
import { paymentListPages } from './lists/payment-list.ts'
import { searchPages } from './lists/search-page.ts'
import { codePages } from './login/code-routes.ts'
import { invitationPages } from './login/invitation-routes.ts'
import { loginPages, yourLoginPages } from './login/login-routes.ts'
import { noticeChoicePages } from './login/notice-routes.ts'
import { passkeyLoginPages } from './login/passkey-login-routes.ts'
import { passkeyPages } from './login/passkey-routes.ts'
import { resetPages } from './login/reset-routes.ts'
import { secondFactorPages } from './login/second-factor-routes.ts'
import { sessionPages } from './login/session-routes.ts'
import { allocatePages } from './money/allocate.ts'
import { creditPages } from './money/credit.ts'
import { recordPaymentPages } from './money/record-payment.ts'
import { undoPages } from './money/undo-pages.ts'
import { peoplePages } from './people/routes.ts'
import { approvalPages } from './reminders/approval-routes.ts'
import { killSwitchPages } from './reminders/kill-switch-routes.ts'
import { messagePages } from './reminders/message-routes.ts'
import { oldInvoicePages } from './reminders/old-invoices.ts'
import { paymentDetailsPages } from './reminders/payment-details-routes.ts'
import { reminderPages } from './reminders/reminder-routes.ts'
import { schedulePages } from './reminders/schedule-routes.ts'
import { senderPages } from './reminders/sender-routes.ts'
import { wordingPages } from './reminders/wording-routes.ts'
import { assetRoutes } from './shell/assets.ts'
import { cookiesFor } from './shell/cookies.ts'
import type { SettingsDeps } from './shell/page-request.ts'
import { problemHandler, publicRoute, sessionRoute } from './shell/page-route.ts'
import { webhookDeliveryPages } from './webhooks/delivery-routes.ts'
import { webhookEndpointPages } from './webhooks/endpoint-routes.ts'

export interface SettingsOptions
  extends Omit<SettingsDeps, 'cookies' | 'idempotency' | 'relyingParty'> {
  /** If it is absent, there are no pages for webhooks. */
  readonly webhooks?: WebhookServices
}

export function settingsRoutes({ webhooks, ...given }: SettingsOptions): ServerRoute[] {
  const cookies = cookiesFor(given.baseUrl)
  if (cookies === undefined) {
    given.log.warn(
      { baseUrl: given.baseUrl },
      'Settings pages are disabled, because BASE_URL is neither an https address nor a loopback address, such as http://localhost:8080',
    )
    return everyPath(() => {
      throw new Problem(
        'service_unavailable',
        'Settings are served only over https, or at a loopback address (localhost, 127.0.0.1, [::1]). Set BASE_URL to an https address.',
      )
    })
  }
  const deps = {
    ...given,
    cookies,
    idempotency: createIdempotency(given),
    relyingParty: relyingPartyOf(given.baseUrl),
  }
  const loggedInPages = [
    ...homePages,
    ...accountStatePages,
    ...searchPages,
    ...customerListPages,
    ...invoiceListPages,
    ...paymentListPages,
    ...yourLoginPages,
    ...sessionPages,
    ...secondFactorPages,
    ...passkeyPages,
    ...noticeChoicePages,
    ...importPages,
    ...importHistoryPages,
    ...customerPages,
    ...newCustomerPages,
    ...invoicePages,
    ...newInvoicePages,
    ...editInvoicePages,
    ...paymentPages,
    ...recordPaymentPages,
    ...allocatePages,
    ...undoPages,
    ...creditPages,
    ...oldInvoicePages,
    ...reminderPages(),
    ...approvalPages,
    ...messagePages,
    ...schedulePages,
    ...paymentDetailsPages,
    ...wordingPages,
    ...senderPages,
    ...killSwitchPages,
    ...keyPages,
    ...keyChangePages,
    ...scopeAllowancePages,
    ...(webhooks === undefined ? [] : [...webhookEndpointPages(webhooks), ...webhookDeliveryPages]),
    ...accountPages,
    ...peoplePages,
    ...auditPages,
  ]
  return [
    ...[...loginPages, ...passkeyLoginPages, ...codePages, ...invitationPages, ...resetPages].map(
      (page) => publicRoute(page, deps),
    ),
    ...loggedInPages.map((page) => sessionRoute(page, deps)),
    ...assetRoutes(),
    ...everyPath(problemHandler(new Problem('route_not_found', 'There is no such page.'), deps)),
  ]
}

/** Returns routes for all requests to Settings that no other route handles. */
function everyPath(handler: NonNullable<ServerRoute['handler']>): ServerRoute[] {
  return ['/settings', '/settings/{path*}'].map((path) => ({ method: '*', path, handler }))
}
