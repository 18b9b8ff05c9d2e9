/**
 * A fair queue of groups of flows, e.g. of accounts and their keys. The queue serves the groups in turn, and the flows
 * of each group in turn. A group with many flows therefore gets no more turns than a group with one flow.
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

  /** Returns how many of the queued items are served at most before an item of the flow that is pushed now. */
  countAhead(group: string, flow: string): number {
    const queue = this.#groups.get(group)
    const own = queue?.countAhead(flow) ?? 0
    const otherGroups = this.#groups.size - (queue === undefined ? 0 : 1)
    // Until the new item is served, each other group has at most one turn before each item of this group.
    return Math.min(this.#length, own + (own + 1) * otherGroups)
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

  retain(isWanted: (item: T) => boolean): void {
    for (const [group, queue] of this.#groups) {
      this.#length -= queue.length
      queue.retain(isWanted)
      this.#length += queue.length
      if (queue.length === 0) this.#groups.delete(group)
    }
  }
}
