/**
 * Looks unknown keys up at the backend. Anyone can invent keys with a correct checksum. Look-ups of unknown keys
 * therefore do not share a queue with those of cached keys. The queue of unknown keys serves the networks of clients in
 * turn, and the key prefixes of each network in turn. Many look-ups are sent as one request. A flood of invented keys
 * therefore costs the backend little, and does not block the first call of a valid key that is not cached yet.
 */
import { LOOK_UPS_PER_REQUEST_MAX } from '../../shared/contract/api-key.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { NestedFairQueue } from '../../shared/process/nested-fair-queue.ts'
import type { LookUpResult } from './look-up.ts'
import { type LookUpMany, sendBatch, type WaitingLookUp } from './look-up-batch.ts'

/** The maximum number of requests for unknown keys at the same time. */
const REQUESTS_MAX = 8
/**
 * If more look-ups than this are queued, one look-up of the network with the most queued look-ups is rejected: the
 * newest one with that network's most frequent key prefix.
 */
const WAITING_MAX = 2_000

/** A key whose digest is not cached. */
export interface UnknownKey {
  readonly digest: string
  readonly prefix: string
  /** The network of the client, see `clientNetwork`. */
  readonly client: string
}

/** The look-up was not sent, because too many look-ups were waiting. */
export class TooManyLookUps extends Problem {
  constructor() {
    super(
      'service_unavailable',
      'Too many API keys are being looked up at the moment. Try again shortly.',
      {
        headers: { 'retry-after': '1' },
      },
    )
  }
}

export class UnknownKeyLookUps {
  readonly #lookUpMany: LookUpMany
  /** The groups are the networks, and their flows are the prefixes. */
  readonly #queue = new NestedFairQueue<WaitingLookUp>()
  #requests = 0

  constructor(lookUpMany: LookUpMany) {
    this.#lookUpMany = lookUpMany
  }

  get queuedLookUps(): number {
    return this.#queue.length
  }

  /** Rejects with `TooManyLookUps`, or with the error of the look-up. */
  lookUp({ digest, prefix, client }: UnknownKey): Promise<LookUpResult> {
    return new Promise((resolve, reject) => {
      this.#queue.push(client, prefix, { digest, resolve, reject })
      if (this.#queue.length > WAITING_MAX) this.#queue.popLongest()?.reject(new TooManyLookUps())
      if (this.#requests < REQUESTS_MAX) void this.#send()
    })
  }

  async #send(): Promise<void> {
    this.#requests++
    while (this.#queue.length > 0) await sendBatch(this.#takeBatch(), this.#lookUpMany)
    this.#requests--
  }

  #takeBatch(): WaitingLookUp[] {
    const batch: WaitingLookUp[] = []
    while (batch.length < LOOK_UPS_PER_REQUEST_MAX) {
      const lookUp = this.#queue.shift()
      if (lookUp === undefined) break
      batch.push(lookUp)
    }
    return batch
  }
}
