/**
 * Several gateways behind one port, one for each core: the workers listen on it all together, and the
 * system spreads connections over them. This process takes no calls. It answers operators for all of
 * them and puts another in the place of one that ends.
 */
import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Running } from '../shared/process/lifecycle.ts'
import type { Logger } from '../shared/process/log.ts'
import { createMetrics, gatherFrom, type Told } from '../shared/process/metrics.ts'
import { type Health, listenForOperations } from '../shared/process/operations.ts'
import { createRepeatedLog, type RepeatedLog } from '../shared/process/repeated-log.ts'

/** Between the end of a worker and the start of another; doubled while they end soon. */
const REPLACE_MS_MIN = 100
const REPLACE_MS_MAX = 10_000
/** A worker that lived for so long did not end because of how it was started. */
const SETTLED_MS = 60_000
const ASK_TIMEOUT_MS = 1_000
/** Longer than a worker waits for a number that cannot be read. */
const ASK_METRICS_TIMEOUT_MS = 3_000

export interface WorkersOptions {
  readonly count: number
  /** The public one; 0 takes a free one. */
  readonly port: number
  readonly operationsHost: string
  readonly operationsPort: number
  readonly log: Logger
}

interface Working {
  readonly worker: Worker
  readonly operationsPort: number
}

/** Resolves when all of them listen. */
export async function superviseWorkers(options: WorkersOptions): Promise<Running<unknown>> {
  const { count, log } = options
  // Each says on standard output when it is ready.
  cluster.setupPrimary({ stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  const working = new Map<number, Working>()
  let isDraining = false
  let replaceMs = REPLACE_MS_MIN
  let port = options.port

  async function startWorker(): Promise<void> {
    const worker = cluster.fork({
      GATEWAY_PORT: port,
      // To be asked by this process alone.
      GATEWAY_OPERATIONS_HOST: '127.0.0.1',
      GATEWAY_OPERATIONS_PORT: '0',
      LOG_LEVEL: log.level,
    })
    const startedAt = performance.now()
    const listening = await readyLine(worker)
    if (listening === undefined) throw new Error('a worker ended before it listened')
    port = listening.port ?? port
    working.set(worker.id, { worker, operationsPort: listening.operations_port })
    worker.once('exit', (code, signal) => {
      working.delete(worker.id)
      if (isDraining) return
      log.error({ worker: worker.id, code, signal }, 'a worker ended: another takes its place')
      if (performance.now() - startedAt > SETTLED_MS) replaceMs = REPLACE_MS_MIN
      void replaceWorker()
    })
  }

  async function replaceWorker(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, replaceMs))
    replaceMs = Math.min(REPLACE_MS_MAX, 2 * replaceMs)
    if (isDraining) return
    await startWorker().catch((error: unknown) => {
      log.error({ err: error }, 'a worker did not start')
      void replaceWorker()
    })
  }

  const silences = createRepeatedLog(log)
  // First, for it is nobody else's: of the public port the system does not tell two services apart.
  const operations = await listenForOperations({
    host: options.operationsHost,
    port: options.operationsPort,
    metrics: {
      ...createMetrics('gateway'),
      registry: gatherFrom(() => askMetrics([...working.values()], silences)),
    },
    log,
    health: () => healthOf([...working.values()], count, isDraining),
    onLogLevel: (level) => tellAll([...working.values()], level, log),
  })
  // The first finds the port.
  await startWorker()
  await Promise.all(Array.from({ length: count - 1 }, startWorker))
  return {
    listening: { port, operations_port: operations.port },
    reload() {
      for (const { worker } of working.values()) worker.process.kill('SIGHUP')
    },
    async drain() {
      isDraining = true
      // Those that are about to listen too.
      await Promise.all(Object.values(cluster.workers ?? {}).map(end))
      await operations.close()
    },
  }
}

/** What a worker says when it listens; undefined where it ends before. */
async function readyLine({ process: { stdout } }: Worker) {
  if (stdout === null) return undefined
  for await (const line of createInterface({ input: stdout })) {
    stdout.resume()
    const { listening }: { listening: Running<unknown>['listening'] } = JSON.parse(line)
    return listening
  }
  return undefined
}

async function end(worker: Worker | undefined): Promise<void> {
  if (worker === undefined || worker.isDead()) return
  const exited = once(worker, 'exit')
  worker.process.kill('SIGTERM')
  await exited
}

/** Calls are taken as long as one worker takes them. */
async function healthOf(
  workers: readonly Working[],
  count: number,
  isDraining: boolean,
): Promise<Health> {
  const answers = await Promise.all(workers.map(askHealth))
  const unready = [...new Set(answers.flatMap((health) => health.unready))]
  const degraded = new Set(answers.flatMap((health) => health.degraded))
  if (workers.length < count) {
    degraded.add(`${count - workers.length} of ${count} workers do not run`)
  }
  if (isDraining) return { unready: ['draining'], degraded: [...degraded] }
  if (!answers.some((health) => health.unready.length === 0)) {
    return { unready: unready.length > 0 ? unready : ['no worker runs'], degraded: [...degraded] }
  }
  for (const reason of unready) degraded.add(`a worker is not ready: ${reason}`)
  return { unready: [], degraded: [...degraded] }
}

async function askHealth({ operationsPort }: Working): Promise<Health> {
  try {
    const answer = await ask(operationsPort, 'GET', '/readyz')
    // Of our own making, over loopback.
    const { reasons, degraded } = JSON.parse(answer) as { reasons: string[]; degraded: string[] }
    return { unready: reasons, degraded }
  } catch {
    return { unready: ['it does not answer'], degraded: [] }
  }
}

async function tellAll(workers: readonly Working[], level: string, log: Logger): Promise<void> {
  await Promise.all(
    workers.map(({ worker, operationsPort }) =>
      ask(operationsPort, 'PUT', '/log-level', { body: level }).catch((error: unknown) => {
        log.warn({ worker: worker.id, err: error }, 'a worker keeps its log level')
      }),
    ),
  )
}

async function askMetrics(
  workers: readonly Working[],
  silences: RepeatedLog,
): Promise<ReadonlyMap<number, Told | undefined>> {
  const answers = workers.map(async ({ worker, operationsPort }) => {
    try {
      const answer = await ask(operationsPort, 'GET', '/metrics', {
        timeoutMs: ASK_METRICS_TIMEOUT_MS,
      })
      // Of our own making, over loopback.
      return [worker.id, JSON.parse(answer) as Told] as const
    } catch (error) {
      const fields = { worker: worker.id, err: error }
      silences.warn('metrics', fields, 'a worker does not tell its numbers: the last ones serve')
      return [worker.id, undefined] as const
    }
  })
  return new Map(await Promise.all(answers))
}

interface Asking {
  readonly body?: string
  readonly timeoutMs?: number
}

async function ask(port: number, method: 'GET' | 'PUT', path: string, asking: Asking = {}) {
  const { body = null, timeoutMs = ASK_TIMEOUT_MS } = asking
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    body,
    headers: { accept: 'application/json' },
    signal: AbortSignal.timeout(timeoutMs),
  })
  return answer.text()
}
