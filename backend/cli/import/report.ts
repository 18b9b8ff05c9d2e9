import {
  type Comparison,
  countMissing,
  type Difference,
  type Totals,
} from '../../import/comparison.ts'
import { formatMinor } from '../../import/decimal.ts'
import { currencyExponent } from '../../money/money.ts'
import type { Output } from '../command.ts'
import { renderTable } from '../command.ts'
import { formatDuration } from './forecast.ts'
import type { ImportOutcome } from './posting.ts'

export interface ImportResult {
  readonly file: string
  readonly account: { readonly id: string; readonly name: string }
  readonly dryRun: boolean
  readonly outcome: ImportOutcome
  /** The comparison of the file with the account. If records were sent, it was made afterwards. */
  readonly comparison: Comparison
  /** The number of requests that received a response, including retries. */
  readonly calls: number
  readonly seconds: number
}

/** The maximum number of differences, and of rejected records, that the text lists. The JSON document contains all. */
const SHOWN_MAX = 100

/**
 * `agrees` is true if the account contains every record of the file, without any difference. It may also contain other
 * records.
 */
export function renderReport(result: ImportResult): Output & { readonly agrees: boolean } {
  const { comparison, outcome } = result
  const missing = countMissing(comparison)
  const agrees =
    comparison.differences.length + outcome.rejected.length === 0 &&
    missing.customers + missing.invoices + missing.payments === 0
  return {
    agrees,
    json: representResult(result, agrees),
    text: [
      describeOutcome(result),
      ...[...comparison.totals].map(([currency, { file, service }]) =>
        renderTotals(currency, file, service),
      ),
      ...(comparison.otherInvoices > 0
        ? [
            `The account has ${formatCount(comparison.otherInvoices, 'other invoice')} that the file does not contain.`,
          ]
        : []),
      ...renderLists(result),
      agrees
        ? 'The file and the service agree to the last minor unit.'
        : describeDisagreement(result),
    ].join('\n\n'),
  }
}

/** Returns a text such as `1 invoice` or `2,000 invoices`. */
export function formatCount(number: number, noun: string): string {
  return `${number.toLocaleString('en-US')} ${noun}${number === 1 ? '' : 's'}`
}

function describeOutcome({ file, account, dryRun, outcome, calls, seconds }: ImportResult): string {
  if (dryRun)
    return `Compared ${file} with ${account.name} (${account.id}). This was a dry run: nothing was recorded.`
  const records = [
    formatCount(outcome.debtors, 'customer'),
    formatCount(outcome.invoices, 'invoice'),
    formatCount(outcome.payments, 'payment'),
  ]
  return `Imported ${file} into ${account.name} (${account.id}): recorded ${records.join(', ')} with ${formatCount(calls, 'call')} in ${formatDuration(seconds)}.`
}

function renderTotals(currency: string, file: Totals, service: Totals): string {
  const cells = (totals: Totals) => {
    const money = (minor: bigint) => formatMinor(minor, currencyExponent(currency))
    return [
      totals.invoices.toLocaleString('en-US'),
      money(totals.invoiced),
      totals.payments.toLocaleString('en-US'),
      money(totals.paid),
      money(totals.open),
    ]
  }
  const [fileCells, serviceCells] = [cells(file), cells(service)]
  const width = Math.max(...[...fileCells, ...serviceCells].map(({ length }) => length))
  return renderTable(
    ['invoices', 'invoiced', 'payments', 'paid', 'open'].map((name, index) => ({
      [currency]: name,
      ['file'.padStart(width)]: (fileCells[index] ?? '').padStart(width),
      ['service'.padStart(width)]: (serviceCells[index] ?? '').padStart(width),
    })),
  )
}

function renderLists({ comparison, outcome }: ImportResult): string[] {
  const differences = comparison.differences.map(describeDifference)
  const rejected = outcome.rejected.map(
    ({ record, code, detail }) => `  ${record}: ${code}, ${detail}`,
  )
  return [
    ...(differences.length > 0 ? [`Differences:\n${firstLines(differences)}`] : []),
    ...(rejected.length > 0 ? [`Rejected records:\n${firstLines(rejected)}`] : []),
  ]
}

function describeDifference({ line, record, field, file, service }: Difference): string {
  return `  line ${line}, ${record}: ${field} is ${file} in the file, ${service} at the service`
}

function firstLines(lines: readonly string[]): string {
  const more = lines.length - SHOWN_MAX
  return [...lines.slice(0, SHOWN_MAX), ...(more > 0 ? [`  and ${more} more`] : [])].join('\n')
}

function describeDisagreement({ comparison, outcome, dryRun }: ImportResult): string {
  const { customers, invoices, payments } = countMissing(comparison)
  const missing = `left to import: ${formatCount(customers, 'customer')}, ${formatCount(invoices, 'invoice')}, ${formatCount(payments, 'payment')}`
  const found = `${formatCount(comparison.differences.length, 'difference')}; ${missing}`
  // A dry run sends nothing, so no record is rejected.
  if (dryRun) return `${found}.`
  return `The file and the service do not agree: ${formatCount(outcome.rejected.length, 'rejected record')}; ${found}.`
}

function representResult(result: ImportResult, agrees: boolean) {
  const { file, account, dryRun, outcome, comparison, calls, seconds } = result
  const { rejected, ...recorded } = outcome
  return {
    file,
    account: { id: account.id, name: account.name },
    dry_run: dryRun,
    agrees,
    recorded,
    missing: countMissing(comparison),
    currencies: [...comparison.totals].map(([currency, totals]) => ({
      currency,
      currency_exponent: currencyExponent(currency),
      file: representTotals(totals.file),
      service: representTotals(totals.service),
    })),
    other_invoices: comparison.otherInvoices,
    differences: comparison.differences,
    // This name is public. In the code, these records are called `rejected`.
    refusals: rejected,
    calls,
    seconds: Math.round(seconds * 10) / 10,
  }
}

/** JSON numbers are exact up to 2^53: 90 trillion in a currency with two decimals. */
function representTotals({ invoices, invoiced, payments, paid, open }: Totals) {
  return { invoices, invoiced: Number(invoiced), payments, paid: Number(paid), open: Number(open) }
}
