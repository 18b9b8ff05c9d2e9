import type { Server } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * Limits the time while new connections arrive continuously. On a machine with too little CPU time, it takes longer than
 * half a second to accept 64 connections.
 */
const ACCEPT_MS_MAX = 2_000

/** The first turn may already be in progress. */
const TURNS_WITHOUT_CONNECTION = 2

/**
 * Accepts the connections that the system has opened but the process has not accepted. To be called before the server
 * is closed, which would reset these connections: their clients could not know whether their requests were processed.
 */
export async function acceptWaitingConnections(servers: readonly Server[]): Promise<void> {
  const endsAt = performance.now() + ACCEPT_MS_MAX
  let accepted = 0
  const count = () => void accepted++
  for (const server of servers) server.on('connection', count)
  // In each turn of the event loop, libuv accepts only one connection of each server (libuv/libuv#3696).
  for (let turns = 0; turns < TURNS_WITHOUT_CONNECTION && performance.now() < endsAt; ) {
    const before = accepted
    await nextTurn()
    turns = accepted > before ? 0 : turns + 1
  }
  for (const server of servers) server.off('connection', count)
}
