/** Who hands a message over: a process of a machine, so that it can be told whether it still lives. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'

export function createLease(): string {
  return `${hostname()}:${process.pid}:${randomUUID()}`
}

/** Whether its holder is certainly gone; of another machine nobody can tell. */
export function isOrphaned(lease: string): boolean {
  const [host, pid] = lease.split(':')
  if (host !== hostname()) return false
  try {
    // Signal 0 only asks.
    process.kill(Number(pid), 0)
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH'
  }
}
