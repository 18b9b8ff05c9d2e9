/** A connection that has not finished its TLS handshake. It holds no bytes of requests. */
import type { Socket } from 'node:net'
import type { Budget, BudgetMember } from '../budget/budget.ts'
import type { Client } from '../budget/clients.ts'
import type { HeldMemory } from '../budget/memory.ts'

export class Handshake implements BudgetMember {
  readonly address: string
  readonly peer: Client
  readonly memory: HeldMemory
  readonly isHandshake = true
  readonly isKnown = false
  readonly hasServed = false
  readonly isWaiting = true
  readonly evictableBytes = 0
  readonly heldSince = performance.now()
  readonly #socket: Socket

  constructor(socket: Socket, address: string, peer: Client, budget: Budget) {
    this.#socket = socket
    this.address = address
    this.peer = peer
    this.memory = budget.createHeldMemory(peer)
  }

  evict(): void {
    this.destroy()
  }

  destroy(): void {
    this.#socket.destroy()
  }
}

/** The other end of a connection, which the socket and the TLS socket around it have in common. */
export function endpointOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
