/**
 * Looks up keys that were found before, e.g. to confirm a key before a call is rejected for another reason. The
 * look-ups of one turn of the event loop are sent together. Otherwise, it would cost the backend more to confirm the
 * key of a call beyond the rate limit than to serve the call.
 */
import { LOOK_UPS_PER_REQUEST_MAX } from '../../shared/contract/api-key.ts'
import type { LookUpResult } from './look-up.ts'
import { type LookUpMany, sendBatch, type WaitingLookUp } from './look-up-batch.ts'

export class KnownKeyLookUps {
  readonly #lookUpMany: LookUpMany
  #waiting: WaitingLookUp[] = []

  constructor(lookUpMany: LookUpMany) {
    this.#lookUpMany = lookUpMany
  }

  /** Rejects with the error of the request that contains this look-up. */
  lookUp(digest: string): Promise<LookUpResult> {
    return new Promise((resolve, reject) => {
      if (this.#waiting.length === 0) setImmediate(() => this.#send())
      this.#waiting.push({ digest, resolve, reject })
    })
  }

  #send(): void {
    const lookUps = this.#waiting
    this.#waiting = []
    for (let index = 0; index < lookUps.length; index += LOOK_UPS_PER_REQUEST_MAX) {
      void sendBatch(lookUps.slice(index, index + LOOK_UPS_PER_REQUEST_MAX), this.#lookUpMany)
    }
  }
}
