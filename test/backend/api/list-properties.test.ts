// A page of a list equals the page of a plain filter and sort, for any filters, sort and cursor, in an account that is
// so large that the backend scans the list in portions.
import t, { type Test } from 'tap'
import { encodeTime } from 'ulid'
import type { InvoiceRow } from '../../../backend/database/tables.ts'
import { type InvoiceFilters, listInvoices } from '../../../backend/invoices/invoice-list.ts'
import type { KeysetPage } from '../../../backend/lists/keyset.ts'
import { openTestAccount } from '../../fixtures/accounts/test-account.ts'
import { fc, SEED } from '../../fixtures/properties.ts'

const INVOICES = 14_000
const RUNS = 300
const TODAY = '2026-11-21'
const SORTS = ['created_at', 'updated_at', 'due_date'] as const

/** Returns pseudo-random integers that are at least 0 and less than `max`. */
function randomNumbers(seed: number): (max: number) => number {
  let state = seed
  return (max) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * max)
  }
}

/** The invoices are created over three months. */
const timeAt = (halfHour: number) => new Date(Date.UTC(2026, 0, 1, 0, 30 * halfHour)).toISOString()
const dateAt = (day: number) => new Date(Date.UTC(2026, 9, 1 + day)).toISOString().slice(0, 10)

/** Inserts invoices: several have the same time, most are paid, and few have a rare status or currency. */
async function openInvoices(t: Test) {
  const { accountId, backend, createInvoice } = await openTestAccount(t)
  const { id } = await createInvoice()
  const { database } = backend
  const { read } = database
  const [original] = await read.selectFrom('invoices').selectAll().where('id', '=', id).execute()
  if (original === undefined) throw new Error('The invoice was not created')
  const random = randomNumbers(SEED)
  const rows = Array.from({ length: INVOICES }, (_, index): InvoiceRow => {
    const halfHour = Math.floor(index / 3)
    const status = (['open', 'partially_paid', 'void'] as const)[random(40)] ?? 'paid'
    const amount_due = status === 'paid' ? 0 : original.amount
    // An id is created later than the time of its request.
    const idAt = Date.parse(timeAt(halfHour)) + random(3_600_000)
    return {
      ...original,
      id: `inv_${encodeTime(idAt)}${String(random(2 ** 31)).padStart(10, '0')}${String(index).padStart(6, '0')}`,
      number: `N-${index}`,
      external_id: null,
      status,
      amount_due,
      amount_paid: original.amount - amount_due,
      issue_date: '2026-01-01',
      currency: ['USD', 'GBP'][random(500)] ?? 'EUR',
      created_at: timeAt(halfHour),
      updated_at: timeAt(halfHour + random(3) * random(INVOICES / 2)),
      due_date: dateAt(Math.floor(halfHour / 50) + random(20)),
      overdue_announced: 0,
    }
  })
  await database.transaction(async (tx) => {
    await tx.deleteFrom('invoices').where('id', '=', id).execute()
    for (let first = 0; first < rows.length; first += 200) {
      await tx
        .insertInto('invoices')
        .values(rows.slice(first, first + 200))
        .execute()
    }
  })
  return { accountId, read, rows }
}

const arbitraryTime = fc.nat({ max: INVOICES / 2 }).map(timeAt)
const arbitraryDate = fc.nat({ max: 120 }).map(dateAt)
const status = fc.constantFrom('open', 'partially_paid', 'paid', 'void', 'written_off')
const arbitraryFilters = fc.record({
  created_since: arbitraryTime,
  created_before: arbitraryTime,
  updated_since: arbitraryTime,
  updated_before: arbitraryTime,
  due_since: arbitraryDate,
  due_before: arbitraryDate,
  status: fc.uniqueArray(status, { minLength: 1, maxLength: 3 }),
  currency: fc.constantFrom('EUR', 'USD', 'GBP', 'CHF'),
  overdue: fc.boolean(),
})
const arbitraryPage = fc.record({
  sort: fc.constantFrom(...SORTS),
  direction: fc.constantFrom('asc' as const, 'desc' as const),
  rowsMax: fc.integer({ min: 1, max: 51 }),
})

const FILTER_NAMES = [
  'created_since',
  'created_before',
  'updated_since',
  'updated_before',
  'due_since',
  'due_before',
  'status',
  'currency',
  'overdue',
] as const

const anyQuery = fc.record({
  filters: arbitraryFilters,
  /** With few filters, more queries have matches. */
  used: fc.uniqueArray(fc.constantFrom(...FILTER_NAMES), { minLength: 1, maxLength: 3 }),
  page: arbitraryPage,
  /** How many matches precede the page, as a fraction of all matches. */
  position: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1, noNaN: true })),
})

/** Queries whose first match is often far from the start of the list. */
const distantQuery = fc
  .record({
    query: anyQuery,
    change: fc.constantFrom(
      { used: ['due_before' as const], sort: 'created_at' as const, direction: 'desc' as const },
      { used: ['created_since' as const], sort: 'due_date' as const, direction: 'asc' as const },
    ),
  })
  .map(({ query, change: { used, ...order } }) => ({
    ...query,
    used,
    page: { ...query.page, ...order },
    position: 0,
  }))

function matching(rows: readonly InvoiceRow[], filters: InvoiceFilters): readonly InvoiceRow[] {
  const { status, currency, overdue, ...times } = filters
  const isOverdue = (row: InvoiceRow) =>
    ['open', 'partially_paid'].includes(row.status) && row.due_date < TODAY
  const isWithin = (value: string, since = '', before = '~') => since <= value && value < before
  return rows.filter(
    (row) =>
      (status === undefined || status.includes(row.status)) &&
      (currency === undefined || currency === row.currency) &&
      (overdue === undefined || overdue === isOverdue(row)) &&
      isWithin(row.created_at, times.created_since, times.created_before) &&
      isWithin(row.updated_at, times.updated_since, times.updated_before) &&
      isWithin(row.due_date, times.due_since, times.due_before),
  )
}

t.test('a page has the same rows as a plain filter and sort', async (t) => {
  const { accountId, read, rows } = await openInvoices(t)
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(anyQuery, distantQuery),
      async ({ filters: all, used, page, position }) => {
        const filters = Object.fromEntries(used.map((name) => [name, all[name]])) as InvoiceFilters
        const { sort, direction, rowsMax } = page
        const keyOf = (row: InvoiceRow) => `${row[sort]} ${row.id}`
        const sorted = matching(rows, filters).toSorted((one, other) =>
          keyOf(one) < keyOf(other) ? -1 : 1,
        )
        if (direction === 'desc') sorted.reverse()
        const skipped = Math.floor(position * sorted.length)
        const last = sorted[skipped - 1]
        const after = last && { value: last[sort], id: last.id }
        const found = await listInvoices(read, accountId, filters, TODAY, {
          ...page,
          after,
        } as KeysetPage)
        const expected = sorted.slice(skipped, skipped + rowsMax)
        t.strictSame(
          found.map(({ id }) => id),
          expected.map(({ id }) => id),
          JSON.stringify({ filters, page, after }),
        )
      },
    ),
    { numRuns: RUNS, endOnFailure: true },
  )
})
