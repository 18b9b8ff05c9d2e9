/** Logs one JSON line for each event to standard error. Standard output is for other programs. */
import cluster from 'node:cluster'
import { type Logger, pino } from 'pino'

export type { Logger }

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export function isLogLevel(text: string): text is LogLevel {
  return LOG_LEVELS.some((level) => level === text)
}

/**
 * Fields that could contain a secret by mistake. They are redacted at the top level, in an object at the top
 * level, and in `headers` of such an object.
 */
const SECRET_FIELDS = [
  'authorization',
  'cookie',
  'secret',
  'password',
  'digest',
  'principal',
  'body',
]

/** If the log is read too slowly, at most this many bytes of it are buffered. Further lines are dropped. */
const BUFFERED_BYTES_MAX = 16 * 1024 * 1024

/**
 * Before a process exits, it waits for at most this long until its log is written. Together with the default of
 * `DRAIN_TIMEOUT_MS`, this is less than the 15 s after which systemd and Compose kill a process.
 */
const FLUSH_MS_MAX = 3_000

export function createLogger(processName: string, level: LogLevel): Logger {
  const destination = openStandardError()
  const log = pino(
    {
      level,
      base: {
        process: processName,
        ...(cluster.worker === undefined ? {} : { worker: cluster.worker.id }),
      },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: SECRET_FIELDS.flatMap((name) => [name, `*.${name}`, `*.headers.${name}`]),
        censor: '[redacted]',
      },
    },
    destination,
  )
  let dropped = 0
  destination.on('drop', () => dropped++)
  destination.on('drain', () => {
    if (dropped === 0) return
    log.warn({ lines: dropped }, 'the log was read too slowly: lines were dropped')
    dropped = 0
  })
  return log
}

/**
 * Returns the same log without redaction, for lines whose fields are fixed and contain no secret. Redaction
 * would take 34 µs for each call, although serializing the line takes only 6 µs.
 */
export function withoutRedaction(log: Logger): Logger {
  return log.child({}, { redact: [] })
}

/**
 * Ends the process with this exit code after the log has been written. If the reader of the log has stopped, the
 * process is killed after `FLUSH_MS_MAX`: `process.exit` would wait forever for the thread that writes the log.
 */
export function exitAfterFlush(log: Logger, code: number): void {
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), FLUSH_MS_MAX)
  log.flush(() => process.exit(code))
}

function openStandardError() {
  // The destination is asynchronous, so that a slow reader of the log does not delay calls. Without
  // `minLength`, `flush` would not wait for the write in progress.
  const destination = pino.destination({
    fd: 2,
    sync: false,
    minLength: 1,
    maxLength: BUFFERED_BYTES_MAX,
  })
  // pino calls `flushSync` after a fatal error and on exit. The `flushSync` of sonic-boom 4 repeats a failing write
  // forever, so a full disk or a reader that has stopped or exited would keep the process from exiting.
  destination.flushSync = () => {}
  // Without a listener, a failing write would be an uncaught exception.
  destination.on('error', () => {})
  return destination
}
