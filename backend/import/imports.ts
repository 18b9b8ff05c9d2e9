/**
 * Stores imports, and which records each import created or corrected. Created records can be taken back; corrections
 * cannot.
 */
import { type ActionContext, listActionsOn, recordAudit } from '../accounts/audit.ts'
import type { ImportRecordRow, ImportRow, Reader, Transaction } from '../database/tables.ts'

/** The kind of a record that the import created, or `correction` for an existing record that the import corrected. */
export type ImportRecordKind = ImportRecordRow['kind']

/** How many records an import will create and, in `corrections`, how many existing records it will change. */
export interface RemainingRecords {
  readonly customers: number
  readonly invoices: number
  readonly payments: number
  readonly corrections: number
}

/**
 * Stores the import unless it exists already: each request of an import may be the first one that arrives. Also writes
 * an audit entry with the file and the counts in `remaining`, unless earlier entries already count these records.
 */
export async function startImport(
  tx: Transaction,
  { id, accountId, fileName }: { id: string; accountId: string; fileName: string },
  remaining: RemainingRecords,
  actionContext: ActionContext,
): Promise<void> {
  const { actor, now } = actionContext
  const row = { account_id: accountId, file_name: fileName, imported_by: actor.label }
  // On PostgreSQL, a concurrent first request waits here until this transaction has written its entry.
  await tx
    .insertInto('imports')
    .values({ id, ...row, created_at: now.toISOString() })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute()
  const detail = { file: fileName, ...remaining }
  const entry = { accountId, action: 'ledger.imported', subjectId: id, detail } as const
  if (!(await isContinued(tx, entry, actionContext))) await recordAudit(tx, actionContext, entry)
}

interface ImportEntry {
  readonly accountId: string
  readonly action: 'ledger.imported'
  readonly subjectId: string
  readonly detail: RemainingRecords & { readonly file: string }
}

/**
 * Whether the entries of the import already count the records that remain. This is the case if the last entry has the
 * same actor and file, and if the stored and the remaining records together are at most as many as the entries count.
 * Scripts choose the id of an import, and could use it again for another file.
 */
async function isContinued(
  tx: Transaction,
  { accountId, action, subjectId, detail }: ImportEntry,
  { actor }: ActionContext,
): Promise<boolean> {
  const entries = await listActionsOn(tx, accountId, subjectId, { action, limit: ENTRIES_MAX })
  const [last] = entries
  if (last === undefined || last.actor_type !== actor.type || last.actor_id !== actor.id) {
    return false
  }
  const details: ImportEntry['detail'][] = entries.map((entry) => JSON.parse(entry.detail))
  if (details[0]?.file !== detail.file) return false
  const { count: recorded } = await tx
    .selectFrom('import_records')
    .select((eb) => eb.fn.countAll<number | string>().as('count'))
    .where('import_id', '=', subjectId)
    .executeTakeFirstOrThrow()
  const planned = details.reduce((sum, counts) => sum + totalOf(counts), 0)
  return Number(recorded) + totalOf(detail) <= planned
}

/** Only the newest entries are read. If an import has more, a request that continues it may write another entry. */
const ENTRIES_MAX = 100

function totalOf({ customers, invoices, payments, corrections }: RemainingRecords): number {
  return customers + invoices + payments + corrections
}

/** A record that is corrected twice is stored once. */
export async function storeImportedRecords(
  tx: Transaction,
  { importId, accountId }: { readonly importId: string; readonly accountId: string },
  records: readonly { readonly id: string; readonly kind: ImportRecordKind }[],
): Promise<void> {
  if (records.length === 0) return
  await tx
    .insertInto('import_records')
    .values(
      records.map(({ id, kind }) => ({
        import_id: importId,
        record_id: id,
        account_id: accountId,
        kind,
        taken_back_at: null,
      })),
    )
    .onConflict((conflict) => conflict.columns(['import_id', 'record_id']).doNothing())
    .execute()
}

/** Without `accountId`, as for operators, the import may belong to any account. */
export async function findImport(
  reader: Reader,
  id: string,
  accountId?: string,
): Promise<CountedImport | undefined> {
  const ofAnyAccount = reader.selectFrom('imports').selectAll().where('id', '=', id)
  const row = await (accountId === undefined
    ? ofAnyAccount
    : ofAnyAccount.where('account_id', '=', accountId)
  ).executeTakeFirst()
  if (row === undefined) return undefined
  return { ...row, counts: (await countRecords(reader, [id])).get(id) ?? NO_RECORDS }
}

export type ImportCounts = Readonly<
  Record<ImportRecordKind, { readonly all: number; readonly takenBack: number }>
>

export interface CountedImport extends ImportRow {
  readonly counts: ImportCounts
}

/** Returns imports, newest first. `before` is the id of the last import on the previous page. */
export async function listImports(
  reader: Reader,
  accountId: string,
  limit: number,
  before?: string,
): Promise<CountedImport[]> {
  const all = reader.selectFrom('imports').selectAll().where('account_id', '=', accountId)
  const page = before === undefined ? all : all.where('id', '<', before)
  const rows = await page.orderBy('id', 'desc').limit(limit).execute()
  const counts = await countRecords(
    reader,
    rows.map(({ id }) => id),
  )
  return rows.map((row) => ({ ...row, counts: counts.get(row.id) ?? NO_RECORDS }))
}

const NO_RECORDS: ImportCounts = {
  customer: { all: 0, takenBack: 0 },
  invoice: { all: 0, takenBack: 0 },
  payment: { all: 0, takenBack: 0 },
  correction: { all: 0, takenBack: 0 },
}

/** Returns the counts by import id. An import without records is absent. */
async function countRecords(
  reader: Reader,
  importIds: readonly string[],
): Promise<ReadonlyMap<string, ImportCounts>> {
  if (importIds.length === 0) return new Map()
  const rows = await reader
    .selectFrom('import_records')
    .select(({ fn }) => [
      'import_id',
      'kind',
      fn.count<number | string>('record_id').as('all'),
      fn.count<number | string>('taken_back_at').as('taken_back'),
    ])
    .where('import_id', 'in', importIds)
    .groupBy(['import_id', 'kind'])
    .execute()
  return new Map(
    [...Map.groupBy(rows, (row) => row.import_id)].map(([id, rowsOfImport]) => {
      const countOf = (kind: ImportRecordKind) => {
        const row = rowsOfImport.find((candidate) => candidate.kind === kind)
        return { all: Number(row?.all ?? 0), takenBack: Number(row?.taken_back ?? 0) }
      }
      const counts = {
        customer: countOf('customer'),
        invoice: countOf('invoice'),
        payment: countOf('payment'),
        correction: countOf('correction'),
      }
      return [id, counts]
    }),
  )
}
