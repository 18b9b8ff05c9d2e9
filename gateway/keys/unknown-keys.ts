/**
 * Looks unknown keys up at the backend. Anybody can make up keys with a correct checksum, so that these look-ups wait
 * in a queue of their own, which serves the addresses of clients in turn, and of each address the prefixes of keys.
 * What waits together is one request: a flood of made-up keys costs the backend little, and the first calls of new
 * keys, and of all keys after a start, pass through it.
 */
import { LOOK_UPS_MAX } from '../../shared/contract/api-key.ts'
import { Problem } from '../../shared/contract/problem.ts'
import { FairQueue } from '../upstream/fair-queue.ts'
import type { LookUpResult } from './look-up.ts'

/** Requests to the backend at once. */
const REQUESTS_MAX = 8
/** Beyond it the address with the most waiting look-ups loses its last one. */
const WAITING_MAX = 2_000

/** What is known of a key whose digest is not cached. */
export interface UnknownKey {
  readonly digest: string
  readonly prefix: string
  /** The network of the client, see `clientNetwork`. */
  readonly client: string
}

/** Returns the results in the order of the digests. */
export type LookUpMany = (digests: readonly string[]) => Promise<readonly LookUpResult[]>

interface WaitingLookUp {
  readonly digest: string
  resolve(result: LookUpResult): void
  reject(error: unknown): void
}

/** The look-up was not sent since too many waited. */
export class TooManyLookUps extends Problem {
  constructor() {
    super('service_unavailable', 'Too many new keys at once. Try again shortly.', {
      headers: { 'retry-after': '1' },
    })
  }
}

export class UnknownKeys {
  readonly #lookUpMany: LookUpMany
  /** By client, in the order of their turns; of each client by prefix. No client has an empty queue. */
  readonly #clients = new Map<string, FairQueue<WaitingLookUp>>()
  #waiting = 0
  #requests = 0

  constructor(lookUpMany: LookUpMany) {
    this.#lookUpMany = lookUpMany
  }

  get waiting(): number {
    return this.#waiting
  }

  /** Rejects with `TooManyLookUps`, or as the look-up does. */
  lookUp({ digest, prefix, client }: UnknownKey): Promise<LookUpResult> {
    return new Promise((resolve, reject) => {
      const queue = this.#clients.get(client) ?? new FairQueue()
      this.#clients.set(client, queue)
      queue.push(prefix, { digest, resolve, reject })
      this.#waiting++
      if (this.#waiting > WAITING_MAX) this.#shed()
      if (this.#requests < REQUESTS_MAX) void this.#send()
    })
  }

  /** Sends what waits, until nothing does. */
  async #send(): Promise<void> {
    this.#requests++
    while (this.#waiting > 0) {
      const lookUps = this.#takeBatch()
      try {
        const results = await this.#lookUpMany(lookUps.map(({ digest }) => digest))
        for (const [at, lookUp] of lookUps.entries()) {
          const result = results[at]
          if (result === undefined) lookUp.reject(new Error('a look-up has no result'))
          else lookUp.resolve(result)
        }
      } catch (error) {
        for (const lookUp of lookUps) lookUp.reject(error)
      }
    }
    this.#requests--
  }

  #takeBatch(): WaitingLookUp[] {
    const batch: WaitingLookUp[] = []
    for (const [client, queue] of this.#clients) {
      const lookUp = queue.shift()
      if (lookUp !== undefined) batch.push(lookUp)
      this.#clients.delete(client)
      // Visited again by this loop, behind the others.
      if (queue.length > 0) this.#clients.set(client, queue)
      if (batch.length === LOOK_UPS_MAX) break
    }
    this.#waiting -= batch.length
    return batch
  }

  #shed(): void {
    let longest: FairQueue<WaitingLookUp> | undefined
    for (const queue of this.#clients.values()) {
      if (longest === undefined || queue.length > longest.length) longest = queue
    }
    longest?.popLongest()?.reject(new TooManyLookUps())
    this.#waiting--
  }
}
