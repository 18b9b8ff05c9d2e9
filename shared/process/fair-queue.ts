/**
 * A queue of several flows. It serves the flows in turn (round robin), and the items of each flow in their
 * order.
 */
export class FairQueue<T> {
  /** The flows in the order of their turns. A flow without items has no entry. */
  readonly #flows = new Map<unknown, T[]>()
  #length = 0

  get length(): number {
    return this.#length
  }

  /** The number of flows with items. */
  get flows(): number {
    return this.#flows.size
  }

  /** The number of items of one flow. */
  lengthOf(flow: unknown): number {
    return this.#flows.get(flow)?.length ?? 0
  }

  push(flow: unknown, item: T): void {
    this.#length++
    const items = this.#flows.get(flow)
    if (items === undefined) this.#flows.set(flow, [item])
    else items.push(item)
  }

  /** Removes and returns the first item of the flow whose turn it is. */
  shift(): T | undefined {
    for (const [flow, items] of this.#flows) {
      this.#length--
      this.#flows.delete(flow)
      const item = items.shift()
      if (items.length > 0) this.#flows.set(flow, items)
      return item
    }
    return undefined
  }

  /** Removes and returns the last item of the flow that has the most items. */
  popLongest(): T | undefined {
    let longest: [flow: unknown, items: T[]] | undefined
    for (const entry of this.#flows) {
      if (longest === undefined || entry[1].length > longest[1].length) longest = entry
    }
    if (longest === undefined) return undefined
    const [flow, items] = longest
    this.#length--
    if (items.length === 1) this.#flows.delete(flow)
    return items.pop()
  }

  /** Removes the items for which `isWanted` returns false. */
  filter(isWanted: (item: T) => boolean): void {
    for (const [flow, items] of this.#flows) {
      const wanted = items.filter(isWanted)
      this.#length -= items.length - wanted.length
      if (wanted.length === 0) this.#flows.delete(flow)
      else this.#flows.set(flow, wanted)
    }
  }
}
