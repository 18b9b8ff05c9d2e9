/**
 * Counts the API calls that the backend authenticates and responds to. Gateways report other calls, which they reject
 * themselves, e.g. calls beyond the rate limit.
 */
import type { Server } from '@hapi/hapi'
import type { ProblemCode } from '../../shared/contract/problem.ts'
import type { Caller } from '../api/caller.ts'
import type { Usage } from './usage.ts'

declare module '@hapi/hapi' {
  interface ResponseApplicationState {
    /** Absent if the response is not a problem document. */
    problemCode?: ProblemCode
  }
}

export function countCalls(server: Server, usage: Usage, clock: () => Date): void {
  server.events.on('response', ({ auth, response, route }) => {
    // The credentials are null on routes outside the API, and if the backend has not authenticated the call.
    const caller = auth.credentials as Partial<Caller> | null
    // The response is null if the gateway closed the connection before the response.
    if (caller?.key === undefined || response === null || response instanceof Error) return
    const { app } = route.settings
    if (app === undefined || !('operationId' in app)) return
    usage.count({
      keyId: caller.key.id,
      status: response.statusCode,
      at: clock(),
      operation: String(app.operationId),
      code: response.app.problemCode,
    })
  })
}
