/** What of mail is reached from outside, through a gateway: the link to unsubscribe. */
import type { ServerRoute } from '@hapi/hapi'
import { type UnsubscribeDeps, unsubscribeRoutes } from './unsubscribe-routes.ts'

export function mailRoutes(deps: UnsubscribeDeps): ServerRoute[] {
  return unsubscribeRoutes(deps)
}
