/**
 * Looks unknown keys up at the backend. Anyone can invent keys with a correct checksum. Look-ups of unknown keys
 * therefore do not share a queue with those of cached keys. The queue of unknown keys serves the networks of clients in
 * turn, and the key prefixes of each network in turn. Many look-ups are sent as one request. A flood of invented keys
 * therefore costs the backend little, and does not block the first call of a valid key that is not cached yet.
 */
import { LOOK_UPS_PER_REQUEST_MAX } from '../../shared/contract/api-key.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { FairQueue } from '../../shared/process/fair-queue.ts'
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
  /** The queues of the networks, in the order of their turns. Each queue serves the network's prefixes in turn. */
  readonly #queues = new Map<string, FairQueue<WaitingLookUp>>()
  #queuedLookUps = 0
  #requests = 0

  constructor(lookUpMany: LookUpMany) {
    this.#lookUpMany = lookUpMany
  }

  get queuedLookUps(): number {
    return this.#queuedLookUps
  }

  /** Rejects with `TooManyLookUps`, or with the error of the look-up. */
  lookUp({ digest, prefix, client }: UnknownKey): Promise<LookUpResult> {
    return new Promise((resolve, reject) => {
      const queue = this.#queues.get(client) ?? new FairQueue()
      this.#queues.set(client, queue)
      queue.push(prefix, { digest, resolve, reject })
      this.#queuedLookUps++
      if (this.#queuedLookUps > WAITING_MAX) this.#shed()
      if (this.#requests < REQUESTS_MAX) void this.#send()
    })
  }

  async #send(): Promise<void> {
    this.#requests++
    while (this.#queuedLookUps > 0) await sendBatch(this.#takeBatch(), this.#lookUpMany)
    this.#requests--
  }

  #takeBatch(): WaitingLookUp[] {
    const batch: WaitingLookUp[] = []
    for (const [client, queue] of this.#queues) {
      const lookUp = queue.shift()
      if (lookUp !== undefined) batch.push(lookUp)
      this.#queues.delete(client)
      // The loop visits this client again, after the others.
      if (queue.length > 0) this.#queues.set(client, queue)
      if (batch.length === LOOK_UPS_PER_REQUEST_MAX) break
    }
    this.#queuedLookUps -= batch.length
    return batch
  }

  #shed(): void {
    let longest: FairQueue<WaitingLookUp> | undefined
    for (const queue of this.#queues.values()) {
      if (longest === undefined || queue.length > longest.length) longest = queue
    }
    longest?.popLongest()?.reject(new TooManyLookUps())
    this.#queuedLookUps--
  }
}
