/**
 * A process from start to drain, the same for both: settings, logger, the ready line, signals.
 * The one place that ends the process.
 */
import cluster from 'node:cluster'
import { parseArgs } from 'node:util'
import { createLogger, LOG_LEVELS, type Logger } from './log.ts'
import {
  describeSettings,
  findUnknown,
  httpUrl,
  integer,
  oneOf,
  optional,
  readSettings,
  type Setting,
  SettingsError,
  type SettingsOf,
  share,
} from './settings.ts'

/** The settings that every process has. */
export const PROCESS_SETTINGS = {
  LOG_LEVEL: oneOf('The least severe event that is logged.', LOG_LEVELS, { fallback: 'info' }),
  DRAIN_TIMEOUT_MS: integer(
    'How long a process that was told to stop may take; then it is ended, and what still runs is lost.',
    { min: 1_000, max: 600_000, fallback: '10000' },
  ),
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    httpUrl(
      'A collector that accepts OTLP over HTTP, e.g. http://collector:4318. Unset: no traces.',
    ),
  ),
  OTEL_TRACES_SAMPLER_ARG: share(
    'Which share of the traces that begin here is kept, from 0 to 1. Those of callers are kept where the caller keeps them.',
    { fallback: '1' },
  ),
}

type Schema = Record<string, Setting<unknown>> & typeof PROCESS_SETTINGS

export interface Running<S> {
  /** Where calls are taken: on a port, or on a Unix socket. */
  readonly listening: {
    readonly port?: number
    readonly socket?: string
    readonly operations_port: number
  }
  /**
   * Puts to use what `reloadable` settings say now; the others it does not look at. Where it throws,
   * everything is as it was.
   */
  reload(settings: S): void
  /** Finishes what was accepted, accepts nothing more, closes everything. */
  drain(): Promise<void>
}

export interface ProcessOptions<S extends Schema> {
  readonly name: string
  /** What `--help` says, before the settings. */
  readonly description: string
  readonly schema: S
  /** Variables that begin so must be settings of this process, but for the `foreign` ones. */
  readonly prefix: string
  readonly foreign?: readonly string[]
  /** Settings that may change while it runs, on SIGHUP. */
  readonly reloadable: readonly (keyof S)[]
  /**
   * Throws `SettingsError` where settings do not go together; gives what is worth a look, for
   * `--check-config`.
   */
  check(settings: SettingsOf<S>): readonly string[]
  start(settings: SettingsOf<S>, log: Logger): Promise<Running<SettingsOf<S>>>
}

/**
 * Runs until SIGTERM or SIGINT, then drains; a second signal ends it at once. SIGHUP reads the files
 * of settings again. Exit codes: 0 drained, 1 failed, 2 wrong arguments or settings.
 */
export async function runProcess<S extends Schema>(options: ProcessOptions<S>): Promise<void> {
  const settings = readCommandLine(options)
  // `Schema` has them; the mapped type of the generic parameter cannot show that.
  const own = settings as SettingsOf<typeof PROCESS_SETTINGS>
  const log = createLogger(options.name, own.LOG_LEVEL)
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception')
    log.flush(() => process.exit(1))
  })

  // A reload that comes too early is none: everything is being read anyway.
  process.on('SIGHUP', () => {})
  let running: Running<SettingsOf<S>>
  try {
    running = await options.start(settings, log)
  } catch (error) {
    log.fatal({ err: error }, 'start failed')
    return log.flush(() => process.exit(1))
  }
  reloadOnSignal(options, settings, running, log)
  drainOnSignal(() => running.drain(), own.DRAIN_TIMEOUT_MS, log)
  // Last, since its reader may send a signal at once.
  process.stdout.write(`${JSON.stringify({ listening: running.listening })}\n`)
  log.info(running.listening, 'listening')
}

function readAll<S extends Schema>({ schema, prefix, foreign = [] }: ProcessOptions<S>) {
  return readSettings(schema, process.env, { prefix, foreign })
}

/** If a file is invalid, the process keeps its settings and logs the error. */
function reloadOnSignal<S extends Schema>(
  options: ProcessOptions<S>,
  first: SettingsOf<S>,
  running: Running<SettingsOf<S>>,
  log: Logger,
): void {
  const { schema, reloadable, check } = options
  let current = first
  const isChanged = (name: keyof S, fresh: SettingsOf<S>) =>
    JSON.stringify(fresh[name]) !== JSON.stringify(current[name])
  process.on('SIGHUP', () => {
    try {
      const fresh = readAll(options)
      check(fresh)
      running.reload(fresh)
      const changed = Object.keys(schema).filter((name) => isChanged(name, fresh))
      const ignored = changed.filter((name) => !reloadable.includes(name))
      if (ignored.length > 0)
        log.warn({ settings: ignored }, 'changed, but takes effect after a restart')
      log.info({ changed: changed.filter((name) => reloadable.includes(name)) }, 'reloaded')
      // Settings that need a restart are reported at each reload.
      current = { ...fresh, ...Object.fromEntries(ignored.map((name) => [name, current[name]])) }
    } catch (error) {
      log.error({ err: error }, 'not reloaded: the earlier settings stay in use')
    }
  })
}

function drainOnSignal(drain: () => Promise<void>, timeoutMs: number, log: Logger): void {
  const exit = (code: number) => log.flush(() => process.exit(code))
  let draining = false
  const onSignal = (signal: NodeJS.Signals) => {
    if (draining) return exit(1)
    draining = true
    log.info({ signal }, 'draining')
    const bound = setTimeout(() => {
      log.error({ timeoutMs }, 'drain took too long')
      exit(1)
    }, timeoutMs)
    drain().then(
      () => {
        clearTimeout(bound)
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
  // From the keyboard it reaches a worker too, whose supervisor tells it when to stop.
  process.on('SIGINT', cluster.isWorker ? () => {} : onSignal)
}

function readCommandLine<S extends Schema>(options: ProcessOptions<S>): SettingsOf<S> {
  const { name, description, schema, check } = options
  try {
    const { values } = parseArgs({
      options: { help: { type: 'boolean', short: 'h' }, 'check-config': { type: 'boolean' } },
    })
    if (values.help) {
      process.stdout.write(renderHelp(name, description, schema))
      process.exit(0)
    }
    const settings = readAll(options)
    const notes = [...check(settings)]
    if (values['check-config']) {
      for (const name of findUnknown(schema, process.env)) {
        // OpenTelemetry's own packages read more of its variables than we do.
        if (!name.startsWith('OTEL_')) notes.push(`${name} is not a setting of this process.`)
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
    const rest = fallback === undefined ? ' Required.' : fallback && ` Default: ${fallback}.`
    const names = secret ? `${key}, or ${key}_FILE for a file that holds it` : key
    return `  ${names}\n      ${description}${rest}`
  })
  return [
    `${description}\n`,
    `Usage: npm run ${name} -- [--check-config] [--help]\n`,
    'Settings, from the environment (SIGHUP reads the files again):\n',
    ...settings,
    '',
  ].join('\n')
}
