/**
 * Finds where the scan of a list of invoices can continue if its first rows did not fill the page. The list is filtered
 * by due date and sorted by time of creation, or filtered by time of creation and sorted by due date. For example, a
 * list of the invoices that are past due, newest first, would otherwise scan all invoices of the last weeks, although
 * most of these are not due yet.
 *
 * The time in an id is not earlier than the invoice's `created_at`, unless the clock is set back between the reading of
 * `created_at` and the creation of the id; `CLOCK_MARGIN_MS` allows for this. The time can be much later: after the
 * clock was set back, new ids continue from the last id.
 *
 * The index by due date sorts the invoices of one due date by id. A search therefore reads about one entry for each due
 * date: `readLatest` reads the last entry, and `readFirstDueDate` the first entry whose id is not below a given id.
 *
 * No rows are passed over in these lists: those that begin with the oldest invoice or the latest due date, and those by
 * due date whose only filter by time of creation is `created_before`.
 */
import { type RawBuilder, sql } from 'kysely'
import { lowestIdSince, timeOfId } from '../../shared/contract/id.ts'
import type { Reader } from '../database/database.ts'
import { prepared } from '../database/prepared.ts'
import { type AnyTimeFilters, CLOCK_MARGIN_MS, type KeysetPage, type Position } from './keyset.ts'

/** The maximum number of entries that are read: one for each due date in five years. This takes some milliseconds. */
const ENTRIES_MAX = 2000

/** Lower than each date and id. */
const LOWEST = ''
/** Higher than each date and id. */
const HIGHEST = '~'

interface Filters extends AnyTimeFilters {
  readonly accountId: string
}

/**
 * Resolves with a position in the list after `scannedUntil` such that no match lies between the two; with undefined if
 * no such position is known.
 */
export async function findPositionBeforeMatchingInvoices(
  reader: Reader,
  filters: Filters,
  { sort, direction }: Pick<KeysetPage, 'sort' | 'direction'>,
  scannedUntil: Position,
): Promise<Position | undefined> {
  const { created_since, due_since, due_before } = filters
  if (sort === 'due_date' && direction === 'asc' && created_since !== undefined) {
    const dueDate = await findDueDate(reader, filters, created_since, scannedUntil.value)
    return dueDate > scannedUntil.value ? { value: dueDate, id: LOWEST } : undefined
  }
  const isFilteredByDueDate = due_since !== undefined || due_before !== undefined
  if (sort === 'created_at' && direction === 'desc' && isFilteredByDueDate) {
    const createdBefore = await findTimeAfterCreations(reader, filters)
    return createdBefore < scannedUntil.value ? { value: createdBefore, id: LOWEST } : undefined
  }
  return undefined
}

/**
 * Resolves with a due date. All invoices that are due from `dueSince` to the day before that date were created before
 * `createdSince`. Resolves with `LOWEST` if no such date was found.
 */
async function findDueDate(
  reader: Reader,
  { accountId }: Filters,
  createdSince: string,
  dueSince: string,
): Promise<string> {
  const idSince = lowestIdSince('inv', new Date(Date.parse(createdSince) - CLOCK_MARGIN_MS))
  const [first] = await readFirstDueDate(reader, { accountId, dueSince, idSince })
  return first?.due_date ?? LOWEST
}

/**
 * Resolves with a time. All invoices whose due date matches the filters were created before this time. Resolves with
 * `HIGHEST` if no such time was found.
 */
async function findTimeAfterCreations(reader: Reader, filters: Filters): Promise<string> {
  const { accountId, due_since = LOWEST, due_before = HIGHEST } = filters
  const [latest] = await readLatest(reader, { accountId, due_since, due_before })
  if (!latest?.id || latest.steps === ENTRIES_MAX) return HIGHEST
  return new Date(timeOfId(latest.id).getTime() + CLOCK_MARGIN_MS).toISOString()
}

interface CreatedValues {
  readonly accountId: string
  readonly dueSince: string
  readonly idSince: string
}

/**
 * Searches from `dueSince` on for the first due date that has an invoice with `idSince` or a higher id. Each step tries
 * one due date, and reads the first entry at or after (due date, `idSince`). If the id in this entry is lower than
 * `idSince`, the entry belongs to a later due date, and the next step tries that date. After `ENTRIES_MAX` entries, the
 * search resolves with the due date that it has reached: no earlier date has such an invoice.
 */
const readFirstDueDate = prepared((reader: Reader, values: CreatedValues) => {
  const { accountId, dueSince, idSince } = values
  const entryFrom = (dueDate: RawBuilder<unknown>) => sql`from invoices
    where account_id = ${accountId} and (due_date, id) >= (${dueDate}, ${idSince})
    order by due_date, id limit 1`
  const next = entryFrom(sql`entries.due_date`)
  const entries = sql<{ due_date: string | null }>`(
    with recursive entries (due_date, id, step) as (
      select * from (select due_date, id, 1 ${entryFrom(sql`${dueSince}`)}) as first_entry
      union all
      select (select due_date ${next}), (select id ${next}), step + 1
      from entries where id < ${idSince} and step < ${sql.lit(ENTRIES_MAX)}
    )
    select due_date from entries order by step desc limit 1
  )`
  return reader.selectFrom(entries.as('last')).select('due_date')
})

interface LatestValues {
  readonly accountId: string
  readonly due_since: string
  readonly due_before: string
}

/**
 * Reads the last entry of each due date, beginning with the latest due date. Resolves with the highest id and the
 * number of steps, which is `ENTRIES_MAX` if there may be more entries.
 */
const readLatest = prepared((reader: Reader, values: LatestValues) => {
  const { accountId, due_since, due_before } = values
  const entryBefore = (dueDate: RawBuilder<unknown>) => sql`from invoices
    where account_id = ${accountId} and due_date >= ${due_since} and due_date < ${dueDate}
    order by due_date desc, id desc limit 1`
  const next = entryBefore(sql`entries.due_date`)
  const latest = sql<{ id: string | null; steps: number | null }>`(
    with recursive entries (due_date, id, step) as (
      select * from (select due_date, id, 1 ${entryBefore(sql`${due_before}`)}) as first_entry
      union all
      select (select due_date ${next}), (select id ${next}), step + 1
      from entries where id is not null and step < ${sql.lit(ENTRIES_MAX)}
    )
    select max(id) as id, max(step) as steps from entries
  )`
  return reader.selectFrom(latest.as('latest')).select(['id', 'steps'])
})
