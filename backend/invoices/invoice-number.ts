/** Generates numbers for invoices that are created without one: `INV-000123`, counted per account. */
import type { Transaction } from '../database/database.ts'

/**
 * How many numbers the first query checks, and the maximum for later queries, each of which checks twice as many as the
 * one before. Many numbers may be in use, because clients can choose numbers themselves.
 */
const BATCH_MIN = 20
const BATCH_MAX = 2_000

/** Returns the next number that no invoice of the account has, and advances the account's counter past it. */
export async function generateInvoiceNumber(tx: Transaction, accountId: string): Promise<string> {
  const { next_invoice_number: first } = await tx
    .selectFrom('accounts')
    .select('next_invoice_number')
    .where('id', '=', accountId)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
  let size = BATCH_MIN
  for (let start = first; ; start += size, size = Math.min(2 * size, BATCH_MAX)) {
    const candidates = Array.from({ length: size }, (_, index) => start + index)
    const used = await findUsedNumbers(tx, accountId, candidates.map(formatNumber))
    const free = candidates.find((candidate) => !used.has(formatNumber(candidate)))
    if (free === undefined) continue
    await tx
      .updateTable('accounts')
      .set({ next_invoice_number: free + 1 })
      .where('id', '=', accountId)
      .execute()
    return formatNumber(free)
  }
}

function formatNumber(number: number): string {
  return `INV-${String(number).padStart(6, '0')}`
}

async function findUsedNumbers(
  tx: Transaction,
  accountId: string,
  numbers: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await tx
    .selectFrom('invoices')
    .select('number')
    .where('account_id', '=', accountId)
    .where('number', 'in', numbers)
    .execute()
  return new Set(rows.map(({ number }) => number))
}
