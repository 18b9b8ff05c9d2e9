/**
 * One step of an import. Each request imports records for a few seconds and reports what remains. The next request
 * compares the file with the account again, so that a repeated or interrupted step records nothing twice.
 */
import { Problem } from '../../../shared/contract/problem.ts'
import type { Database } from '../../database/database.ts'
import type { Transaction } from '../../database/tables.ts'
import { readAccountRecords } from '../../import/account-records.ts'
import { type Comparison, compare, countMissing } from '../../import/comparison.ts'
import { findImport, startImport, storeImportedRecords } from '../../import/imports.ts'
import type { Ledger } from '../../import/ledger.ts'
import { withStoredExternalIds } from '../../import/literal-ids.ts'
import {
  correctRecord,
  createMissingRecords,
  type FoundCorrection,
  findCorrections,
  type ImportContext,
  recordCustomer,
} from '../../import/recording.ts'
import {
  customerFields,
  describeFieldErrors,
  INVOICE_FIELDS,
  type MemberFields,
} from '../../import/rejected-fields.ts'
import type { ImportedRecord } from '../../import/take-back-plan.ts'
import { truncate } from '../../validation/truncate.ts'
import { startTimeLimit } from '../shell/page-request.ts'

/** The import stops when this many records were rejected, because the rejections usually have the same cause. */
const REJECTED_MAX = 100

/**
 * The maximum length of a text of a rejected record, in UTF-16 code units. The form of the next step contains these
 * texts, and may have at most 1 MiB.
 */
const REJECTED_TEXT_MAX = 200

/** `record` and `detail` are cut after `REJECTED_TEXT_MAX`. */
export interface RejectedRecord {
  /** The words by which people find the record in the file, e.g. `Customer C-7` or `Line 7, invoice 2026-114`. */
  readonly record: string
  readonly code: string
  readonly detail: string
}

export interface ComparedFile {
  readonly comparison: Comparison
  readonly corrections: readonly FoundCorrection[]
}

export interface StepResult extends ComparedFile {
  /** How many records this step created and, in `corrected`, how many existing records it changed. */
  readonly recorded: {
    readonly customers: number
    readonly invoices: number
    readonly payments: number
    readonly corrected: number
  }
  /** The records that this step or an earlier step of the import has rejected. */
  readonly rejected: readonly RejectedRecord[]
  /** Whether no further step follows: the step attempted every record, or `REJECTED_MAX` records were rejected. */
  readonly isLastStep: boolean
  /** Undefined if neither this step nor an earlier step of the import had anything to record. */
  readonly importId: string | undefined
}

export async function compareFile(
  { read }: Database,
  accountId: string,
  file: Ledger,
): Promise<ComparedFile> {
  const { records, customers } = await readAccountRecords(read, accountId, file)
  // An import encodes an id such as `50%` as `50%25`, but another system may have stored `50%` through the API. The
  // stored id is then used for the comparison, so that the customer is not created twice.
  const ledger = withStoredExternalIds(file, records.debtors)
  return {
    comparison: compare(ledger, records),
    corrections: findCorrections(ledger.customers, customers, ledger.invoices, records.invoices),
  }
}

interface StepOptions {
  readonly database: Database
  readonly ledger: Ledger
  readonly fileName: string
  /** The first step that has something to record creates the import with this id. */
  readonly importId: string
  readonly importContext: ImportContext
  /** Whether the import also corrects the contact details of customers and the due dates of invoices. */
  readonly correctsRecords: boolean
  readonly rejectedBefore: readonly RejectedRecord[]
  readonly clock: () => Date
}

export async function recordStep(options: StepOptions): Promise<StepResult> {
  const { database, ledger, importId, importContext, fileName, correctsRecords } = options
  const { account, actionContext } = importContext
  const before = await compareFile(database, account.id, ledger)
  const missing = countMissing(before.comparison)
  const corrections = correctsRecords ? before.corrections : []
  const total = missing.customers + missing.invoices + missing.payments + corrections.length
  if (total > 0) {
    // The audit entry is written before the first record, so that an interrupted import also has an entry.
    const newImport = { id: importId, accountId: account.id, fileName }
    const remains = { ...missing, corrections: corrections.length }
    await database.transaction((tx) => startImport(tx, newImport, remains, actionContext))
  }
  const step = createStep(options)
  // Corrections come first, because the due date of an invoice cannot be corrected after its payment was recorded.
  for (const { record, correction } of corrections) {
    const fields =
      correction.kind === 'contact' ? customerFields({ name: correction.name }) : INVOICE_FIELDS
    await step.run({ kind: 'corrected', name: record, fields }, (tx) =>
      correctRecord(tx, importContext, correction),
    )
  }
  for (const customer of before.comparison.missingCustomers) {
    const name = `Customer ${customer.id}`
    await step.run({ kind: 'customers', name, fields: customerFields(customer) }, (tx) =>
      recordCustomer(tx, importContext, customer),
    )
  }
  for (const row of before.comparison.rowsWithMissingRecords) {
    const { invoice, invoiceId, canRecordPayment } = row
    const isNew = invoiceId === undefined
    await step.run(
      {
        kind: isNew ? 'invoices' : 'payments',
        ...(isNew && canRecordPayment && { alsoKind: 'payments' as const }),
        name: `Line ${invoice.line}, invoice ${invoice.number}`,
        fields: INVOICE_FIELDS,
      },
      (tx) => createMissingRecords(tx, importContext, row),
    )
  }
  const after = await compareFile(database, account.id, ledger)
  const isStarted = (await findImport(database.read, importId, account.id)) !== undefined
  return { ...after, ...step.result(), importId: isStarted ? importId : undefined }
}

type Kind = keyof StepResult['recorded']

interface RecordToProcess {
  readonly kind: Kind
  /** Present if a new invoice is recorded together with its payment. This kind is counted too. */
  readonly alsoKind?: Kind
  readonly name: string
  /** The fields of the file that the record consists of. */
  readonly fields: MemberFields
}

/**
 * Returns a step. Its function `run` processes one record in its own transaction, unless the time of the step is over
 * or `REJECTED_MAX` records were rejected. A record that an earlier step has rejected is not tried again: otherwise,
 * rejected records could take up the time of every step, and the import would never end.
 */
function createStep(options: StepOptions) {
  const { database, ledger, clock, importId, importContext, rejectedBefore } = options
  const knownRejections = new Map(rejectedBefore.map((known) => [known.record, known]))
  const isStepOver = startTimeLimit(clock, importContext.actionContext.now)
  const recorded: Record<Kind, number> = { customers: 0, invoices: 0, payments: 0, corrected: 0 }
  const rejected: RejectedRecord[] = []
  let attemptedAll = true
  return {
    async run(
      { kind, alsoKind, name, fields }: RecordToProcess,
      perform: (tx: Transaction) => Promise<ImportedRecord[]>,
    ): Promise<void> {
      const record = truncate(name, REJECTED_TEXT_MAX)
      const known = knownRejections.get(record)
      if (known !== undefined) {
        rejected.push(known)
        return
      }
      if (isStepOver() || rejected.length >= REJECTED_MAX) {
        attemptedAll = false
        return
      }
      try {
        await database.transaction(async (tx) => {
          const records = await perform(tx)
          await storeImportedRecords(tx, { importId, accountId: importContext.account.id }, records)
        })
      } catch (error) {
        if (!(error instanceof Problem) || error.status >= 500) throw error
        // The record was created after the comparison, e.g. by a concurrent step with the same file.
        if (error.code === 'duplicate_external_id') return
        const errors = error.members['errors']
        const detail = describeFieldErrors(errors, fields, ledger.headers) ?? error.message
        rejected.push({ record, code: error.code, detail: truncate(detail, REJECTED_TEXT_MAX) })
        return
      }
      recorded[kind]++
      if (alsoKind !== undefined) recorded[alsoKind]++
    },
    result: () => ({
      recorded,
      rejected,
      isLastStep: attemptedAll || rejected.length >= REJECTED_MAX,
    }),
  }
}
