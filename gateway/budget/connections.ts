/**
 * The set of client connections, with a total limit, a limit per client, and a limit on TLS handshakes. When a new
 * connection exceeds a limit, connections without a call in progress are closed:
 *
 * - at the limit per client, connections of this client;
 * - at the total limit, connections of the clients that have the most connections;
 * - at the limit on handshakes, handshakes of the clients that have the most handshakes.
 *
 * If no connection can be closed, the new one is refused.
 */
import type { Client } from './clients.ts'

/**
 * When a limit is reached, several connections are closed together: this share of the limit, but at least one and at
 * most `CLOSED_TOGETHER_MAX`. Closing one by one would be slower, because each choice takes time. nginx also closes up
 * to 32 idle connections at a time.
 */
const CLOSED_SHARE = 1 / 32
const CLOSED_TOGETHER_MAX = 32
/**
 * Handshakes may use at most this share of the limit on all connections, since a handshake takes as much
 * memory as several established connections.
 */
const HANDSHAKES_SHARE = 1 / 10

export interface ClientConnection {
  /** The client, or the trusted proxy, at the other end of the connection. */
  readonly peer: Client
  readonly isHandshake: boolean
  /** Whether the key of the last call on the connection was cached. */
  readonly wasLastKeyCached: boolean
  /** Whether at least one call has arrived on the connection. */
  readonly hasServed: boolean
  readonly isServing: boolean
  destroy(): void
}

export interface ConnectionLimits {
  readonly connectionsMax: number
  readonly connectionsPerClientMax: number
}

export type ConnectionEvictionReason = 'connections' | 'client_connections' | 'handshakes'

export class Connections<T extends ClientConnection> {
  #connectionsMax: number
  readonly #connectionsPerClientMax: number
  readonly #onEvict: (reason: ConnectionEvictionReason, connections: number) => void
  readonly #all = new Set<T>()
  #handshakes = 0

  constructor(
    limits: ConnectionLimits,
    onEvict: (reason: ConnectionEvictionReason, connections: number) => void,
  ) {
    this.#connectionsMax = limits.connectionsMax
    this.#connectionsPerClientMax = limits.connectionsPerClientMax
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

  /** Changes the total limit. Immediately closes connections beyond it, except those with a call in progress. */
  setMax(connectionsMax: number): void {
    this.#connectionsMax = connectionsMax
    // Few are closed at a time, because each closing may change which clients have the most connections.
    const countMax = countClosedTogether(connectionsMax)
    const excess = () => this.#all.size - connectionsMax
    while (this.#close('connections', Math.min(countMax, excess())) > 0);
  }

  /** Returns false if a limit is reached and no other connection can be closed. */
  add(connection: T): boolean {
    const { peer, isHandshake } = connection
    const connectionsMax = this.#connectionsMax
    const connectionsPerClientMax = this.#connectionsPerClientMax
    const handshakesMax = connectionsMax * HANDSHAKES_SHARE
    const canAdd =
      (!(peer.isLimited && peer.connections >= connectionsPerClientMax) ||
        this.#makeRoom('client_connections', connectionsPerClientMax, peer)) &&
      (this.#all.size < connectionsMax || this.#makeRoom('connections', connectionsMax)) &&
      (!(isHandshake && this.#handshakes >= handshakesMax) ||
        this.#makeRoom('handshakes', handshakesMax))
    if (canAdd) this.#update(connection, 1)
    return canAdd
  }

  /** Replaces a completed handshake with its connection. */
  replace(handshake: T, connection: T): void {
    this.delete(handshake)
    this.#update(connection, 1)
  }

  delete(connection: T): void {
    if (this.#all.has(connection)) this.#update(connection, -1)
  }

  #update(connection: T, change: 1 | -1): void {
    const { peer, isHandshake } = connection
    if (change === 1) this.#all.add(connection)
    else this.#all.delete(connection)
    peer.connections += change
    if (!isHandshake) return
    peer.handshakes += change
    this.#handshakes += change
  }

  /** Returns false if no connection can be closed. The new connection is then refused and counted as evicted. */
  #makeRoom(reason: ConnectionEvictionReason, limit: number, peer?: Client): boolean {
    if (this.#close(reason, countClosedTogether(limit), peer) > 0) return true
    this.#onEvict(reason, 1)
    return false
  }

  #close(reason: ConnectionEvictionReason, countMax: number, peer?: Client): number {
    const closed = this.#chooseToClose(reason === 'handshakes', countMax, peer)
    for (const connection of closed) {
      this.delete(connection)
      connection.destroy()
    }
    if (closed.length > 0) this.#onEvict(reason, closed.length)
    return closed.length
  }

  /**
   * Chooses up to `countMax` connections without a call in progress; with `onlyHandshakes`, only handshakes. With
   * `onlyOf`, chooses connections of this client; otherwise, of the clients that have at least half as many as the
   * client with the most. Connections of a low rank are chosen first, and the oldest first within a rank.
   */
  #chooseToClose(onlyHandshakes: boolean, countMax: number, onlyOf: Client | undefined): T[] {
    const countOf = ({ connections, handshakes }: Client) =>
      onlyHandshakes ? handshakes : connections
    const candidates: T[] = []
    let most = 0
    for (const connection of this.#all) {
      if (connection.isServing || (onlyHandshakes && !connection.isHandshake)) continue
      if (onlyOf !== undefined && connection.peer !== onlyOf) continue
      candidates.push(connection)
      most = Math.max(most, countOf(connection.peer))
    }
    const chosen: T[] = []
    for (let rank = 0; rank <= RANK_MAX && chosen.length < countMax; rank++) {
      for (const connection of candidates) {
        // Without the factor 2, a client with one connection more than the others would lose connections that
        // have served calls before the others lose unused ones.
        const isHeavy = 2 * countOf(connection.peer) >= most
        if (!isHeavy || rankOf(connection) !== rank) continue
        chosen.push(connection)
        if (chosen.length === countMax) break
      }
    }
    return chosen
  }
}

function countClosedTogether(limit: number): number {
  return Math.max(1, Math.min(CLOSED_TOGETHER_MAX, Math.floor(limit * CLOSED_SHARE)))
}

const RANK_MAX = 2

/** Connections without a call so far have the lowest rank; those whose last key was cached have the highest. */
function rankOf({ hasServed, wasLastKeyCached }: ClientConnection): number {
  if (!hasServed) return 0
  return wasLastKeyCached ? 2 : 1
}
