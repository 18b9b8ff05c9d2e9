/** What of mail is reached from outside, through a gateway. */
import type { ServerRoute } from '@hapi/hapi'
import { Problem } from '../../shared/contract/problem.ts'
import { type InboundDeps, inboundRoute } from './inbound/route.ts'
import { type UnsubscribeDeps, unsubscribeRoutes } from './unsubscribe/routes.ts'

const NOTHING_ELSE: ServerRoute = {
  method: '*',
  path: '/mail/{path*}',
  handler() {
    throw new Problem('route_not_found', 'There is nothing here.')
  },
}

export function mailRoutes(deps: UnsubscribeDeps & InboundDeps): ServerRoute[] {
  return [...unsubscribeRoutes(deps), inboundRoute(deps), NOTHING_ELSE]
}
