/**
 * Limits how many pages are loaded from backends at the same time, so that pages do not slow down calls. Further pages
 * wait for a limited time, in a queue that serves clients in turn. A client gets a slot only while it uses fewer slots
 * than are free. A client that reads large pages slowly, or requests pages that take seconds, therefore leaves slots to
 * others: alone, it gets about half of all slots.
 */
import { type Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { FairQueue } from '../../shared/process/fair-queue.ts'
import type { Abort } from '../call/abort.ts'

const QUEUE_LENGTH_MAX = 1_000

export class PageSlots {
  #free: number
  readonly #waitMs: number
  /** A client that uses no slot has no entry. */
  readonly #usedBy = new Map<string, number>()
  /** For each waiting page, the function that lets it begin to load. */
  readonly #queue = new FairQueue<() => void, string>()

  constructor(max: number, waitMs: number) {
    this.#free = max
    this.#waitMs = waitMs
  }

  get waitingPages(): number {
    return this.#queue.length
  }

  /**
   * Resolves with a function that releases the slot; calling it again has no effect. Rejects with `Problem` 503 if too
   * many pages wait or this page waits for too long, and with `abort.reason` if the call is aborted while it waits.
   */
  async acquire(client: string, abort: Abort): Promise<() => void> {
    if (this.#mayUseSlot(client)) this.#useSlot(client)
    else if (this.#queue.length >= QUEUE_LENGTH_MAX) throw tooManyPages()
    else await this.#wait(client, abort)
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#releaseSlot(client)
    }
  }

  #mayUseSlot(client: string): boolean {
    return (this.#usedBy.get(client) ?? 0) < this.#free
  }

  #useSlot(client: string): void {
    this.#free--
    this.#usedBy.set(client, (this.#usedBy.get(client) ?? 0) + 1)
  }

  #releaseSlot(client: string): void {
    const used = (this.#usedBy.get(client) ?? 0) - 1
    this.#free++
    if (used > 0) this.#usedBy.set(client, used)
    else this.#usedBy.delete(client)
    // `shift` passes over clients with the rank `Infinity`.
    const rankOf = (other: string) => (this.#mayUseSlot(other) ? 0 : Number.POSITIVE_INFINITY)
    // Slots can be free although pages wait, because a client may use only a part of them. After one release, two pages
    // can therefore begin: one of another client, because more slots are free, and one of this client, because it uses
    // fewer.
    for (;;) {
      const start = this.#queue.shift(rankOf)
      if (start === undefined) return
      start()
    }
  }

  #wait(client: string, abort: Abort): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (reason: Error) => {
        clearTimeout(timer)
        abort.stopListening()
        this.#queue.remove(client, start)
        reject(reason)
      }
      const timer = setTimeout(() => fail(tooManyPages()), this.#waitMs)
      const start = () => {
        clearTimeout(timer)
        abort.stopListening()
        this.#useSlot(client)
        resolve()
      }
      if (abort.reason !== undefined) return fail(abort.reason)
      abort.listen({ abort: fail })
      this.#queue.push(client, start)
    })
  }
}

function tooManyPages(): Problem {
  return temporarilyUnavailable('Too many pages are loading. Try again in a second.')
}
