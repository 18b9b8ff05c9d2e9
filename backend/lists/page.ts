/**
 * Reads a page of a list. A list may be filtered by one time and sorted by another, e.g. the invoices that were
 * updated since yesterday, sorted by creation. In a large account, sorting all matching rows would take seconds.
 * Scanning the list in its order would also take seconds if the first match is far from the start.
 *
 * `readPage` therefore scans only the next `SCAN_MAX` rows, which takes some milliseconds and usually fills the page.
 * If the scan does not fill the page, `readPage` sorts all matching rows, because a page of the API contains as many
 * rows as requested, except at the end of a list and if its rows are very large. The following pages are usually fast
 * again, because each begins after a match.
 */
import { sql } from 'kysely'
import type { Reader } from '../database/database.ts'
import { preparedPage } from '../database/prepared.ts'
import {
  type DueTimeFilters,
  isAnyDefined,
  joinPage,
  orderOf,
  type Page,
  type PageBounds,
  type PageForm,
  type Position,
  splitPage,
  timeRangesOf,
  withinBounds,
  withinSorted,
} from './keyset.ts'
import { SCAN_MAX } from './scan.ts'

interface List<V> {
  readonly table: 'debtors' | 'invoices' | 'payments' | 'messages'
  /** The values of the statement's parameters, including the times by which the list is filtered. */
  readonly values: V
  /** Values of filters that match few rows, such as a debtor. If one is defined, its index makes a scan needless. */
  readonly narrowFilters: readonly unknown[]
}

/** `read` returns up to `form.fetch` rows, in the order of `form` and within the bounds that `values` contains. */
export async function readPage<V extends DueTimeFilters & { readonly accountId: string }, Row>(
  reader: Reader,
  { table, values, narrowFilters }: List<V>,
  page: Page,
  read: (values: V & PageBounds, form: PageForm) => Promise<Row[]>,
): Promise<Row[]> {
  const { form, bounds } = splitPage(page)
  const readUsingAnyIndex = async () => await read({ ...values, ...bounds }, form)
  const ranges = timeRangesOf(values)
  if (isAnyDefined(...narrowFilters) || ranges.every(([column]) => column === page.sort)) {
    return await readUsingAnyIndex()
  }
  const [, since, before] = ranges.find(([column]) => column === page.sort) ?? []
  const scan = {
    ...bounds,
    accountId: values.accountId,
    ...(since !== undefined && { since }),
    ...(before !== undefined && { before }),
  }
  const [end] = await readScanEnd(reader, scan, { ...form, table })
  const scanned = splitPage({ ...page, ...(end && { end }) })
  const scanForm: PageForm = { ...scanned.form, ignoresTimeIndexes: true }
  const rows = await read({ ...values, ...scanned.bounds }, scanForm)
  return end === undefined || rows.length === page.fetch ? rows : await readUsingAnyIndex()
}

type ScanValues = PageBounds & {
  readonly accountId: string
  readonly since?: string
  readonly before?: string
}

/** Returns the position of the last row of the scan, or no row if fewer than `SCAN_MAX` rows remain in the list. */
const readScanEnd = preparedPage(
  (reader: Reader, values: ScanValues, form: PageForm & Pick<List<unknown>, 'table'>) => {
    const page = joinPage(form, values)
    return reader
      .selectFrom(form.table)
      .select([sql<string>`${sql.ref(page.sort)}`.as('value'), 'id'])
      .where((eb) =>
        eb.and([
          eb('account_id', '=', values.accountId),
          ...withinSorted(page, values.since, values.before),
          ...withinBounds(page),
        ]),
      )
      .orderBy(orderOf(page))
      .limit(sql.lit(1))
      .offset(sql.lit(SCAN_MAX - 1))
      .$castTo<Position>()
  },
)
