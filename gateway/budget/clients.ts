/**
 * The memory for requests and responses has two partitions: `known` for calls whose key is cached, and `unknown` for
 * all others, so that clients without a key cannot use all of the memory.
 */
export type MemoryPartition = 'known' | 'unknown'

export class Client {
  /** An IPv4 address, or the /64 of an IPv6 address; empty if the address is not known. */
  readonly network: string
  /** Whether the limits per client apply. They do not apply to a trusted proxy, which represents many clients. */
  readonly isLimited: boolean
  /** The number of open connections, including those in their TLS handshake. */
  connections = 0
  handshakes = 0
  readonly bytes: Record<MemoryPartition, number> = { known: 0, unknown: 0 }

  constructor(network: string, isLimited: boolean) {
    this.network = network
    this.isLimited = isLimited
  }

  get isUnused(): boolean {
    return this.connections === 0 && this.bytes.known === 0 && this.bytes.unknown === 0
  }
}

export class Clients {
  readonly #byNetwork = new Map<string, Client>()

  get size(): number {
    return this.#byNetwork.size
  }

  /** Returns the client of a network, and creates it if needed. `isLimited` has no effect on an existing client. */
  of(network: string, isLimited: boolean): Client {
    const existing = this.#byNetwork.get(network)
    if (existing !== undefined) return existing
    const client = new Client(network, isLimited)
    this.#byNetwork.set(network, client)
    return client
  }

  /**
   * Deletes the client if it is unused. If `of` has created a new `Client` for the same network in the meantime, the
   * new one is not deleted.
   */
  deleteIfUnused(client: Client): void {
    const isCurrent = this.#byNetwork.get(client.network) === client
    if (isCurrent && client.isUnused) this.#byNetwork.delete(client.network)
  }
}
