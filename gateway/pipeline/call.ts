/** One call under way: what the steps of the pipeline know of it. */

import type { Connection } from '../downstream/connection.ts'
import { type CallStory, createStory } from '../observability/call-record.ts'
import type { Allowance } from '../rate-limit/limiter.ts'

/** A part of the work for a call that can be given up. */
export interface Abortable {
  abort(reason: Error): void
}

/** Whether work for a call is still wanted. One part of the work waits at a time. */
export class Abort {
  #reason: Error | undefined
  #waiting: Abortable | undefined

  /**
   * Undefined: it is wanted. A `Problem` where the request broke off or is too slow, else the client is
   * gone.
   */
  get reason(): Error | undefined {
    return this.#reason
  }

  /** Tells `waiting`, in place of whoever waited before. */
  listen(waiting: Abortable | undefined): void {
    this.#waiting = waiting
  }

  abort(reason: Error): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#waiting?.abort(reason)
  }
}

interface CallOptions extends Pick<Call, 'connection' | 'method' | 'requestId' | 'arrivedAt'> {
  /** Whether its steps are wanted, for a trace. */
  readonly notesSteps: boolean
}

export class Call {
  readonly connection: Connection
  /** Of the head, whatever else that may be. */
  readonly method: string
  /** The client's, where it gave one. */
  readonly requestId: string
  /** `performance.now()` when the head had arrived. */
  readonly arrivedAt: number
  readonly abort = new Abort()
  readonly story: CallStory
  /** Set once the key is authenticated and the call spent. */
  allowance: Allowance | undefined = undefined
  /** Whether `100 Continue` was sent. */
  saidContinue = false
  /** The answer is the backend's. */
  forwarded = false

  constructor({ connection, method, requestId, arrivedAt, notesSteps }: CallOptions) {
    this.connection = connection
    this.method = method
    this.requestId = requestId
    this.arrivedAt = arrivedAt
    this.story = createStory(connection.address, notesSteps)
  }
}
