/**
 * Records the payments of a bank file, each once:
 *
 *   node post-payments.ts statement.csv books.db
 *
 * After a header line, the file has a line for each payment with these fields, separated by semicolons:
 * the bank's id of the payment, the date, the amount with a decimal point, the currency, and the number
 * of the invoice. The same file, or one that overlaps it, may be passed again. The program can be killed
 * at any time: the body of each line is stored with its Idempotency-Key before it is first sent, so the
 * next run sends the same request.
 */
import { readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { type Client, clientFromEnvironment, Rejection } from './client.ts'
import type { Invoice, InvoiceList, Payment, PaymentCreate } from './receivables-api.ts'

const SCHEMA = `create table if not exists bank_lines (
  bank_id text primary key,
  booked_on text not null,
  amount text not null,
  currency text not null,
  invoice_number text not null,
  idempotency_key text not null unique,
  body text,        -- the body of the request; null until the invoice was found
  outcome text,     -- recorded or rejected; null while unknown
  detail text       -- the payment's id, or the reason for the rejection
) strict`

type Line = Readonly<Record<'bank_id' | 'booked_on' | 'amount' | 'currency', string>> &
  Readonly<Record<'invoice_number' | 'idempotency_key', string>> & { readonly body: string | null }

/** The line cannot be sent, so it is stored as rejected. README.md says how a person makes the next run send it. */
class UnusableLine extends Error {}

/** Stores new lines of the bank file. Lines that are already stored do not change. */
function storeLines(database: DatabaseSync, bankFile: string): void {
  const insert = database.prepare(`insert or ignore into bank_lines
    (bank_id, booked_on, amount, currency, invoice_number, idempotency_key)
    values (?, ?, ?, ?, ?, ?)`)
  const [, ...lines] = readFileSync(bankFile, 'utf8').split(/\r?\n/)
  database.exec('begin')
  for (const line of lines.filter((text) => text !== '')) {
    const fields = line.split(';').map((field) => field.trim())
    const [bankId, bookedOn, amount, currency, number] = fields
    if (!bankId || !bookedOn || !amount || !currency || !number)
      throw new Error(`This line is not a payment: ${line}`)
    insert.run(bankId, bookedOn, amount, currency, number, `bank-${asciiOf(bankId)}`)
  }
  database.exec('commit')
}

async function bodyOf(client: Client, line: Line): Promise<PaymentCreate> {
  const query = new URLSearchParams({ number: line.invoice_number })
  const { data } = await client.get<InvoiceList>(`/invoices?${query}`)
  const [invoice] = data
  if (invoice === undefined) throw new UnusableLine(`there is no invoice ${line.invoice_number}`)
  return {
    invoice_id: invoice.id,
    currency: line.currency,
    amount: minorUnits(line.amount, invoice),
    received_on: line.booked_on,
    method: 'bank_transfer',
    // An extra safeguard: a payment with this id is recorded once, even with another Idempotency-Key.
    external_id: asciiOf(line.bank_id),
  }
}

/**
 * Percent-encodes spaces and non-ASCII characters, which idempotency keys cannot contain. "%" is encoded too, so that
 * different ids remain different.
 */
function asciiOf(bankId: string): string {
  return bankId.replace(/[^!-$&-~]/gu, encodeURIComponent)
}

/**
 * Converts an amount such as `125.5` to minor units: 12550 in a currency with two decimals. The
 * result is computed from the digits, because floating-point arithmetic could round it.
 */
function minorUnits(amount: string, { currency, currency_exponent: decimals }: Invoice): number {
  const [, whole = '', fraction = ''] = /^(\d+)(?:\.(\d+))?$/.exec(amount) ?? []
  if (whole === '' || fraction.length > decimals)
    throw new UnusableLine(`${amount} is not an amount in ${currency}`)
  return Number(whole + fraction.padEnd(decimals, '0'))
}

async function post(client: Client, database: DatabaseSync, line: Line): Promise<void> {
  const storeOutcome = database.prepare(
    'update bank_lines set outcome = ?, detail = ? where bank_id = ?',
  )
  const storeBody = database.prepare('update bank_lines set body = ? where bank_id = ?')
  try {
    const body = line.body ?? JSON.stringify(await bodyOf(client, line))
    storeBody.run(body, line.bank_id)
    const payment = await client.post<Payment>('/payments', JSON.parse(body), line.idempotency_key)
    storeOutcome.run('recorded', payment.id, line.bank_id)
  } catch (error) {
    if (!concernsLine(error)) throw error
    storeOutcome.run('rejected', error.message, line.bank_id)
  }
}

/** Whether the error concerns only this line. Any other error, such as a revoked key, ends the run. */
function concernsLine(error: unknown): error is Error {
  if (error instanceof Rejection) return [409, 422].includes(error.problem.status)
  return error instanceof UnusableLine
}

const [bankFile, books = 'books.db'] = process.argv.slice(2)
if (bankFile === undefined) throw new Error('Usage: node post-payments.ts statement.csv books.db')
const database = new DatabaseSync(books)
database.exec(SCHEMA)
storeLines(database, bankFile)
const unfinished = database.prepare('select * from bank_lines where outcome is null order by rowid')
const client = clientFromEnvironment()
for (const line of unfinished.all()) await post(client, database, line as Line)
for (const { bank_id, detail } of database
  .prepare("select bank_id, detail from bank_lines where outcome = 'rejected'")
  .all()) {
  console.log(`rejected: ${bank_id}: ${detail}`)
}
