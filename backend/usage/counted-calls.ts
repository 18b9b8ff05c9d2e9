/**
 * Counts the API calls to which the backend responds. Calls that a gateway rejects are not forwarded, and
 * are reported by the gateway.
 */
import type { Server } from '@hapi/hapi'
import type { ProblemCode } from '../../shared/contract/problem.ts'
import type { Caller } from '../api/caller.ts'
import type { Usage } from './usage.ts'

declare module '@hapi/hapi' {
  interface ResponseApplicationState {
    /** The code of the problem in the response; absent if there was none. */
    problemCode?: ProblemCode
  }
}

export function countCalls(server: Server, usage: Usage, clock: () => Date): void {
  server.events.on('response', ({ auth, response, route }) => {
    // Null if the caller is not authenticated. Only API routes have credentials.
    const caller = auth.credentials as Partial<Caller> | null
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
