/**
 * Limits the connections and the memory of clients (in total and per client) and the TLS handshakes in progress (in
 * total), so that one client cannot use up what the others need.
 */

import { createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import type { Logger } from '../../shared/process/log.ts'
import { type Client, Clients, type MemoryPartition } from './clients.ts'
import {
  type ClientConnection,
  type ConnectionEvictionReason,
  type ConnectionLimits,
  Connections,
} from './connections.ts'
import {
  ConnectionMemory,
  Memory,
  type MemoryEvictionReason,
  type MemoryLimits,
  type MemoryUser,
} from './memory.ts'

export type EvictionReason = ConnectionEvictionReason | MemoryEvictionReason

/** For this long after a limit was reached, the gateway reports itself as degraded. */
const DEGRADED_MS = 10_000

const LIMITED_RESOURCES: Readonly<Record<EvictionReason, string>> = {
  connections: 'connections of all clients',
  client_connections: 'connections of one client',
  handshakes: 'TLS handshakes',
  memory: 'memory of all clients',
  client_memory: 'memory of one client',
}

export type BudgetedConnection = ClientConnection & MemoryUser

export interface BudgetLimits extends ConnectionLimits, MemoryLimits {}

export class Budget {
  readonly #clients = new Clients()
  readonly #connections: Connections<BudgetedConnection>
  readonly #memory: Memory
  /** By reason, the number of connections that were refused, closed, or made to drop a request to free memory. */
  readonly evicted: Readonly<Record<EvictionReason, number>>
  /** `performance.now()` when each limit was last reached. */
  readonly #reachedAt = new Map<EvictionReason, number>()

  constructor(limits: BudgetLimits, log: Logger) {
    const collapsingLog = createCollapsingLog(log)
    const evicted = {
      connections: 0,
      client_connections: 0,
      handshakes: 0,
      memory: 0,
      client_memory: 0,
    }
    this.evicted = evicted
    const onEvict = (reason: EvictionReason, connections: number) => {
      evicted[reason] += connections
      this.#reachedAt.set(reason, performance.now())
      const message = `the limit on ${LIMITED_RESOURCES[reason]} is reached: the gateway closes or refuses connections, or rejects requests`
      collapsingLog.warn(reason, { reason, connections }, message)
    }
    this.#connections = new Connections(limits, onEvict)
    this.#memory = new Memory(limits, this.#connections, this.#clients, onEvict)
  }

  /** All open connections, including those in their TLS handshake. */
  get connections(): { readonly size: number } {
    return this.#connections
  }

  get handshakes(): number {
    return this.#connections.handshakes
  }

  /** The memory in use for the calls of the partition. */
  bytesOf(partition: MemoryPartition): number {
    return this.#memory.bytesOf(partition)
  }

  /** See `Connections.setMax`. */
  setConnectionsMax(connectionsMax: number): void {
    this.#connections.setMax(connectionsMax)
  }

  /** See `Clients.of`. */
  clientOf(network: string, { isLimited }: Pick<Client, 'isLimited'>): Client {
    return this.#clients.of(network, isLimited)
  }

  createConnectionMemory(client: Client): ConnectionMemory {
    return new ConnectionMemory(this.#memory, client)
  }

  /** See `Connections.add`. */
  open(connection: BudgetedConnection): boolean {
    const isOpen = this.#connections.add(connection)
    if (!isOpen) this.#clients.deleteIfUnused(connection.peer)
    return isOpen
  }

  replace(handshake: BudgetedConnection, connection: BudgetedConnection): void {
    this.#connections.replace(handshake, connection)
  }

  close(connection: BudgetedConnection): void {
    this.#connections.delete(connection)
    this.#clients.deleteIfUnused(connection.peer)
  }

  /** Returns a message for operators about each limit that was reached recently. */
  reachedLimits(): string[] {
    const since = performance.now() - DEGRADED_MS
    return [...this.#reachedAt]
      .filter(([, reachedAt]) => reachedAt > since)
      .map(([reason]) => `the limit on ${LIMITED_RESOURCES[reason]} is reached`)
  }
}
