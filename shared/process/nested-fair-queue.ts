/**
 * A fair queue of groups of flows, e.g. of networks of clients and the key prefixes that each network uses. The queue
 * serves the groups in turn, and the flows of each group in turn. A group with many flows therefore gets no more turns
 * than a group with one flow.
 */
import { FairQueue } from './fair-queue.ts'

export class NestedFairQueue<T> {
  /** The groups in the order of their turns. A group without items has no entry. */
  readonly #groups = new Map<string, FairQueue<T, string>>()
  #length = 0

  get length(): number {
    return this.#length
  }

  push(group: string, flow: string, item: T): void {
    this.#length++
    let queue = this.#groups.get(group)
    if (queue === undefined) {
      queue = new FairQueue()
      this.#groups.set(group, queue)
    }
    queue.push(flow, item)
  }

  /** Removes and returns the next item of the group whose turn it is. */
  shift(): T | undefined {
    for (const [group, queue] of this.#groups) {
      this.#length--
      const item = queue.shift()
      this.#groups.delete(group)
      if (queue.length > 0) this.#groups.set(group, queue)
      return item
    }
    return undefined
  }

  /** Removes and returns the last item of the longest flow of the group that has the most items. */
  popLongest(): T | undefined {
    let longest: { group: string; queue: FairQueue<T, string> } | undefined
    for (const [group, queue] of this.#groups) {
      if (longest === undefined || queue.length > longest.queue.length) longest = { group, queue }
    }
    if (longest === undefined) return undefined
    const { group, queue } = longest
    this.#length--
    const item = queue.popLongest()
    if (queue.length === 0) this.#groups.delete(group)
    return item
  }
}
