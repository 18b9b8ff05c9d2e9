/**
 * Limits the connections of gateways to what the limit on open files allows. Otherwise, gateways could use up all
 * files, so that the database, webhooks and mail could open none. Node would then close each further connection without
 * an event, so that neither log nor health check would show why calls are lost.
 */
import type { Server } from 'node:net'
import { createCollapsingLog } from '../../shared/process/collapsing-log.ts'
import type { Logger } from '../../shared/process/log.ts'
import { openFilesMax } from '../../shared/process/open-files.ts'

/** The number of files and sockets that the process needs besides the connections of gateways. */
const OWN_FILES = 200
/** The lowest limit on the connections of gateways, even if fewer files may be open. */
const CONNECTIONS_MIN = 10
/** After a refusal, the health check reports for this long that connections are refused. */
const REPORTED_MS = 10_000

export interface ConnectionLimit {
  /** Whether connections were refused recently. */
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
