/**
 * A process from start to drain, the same for both: settings, logger, the ready line, signals.
 * The one place that ends the process.
 */
import { parseArgs } from 'node:util'
import { createLogger, type Logger, type LogLevel } from './log.ts'
import {
  describeSettings,
  readSettings,
  type Setting,
  SettingsError,
  type SettingsOf,
} from './settings.ts'

/** A process that takes longer than this to drain is ended: what still runs is lost. */
const DRAIN_MS_MAX = 10_000

export interface Running {
  readonly listening: { readonly port: number; readonly operations_port: number }
  /** Finishes what was accepted, accepts nothing more, closes everything. */
  drain(): Promise<void>
}

type Schema = Record<string, Setting<unknown>> & { readonly LOG_LEVEL: Setting<LogLevel> }

export interface ProcessOptions<S extends Schema> {
  readonly name: string
  /** What `--help` says, before the settings. */
  readonly description: string
  readonly schema: S
  /** Variables that begin so must be settings of this process, but for the `foreign` ones. */
  readonly prefix: string
  readonly foreign?: readonly string[]
  start(settings: SettingsOf<S>, log: Logger): Promise<Running>
}

/**
 * Runs until SIGTERM or SIGINT, then drains. A second signal ends it at once. Exit codes: 0 drained,
 * 1 failed, 2 wrong arguments or settings.
 */
export async function runProcess<S extends Schema>(options: ProcessOptions<S>): Promise<void> {
  const { name, schema, prefix, foreign = [] } = options
  const settings = readCommandLine(options, () =>
    readSettings(schema, process.env, { prefix, foreign }),
  )
  // `Schema` has it; the mapped type of the generic parameter cannot show that.
  const log = createLogger(name, settings['LOG_LEVEL'] as LogLevel)
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception')
    log.flush(() => process.exit(1))
  })

  let running: Running
  try {
    running = await options.start(settings, log)
  } catch (error) {
    log.fatal({ err: error }, 'start failed')
    return log.flush(() => process.exit(1))
  }
  process.stdout.write(`${JSON.stringify({ listening: running.listening })}\n`)
  log.info(running.listening, 'listening')
  drainOnSignal(running, log)
}

function drainOnSignal(running: Running, log: Logger): void {
  const exit = (code: number) => log.flush(() => process.exit(code))
  let draining = false
  const onSignal = (signal: NodeJS.Signals) => {
    if (draining) return exit(1)
    draining = true
    log.info({ signal }, 'draining')
    const bound = setTimeout(() => {
      log.error({ drainMsMax: DRAIN_MS_MAX }, 'drain took too long')
      exit(1)
    }, DRAIN_MS_MAX)
    running.drain().then(
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
  process.on('SIGINT', onSignal)
}

function readCommandLine<S extends Schema>(
  { name, description, schema }: ProcessOptions<S>,
  read: () => SettingsOf<S>,
): SettingsOf<S> {
  try {
    const { values } = parseArgs({
      options: { help: { type: 'boolean', short: 'h' }, 'check-config': { type: 'boolean' } },
    })
    if (values.help) {
      process.stdout.write(renderHelp(name, description, schema))
      process.exit(0)
    }
    const settings = read()
    if (values['check-config']) {
      process.stdout.write(`${describeSettings(schema, process.env)}\n`)
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
  const settings = Object.entries(schema).map(([key, { description, fallback }]) => {
    const rest = fallback === undefined ? ' Required.' : fallback && ` Default: ${fallback}.`
    return `  ${key}\n      ${description}${rest}`
  })
  return [
    `${description}\n`,
    `Usage: npm run ${name} -- [--check-config] [--help]\n`,
    'Settings, from the environment:\n',
    ...settings,
    '',
  ].join('\n')
}
