/**
 * Logs one JSON line for each event to standard error. Standard output is for other programs: the line that
 * reports where a process listens, and the output of the CLI.
 */
import cluster from 'node:cluster'
import { type Logger, pino } from 'pino'

export type { Logger }

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export function isLogLevel(text: string): text is LogLevel {
  return LOG_LEVELS.some((level) => level === text)
}

/** Fields that could contain a secret by mistake, at the top or one level down. */
const SECRET_FIELDS = [
  'authorization',
  'cookie',
  'secret',
  'password',
  'digest',
  'principal',
  'body',
]

export function createLogger(process: string, level: LogLevel): Logger {
  return pino(
    {
      level,
      base: { process, ...(cluster.worker === undefined ? {} : { worker: cluster.worker.id }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: SECRET_FIELDS.flatMap((name) => [name, `*.${name}`, `*.headers.${name}`]),
        censor: '[redacted]',
      },
    },
    openStandardError(),
  )
}

/**
 * The same log for lines whose fields are fixed and contain no secret. To search for secrets costs
 * several times as much as the line itself (34 µs against 6 µs, of some 80 µs for a call).
 */
export function withoutRedaction(log: Logger): Logger {
  return log.child({}, { redact: [] })
}

function openStandardError() {
  // Asynchronous, so that a slow reader of the log does not delay calls; a `minLength`, because
  // without one `flush` does not wait for what is being written.
  const destination = pino.destination({ fd: 2, sync: false, minLength: 1 })
  // On exit the rest is written synchronously, and tried again for ever where that fails (sonic-boom
  // 4): a reader that has ended or a full disk would keep the process from ending.
  destination.on('error', () => {
    destination.flushSync = () => {}
  })
  return destination
}
