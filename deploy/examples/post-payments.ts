/**
 * Records the payments of a bank file, each once:
 *
 *   node post-payments.ts statement.csv books.db
 *
 * The file has a line for each payment: the bank's id of it, the day, the amount with a decimal point, the
 * currency and the number of the invoice, separated by semicolons, under a line of names. The same file,
 * or one that overlaps it, may be given again. Killed at any moment, the next run goes on: each line's
 * body is kept, with its Idempotency-Key, before it is first sent, and what is sent again is the same.
 */
import { readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { type Client, clientOfEnvironment, Refusal } from './client.ts'
import type { Invoice, InvoiceList, Payment, PaymentCreate } from './receivables-api.ts'

const SCHEMA = `create table if not exists bank_lines (
  bank_id text primary key,
  booked_on text not null,
  amount text not null,
  currency text not null,
  invoice_number text not null,
  idempotency_key text not null unique,
  body text,        -- what is sent; null until the invoice was found
  outcome text,     -- recorded, refused; null while it is not known
  detail text       -- the payment's id, or why it was refused
) strict`

type Line = Readonly<Record<'bank_id' | 'booked_on' | 'amount' | 'currency', string>> &
  Readonly<Record<'invoice_number' | 'idempotency_key', string>> & { readonly body: string | null }

/** A person must correct the line. */
class Unusable extends Error {}

/** Lines that are there already stay as they are. */
function takeLines(database: DatabaseSync, file: string): void {
  const insert = database.prepare(`insert or ignore into bank_lines
    (bank_id, booked_on, amount, currency, invoice_number, idempotency_key)
    values (?, ?, ?, ?, ?, ?)`)
  const [, ...lines] = readFileSync(file, 'utf8').split(/\r?\n/)
  database.exec('begin')
  for (const line of lines.filter((it) => it !== '')) {
    const fields = line.split(';').map((field) => field.trim())
    const [bankId, bookedOn, amount, currency, number] = fields
    if (!bankId || !bookedOn || !amount || !currency || !number)
      throw new Error(`Not a payment: ${line}`)
    insert.run(bankId, bookedOn, amount, currency, number, `bank-${bankId}`)
  }
  database.exec('commit')
}

async function bodyOf(client: Client, line: Line): Promise<PaymentCreate> {
  const query = new URLSearchParams({ number: line.invoice_number })
  const { data } = await client.get<InvoiceList>(`/invoices?${query}`)
  const [invoice] = data
  if (invoice === undefined) throw new Unusable(`there is no invoice ${line.invoice_number}`)
  return {
    invoice_id: invoice.id,
    currency: line.currency,
    amount: minorUnits(line.amount, invoice),
    received_on: line.booked_on,
    method: 'bank_transfer',
    // A second net: a payment of this id is recorded once, whatever its Idempotency-Key.
    external_id: line.bank_id,
  }
}

/** `125.5` of a currency with two decimals is 12550. By digits: 1.005 × 100 is not 100.5 for a computer. */
function minorUnits(amount: string, { currency, currency_exponent: decimals }: Invoice): number {
  const [, whole = '', fraction = ''] = /^(\d+)(?:\.(\d+))?$/.exec(amount) ?? []
  if (whole === '' || fraction.length > decimals)
    throw new Unusable(`${amount} is no ${currency} amount`)
  return Number(whole + fraction.padEnd(decimals, '0'))
}

async function post(client: Client, database: DatabaseSync, line: Line): Promise<void> {
  const settle = database.prepare('update bank_lines set outcome = ?, detail = ? where bank_id = ?')
  const keep = database.prepare('update bank_lines set body = ? where bank_id = ?')
  try {
    const body = line.body ?? JSON.stringify(await bodyOf(client, line))
    keep.run(body, line.bank_id)
    const payment = await client.post<Payment>('/payments', JSON.parse(body), line.idempotency_key)
    settle.run('recorded', payment.id, line.bank_id)
  } catch (error) {
    if (!isOfLine(error)) throw error
    settle.run('refused', error.message, line.bank_id)
  }
}

/** Else it is of all lines, such as a revoked key, and ends the run. */
function isOfLine(error: unknown): error is Error {
  if (error instanceof Refusal) return [409, 422].includes(error.problem.status)
  return error instanceof Unusable
}

const [statement, file = 'books.db'] = process.argv.slice(2)
if (statement === undefined) throw new Error('Usage: node post-payments.ts statement.csv books.db')
const database = new DatabaseSync(file)
database.exec(SCHEMA)
takeLines(database, statement)
const open = database.prepare('select * from bank_lines where outcome is null order by rowid')
const client = clientOfEnvironment()
for (const line of open.all()) await post(client, database, line as Line)
for (const { bank_id, detail } of database
  .prepare("select bank_id, detail from bank_lines where outcome = 'refused'")
  .all()) {
  console.log(`refused: ${bank_id}: ${detail}`)
}
