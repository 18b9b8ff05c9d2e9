/**
 * Imports a ledger through the public API like any integration: over HTTP, with an API key. The command
 * opens no database, so that it runs wherever the gateway can be reached.
 */
import { readFile, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { parseApiKey } from '../../shared/contract/api-key.ts'
import { dateReader } from '../import/date-format.ts'
import { type Ledger, readLedger } from '../import/ledger.ts'
import { LedgerFault } from '../import/ledger-fault.ts'
import { parseCurrency } from '../money/money.ts'
import { type Command, type Context, defineCommand, type Output, UsageError } from './command.ts'
import { EXAMPLE, parseColumns } from './import/column-option.ts'
import { createProgress, type Progress } from './import/progress.ts'

/**
 * The file is read and checked as a whole. 50 MB are some 500,000 rows: three months at the default hourly
 * limit.
 */
const FILE_BYTES_MAX = 50 * 1024 * 1024
/** Enough to keep the service busy, and few enough to leave capacity to other clients. */
const CONCURRENCY = 4
/**
 * The terminal sends Ctrl-C to this process, and npm forwards it again: within this time, a repetition is
 * not a second Ctrl-C.
 */
const SECOND_SIGNAL_AFTER_MS = 1000
const KEY_VARIABLE = 'RECEIVABLES_API_KEY'

export const importCommands: readonly Command[] = [
  defineCommand({
    name: 'import',
    summary: `Load a receivables ledger from a CSV file (at most 50 MB, UTF-8, one invoice a row) through the public API: customers, invoices, and a payment for each settled one. The key comes from ${KEY_VARIABLE} or --key-file. Running it again records nothing twice.`,
    arguments: ['FILE'],
    options: {
      'date-format': {
        type: 'string',
        required: true,
        value: 'FORMAT',
        description: 'How the file writes dates: M/D/YYYY, D.M.YYYY, YYYY-MM-DD or the like.',
      },
      currency: {
        type: 'string',
        value: 'C',
        description: 'ISO 4217 code of the amounts; needed unless a column gives it.',
      },
      'decimal-comma': { type: 'boolean', description: 'Amounts are written 1234,56.' },
      columns: {
        type: 'string',
        value: 'FIELD=HEADER,…',
        description:
          'Which column is which, if the headers do not say it: number, customer, issued, amount; also due, settled, name, email, currency, where FIELD= omits it.',
      },
      'base-url': {
        type: 'string',
        value: 'URL',
        description: 'Address of the service; http://127.0.0.1:8080 unless given.',
      },
      'key-file': {
        type: 'string',
        value: 'PATH',
        description: `File with the API key. It needs to read and write debtors, invoices and payments.`,
      },
      'chase-overdue': {
        type: 'boolean',
        description:
          'Remind customers also of what is past due already. Unless given, that is taken as history: people resume what they want chased in Settings.',
      },
      'dry-run': { type: 'boolean', description: 'Check and compare, but send nothing.' },
    },
    async run(values, { now, env, stderr }) {
      const currency = values.currency === undefined ? undefined : parseCurrency(values.currency)
      if (values.currency !== undefined && currency === undefined) {
        throw new UsageError(`--currency ${values.currency} is not a currency of ISO 4217`)
      }
      const columns = parseColumns(values.columns ?? '')
      const bytes = await readLimited(values.FILE)
      const ledger = withHints(() =>
        readLedger(bytes, {
          currency,
          dateFormat: values['date-format'],
          readDate: dateReader(values['date-format']),
          decimalMark: values['decimal-comma'] ? ',' : '.',
          columns,
          now,
        }),
      )
      const baseUrl = parseBaseUrl(values['base-url'] ?? 'http://127.0.0.1:8080')
      const key = await readKey(values['key-file'], env)
      const progress = createProgress(stderr)
      // The HTTP client takes 100 ms to load, which would delay every other command.
      const { createApi } = await import('./import/api.ts')
      const { importLedger } = await import('./import/import-ledger.ts')
      return await untilSignalled(progress, async (stop) => {
        const api = createApi({
          baseUrl,
          key,
          connections: CONCURRENCY,
          stop,
          onWait: (reason, untilMs) => progress.wait(reason, untilMs),
        })
        try {
          return await importLedger({
            file: basename(values.FILE),
            ledger,
            api,
            progress,
            concurrency: CONCURRENCY,
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

/** Adds to a fault the option that resolves it. */
function withHints(read: () => Ledger): Ledger {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof LedgerFault)) throw error
    if (error.about === 'currency') throw new UsageError(`${error.message} Use --currency.`)
    if (error.about === 'date_format') throw new UsageError(`--date-format: ${error.message}`)
    if (error.about !== 'columns') throw error
    throw new Error(
      `${error.message} Say which is which with --columns, e.g. --columns ${EXAMPLE}`,
      { cause: error },
    )
  }
}

async function readLimited(path: string): Promise<Uint8Array> {
  const { size } = await stat(path)
  if (size > FILE_BYTES_MAX) throw new Error(`${path} has more than 50 MB: split it.`)
  return await readFile(path)
}

function parseBaseUrl(text: string): string {
  const url = URL.parse(text)
  if (url !== null && /^https?:$/.test(url.protocol) && url.search + url.hash === '')
    return url.href
  throw new UsageError(`--base-url is an http or https address, not ${text}`)
}

/** Never from an argument: the process list and the shell history would show it. */
async function readKey(path: string | undefined, env: Context['env']): Promise<string> {
  const place = path ?? KEY_VARIABLE
  const secret = path === undefined ? env[KEY_VARIABLE] : await readFile(path, 'utf8')
  if (secret === undefined || secret === '') {
    throw new UsageError(`An API key is needed, in ${KEY_VARIABLE} or in the file of --key-file`)
  }
  const key = parseApiKey(secret.trim())
  if (key === undefined) throw new Error(`What ${place} holds is not an API key (rcv_…).`)
  return key.secret
}

/** The first Ctrl-C lets requests in flight finish; a second one ends the process at once. */
async function untilSignalled(
  progress: Progress,
  work: (stop: AbortSignal) => Promise<Output>,
): Promise<Output> {
  const stop = new AbortController()
  let firstAtMs = 0
  function onSignal(signal: NodeJS.Signals): void {
    if (stop.signal.aborted && Date.now() - firstAtMs > SECOND_SIGNAL_AFTER_MS) {
      release()
      process.kill(process.pid, signal)
    }
    if (stop.signal.aborted) return
    firstAtMs = Date.now()
    stop.abort()
    progress.note('Stopping when the calls on their way have ended. Ctrl-C again stops at once.')
  }
  function release(): void {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
  }
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal)
  try {
    return await work(stop.signal)
  } finally {
    release()
  }
}
