/**
 * Limits the memory for incomplete requests and unreceived responses: heads, pipelined requests, bodies,
 * and responses. When the memory is used up, connections of the client that uses the most are evicted, those
 * with the highest cost (bytes × time) first.
 */
import type { Client, Clients, PartitionName } from './clients.ts'

/** The share of the memory that belongs to the partition `known`. */
const KNOWN_SHARE = 3 / 4
/**
 * In each partition, a reserve (`SMALL_SHARE`) is only for connections that use at most this many bytes. Most
 * requests that record a payment need less.
 */
const SMALL_BYTES = 4 * 1024
const SMALL_SHARE = 1 / 16
/**
 * The share of a partition that one eviction frees. It is large, because choosing the connections takes
 * time.
 */
const FREED_SHARE = 1 / 8
/** A connection that has used memory for less time than this counts as having used it for this long. */
const USED_MS_MIN = 1

/** A connection that uses memory. */
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
  /** The limit for one client. */
  readonly clientBytesMax: number
}

interface Partition {
  readonly name: PartitionName
  readonly bytesMax: number
  readonly clientBytesMax: number
  bytes: number
}

export type MemoryEviction = 'memory' | 'client_memory'

export class Memory {
  readonly #partitions: Readonly<Record<PartitionName, Partition>>
  readonly #users: Iterable<MemoryUser>
  readonly #clients: Clients
  readonly #onEvict: (reason: MemoryEviction, connections: number) => void

  /**
   * `users` are all connections. `onEvict` is called after connections were evicted, or when the connection
   * that needs memory must itself be evicted.
   */
  constructor(
    { bytesMax, clientBytesMax }: MemoryLimits,
    users: Iterable<MemoryUser>,
    clients: Clients,
    onEvict: (reason: MemoryEviction, connections: number) => void,
  ) {
    const partition = (name: PartitionName, share: number): Partition => ({
      name,
      bytesMax: bytesMax * share,
      clientBytesMax: clientBytesMax * share,
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

  bytesOf(name: PartitionName): number {
    return this.#partitions[name].bytes
  }

  /**
   * Adds `bytes`, which may be negative, to the memory in use. Returns false if there is no memory for
   * them.
   */
  add(memory: ConnectionMemory, bytes: number): boolean {
    const partition = this.#partitions[memory.partition]
    const { client } = memory
    if (
      bytes > 0 &&
      !this.#fits(partition, memory, bytes) &&
      !this.#makeRoom(partition, memory, bytes)
    ) {
      return false
    }
    partition.bytes += bytes
    client.bytes[partition.name] += bytes
    if (client.connections === 0) this.#clients.release(client)
    return true
  }

  #fits(partition: Partition, { client, bytes }: ConnectionMemory, more: number): boolean {
    const { name, bytesMax } = partition
    const reserved = bytes + more > SMALL_BYTES ? bytesMax * SMALL_SHARE : 0
    if (partition.bytes + more > bytesMax - reserved) return false
    return !client.isLimited || client.bytes[name] + more <= partition.clientBytesMax
  }

  /**
   * Evicts connections until the bytes fit, and further ones of the last selection until `FREED_SHARE` of the
   * limit is released. Stops if the connection that needs memory would be next. Returns whether the bytes fit.
   */
  #makeRoom(partition: Partition, memory: ConnectionMemory, bytes: number): boolean {
    const { name, bytesMax, clientBytesMax } = partition
    const { client } = memory
    const isOfClient = client.isLimited && client.bytes[name] + bytes > clientBytesMax
    const target = partition.bytes - FREED_SHARE * (isOfClient ? clientBytesMax : bytesMax)
    let evicted = 0
    let fits = false
    do {
      const users = this.#mostExpensive(name, isOfClient ? client : undefined)
      // The connection that needs memory would itself have to be evicted.
      if (users.length === 0 || users.some((user) => user.memory === memory)) break
      // Without this, evicting the client's last bytes would delete the client, which is about to use more.
      client.connections++
      for (const user of users) {
        user.evict()
        evicted++
        fits = this.#fits(partition, memory, bytes)
        if (fits && partition.bytes <= target) break
      }
      client.connections--
    } while (!fits)
    this.#onEvict(isOfClient ? 'client_memory' : 'memory', fits ? evicted : evicted + 1)
    return fits
  }

  /**
   * Among the connections of clients that use at least half as much as the heaviest client, returns those
   * whose cost (bytes × time) is at least half of the highest cost. They are not sorted: under a flood, the gateway often chooses among
   * thousands.
   */
  #mostExpensive(name: PartitionName, only: Client | undefined): MemoryUser[] {
    const users: MemoryUser[] = []
    let most = 0
    for (const user of this.#users) {
      const { memory, evictableBytes } = user
      if (evictableBytes === 0 || memory.partition !== name) continue
      if (only !== undefined && memory.client !== only) continue
      users.push(user)
      most = Math.max(most, memory.client.bytes[name])
    }
    const now = performance.now()
    const costOf = ({ memory, evictableBytes, usesMemorySince }: MemoryUser) =>
      2 * memory.client.bytes[name] >= most
        ? evictableBytes * Math.max(USED_MS_MIN, now - usesMemorySince)
        : 0
    let highest = 0
    for (const user of users) highest = Math.max(highest, costOf(user))
    return users.filter((user) => costOf(user) >= highest / 2)
  }
}

/** The memory that one connection uses. */
export class ConnectionMemory {
  readonly #memory: Memory
  #client: Client
  #partition: PartitionName = 'unknown'
  #bytes = 0

  constructor(memory: Memory, client: Client) {
    this.#memory = memory
    this.#client = client
  }

  get client(): Client {
    return this.#client
  }

  get partition(): PartitionName {
    return this.#partition
  }

  get bytes(): number {
    return this.#bytes
  }

  /**
   * Sets how many bytes the connection uses in total. Returns false if there is no memory for them. Behind a
   * proxy, `client` may differ from call to call.
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
    if (!this.#memory.add(this, bytes)) return false
    this.#bytes += bytes
    return true
  }
}
