/**
 * Limits the memory for requests in progress and for responses that clients have not received yet. When the memory is
 * used up, the gateway determines which clients use the most, and evicts those of their connections whose cost
 * (bytes × time) is high. An eviction rejects the body that the connection is receiving, drops the requests
 * that follow the current one, or closes the connection.
 */
import type { Client, Clients, MemoryPartition } from './clients.ts'

/** The share of the memory that belongs to the partition `known`, which is for calls whose key is cached. */
const KNOWN_SHARE = 3 / 4
/**
 * A share of each partition (`SMALL_SHARE`) is reserved for connections that use at most this many bytes.
 * Most requests that record a payment need less.
 */
const SMALL_BYTES = 4 * 1024
const SMALL_SHARE = 1 / 16
/**
 * Evictions free at least this share of the exceeded limit, if the chosen connections use that much. Without this,
 * connections would be chosen more often, which takes time.
 */
const FREED_SHARE = 1 / 8
/**
 * The minimum time in the cost of a connection. Without it, a connection that has only just begun to use memory would
 * have no cost.
 */
const USED_MS_MIN = 1

export interface MemoryUser {
  readonly memory: ConnectionMemory
  /** The number of bytes that `evict` would release. */
  readonly evictableBytes: number
  /** `performance.now()` when the connection began to use memory. */
  readonly usesMemorySince: number
  /** Releases `evictableBytes`. */
  evict(): void
}

export interface MemoryLimits {
  readonly bytesMax: number
  readonly bytesPerClientMax: number
}

interface Partition {
  readonly name: MemoryPartition
  readonly bytesMax: number
  readonly bytesPerClientMax: number
  bytes: number
}

export type MemoryEvictionReason = 'memory' | 'client_memory'

export class Memory {
  readonly #partitions: Readonly<Record<MemoryPartition, Partition>>
  readonly #users: Iterable<MemoryUser>
  readonly #clients: Clients
  readonly #onEvict: (reason: MemoryEvictionReason, connections: number) => void

  /**
   * `users` contains all open connections. `onEvict` is called each time there is not enough memory, with the number of
   * evicted connections. The connection that needs the memory is included if evictions do not free enough.
   */
  constructor(
    { bytesMax, bytesPerClientMax }: MemoryLimits,
    users: Iterable<MemoryUser>,
    clients: Clients,
    onEvict: (reason: MemoryEvictionReason, connections: number) => void,
  ) {
    const partition = (name: MemoryPartition, share: number): Partition => ({
      name,
      bytesMax: bytesMax * share,
      bytesPerClientMax: bytesPerClientMax * share,
      bytes: 0,
    })
    this.#partitions = {
      known: partition('known', KNOWN_SHARE),
      unknown: partition('unknown', 1 - KNOWN_SHARE),
    }
    this.#users = users
    this.#clients = clients
    this.#onEvict = onEvict
  }

  bytesOf(name: MemoryPartition): number {
    return this.#partitions[name].bytes
  }

  /**
   * Adds `bytes`, which may be negative, to the memory in use. If they do not fit, evicts connections first. Returns
   * false if they still do not fit.
   */
  add(memory: ConnectionMemory, bytes: number): boolean {
    const partition = this.#partitions[memory.partition]
    const { client } = memory
    const canAdd =
      bytes <= 0 || this.#fits(partition, memory, bytes) || this.#makeRoom(partition, memory, bytes)
    if (canAdd) {
      partition.bytes += bytes
      client.bytes[partition.name] += bytes
    }
    // Behind a proxy, the client of a call has no connections, because they belong to the proxy. Such a client is
    // deleted when its last bytes are released.
    if (client.connections === 0) this.#clients.deleteIfUnused(client)
    return canAdd
  }

  #fits(partition: Partition, { client, bytes }: ConnectionMemory, added: number): boolean {
    const { name, bytesMax } = partition
    const reserved = bytes + added > SMALL_BYTES ? bytesMax * SMALL_SHARE : 0
    if (partition.bytes + added > bytesMax - reserved) return false
    return !client.isLimited || client.bytes[name] + added <= partition.bytesPerClientMax
  }

  /**
   * Chooses the most expensive connections, and evicts them one by one until `bytes` fit and `FREED_SHARE` of the
   * exceeded limit has been freed. Returns false if no connection can be evicted, or if the connection that needs the
   * memory is itself chosen.
   */
  #makeRoom(partition: Partition, memory: ConnectionMemory, bytes: number): boolean {
    const { name, bytesMax, bytesPerClientMax } = partition
    const { client } = memory
    const exceedsClientLimit = client.isLimited && client.bytes[name] + bytes > bytesPerClientMax
    const target =
      partition.bytes - FREED_SHARE * (exceedsClientLimit ? bytesPerClientMax : bytesMax)
    let evicted = 0
    let fits = false
    do {
      const users = this.#mostExpensive(name, exceedsClientLimit ? client : undefined)
      if (users.length === 0 || users.some((user) => user.memory === memory)) break
      // Without this increment, the client would be deleted when its last bytes are evicted, although it is
      // about to use more memory.
      client.connections++
      for (const user of users) {
        user.evict()
        evicted++
        fits = this.#fits(partition, memory, bytes)
        if (fits && partition.bytes <= target) break
      }
      client.connections--
    } while (!fits)
    // If the bytes do not fit, the connection that needs them is usually closed, or its body is rejected.
    this.#onEvict(exceedsClientLimit ? 'client_memory' : 'memory', fits ? evicted : evicted + 1)
    return fits
  }

  /**
   * Considers the client `onlyOf` or, if it is undefined, the clients that use at least half as much as the client that
   * uses the most. Of their connections, returns those whose cost (bytes × time) is at least half of the highest cost.
   * They are not sorted: sorting thousands of connections during a flood would take too long.
   */
  #mostExpensive(name: MemoryPartition, onlyOf: Client | undefined): MemoryUser[] {
    const users: MemoryUser[] = []
    let mostBytes = 0
    for (const user of this.#users) {
      const { memory, evictableBytes } = user
      if (evictableBytes === 0 || memory.partition !== name) continue
      if (onlyOf !== undefined && memory.client !== onlyOf) continue
      users.push(user)
      mostBytes = Math.max(mostBytes, memory.client.bytes[name])
    }
    const now = performance.now()
    const costOf = ({ memory, evictableBytes, usesMemorySince }: MemoryUser) =>
      2 * memory.client.bytes[name] >= mostBytes
        ? evictableBytes * Math.max(USED_MS_MIN, now - usesMemorySince)
        : 0
    let highestCost = 0
    for (const user of users) highestCost = Math.max(highestCost, costOf(user))
    return users.filter((user) => costOf(user) >= highestCost / 2)
  }
}

export class ConnectionMemory {
  readonly #shared: Memory
  #client: Client
  #partition: MemoryPartition = 'unknown'
  #bytes = 0

  constructor(shared: Memory, client: Client) {
    this.#shared = shared
    this.#client = client
  }

  get client(): Client {
    return this.#client
  }

  get partition(): MemoryPartition {
    return this.#partition
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Sets how many bytes the connection uses in total. Returns false if there is no memory for them. `isKnown` is
   * whether the key of the current or last call was cached. Behind a proxy, `client` may differ from call to call.
   */
  set(bytes: number, isKnown: boolean, client: Client): boolean {
    const partition = isKnown ? 'known' : 'unknown'
    if (partition !== this.#partition || client !== this.#client) {
      this.#add(-this.#bytes)
      this.#partition = partition
      this.#client = client
    }
    return this.#add(bytes - this.#bytes)
  }

  #add(bytes: number): boolean {
    if (!this.#shared.add(this, bytes)) return false
    this.#bytes += bytes
    return true
  }
}
