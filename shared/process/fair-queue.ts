/**
 * A queue of several flows. A flow consists of items that belong together, e.g. the waiting calls of one key. The queue
 * serves the flows in turn (round robin), and the items of each flow in their order.
 */
export class FairQueue<T, Flow = unknown> {
  /** The flows in the order of their turns. A flow without items has no entry. */
  readonly #flows = new Map<Flow, T[]>()
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Returns how many of the queued items are served at most before an item of the flow that is pushed now. */
  countAhead(flow: Flow): number {
    const own = this.#flows.get(flow)?.length ?? 0
    const otherFlows = this.#flows.size - (own > 0 ? 1 : 0)
    // Until the new item is served, each other flow has at most one turn before each item of this flow.
    return Math.min(this.#length, own + (own + 1) * otherFlows)
  }

  push(flow: Flow, item: T): void {
    this.#length++
    const items = this.#flows.get(flow)
    if (items === undefined) this.#flows.set(flow, [item])
    else items.push(item)
  }

  /**
   * Removes and returns the first item of the flow whose turn it is. With `rankOf`, only the flows with the lowest
   * rank take turns, and a flow with the rank `Infinity` is not served. With `isAccepted`, an item that is not accepted
   * keeps its turn, and nothing is returned.
   */
  shift(rankOf?: (flow: Flow) => number, isAccepted?: (item: T) => boolean): T | undefined {
    const next = this.#next(rankOf)
    if (next === undefined) return undefined
    const [flow, items] = next
    const [first] = items
    if (first !== undefined && isAccepted?.(first) === false) return undefined
    this.#length--
    this.#flows.delete(flow)
    const item = items.shift()
    if (items.length > 0) this.#flows.set(flow, items)
    return item
  }

  remove(flow: Flow, item: T): void {
    const items = this.#flows.get(flow)
    const at = items?.indexOf(item) ?? -1
    if (items === undefined || at < 0) return
    this.#length--
    items.splice(at, 1)
    if (items.length === 0) this.#flows.delete(flow)
  }

  /** Removes and returns the last item of the flow that has the most items. */
  popLongest(): T | undefined {
    let longest: [flow: Flow, items: T[]] | undefined
    for (const entry of this.#flows) {
      if (longest === undefined || entry[1].length > longest[1].length) longest = entry
    }
    if (longest === undefined) return undefined
    const [flow, items] = longest
    this.#length--
    if (items.length === 1) this.#flows.delete(flow)
    return items.pop()
  }

  retain(isWanted: (item: T) => boolean): void {
    for (const [flow, items] of this.#flows) {
      const wanted = items.filter(isWanted)
      this.#length -= items.length - wanted.length
      if (wanted.length === 0) this.#flows.delete(flow)
      else this.#flows.set(flow, wanted)
    }
  }

  #next(rankOf: ((flow: Flow) => number) | undefined): [flow: Flow, items: T[]] | undefined {
    let next: [flow: Flow, items: T[]] | undefined
    let lowestRank = Number.POSITIVE_INFINITY
    for (const entry of this.#flows) {
      if (rankOf === undefined) return entry
      const rank = rankOf(entry[0])
      if (rank >= lowestRank) continue
      lowestRank = rank
      next = entry
    }
    return next
  }
}
