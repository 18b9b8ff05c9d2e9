/**
 * Recomputes the derived data of changed debtors: balances, standings (the values by which directory.ts sorts and
 * filters), search terms, and the account's totals by due date. Database triggers log which debtors changed (migration
 * 0021), and a worker processes this log every few seconds. Before a page shows totals, the request for the page
 * processes a batch of the account's logged changes, so that the totals usually include the user's last change.
 */
import { type SqlBool, sql } from 'kysely'
import type { Logger } from '../../shared/process/log.ts'
import { startWorker, type Worker } from '../background/worker.ts'
import { capped, cappedSum } from '../database/capped-sum.ts'
import type { Database, Reader, Transaction } from '../database/database.ts'
import { isPostgres } from '../database/engine.ts'
import { UNFOLDED_TERM } from '../database/migrations/0045-unfolded-search-terms.ts'
import type { DebtorDueRow } from '../database/tables.ts'
import { writeInParts } from '../database/write-in-parts.ts'
import { INVOICE_IS_OPEN } from './balances.ts'
import { searchTermsOf } from './search-terms.ts'

/** How many debtors one transaction processes. A payment may have to wait until such a transaction ends. */
const BATCH_MAX = 100

/** How many logged changes one transaction reads. Many of them may concern the same debtor. */
const CHANGES_MAX = 5000

/**
 * A debtor that changes several times within this interval is usually recomputed only once. Recomputing a debtor takes
 * a tenth of the CPU time of recording a payment. Notifying the worker of each change would cost more than polling.
 */
const EVERY_MS = 5000

/**
 * The key of the advisory lock that prevents two transactions from recomputing the same debtor at the same time. On
 * SQLite, transactions run one after the other, and need no lock.
 */
const LEDGER_LOCK = 718_002

export interface LedgerTotalsOptions {
  readonly database: Database
  readonly log: Logger
}

export function startLedgerTotals({ database, log }: LedgerTotalsOptions): Worker {
  return startWorker({
    name: 'computing ledger totals',
    everyMs: EVERY_MS,
    log,
    database,
    async round(signal) {
      await logDebtorsWithUnfoldedTerms(database)
      while (!signal.aborted && (await hasChanges(database.read))) {
        await database.transaction((tx) => updateBatch(tx))
      }
      return undefined
    },
  })
}

/** Processes at most one batch of the account's logged changes. */
export async function updateAccountTotals(database: Database, accountId: string): Promise<void> {
  if (!(await hasChanges(database.read, accountId))) return
  await database.transaction((tx) => updateBatch(tx, accountId))
}

/** Processes all logged changes. Only tests, and benchmarks that fill a database, use this. */
export async function updateAllTotals(database: Database): Promise<void> {
  await logDebtorsWithUnfoldedTerms(database)
  while (await hasChanges(database.read)) await database.transaction((tx) => updateBatch(tx))
}

/**
 * Logs a change of each debtor whose search terms were computed by a backend of an older version (see migration 0045),
 * so that this version computes these terms again.
 */
async function logDebtorsWithUnfoldedTerms(database: Database): Promise<void> {
  const rows = await selectDebtorsWithUnfoldedTerms(database.read).execute()
  if (rows.length === 0) return
  const byId = new Map(rows.map((row) => [row.debtor_id, row]))
  await database.transaction((tx) =>
    writeInParts([...byId.values()], (part) =>
      tx.insertInto('ledger_changes').values(part).execute(),
    ),
  )
}

/**
 * Selects a row for each search term that only older versions store, up to `CHANGES_MAX` rows. The order makes
 * PostgreSQL use the index that contains only these terms.
 */
export function selectDebtorsWithUnfoldedTerms(reader: Reader) {
  return reader
    .selectFrom('debtor_terms')
    .select(['account_id', 'debtor_id'])
    .where(sql<SqlBool>`${sql.raw(UNFOLDED_TERM)}`)
    .orderBy('debtor_id')
    .limit(CHANGES_MAX)
}

async function hasChanges(reader: Reader, accountId?: string): Promise<boolean> {
  const row = await selectChanges(reader, accountId).select('id').limit(1).executeTakeFirst()
  return row !== undefined
}

function selectChanges(reader: Reader, accountId: string | undefined) {
  const all = reader.selectFrom('ledger_changes')
  return accountId === undefined ? all : all.where('account_id', '=', accountId)
}

async function updateBatch(tx: Transaction, accountId?: string): Promise<void> {
  if (isPostgres(tx)) {
    await sql`select pg_advisory_xact_lock(${sql.lit(LEDGER_LOCK)})`.execute(tx)
  }
  const debtorIds = await takeChangedDebtors(tx, accountId)
  if (debtorIds.length === 0) return
  const after = await sumInvoices(tx, debtorIds)
  const before = await tx
    .selectFrom('debtor_dues')
    .selectAll()
    .where('debtor_id', 'in', debtorIds)
    .execute()
  await addToTotals(tx, differenceOf(before, after))
  await replaceDues(tx, debtorIds, after)
  await replaceTerms(tx, debtorIds)
}

/**
 * Removes logged changes and returns their debtors. Callers must call this before they read invoices, so that they read
 * the effects of all removed changes.
 */
async function takeChangedDebtors(
  tx: Transaction,
  accountId: string | undefined,
): Promise<string[]> {
  const oldest = selectChanges(tx, accountId)
    .select(['id', 'debtor_id'])
    .orderBy('id')
    .limit(CHANGES_MAX)
  const rows = await tx
    .selectFrom(oldest.as('oldest'))
    .select('debtor_id')
    .groupBy('debtor_id')
    .orderBy((eb) => eb.fn.min('id'))
    .limit(BATCH_MAX)
    .execute()
  const debtorIds = rows.map(({ debtor_id }) => debtor_id)
  if (debtorIds.length === 0) return []
  await tx
    .deleteFrom('ledger_changes')
    .where('debtor_id', 'in', debtorIds)
    .where('id', '<=', (eb) =>
      eb.selectFrom(oldest.as('oldest')).select((each) => each.fn.max('id').as('last')),
    )
    .execute()
  return debtorIds
}

/** Sums the invoices themselves, instead of updating the stored sums, in which an error would persist. */
async function sumInvoices(tx: Transaction, debtorIds: readonly string[]): Promise<DebtorDueRow[]> {
  const rows = await tx
    .selectFrom('debtors')
    .innerJoin('invoices', 'invoices.debtor_id', 'debtors.id')
    .where('debtors.id', 'in', debtorIds)
    .where(INVOICE_IS_OPEN)
    .groupBy(['debtors.id', 'debtors.account_id', 'invoices.currency', 'invoices.due_date'])
    .select((eb) => [
      'debtors.id as debtor_id',
      'debtors.account_id',
      'invoices.currency',
      'invoices.due_date',
      cappedSum('invoices.amount_due').as('amount'),
      eb.fn.countAll<number | string>().as('invoices'),
    ])
    .execute()
  return rows.map((row) => ({ ...row, invoices: Number(row.invoices) }))
}

/**
 * The change of one total of an account. `amount` is a `bigint`, because the sum of the amounts of several debtors may
 * exceed what a number represents exactly.
 */
type TotalChange = Omit<DebtorDueRow, 'debtor_id' | 'amount'> & { amount: bigint }

function differenceOf(
  before: readonly DebtorDueRow[],
  after: readonly DebtorDueRow[],
): TotalChange[] {
  const sums = new Map<string, TotalChange>()
  const add = ({ debtor_id: _, ...due }: DebtorDueRow, sign: 1 | -1) => {
    const key = [due.account_id, due.currency, due.due_date].join(' ')
    const sum = sums.get(key) ?? { ...due, amount: 0n, invoices: 0 }
    sum.amount += BigInt(sign * due.amount)
    sum.invoices += sign * Number(due.invoices)
    sums.set(key, sum)
  }
  for (const due of before) add(due, -1)
  for (const due of after) add(due, 1)
  return [...sums.values()].filter(({ amount, invoices }) => amount !== 0n || invoices !== 0)
}

async function addToTotals(tx: Transaction, changes: readonly TotalChange[]): Promise<void> {
  if (changes.length === 0) return
  const rows = changes.map(({ amount, ...change }) => ({
    ...change,
    amount: sql<number>`cast(${String(amount)} as bigint)`,
  }))
  await writeInParts(rows, (part) =>
    tx
      .insertInto('due_totals')
      .values(part)
      .onConflict((conflict) =>
        conflict.columns(['account_id', 'currency', 'due_date']).doUpdateSet({
          amount: sql`due_totals.amount + excluded.amount`,
          invoices: sql`due_totals.invoices + excluded.invoices`,
        }),
      )
      .execute(),
  )
  const accountIds = [...new Set(changes.map(({ account_id }) => account_id))]
  await tx
    .deleteFrom('due_totals')
    .where('account_id', 'in', accountIds)
    .where('invoices', '=', 0)
    .execute()
}

/** Writes the debtors' sums for each due date, their balances and their standings, instead of the previous ones. */
async function replaceDues(
  tx: Transaction,
  debtorIds: readonly string[],
  dues: readonly DebtorDueRow[],
): Promise<void> {
  for (const table of ['debtor_dues', 'debtor_balances', 'debtor_standings'] as const) {
    await tx.deleteFrom(table).where('debtor_id', 'in', debtorIds).execute()
  }
  if (dues.length === 0) return
  await writeInParts(dues, (part) => tx.insertInto('debtor_dues').values(part).execute())
  const byBalance = Map.groupBy(dues, ({ debtor_id, currency }) => `${debtor_id} ${currency}`)
  const balances = [...byBalance.values()].flatMap(([first, ...others]) => {
    if (first === undefined) return []
    const { debtor_id, currency, account_id } = first
    const outstanding = capped(others.reduce((sum, { amount }) => sum + amount, first.amount))
    return [{ debtor_id, currency, account_id, outstanding }]
  })
  await writeInParts(balances, (part) => tx.insertInto('debtor_balances').values(part).execute())
  await insertStandings(tx, dues)
}

async function insertStandings(tx: Transaction, dues: readonly DebtorDueRow[]): Promise<void> {
  const byDebtor = Map.groupBy(dues, ({ debtor_id }) => debtor_id)
  const debtors = await tx
    .selectFrom('debtors')
    .select(['id', 'account_id', 'status', 'contactability_email'])
    .where('id', 'in', [...byDebtor.keys()])
    .execute()
  const rows = debtors.map((debtor) => ({
    debtor_id: debtor.id,
    account_id: debtor.account_id,
    oldest_due_date: (byDebtor.get(debtor.id) ?? []).reduce(
      (oldest, { due_date }) => (due_date < oldest ? due_date : oldest),
      '9999-12-31',
    ),
    is_active: debtor.status === 'active' ? (1 as const) : (0 as const),
    is_reachable: debtor.contactability_email === 'ok' ? (1 as const) : (0 as const),
  }))
  await tx.insertInto('debtor_standings').values(rows).execute()
}

/** Writes only terms that have changed: most logged changes concern invoices, and change no terms. */
async function replaceTerms(tx: Transaction, debtorIds: readonly string[]): Promise<void> {
  const [debtors, stored] = [
    await tx.selectFrom('debtors').selectAll().where('id', 'in', debtorIds).execute(),
    await tx
      .selectFrom('debtor_terms')
      .select(['debtor_id', 'term'])
      .where('debtor_id', 'in', debtorIds)
      .execute(),
  ]
  const storedByDebtor = Map.groupBy(stored, ({ debtor_id }) => debtor_id)
  const changed = debtors.flatMap((row) => {
    const terms = searchTermsOf(row).sort()
    const before = (storedByDebtor.get(row.id) ?? []).map(({ term }) => term).sort()
    return terms.join(' ') === before.join(' ') ? [] : [{ row, terms }]
  })
  if (changed.length === 0) return
  const ids = changed.map(({ row }) => row.id)
  await tx.deleteFrom('debtor_terms').where('debtor_id', 'in', ids).execute()
  const termRows = changed.flatMap(({ row, terms }) =>
    terms.map((term) => ({ debtor_id: row.id, term, account_id: row.account_id })),
  )
  if (termRows.length > 0) await tx.insertInto('debtor_terms').values(termRows).execute()
}
