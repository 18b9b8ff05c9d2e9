/**
 * Client connections, with a total limit, a limit per client, and a limit on TLS handshakes. A new connection
 * beyond a limit is still accepted if connections without a call in progress can be closed instead, those of
 * the clients that have the most. A client that opens thousands of connections therefore loses its own, and no other client starves.
 */
import type { Client } from './clients.ts'

/**
 * The maximum number of connections that are closed at once, and the divisor of the limit: at most 1/32 of a
 * limit is closed at once, but always one. Choosing them takes time, so closing them one by
 * one would be slower. nginx also closes up to 32 idle connections at once.
 */
const CLOSED_AT_ONCE = 32
/** The share of connections that may be in a handshake: each takes as much memory as several connections. */
const HANDSHAKES_SHARE = 1 / 10

export interface ClientConnection {
  /** The client at the other end of the connection. */
  readonly peer: Client
  readonly isHandshake: boolean
  /** Whether the key of its last call was cached. */
  readonly isKnown: boolean
  /** Whether a call was served on it. */
  readonly hasServed: boolean
  /** Whether a call is in progress. */
  readonly isServing: boolean
  destroy(): void
}

export interface ConnectionLimits {
  readonly connectionsMax: number
  /** The limit of one client. */
  readonly clientConnectionsMax: number
}

export type ConnectionEviction = 'connections' | 'client_connections' | 'handshakes'

export class Connections<T extends ClientConnection> {
  readonly #limits: ConnectionLimits
  readonly #onEvict: (reason: ConnectionEviction, connections: number) => void
  readonly #all = new Set<T>()
  #handshakes = 0

  constructor(
    limits: ConnectionLimits,
    onEvict: (reason: ConnectionEviction, connections: number) => void,
  ) {
    this.#limits = limits
    this.#onEvict = onEvict
  }

  get size(): number {
    return this.#all.size
  }

  get handshakes(): number {
    return this.#handshakes
  }

  [Symbol.iterator](): IterableIterator<T> {
    return this.#all.values()
  }

  /** Adds a new connection. Returns false if the limit is reached and every other one has a call in progress. */
  add(connection: T): boolean {
    const { peer, isHandshake } = connection
    const { connectionsMax, clientConnectionsMax } = this.#limits
    const handshakesMax = connectionsMax * HANDSHAKES_SHARE
    const canAdd =
      (!(peer.isLimited && peer.connections >= clientConnectionsMax) ||
        this.#makeRoom('client_connections', clientConnectionsMax, peer)) &&
      (this.#all.size < connectionsMax || this.#makeRoom('connections', connectionsMax)) &&
      (!(isHandshake && this.#handshakes >= handshakesMax) ||
        this.#makeRoom('handshakes', handshakesMax))
    if (canAdd) this.#count(connection, 1)
    return canAdd
  }

  /** Replaces a handshake by the connection that it became. */
  replace(handshake: T, connection: T): void {
    this.delete(handshake)
    this.#count(connection, 1)
  }

  delete(connection: T): void {
    if (this.#all.has(connection)) this.#count(connection, -1)
  }

  #count(connection: T, change: 1 | -1): void {
    const { peer, isHandshake } = connection
    if (change === 1) this.#all.add(connection)
    else this.#all.delete(connection)
    peer.connections += change
    if (!isHandshake) return
    peer.handshakes += change
    this.#handshakes += change
  }

  #makeRoom(reason: ConnectionEviction, limit: number, peer?: Client): boolean {
    const countMax = Math.max(1, Math.min(CLOSED_AT_ONCE, Math.floor(limit / CLOSED_AT_ONCE)))
    const closed = this.#choose(reason === 'handshakes', countMax, peer)
    for (const connection of closed) {
      this.delete(connection)
      connection.destroy()
    }
    this.#onEvict(reason, Math.max(1, closed.length))
    return closed.length > 0
  }

  /**
   * Returns connections on which no call is in progress: those of `only`, or of the clients that have at least
   * half as many as the client with the most. Within a rank, the oldest come first.
   */
  #choose(amongHandshakes: boolean, countMax: number, only: Client | undefined): T[] {
    const sizeOf = ({ connections, handshakes }: Client) =>
      amongHandshakes ? handshakes : connections
    const candidates: T[] = []
    let most = 0
    for (const connection of this.#all) {
      if (connection.isServing || (amongHandshakes && !connection.isHandshake)) continue
      if (only !== undefined && connection.peer !== only) continue
      candidates.push(connection)
      most = Math.max(most, sizeOf(connection.peer))
    }
    const chosen: T[] = []
    for (let rank = 0; rank <= RANK_MAX && chosen.length < countMax; rank++) {
      for (const connection of candidates) {
        // Without the factor 2, a client with one connection more than the others would lose connections that
        // have served calls before the others lose unused ones.
        const hasMost = 2 * sizeOf(connection.peer) >= most
        if (!hasMost || rankOf(connection) !== rank) continue
        chosen.push(connection)
        if (chosen.length === countMax) break
      }
    }
    return chosen
  }
}

const RANK_MAX = 2

/** Connections of the lowest rank are closed first. */
function rankOf({ hasServed, isKnown }: ClientConnection): number {
  if (!hasServed) return 0
  return isKnown ? 2 : 1
}
