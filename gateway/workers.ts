/**
 * Supervises several gateway workers, which all listen on one port. The supervisor accepts no calls: it serves health
 * and metrics for all workers, kills workers that hang, and replaces workers that end.
 */
import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { type CollapsingLog, createCollapsingLog } from '../shared/process/collapsing-log.ts'
import type { Running } from '../shared/process/lifecycle.ts'
import type { Logger } from '../shared/process/log.ts'
import { aggregateFrom, createMetrics, type MetricsSnapshot } from '../shared/process/metrics.ts'
import { type Health, startOperationsListener } from '../shared/process/operations-listener.ts'
import { assertPortFree } from './downstream/listening-socket.ts'
import { SharedTicketKeys } from './downstream/ticket-keys.ts'

/** The delay before an ended worker is replaced; it doubles while workers end soon after their start. */
const REPLACE_DELAY_MS_MIN = 100
const REPLACE_DELAY_MS_MAX = 10_000
/** If a worker has run for this long before it ends, the delay begins again at its minimum. */
const STABLE_MS = 60_000
const QUERY_TIMEOUT_MS = 1_000
const HEARTBEAT_INTERVAL_MS = 1_000
/**
 * A worker that has not responded for this long is assumed to hang and is killed. Until then, the connections
 * that the kernel assigns to it hang too.
 */
const SILENT_MS_MAX = 8_000
/**
 * Longer than `READ_MS_MAX` in `shared/process/metrics.ts`, the maximum time that a worker takes to read one of its
 * metrics.
 */
const METRICS_TIMEOUT_MS = 3_000

export interface WorkersOptions {
  readonly count: number
  /** The public port; 0 chooses a free one. */
  readonly port: number
  readonly operationsHost: string
  readonly operationsPort: number
  readonly log: Logger
}

interface RunningWorker {
  readonly worker: Worker
  readonly operationsUrl: string
}

/** Resolves when all workers listen. */
export async function superviseWorkers(options: WorkersOptions): Promise<Running<unknown>> {
  const { count, log } = options
  const loopback = await chooseLoopback()
  // Each worker prints a line on standard output when it is ready.
  cluster.setupPrimary({ stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  const running = new Map<number, RunningWorker>()
  let isDraining = false
  let haveAllStarted = false
  let replaceDelayMs = REPLACE_DELAY_MS_MIN
  let port = options.port
  let reloads = 0
  const ticketKeys = new SharedTicketKeys()

  async function startWorker(): Promise<void> {
    const reloadsBefore = reloads
    const worker = cluster.fork({
      GATEWAY_PORT: port,
      // Only the supervisor queries a worker's operations listener.
      GATEWAY_OPERATIONS_HOST: loopback.address,
      GATEWAY_OPERATIONS_PORT: '0',
      // Operators may have changed the level since the start.
      LOG_LEVEL: log.level,
    })
    const startedAt = performance.now()
    const listening = await readReadyLine(worker)
    if (listening === undefined) throw new Error('a worker ended before it listened')
    port = listening.port ?? port
    const operationsUrl = `${loopback.origin}:${listening.operations_port}`
    const started = { worker, operationsUrl }
    running.set(worker.id, started)
    ticketKeys.share(worker)
    // The worker may have read the settings before the reload. The signal is sent only now, because it could have ended
    // the worker while it was starting.
    if (reloads > reloadsBefore) worker.process.kill('SIGHUP')
    const heartbeat = watchHeartbeat(started, log)
    worker.once('exit', (code, signal) => {
      clearInterval(heartbeat)
      running.delete(worker.id)
      if (isDraining) return
      log.error({ worker: worker.id, code, signal }, 'a worker ended and will be replaced')
      if (performance.now() - startedAt > STABLE_MS) replaceDelayMs = REPLACE_DELAY_MS_MIN
      void replaceWorker()
    })
  }

  async function replaceWorker(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, replaceDelayMs))
    replaceDelayMs = Math.min(REPLACE_DELAY_MS_MAX, 2 * replaceDelayMs)
    if (isDraining) return
    await startWorker().catch((error: unknown) => {
      log.error({ err: error }, 'a worker did not start')
      void replaceWorker()
    })
  }

  // While a worker does not respond, each scrape causes the same warning.
  const collapsingLog = createCollapsingLog(log)
  // The operations listener starts first, because it fails if another gateway already uses its port. The public port
  // can be shared.
  const operationsListener = await startOperationsListener({
    host: options.operationsHost,
    port: options.operationsPort,
    metrics: {
      ...createMetrics('gateway'),
      registry: aggregateFrom(() => queryMetrics([...running.values()], collapsingLog)),
    },
    log,
    health: async () => {
      const workers = [...running.values()]
      if (haveAllStarted || isDraining) return healthOf(workers, count, isDraining)
      return {
        unready: [`${count - workers.length} of ${count} workers are starting`],
        degraded: [],
      }
    },
    onLogLevel: (level) => setLogLevel([...running.values()], level, log),
  })
  // If the port is 0, the first worker chooses a free one, on which the other workers must listen too.
  await startWorker()
  await Promise.all(Array.from({ length: count - 1 }, startWorker))
  haveAllStarted = true
  return {
    listening: { port, operations_port: operationsListener.port },
    reload() {
      reloads++
      for (const { worker } of running.values()) worker.process.kill('SIGHUP')
    },
    async drain() {
      isDraining = true
      ticketKeys.close()
      // `cluster.workers` includes workers that do not listen yet.
      await Promise.all(Object.values(cluster.workers ?? {}).map(terminate))
      await operationsListener.close()
    },
  }
}

/** Some machines have no IPv4 address, even for connections to themselves. */
async function chooseLoopback() {
  return assertPortFree(0, '127.0.0.1').then(
    () => ({ address: '127.0.0.1', origin: 'http://127.0.0.1' }),
    () => ({ address: '::1', origin: 'http://[::1]' }),
  )
}

/** Resolves with the ports of a worker; with undefined if the worker ends before it listens. */
async function readReadyLine({ process: { stdout } }: Worker) {
  if (stdout === null) return undefined
  for await (const line of createInterface({ input: stdout })) {
    // Unread output could fill the pipe and block the worker.
    stdout.resume()
    const { listening }: { listening: Running<unknown>['listening'] } = JSON.parse(line)
    return listening
  }
  return undefined
}

function watchHeartbeat({ worker, operationsUrl }: RunningWorker, log: Logger): NodeJS.Timeout {
  let respondedAt = performance.now()
  let checkedAt = respondedAt
  return setInterval(() => {
    const now = performance.now()
    // If the supervisor itself was stalled, the worker gets the full time again.
    if (now - checkedAt > 2 * HEARTBEAT_INTERVAL_MS) respondedAt = now
    checkedAt = now
    if (now - respondedAt > SILENT_MS_MAX) {
      log.error({ worker: worker.id, pid: worker.process.pid }, 'a worker hangs and is killed')
      worker.process.kill('SIGKILL')
      return
    }
    query(operationsUrl, 'GET', '/healthz').then(
      () => {
        respondedAt = performance.now()
      },
      () => {},
    )
  }, HEARTBEAT_INTERVAL_MS)
}

async function terminate(worker: Worker | undefined): Promise<void> {
  if (worker === undefined || worker.isDead()) return
  const exited = once(worker, 'exit')
  worker.process.kill('SIGTERM')
  await exited
}

/** The gateway is ready if at least one worker is ready and the gateway does not drain. */
async function healthOf(
  workers: readonly RunningWorker[],
  count: number,
  isDraining: boolean,
): Promise<Health> {
  const states = await Promise.all(workers.map(queryHealth))
  const unready = [...new Set(states.flatMap((health) => health.unready))]
  const degraded = new Set(states.flatMap((health) => health.degraded))
  if (workers.length < count) {
    degraded.add(`${count - workers.length} of ${count} workers are not running`)
  }
  if (isDraining) return { unready: ['draining'], degraded: [...degraded] }
  if (!states.some((health) => health.unready.length === 0)) {
    return {
      unready: unready.length > 0 ? unready : ['no worker is running'],
      degraded: [...degraded],
    }
  }
  for (const reason of unready) degraded.add(`some workers are not ready: ${reason}`)
  return { unready: [], degraded: [...degraded] }
}

async function queryHealth({ operationsUrl }: RunningWorker): Promise<Health> {
  try {
    const text = await query(operationsUrl, 'GET', '/readyz')
    // The worker runs the same program, so its response has the declared format.
    const { reasons, degraded } = JSON.parse(text) as { reasons: string[]; degraded: string[] }
    return { unready: reasons, degraded }
  } catch {
    return { unready: ['a worker does not respond'], degraded: [] }
  }
}

async function setLogLevel(
  workers: readonly RunningWorker[],
  level: string,
  log: Logger,
): Promise<void> {
  await Promise.all(
    workers.map(({ worker, operationsUrl }) =>
      query(operationsUrl, 'PUT', '/log-level', { body: level }).catch((error: unknown) => {
        log.warn({ worker: worker.id, err: error }, 'cannot change the log level of a worker')
      }),
    ),
  )
}

async function queryMetrics(
  workers: readonly RunningWorker[],
  collapsingLog: CollapsingLog,
): Promise<ReadonlyMap<number, MetricsSnapshot | undefined>> {
  const snapshots = workers.map(async ({ worker, operationsUrl }) => {
    try {
      const text = await query(operationsUrl, 'GET', '/metrics', {
        timeoutMs: METRICS_TIMEOUT_MS,
      })
      // The worker runs the same program, so its response has the declared format.
      return [worker.id, JSON.parse(text) as MetricsSnapshot] as const
    } catch (error) {
      const fields = { worker: worker.id, err: error }
      collapsingLog.warn(
        'metrics',
        fields,
        'metrics scrape of a worker failed; using its last totals',
      )
      return [worker.id, undefined] as const
    }
  })
  return new Map(await Promise.all(snapshots))
}

interface QueryOptions {
  readonly body?: string
  readonly timeoutMs?: number
}

/** Returns the body of a response with any status: `/readyz` also gives reasons in a 503. */
async function query(
  operationsUrl: string,
  method: 'GET' | 'PUT',
  path: string,
  options: QueryOptions = {},
) {
  const { body = null, timeoutMs = QUERY_TIMEOUT_MS } = options
  const response = await fetch(operationsUrl + path, {
    method,
    body,
    headers: { accept: 'application/json' },
    signal: AbortSignal.timeout(timeoutMs),
  })
  return response.text()
}
