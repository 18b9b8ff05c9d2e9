/**
 * Imports a ledger through the public API. The command opens no database, and runs wherever the gateway can be reached.
 */
import { readFile, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { parseApiKey } from '../../shared/contract/api-key.ts'
import { dateReader } from '../import/date-format.ts'
import { type Ledger, readLedger } from '../import/ledger.ts'
import { LedgerError } from '../import/ledger-error.ts'
import { parseCurrency } from '../money/money.ts'
import { type Command, type Context, defineCommand, type Output, UsageError } from './command.ts'
import { COLUMNS_EXAMPLE, parseColumns } from './import/column-option.ts'
import { createProgress, type Progress } from './import/progress.ts'

/**
 * The whole file is kept in memory. 50 MB are about 500,000 rows, whose import takes two to three months with the
 * default rate limit of a key.
 */
const FILE_BYTES_MAX = 50 * 1024 * 1024
/** Enough requests to keep the service busy, and few enough to leave capacity for other clients. */
const CONCURRENT_REQUESTS = 4
/**
 * One Ctrl-C reaches this process twice, from the terminal and from npm. A signal that follows the first within
 * this time is therefore not counted as a second Ctrl-C.
 */
const SECOND_SIGNAL_AFTER_MS = 1000
const KEY_VARIABLE = 'RECEIVABLES_API_KEY'

export const importCommands: readonly Command[] = [
  defineCommand({
    name: 'import',
    summary: `Import a receivables ledger from a CSV file (at most 50 MB, UTF-8, one invoice per row) through the public API. It creates customers, invoices, and a payment for each settled invoice. The API key comes from the environment variable ${KEY_VARIABLE} or from --key-file. A second run records nothing twice. An import by this command cannot be taken back as a whole: only imports in Settings can.`,
    arguments: ['FILE'],
    options: {
      'date-format': {
        type: 'string',
        required: true,
        value: 'FORMAT',
        description: 'The format of dates in the file, e.g. M/D/YYYY, D.M.YYYY or YYYY-MM-DD.',
      },
      currency: {
        type: 'string',
        value: 'C',
        description:
          'The ISO 4217 code of the amounts. It is required if the file has no column with the currency.',
      },
      'decimal-comma': {
        type: 'boolean',
        description: 'The file writes amounts with a decimal comma, e.g. 1234,56.',
      },
      columns: {
        type: 'string',
        value: 'FIELD=HEADER,…',
        description:
          'The header of each field’s column, if the command does not recognize the column. Required fields: number, customer, issued, amount. Optional fields: due, settled, name, email, currency; FIELD= without a header ignores that field.',
      },
      'base-url': {
        type: 'string',
        value: 'URL',
        description: 'The base URL of the service. The default is http://127.0.0.1:8080.',
      },
      'key-file': {
        type: 'string',
        value: 'FILE',
        description:
          'A file with the API key, which needs the scopes to read and write debtors, invoices and payments.',
      },
      'chase-overdue': {
        type: 'boolean',
        description:
          'Also send reminders for invoices that are already past due. Without this option, reminders for these invoices start only when a person resumes them.',
      },
      'dry-run': {
        type: 'boolean',
        description: 'Check the file and compare it with the service, but record nothing.',
      },
    },
    async run(values, { clock, env, stderr }) {
      const currency = values.currency === undefined ? undefined : parseCurrency(values.currency)
      if (values.currency !== undefined && currency === undefined) {
        throw new UsageError(`--currency must be an ISO 4217 code, not ${values.currency}`)
      }
      const columns = parseColumns(values.columns ?? '')
      const bytes = await readLimited(values.FILE)
      const ledger = await withHints(() =>
        readLedger(bytes, {
          currency,
          dateFormat: values['date-format'],
          readDate: dateReader(values['date-format']),
          decimalMark: values['decimal-comma'] ? ',' : '.',
          columns,
          // In UTC, because the account's time zone is not known yet. The API checks the dates of payments again.
          today: clock().toISOString().slice(0, 10),
        }),
      )
      const baseUrl = parseBaseUrl(values['base-url'] ?? 'http://127.0.0.1:8080')
      const key = await readKey(values['key-file'], env)
      const progress = createProgress(stderr)
      // The HTTP client takes 100 ms to load, which would delay every other command.
      const { createApi } = await import('./import/api.ts')
      const { importLedger } = await import('./import/import-ledger.ts')
      return await stopOnSignal(progress, async (stop) => {
        const api = createApi({
          baseUrl,
          key,
          connections: CONCURRENT_REQUESTS,
          stop,
          onWait: (reason, untilMs) => progress.showWait(reason, untilMs),
        })
        try {
          return await importLedger({
            file: basename(values.FILE),
            ledger,
            api,
            progress,
            concurrency: CONCURRENT_REQUESTS,
            chaseOverdue: values['chase-overdue'],
            dryRun: values['dry-run'],
          })
        } finally {
          await api.close()
        }
      })
    },
  }),
]

async function withHints(read: () => Promise<Ledger>): Promise<Ledger> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error
    if (error.about === 'currency') throw new UsageError(`${error.message} Use --currency.`)
    if (error.about === 'date_format') throw new UsageError(`--date-format: ${error.message}`)
    if (error.about !== 'columns') throw error
    throw new Error(
      `${error.message} Name the columns with --columns, e.g. --columns ${COLUMNS_EXAMPLE}`,
      { cause: error },
    )
  }
}

async function readLimited(path: string): Promise<Uint8Array> {
  const { size } = await stat(path)
  if (size > FILE_BYTES_MAX) {
    throw new Error(`${path} is larger than 50 MB. Split it into several files.`)
  }
  return await readFile(path)
}

function parseBaseUrl(text: string): string {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol) && url.search + url.hash === '')
    return url.href
  throw new UsageError(
    `--base-url must be an http or https address without a query or fragment, not ${text}`,
  )
}

/** The key is never a command-line argument, which the process list and the shell history would show. */
async function readKey(path: string | undefined, env: Context['env']): Promise<string> {
  const source = path ?? KEY_VARIABLE
  const secret = path === undefined ? env[KEY_VARIABLE] || undefined : await readFile(path, 'utf8')
  if (secret === undefined) {
    throw new UsageError(
      `An API key is required: set ${KEY_VARIABLE}, or name a file with --key-file`,
    )
  }
  const key = parseApiKey(secret.trim())
  if (key === undefined) throw new Error(`${source} does not contain an API key (rcv_…).`)
  return key.secret
}

/**
 * Runs `work`. The first Ctrl-C or SIGTERM aborts `stop`, after which `work` only finishes the requests in flight.
 * Another signal, more than a second later, ends the process.
 */
async function stopOnSignal(
  progress: Progress,
  work: (stop: AbortSignal) => Promise<Output>,
): Promise<Output> {
  const stop = new AbortController()
  let firstAtMs = 0
  function onSignal(signal: NodeJS.Signals): void {
    if (stop.signal.aborted && Date.now() - firstAtMs > SECOND_SIGNAL_AFTER_MS) {
      stopListening()
      process.kill(process.pid, signal)
    }
    if (stop.signal.aborted) return
    firstAtMs = Date.now()
    stop.abort()
    progress.note(
      'Stopping after the requests in flight have finished. Press Ctrl-C again to stop immediately.',
    )
  }
  function stopListening(): void {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
  }
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal)
  try {
    return await work(stop.signal)
  } finally {
    stopListening()
  }
}
