/**
 * A connection that has not finished its TLS handshake. It counts against the limits on connections, but uses none of
 * the memory that the budget limits, since no byte of a request has arrived.
 */
import type { Socket } from 'node:net'
import type { Budget, BudgetedConnection } from '../budget/budget.ts'
import type { Client } from '../budget/clients.ts'
import type { ConnectionMemory } from '../budget/memory.ts'

export class Handshake implements BudgetedConnection {
  readonly address: string
  readonly peer: Client
  readonly memory: ConnectionMemory
  readonly isHandshake = true
  readonly wasLastKeyCached = false
  readonly hasServed = false
  readonly isServing = false
  readonly evictableBytes = 0
  /** Required by `BudgetedConnection`, but not read while `evictableBytes` is 0. */
  readonly usesMemorySince = performance.now()
  readonly #socket: Socket

  constructor(socket: Socket, address: string, peer: Client, budget: Budget) {
    this.#socket = socket
    this.address = address
    this.peer = peer
    this.memory = budget.createConnectionMemory(peer)
  }

  evict(): void {
    this.destroy()
  }

  destroy(): void {
    this.#socket.destroy()
  }
}

/**
 * Identifies a connection of one listener: a socket and the TLS socket around it have the same id. The id includes the
 * local address, because a client may use one of its ports for connections to several addresses of this machine.
 */
export function connectionIdOf({ remoteAddress, remotePort, localAddress }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`
}
