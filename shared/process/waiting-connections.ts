import type { Server } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * Accepting ends after this time even if new connections arrive continuously. The limit is not shorter, because a busy
 * machine may need more than half a second to accept 64 connections.
 */
const ACCEPT_MS_MAX = 2_000

/**
 * If this many successive turns of the event loop bring no connection, none is waiting. One turn does not suffice: the
 * turn in which the wait begins may end without polling for connections again.
 */
const IDLE_TURNS_NEEDED = 2

/**
 * Accepts the connections that the operating system has opened but the process has not accepted. To be called before
 * the servers are closed: closing a server resets these connections, and their clients could not know whether their
 * requests were processed.
 */
export async function acceptWaitingConnections(servers: readonly Server[]): Promise<void> {
  const endsAt = performance.now() + ACCEPT_MS_MAX
  let accepted = 0
  const count = () => void accepted++
  for (const server of servers) server.on('connection', count)
  // In each turn of the event loop, libuv accepts only one connection of each server (libuv/libuv#3696).
  for (let idleTurns = 0; idleTurns < IDLE_TURNS_NEEDED && performance.now() < endsAt; ) {
    const before = accepted
    await nextTurn()
    idleTurns = accepted > before ? 0 : idleTurns + 1
  }
  for (const server of servers) server.off('connection', count)
}
