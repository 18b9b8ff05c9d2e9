import joi, { type ArraySchema } from 'joi'
import { createId } from '../../../shared/contract/id.ts'
import { getAccount } from '../../accounts/accounts.ts'
import { todayIn } from '../../calendar/calendar.ts'
import type { Reader } from '../../database/tables.ts'
import { countMissing } from '../../import/comparison.ts'
import { findImport } from '../../import/imports.ts'
import { readOldInvoices } from '../../invoices/old-invoices.ts'
import { notFound, rejectField, rejectIfReadOnly } from '../shell/faults.ts'
import type { SessionPage, SessionRequest, SettingsDeps } from '../shell/page-request.ts'
import type { PageResponse } from '../shell/response.ts'
import { IMPORT_FIELDS, type ImportForm, parseFile, readForm, STEPS } from './import-form.ts'
import { renderImportForm, renderImportPreview, renderImportReport } from './import-page.ts'
import {
  type ComparedFile,
  compareFile,
  type RejectedRecord,
  recordStep,
  type StepResult,
} from './import-step.ts'

const PATH = '/settings/import'
const ADMINS_ONLY = 'Only an Admin can import a file.'

export const importPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session }, { database }) {
      rejectIfReadOnly(session)
      const { default_currency } = await getAccount(database.read, session.account.id)
      return { page: (frame) => renderImportForm(frame, emptyForm(default_currency)) }
    },
  },
  {
    method: 'POST',
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: IMPORT_FIELDS,
    handle: importFile,
    async rerender({ fields }, problem) {
      if (problem.code !== 'validation_failed') return undefined
      const form = readForm(fields)
      return (frame) => renderImportForm(frame, form, problem)
    },
  },
]

function emptyForm(currency: string): ImportForm {
  return {
    ...{ content: '', fileName: '', dateFormat: '', currency, headers: [], columns: new Map() },
    ...{ isDecimalComma: false, chaseOverdue: false, correctsRecords: false },
  }
}

async function importFile(request: SessionRequest, deps: SettingsDeps): Promise<PageResponse> {
  const { session, fields, now, actionContext } = request
  rejectIfReadOnly(session)
  const text = fields.text('step') || 'preview'
  const step =
    STEPS.find((name) => name === text) ??
    rejectField('step', `step must be one of ${STEPS.join(', ')}.`)
  const form = readForm(fields)
  if (step === 'edit') return { page: (frame) => renderImportForm(frame, form) }
  const { account } = session
  const ledger = await parseFile(form, todayIn(account.timezone, now))
  if (step === 'preview') {
    const comparedFile = await compareFile(deps.database, account.id, ledger)
    return {
      json: represent(comparedFile),
      page: (frame) =>
        renderImportPreview(frame, { form, ledger, comparedFile, importId: createId('imp') }),
    }
  }
  const importId = fields.text('import_id') || createId('imp')
  await checkImportId(deps.database.read, account.id, importId)
  const result = await recordStep({
    ...{ database: deps.database, clock: deps.clock, ledger, fileName: form.fileName, importId },
    importContext: { account, chaseOverdue: form.chaseOverdue, actionContext },
    correctsRecords: form.correctsRecords,
    rejectedBefore: parseRefusals(fields.text('refusals')),
  })
  const recordedBefore = Math.max(0, fields.number('recorded') || 0)
  const oldInvoices = await readOldInvoices(deps.database.read, account.id)
  return {
    json: { ...represent(result), ...representStep(result) },
    page: (frame) =>
      renderImportReport(frame, { form, ledger, result, recordedBefore, oldInvoices }),
  }
}

/**
 * Throws `not_found` for a text that is not in the format of an import's id, and for an import of another account. The
 * import need not exist yet: its first step creates it.
 */
async function checkImportId(reader: Reader, accountId: string, importId: string): Promise<void> {
  if (!/^imp_[0-9A-HJKMNP-TV-Z]{26}$/.test(importId)) notFound('import', importId)
  const row = await findImport(reader, importId)
  if (row !== undefined && row.account_id !== accountId) notFound('import', importId)
}

const REFUSALS: ArraySchema<RejectedRecord[]> = joi.array().items(
  joi.object({
    record: joi.string().required(),
    code: joi.string().required(),
    detail: joi.string().allow('').required(),
  }),
)

/** Parses the field with the rejected records of the previous step. Throws `validation_failed`. */
function parseRefusals(text: string): readonly RejectedRecord[] {
  const { error, value } = REFUSALS.validate(parseJson(text || '[]'))
  if (error === undefined) return value
  return rejectField('refusals', 'refusals must be the refusals of the previous step, as JSON.')
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

function represent({ comparison, corrections }: ComparedFile) {
  return {
    object: 'import',
    missing: countMissing(comparison),
    differences: comparison.differences,
    corrections: corrections.map(({ record, change }) => ({ record, change })),
  }
}

function representStep({ recorded, rejected, isLastStep, importId }: StepResult) {
  return { recorded, refusals: rejected, complete: isLastStep, import_id: importId ?? null }
}
