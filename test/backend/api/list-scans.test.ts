// The number of rows that a list scans until its page is full must not grow with the account, even if the matches are
// far from the start of the list.
import t, { type Test } from 'tap'
import { encodeTime } from 'ulid'
import type { Reader } from '../../../backend/database/database.ts'
import type { InvoiceRow } from '../../../backend/database/tables.ts'
import { type InvoiceFilters, listInvoices } from '../../../backend/invoices/invoice-list.ts'
import type { KeysetPage } from '../../../backend/lists/keyset.ts'
import { openTestAccount, type TestAccount } from '../../fixtures/accounts/test-account.ts'

const TODAY = '2026-11-21'
const DAY_MS = 86_400_000

/** Returns the time a number of days before today. */
const daysAgo = (days: number) => new Date(Date.parse(TODAY) - days * DAY_MS).toISOString()

interface InvoiceGroup {
  readonly count: number
  /** The first and the last invoice are created this many days before today. Each is due 30 days after its creation. */
  readonly created: readonly [number, number]
}

type Read = (
  filters: InvoiceFilters,
  page: KeysetPage,
) => Promise<{ found: number; scanned: number }>

/**
 * Inserts invoices. Resolves with a function that reads a page. It resolves with the number of rows in the page, and
 * with the number of rows that were scanned.
 */
async function insertInvoices(
  account: TestAccount,
  groups: readonly InvoiceGroup[],
): Promise<Read> {
  const { accountId, backend, createInvoice } = account
  const { id } = await createInvoice()
  const { database } = backend
  const { read } = database
  const [original] = await read.selectFrom('invoices').selectAll().where('id', '=', id).execute()
  if (original === undefined) throw new Error('The invoice was not created')
  const rows = groups.flatMap(({ count, created: [first, last] }, group) =>
    Array.from({ length: count }, (_, index): InvoiceRow => {
      const days = first - ((first - last) * index) / count
      const at = daysAgo(days)
      return {
        ...original,
        id: `inv_${encodeTime(Date.parse(at))}${id.slice(-8)}${group}${String(index).padStart(7, '0')}`,
        number: `N-${group}-${index}`,
        external_id: null,
        issue_date: at.slice(0, 10),
        due_date: daysAgo(days - 30).slice(0, 10),
        created_at: at,
        updated_at: at,
      }
    }),
  )
  await database.transaction(async (tx) => {
    await tx.deleteFrom('invoices').where('id', '=', id).execute()
    for (let first = 0; first < rows.length; first += 200) {
      const batch = rows.slice(first, first + 200)
      await tx.insertInto('invoices').values(batch).execute()
    }
  })
  return async (filters, page) => {
    let scanned = 0
    const reader: Reader = {
      selectFrom: read.selectFrom.bind(read),
      fn: read.fn,
      dynamic: read.dynamic,
      getExecutor: () => read.getExecutor(),
      async executeQuery(query) {
        const { sql } = 'compile' in query ? query.compile() : query
        scanned += Number(/ offset (\d+)/.exec(sql)?.[1] ?? 0)
        return await read.executeQuery(query as never)
      },
    }
    const found = await listInvoices(reader, accountId, filters, TODAY, page)
    return { found: found.length, scanned }
  }
}

const pageOf = (sort: string, direction: KeysetPage['direction']): KeysetPage => ({
  ...{ sort, direction, rowsMax: 51, after: undefined },
})

const SIZES = [2500, 7000] as const
/** So many that counting them takes longer than a scan that begins at the first match. */
const MATCHES = 8000

interface Case {
  readonly filters: InvoiceFilters
  readonly page: KeysetPage
}

/** Checks that pages are full, and that the number of rows that they scan is the same in each of the accounts. */
async function compare(
  t: Test,
  accounts: readonly (readonly InvoiceGroup[])[],
  cases: readonly Case[],
) {
  const account = await openTestAccount(t)
  const reads: Read[] = []
  for (const groups of accounts) {
    reads.push(await insertInvoices(await account.otherAccount(), groups))
  }
  for (const { filters, page } of cases) {
    const [few, many] = await Promise.all(reads.map((read) => read(filters, page)))
    const name = JSON.stringify({ filters, page })
    t.equal(few?.found, page.rowsMax, name)
    t.strictSame(many, few, name)
  }
}

// Regression: these lists scanned all invoices that were not due yet.
t.test('a list of invoices that are past due skips those that are not due yet', async (t) => {
  const accounts = SIZES.map((count) => [
    { count: MATCHES, created: [70, 31] as const },
    { count, created: [29, 0] as const },
  ])
  await compare(t, accounts, [
    { filters: { due_before: TODAY }, page: pageOf('created_at', 'desc') },
    { filters: { due_before: TODAY, currency: 'EUR' }, page: pageOf('created_at', 'desc') },
    { filters: { overdue: true, currency: 'EUR' }, page: pageOf('created_at', 'desc') },
  ])
})

// Regression: this list scanned all invoices that were due before the first match.
t.test('a list of new invoices by due date skips those that are due earlier', async (t) => {
  const accounts = SIZES.map((count) => [
    { count, created: [400, 62] as const },
    { count: MATCHES, created: [60, 0] as const },
  ])
  const page = pageOf('due_date', 'asc')
  await compare(t, accounts, [{ filters: { created_since: daysAgo(60) }, page }])
})
