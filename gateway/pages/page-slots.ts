/**
 * Limits how many pages are loaded from backends at the same time, so that pages do not slow down calls.
 * Further pages wait for a limited time, in a queue that serves clients in turn.
 */
import { type Problem, temporarilyUnavailable } from '../../shared/contract/problem.ts'
import { FairQueue } from '../../shared/process/fair-queue.ts'
import type { Abort } from '../call/abort.ts'

/** The maximum number of waiting pages. */
const QUEUE_LENGTH_MAX = 1_000

export class PageSlots {
  #free: number
  readonly #waitMs: number
  /** For each waiting page, the function that lets it begin to load. */
  readonly #queue = new FairQueue<() => void>()

  /** `waitMs` is how long a page may wait for a slot. */
  constructor(max: number, waitMs: number) {
    this.#free = max
    this.#waitMs = waitMs
  }

  get waitingPages(): number {
    return this.#queue.length
  }

  /**
   * Resolves with a function that releases the slot; calling it again has no effect. Rejects with `Problem`
   * 503 if too many pages wait or this page waits for too long, and with `abort.reason` if the call is
   * aborted while it waits.
   */
  async acquire(client: string, abort: Abort): Promise<() => void> {
    if (this.#free > 0) this.#free--
    else if (this.#queue.length >= QUEUE_LENGTH_MAX) throw tooManyPages()
    else await this.#wait(client, abort)
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      const next = this.#queue.shift()
      if (next === undefined) this.#free++
      else next()
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
