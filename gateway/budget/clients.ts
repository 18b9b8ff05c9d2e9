/** Clients by network, with what each uses at present. */

/** Connections whose key is cached have memory of their own: without this, anybody could use all of it up. */
export type PartitionName = 'known' | 'unknown'

export class Client {
  /** An IPv4 address, or the /64 of an IPv6 address. */
  readonly network: string
  /** Whether limits of one client apply: a trusted proxy stands for many. */
  readonly isLimited: boolean
  /** Open connections, with those in their handshake. */
  connections = 0
  handshakes = 0
  readonly bytes: Record<PartitionName, number> = { known: 0, unknown: 0 }

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

  /** The client of a network; `isLimited` is as it was first given. */
  of(network: string, isLimited: boolean): Client {
    const known = this.#byNetwork.get(network)
    if (known !== undefined) return known
    const client = new Client(network, isLimited)
    this.#byNetwork.set(network, client)
    return client
  }

  /** Deletes the client if it uses nothing any more. */
  release(client: Client): void {
    if (client.isUnused) this.#byNetwork.delete(client.network)
  }
}
