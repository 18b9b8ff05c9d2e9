/** What of mail is reached from outside, through a gateway. */
import type { ServerRoute } from '@hapi/hapi'
import { type InboundDeps, inboundRoute } from './inbound-route.ts'
import { type UnsubscribeDeps, unsubscribeRoutes } from './unsubscribe-routes.ts'

export function mailRoutes(deps: UnsubscribeDeps & InboundDeps): ServerRoute[] {
  return [...unsubscribeRoutes(deps), inboundRoute(deps)]
}
