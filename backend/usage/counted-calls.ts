/** Counts the calls of the API that are answered here. What a gateway refuses it does not forward. */
import type { Server } from '@hapi/hapi'
import type { ProblemCode } from '../../shared/contract/problem.ts'
import type { Caller } from '../api/caller.ts'
import type { Usage } from './usage.ts'

declare module '@hapi/hapi' {
  interface ResponseApplicationState {
    /** Of the problem that was answered; absent where none was. */
    problemCode?: ProblemCode
  }
}

export function countCalls(server: Server, usage: Usage, clock: () => Date): void {
  server.events.on('response', ({ auth, response }) => {
    // Null where nobody was let in. Only API routes have any.
    const caller = auth.credentials as Partial<Caller> | null
    if (caller?.key === undefined || response === null || response instanceof Error) return
    usage.count(caller.key.id, response.statusCode, clock(), response.app.problemCode)
  })
}
