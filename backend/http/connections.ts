/**
 * Limits the connections of gateways to what the limit on open files allows. Otherwise, the connections could use up
 * this limit, and the database, webhooks and mail could open no more files or sockets. Node would also close further
 * connections without an event, so that neither the log nor the health check could show the cause.
 */
import type { Server } from 'node:net'
import { createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import type { Logger } from '../../shared/process/log.ts'
import { openFilesMax } from '../../shared/process/open-files.ts'

/** The files and sockets that the process needs besides the connections of gateways. */
const OWN_FILES = 200
/** At least this many connections are allowed, even if the limit on open files is too low for them. */
const CONNECTIONS_MIN = 10
/** After a refusal, the health check reports for this long that connections are refused. */
const REPORTED_MS = 10_000

export interface ConnectionLimit {
  wasReachedRecently(): boolean
}

export function limitConnections(listener: Server, log: Logger): ConnectionLimit {
  const collapsingLog = createCollapsingLog(log)
  const connectionsMax = Math.max(CONNECTIONS_MIN, openFilesMax() - OWN_FILES)
  let refusedAt = Number.NEGATIVE_INFINITY
  if (Number.isFinite(connectionsMax)) listener.maxConnections = connectionsMax
  listener.on('drop', () => {
    refusedAt = performance.now()
    collapsingLog.error(
      'connections',
      { connections: connectionsMax },
      'connections of gateways are refused: raise the limit on open files',
    )
  })
  return { wasReachedRecently: () => performance.now() - refusedAt < REPORTED_MS }
}
