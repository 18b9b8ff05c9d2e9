/**
 * The lifecycle of a process, the same for gateway and backend: settings, logger, signals and draining, and the ready
 * line, which the process prints when it listens. No other module of a process decides when it ends.
 */
import cluster from 'node:cluster'
import { parseArgs } from 'node:util'
import { createLogger, exitAfterFlush, LOG_LEVELS, type Logger } from './log.ts'
import {
  describeSettings,
  findPossiblyMistypedVariables,
  fraction,
  httpUrl,
  integer,
  oneOf,
  optional,
  readSettings,
  type Setting,
  SettingsError,
  type SettingsOf,
} from './settings.ts'

export const PROCESS_SETTINGS = {
  LOG_LEVEL: oneOf('The least severe level that is logged.', LOG_LEVELS, { fallback: 'info' }),
  DRAIN_TIMEOUT_MS: integer(
    'How long calls and jobs in progress may take to finish after SIGTERM. Then the process exits, and unfinished calls are lost.',
    { min: 1_000, max: 600_000, fallback: '10000' },
  ),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    httpUrl(
      'The collector that receives traces, by OTLP over HTTP, e.g. http://collector:4318. If unset, no traces are exported.',
    ),
  ),
  OTEL_TRACES_SAMPLER_ARG: fraction(
    'The fraction of new traces that is sampled, from 0 to 1. A trace that the caller began is sampled if the caller sampled it.',
    { fallback: '1' },
  ),
}

type Schema = Record<string, Setting<unknown>> & typeof PROCESS_SETTINGS

export interface Running<S> {
  /** `port` or `socket` (a path) is for calls, `operations_port` for health checks and metrics. */
  readonly listening: {
    readonly port?: number
    readonly socket?: string
    readonly operations_port: number
  }
  /** Applies the `reloadable` settings and ignores the others. If it throws, nothing has changed. */
  reload(settings: S): void
  /** Accepts no more calls, finishes those in progress, then closes everything. */
  drain(): Promise<void>
}

export interface ProcessOptions<S extends Schema> {
  readonly name: string
  /** Printed by `--help`, before the settings. */
  readonly description: string
  readonly schema: S
  /** For `prefix` and `foreign`, see `ReadOptions` in settings.ts. */
  readonly prefix: string
  readonly foreign?: readonly string[]
  /** Settings that SIGHUP applies while the process runs. */
  readonly reloadable: readonly (keyof S)[]
  /** Throws a `SettingsError` if settings contradict each other. Returns notes for `--check-config`. */
  checkAndDescribe(settings: SettingsOf<S>): readonly string[]
  start(settings: SettingsOf<S>, log: Logger): Promise<Running<SettingsOf<S>>>
}

/**
 * Runs until SIGTERM or SIGINT, then drains. If one of these two signals arrives again, or before the process listens,
 * the process ends immediately. (A worker of a gateway ignores SIGINT.) On SIGHUP, the process again reads the files
 * that settings name. Exit codes: 0 after a drain, `--help` or `--check-config`; 1 if the process failed or did not
 * finish draining; 2 if the arguments or settings are wrong. If the log cannot be written before the exit, the process
 * sends itself SIGKILL (`exitAfterFlush`).
 */
export async function runProcess<S extends Schema>(options: ProcessOptions<S>): Promise<void> {
  const settings = readCommandLine(options)
  // `Schema` guarantees these settings, which TypeScript cannot infer from the generic parameter.
  const processSettings = settings as SettingsOf<typeof PROCESS_SETTINGS>
  const log = createLogger(options.name, processSettings.LOG_LEVEL)
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception')
    exitAfterFlush(log, 1)
  })
  // Only the program that started this process needs standard output: the service runs without it.
  process.stdout.on('error', (error) => {
    log.warn({ err: error }, 'standard output cannot be written')
  })

  let reload: (() => void) | undefined
  let isReloadPending = false
  process.on('SIGHUP', () => {
    // If the process is still starting, it reloads after the start: the files may have changed since they were read.
    if (reload === undefined) isReloadPending = true
    else reload()
  })
  const restoreSignals = endOnSignal()
  let running: Running<SettingsOf<S>>
  try {
    running = await options.start(settings, log)
  } catch (error) {
    log.fatal({ err: error }, 'start failed')
    return exitAfterFlush(log, 1)
  }
  reload = createReload(options, settings, running, log)
  if (isReloadPending) reload()
  restoreSignals()
  drainOnSignal(() => running.drain(), processSettings.DRAIN_TIMEOUT_MS, log)
  // The ready line comes last: its reader may send a signal immediately, and the handlers must exist by then.
  process.stdout.write(`${JSON.stringify({ listening: running.listening })}\n`)
  log.info(running.listening, 'listening')
}

function readAllSettings<S extends Schema>({ schema, prefix, foreign = [] }: ProcessOptions<S>) {
  return readSettings(schema, process.env, { prefix, foreign })
}

/**
 * Returns the function that reads the settings again. If a setting is invalid, the function logs the error, and the
 * previous settings stay in use.
 */
function createReload<S extends Schema>(
  options: ProcessOptions<S>,
  first: SettingsOf<S>,
  running: Running<SettingsOf<S>>,
  log: Logger,
): () => void {
  const { schema, reloadable, checkAndDescribe } = options
  let current = first
  const isChanged = (name: keyof S, fresh: SettingsOf<S>) =>
    JSON.stringify(fresh[name]) !== JSON.stringify(current[name])
  return () => {
    try {
      const fresh = readAllSettings(options)
      checkAndDescribe(fresh)
      running.reload(fresh)
      const changed = Object.keys(schema).filter((name) => isChanged(name, fresh))
      const ignored = changed.filter((name) => !reloadable.includes(name))
      if (ignored.length > 0)
        log.warn({ settings: ignored }, 'changed settings take effect after a restart')
      log.info({ changed: changed.filter((name) => reloadable.includes(name)) }, 'reloaded')
      // For ignored settings, `current` keeps the values in use, so that each reload reports them until the restart.
      current = { ...fresh, ...Object.fromEntries(ignored.map((name) => [name, current[name]])) }
    } catch (error) {
      log.error({ err: error }, 'settings not reloaded: the previous settings stay in use')
    }
  }
}

/**
 * Makes SIGTERM and SIGINT end the process during its start. Returns a function that undoes this. Only a process with
 * the id 1, as in a container, needs this: Linux ignores signals for which such a process has no listener.
 */
function endOnSignal(): () => void {
  if (process.pid !== 1) return () => {}
  const end = () => process.exit(1)
  process.on('SIGTERM', end).on('SIGINT', end)
  return () => process.off('SIGTERM', end).off('SIGINT', end)
}

function drainOnSignal(drain: () => Promise<void>, timeoutMs: number, log: Logger): void {
  const exit = (code: number) => exitAfterFlush(log, code)
  let isDraining = false
  const onSignal = (signal: NodeJS.Signals) => {
    if (isDraining) return exit(1)
    isDraining = true
    log.info({ signal }, 'draining')
    const timer = setTimeout(() => {
      log.error({ timeoutMs }, 'drain took too long')
      exit(1)
    }, timeoutMs)
    drain().then(
      () => {
        clearTimeout(timer)
        log.info('drained')
        exit(0)
      },
      (error: unknown) => {
        log.error({ err: error }, 'drain failed')
        exit(1)
      },
    )
  }
  process.on('SIGTERM', onSignal)
  // Ctrl-C also reaches workers. They ignore it, because their supervisor sends them SIGTERM.
  process.on('SIGINT', cluster.isWorker ? () => {} : onSignal)
}

function readCommandLine<S extends Schema>(options: ProcessOptions<S>): SettingsOf<S> {
  const { name, description, schema, checkAndDescribe, foreign = [] } = options
  try {
    const { values } = parseArgs({
      options: { help: { type: 'boolean', short: 'h' }, 'check-config': { type: 'boolean' } },
    })
    if (values.help) {
      process.stdout.write(renderHelp(name, description, schema))
      process.exit(0)
    }
    const settings = readAllSettings(options)
    const notes = [...checkAndDescribe(settings)]
    if (values['check-config']) {
      for (const name of findPossiblyMistypedVariables(schema, process.env)) {
        // OpenTelemetry's packages read more variables than our settings name.
        if (!name.startsWith('OTEL_') && !foreign.includes(name))
          notes.push(`${name} is not a setting of this process.`)
      }
      const lines = [describeSettings(schema, process.env), ...notes.map((note) => `# ${note}`)]
      process.stdout.write(`${lines.join('\n')}\n`)
      process.exit(0)
    }
    return settings
  } catch (error) {
    if (!(error instanceof SettingsError) && !isArgumentError(error)) throw error
    process.stderr.write(`${name}: ${error.message.replaceAll('\n', `\n${name}: `)}\n`)
    process.exit(2)
  }
}

function isArgumentError(error: unknown): error is Error {
  return (
    error instanceof Error &&
    'code' in error &&
    typeof error.code === 'string' &&
    error.code.startsWith('ERR_PARSE_ARGS')
  )
}

function renderHelp(name: string, description: string, schema: Schema): string {
  const settings = Object.entries(schema).map(([key, { description, fallback, secret }]) => {
    const suffix = fallback === undefined ? ' Required.' : fallback && ` Default: ${fallback}.`
    const names = secret ? `${key}, or ${key}_FILE for a file with its value` : key
    return `  ${names}\n      ${description}${suffix}`
  })
  return [
    `${description}\n`,
    `Usage: npm run ${name} -- [--check-config] [--help]\n`,
    'Settings, from the environment (on SIGHUP, the process again reads the files that settings name):\n',
    ...settings,
    '',
  ].join('\n')
}
