/** Runs an import: compares the file with the account's records, creates the missing records, and compares again. */
import joi from 'joi'
import { type Comparison, compare, countMissing } from '../../import/comparison.ts'
import type { Ledger } from '../../import/ledger.ts'
import { withStoredExternalIds } from '../../import/literal-ids.ts'
import type { ServiceRecords } from '../../import/records.ts'
import type { Output } from '../command.ts'
import { type Api, ImportStopped } from './api.ts'
import { formatDuration, secondsUntilLastCall } from './forecast.ts'
import { type ImportOutcome, postMissing } from './posting.ts'
import type { Progress } from './progress.ts'
import { formatCount, renderReport } from './report.ts'
import { PAGE_SIZE, readServiceRecords } from './service-records.ts'

export interface ImportOptions {
  readonly file: string
  readonly ledger: Ledger
  readonly api: Api
  readonly progress: Progress
  readonly concurrency: number
  /** Whether invoices that are already past due are chased. */
  readonly chaseOverdue: boolean
  /** Whether the import only compares the file with the service, and creates nothing. */
  readonly dryRun: boolean
}

interface Identity {
  readonly account: { readonly id: string; readonly name: string; readonly read_only: boolean }
  readonly key: {
    readonly label: string
    readonly prefix: string
    readonly scopes: readonly string[]
    readonly rate_limit: number
  }
}

const text = joi.string().required()
const identitySchema = joi
  .object<Identity, true>({
    account: joi.object({ id: text, name: text, read_only: joi.boolean().required() }).unknown(),
    key: joi
      .object({
        ...{ label: text, prefix: text, rate_limit: joi.number().integer().min(1).required() },
        scopes: joi.array().items(joi.string()).required(),
      })
      .unknown(),
  })
  .options({ presence: 'required' })
  .unknown()

/** With only a few attempts, the command fails quickly if the base URL is wrong. */
const FIRST_CALL_ATTEMPTS_MAX = 3
const READ_SCOPES = ['debtors:read', 'invoices:read', 'payments:read']
const WRITE_SCOPES = ['debtors:write', 'invoices:write', 'payments:write']

/** Throws `ImportStopped` if the import cannot continue. The next run continues where this one stopped. */
export async function importLedger(options: ImportOptions): Promise<Output> {
  const { file, ledger, api, progress, dryRun } = options
  const startedAtMs = Date.now()
  const { account, key } = await identify(api)
  checkAccess({ account, key }, dryRun)
  const action = dryRun ? 'Comparing with' : 'Importing into'
  progress.note(
    `${action} account ${account.name} (${account.id}) with the key ${key.label} (${key.prefix}).`,
  )
  progress.note(describeLimit(api, key.rate_limit))
  const columns = [...ledger.headers].map(([field, header]) => `${field}=${header}`)
  progress.note(`The columns of the file: ${columns.join(', ')}.`)

  const records = await readWithProgress(api, progress)
  // Another system may have created a customer with an external id such as `50%`, which imports encode as `50%25`. If
  // the comparison used the encoded id, the import would create this customer a second time.
  const before = compare(withStoredExternalIds(ledger, records.debtors), records)
  const callsNeeded = countCallsNeeded(before, records)
  progress.note(describeWork(before, callsNeeded, api))

  let outcome: ImportOutcome = { debtors: 0, invoices: 0, payments: 0, rejected: [] }
  let comparison = before
  if (callsNeeded > 0 && !dryRun) {
    outcome = await postAll(options, before)
    const after = await readWithProgress(api, progress)
    comparison = compare(withStoredExternalIds(ledger, after.debtors), after)
  }
  const seconds = (Date.now() - startedAtMs) / 1000
  const result = { file, account, dryRun, outcome, comparison, calls: api.calls, seconds }
  const { agrees, json, text: report } = renderReport(result)
  // A dry run fails for differences only: missing records are its expected result.
  const failed = dryRun ? comparison.differences.length > 0 : !agrees
  return { json, text: report, failed }
}

async function identify(api: Api): Promise<Identity> {
  const body = await api.get('/api/v1/me', { attemptsMax: FIRST_CALL_ATTEMPTS_MAX })
  const { value, error } = identitySchema.validate(body, { convert: false })
  if (error === undefined) return value
  throw new ImportStopped(
    `The response of GET /api/v1/me does not match the API's documentation: ${error.message}. Check the base URL.`,
  )
}

function checkAccess({ account, key }: Identity, dryRun: boolean): void {
  const needed = dryRun ? READ_SCOPES : [...READ_SCOPES, ...WRITE_SCOPES]
  const lacking = needed.filter((scope) => !key.scopes.includes(scope))
  if (lacking.length > 0) {
    throw new ImportStopped(
      `The key ${key.prefix} lacks the scopes ${lacking.join(', ')}. Issue a key that has them.`,
    )
  }
  if (account.read_only && !dryRun) {
    throw new ImportStopped(`The account ${account.name} is read-only: nothing can be recorded.`)
  }
}

async function readWithProgress(api: Api, progress: Progress): Promise<ServiceRecords> {
  progress.begin('Reading the records of the service')
  try {
    return await readServiceRecords(api, (records) => progress.advance(records))
  } finally {
    progress.end()
  }
}

async function postAll(
  { api, ledger, concurrency, chaseOverdue, progress }: ImportOptions,
  before: Comparison,
): Promise<ImportOutcome> {
  const { missingCustomers: customers, rowsWithMissingRecords: rows } = before
  const missing = countMissing(before)
  const total = missing.customers + missing.invoices + missing.payments
  let done = 0
  progress.begin('Recording', total, (remaining) =>
    api.window === undefined ? 0 : secondsUntilLastCall(remaining, api.window, Date.now()),
  )
  try {
    return await postMissing({
      api,
      headers: ledger.headers,
      customers,
      rows,
      concurrency,
      chaseOverdue,
      onRecordSent() {
        done++
        progress.advance()
      },
    })
  } catch (error) {
    if (!(error instanceof ImportStopped)) throw error
    throw new ImportStopped(
      `${error.message} The import processed ${done.toLocaleString('en-US')} of ${formatCount(total, 'missing record')}. Run the same command again: it continues where it stopped, and records nothing twice.`,
      { cause: error },
    )
  } finally {
    progress.end()
  }
}

/**
 * Predicts how many calls the import still makes: the POST requests, and the pages of records for the second
 * comparison.
 */
function countCallsNeeded(comparison: Comparison, records: ServiceRecords): number {
  const { customers, invoices, payments } = countMissing(comparison)
  const posts = customers + invoices + payments
  if (posts === 0) return 0
  const pages = [
    records.debtors.length + customers,
    records.invoices.length + invoices,
    records.payments.length + payments,
  ].map((length) => Math.max(Math.ceil(length / PAGE_SIZE), 1))
  return pages.reduce((sum, next) => sum + next, posts)
}

function describeLimit({ window }: Api, rateLimit: number): string {
  const limit = `The key may make ${formatCount(rateLimit, 'call')} an hour`
  if (window === undefined) return `${limit}.`
  const until = new Date(window.resetAtMs).toTimeString().slice(0, 5)
  return `${limit}; ${window.remaining.toLocaleString('en-US')} are left until ${until}.`
}

function describeWork(comparison: Comparison, calls: number, { window }: Api): string {
  if (calls === 0) return 'Nothing is missing.'
  const { customers, invoices, payments } = countMissing(comparison)
  const work = `Missing: ${formatCount(customers, 'customer')}, ${formatCount(invoices, 'invoice')}, ${formatCount(payments, 'payment')}. Recording and checking them requires ${formatCount(calls, 'call')}`
  if (window === undefined) return `${work}.`
  const seconds = secondsUntilLastCall(calls, window, Date.now())
  if (seconds === 0) return `${work}, which the rest of this hour's limit allows.`
  return `${work}. At ${window.limit.toLocaleString('en-US')} an hour, this takes about ${formatDuration(seconds)}, or less with a key that has a higher limit (keys issue --rate-limit).`
}
