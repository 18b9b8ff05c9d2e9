/**
 * The routes of wording: the texts of reminders by stage and language, their preview, and test mails. A new text
 * requires that the password was entered recently: otherwise, a person who finds an open session could write another
 * bank account into the reminders. The default can be restored without the password.
 */
import { Problem } from '../../../shared/contract/problem.ts'
import { getAccount, lockAccount } from '../../accounts/accounts.ts'
import { findLogo } from '../../accounts/logo.ts'
import type { Reader } from '../../database/database.ts'
import { recordTestMail } from '../../mail/test-mails.ts'
import {
  findWording,
  listChangedWordings,
  type WordingKey,
} from '../../mail/wording/account-wordings.ts'
import { LANGUAGES } from '../../mail/wording/languages.ts'
import { embedLogo } from '../../mail/wording/mail-body.ts'
import { writeReminder } from '../../mail/wording/reminder-text.ts'
import { createSampleReminder, type SampleReminder } from '../../mail/wording/sample-reminder.ts'
import {
  checkWording,
  defaultWording,
  VARIABLES,
  WORDING_FIELDS,
  type Wording,
} from '../../mail/wording/wording.ts'
import { countAwaitingApproval } from '../../messages/approval-log.ts'
import { STAGES } from '../../reminders/planning/ladder.ts'
import { changeWording } from '../../reminders/reminder-content.ts'
import { fieldErrorsProblem } from '../../validation/field-errors.ts'
import { combineTexts } from '../forms/concurrent-edit.ts'
import { notFound, withFieldLabels } from '../shell/faults.ts'
import type { ExpectedFields, Fields } from '../shell/fields.ts'
import { faultsOf } from '../shell/layout.ts'
import { listOf } from '../shell/list-query.ts'
import {
  EDIT_METHODS,
  type SessionPage,
  type SessionRequest,
  type SettingsDeps,
} from '../shell/page-request.ts'
import type { PageResponse } from '../shell/response.ts'
import { WORDING_PREVIEW_PATH } from '../shell/security-headers.ts'
import {
  FIELD_LABELS,
  nameOfWording,
  renderPreviewFaults,
  renderWording,
  renderWordings,
} from './wording-page.ts'

const PATH = '/settings/wording'
const ADMINS_ONLY = 'Only an Admin can change what reminders say.'

const KEYS: readonly WordingKey[] = STAGES.flatMap((stage) =>
  LANGUAGES.map((language) => ({ stage, language })),
)

const EXPECTED: ExpectedFields = {
  texts: [...WORDING_FIELDS, 'invoice'],
  ignoresUnchangedFields: true,
}

/** The units for `combineTexts`: each text is a unit of its own. */
const UNITS = WORDING_FIELDS.map((name) => [name] as const)

/** If this is passed instead of the number of an invoice, `readSample` chooses the invoice. */
const ANY_INVOICE = ''

export const wordingPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session }, { database: { read } }) {
      const { id: accountId } = session.account
      const rows = await listChangedWordings(read, accountId)
      const changedByName = new Map(
        rows.map(({ stage, language, ...wording }) => [`${stage}-${language}`, wording]),
      )
      const awaitingApproval = await countAwaitingApproval(read, accountId)
      return {
        json: listOf(
          KEYS.map((key) => represent(key, changedByName.get(nameOfWording(key)))),
          null,
        ),
        page: (frame) =>
          renderWordings(frame, { awaitingApproval, changed: new Set(changedByName.keys()) }),
      }
    },
  },
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    async handle(request, deps) {
      const { session, id } = request
      const key = keyOf(id)
      const changed = await findWording(deps.database.read, session.account.id, key)
      const values = changed ?? defaultWording(key.stage, key.language)
      const sample = await readSample(request, deps, key, values, ANY_INVOICE)
      const invoice = sample.invoice?.number ?? ''
      const isChanged = changed !== undefined
      const view = { session, key, values, stored: values, isChanged, isUnsaved: false, invoice }
      return {
        json: represent(key, changed),
        page: (frame) => renderWording(frame, view),
      }
    },
  },
  {
    // JSON replaces all texts: an omitted `closing` becomes empty, and a request without one of the others is rejected.
    // A form, in contrast, changes only the texts that the person has edited.
    method: EDIT_METHODS,
    path: `${PATH}/{id}`,
    adminsOnlyMessage: ADMINS_ONLY,
    needsRecentPassword: true,
    expected: EXPECTED,
    async handle({ session, id, fields, actionContext, performAction }) {
      const { id: accountId } = session.account
      const key = keyOf(id)
      const changed = await performAction('wording_changed', async (tx) => {
        await lockAccount(tx, accountId)
        const stored = await currentWording(tx, accountId, key)
        const wording = combineTexts(fields, stored, UNITS)
        await changeWording(tx, accountId, key, wording, actionContext)
        return findWording(tx, accountId, key)
      })
      return { json: represent(key, changed), location: `${PATH}/${id}` }
    },
    rerender,
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/reset`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session, id, actionContext, performAction }) {
      const key = keyOf(id)
      await performAction('wording_reset', (tx) =>
        changeWording(tx, session.account.id, key, null, actionContext),
      )
      return { json: represent(key, undefined), location: `${PATH}/${id}` }
    },
  },
  {
    method: 'GET',
    path: WORDING_PREVIEW_PATH,
    async handle(request, deps) {
      const key = keyOf(request.id)
      const wording = await currentWording(deps.database.read, request.session.account.id, key)
      return respondWithPreview(deps, await readSample(request, deps, key, wording, ANY_INVOICE))
    },
  },
  {
    method: 'POST',
    path: WORDING_PREVIEW_PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: EXPECTED,
    async handle(request, deps) {
      const { fields } = request
      const key = keyOf(request.id)
      try {
        const wording = checkWording(submittedWording(fields))
        const sample = await readSample(request, deps, key, wording, fields.text('invoice'))
        return await respondWithPreview(deps, sample)
      } catch (error) {
        // The faults are shown only in the iframe, so that the page around it keeps the entered texts.
        if (request.wantsJson || !(error instanceof Problem) || error.status !== 422) throw error
        const labeled = withFieldLabels(error, FIELD_LABELS)
        const details = faultsOf(labeled).map(({ detail }) => detail)
        return { status: 422, document: renderPreviewFaults(details) }
      }
    },
  },
  {
    method: 'POST',
    path: `${PATH}/{id}/test`,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: EXPECTED,
    async handle(request, deps) {
      const { session, fields, actionContext } = request
      const key = keyOf(request.id)
      const wording = checkWording(submittedWording(fields))
      const sample = await readSample(request, deps, key, wording, fields.text('invoice'))
      const invoiceId = sample.invoice?.id ?? null
      const { id, email } = session.user
      const user = { id, email, account_id: session.account.id }
      await deps.database.transaction((tx) =>
        recordTestMail(tx, user, { ...key, wording, invoiceId }, actionContext),
      )
      const view = await readSubmittedView(request, deps)
      // The test mail may be sent, written to a file, dropped or kept waiting; the page says which.
      const route = deps.noticeRouteOf?.(email) ?? 'waiting'
      return {
        json: { object: 'test_reminder', to: email, route },
        // A redirect would lose unsaved changes.
        page: (frame) => renderWording({ ...frame, flash: `test_mail_${route}` }, view),
      }
    },
    rerender,
  },
]

/** Renders the form again after invalid input, or after too many test mails (429). */
async function rerender(request: SessionRequest, problem: Problem, deps: SettingsDeps) {
  if (problem.status !== 422 && problem.status !== 429) return undefined
  const view = await readSubmittedView(request, deps)
  const labeled = withFieldLabels(problem, FIELD_LABELS)
  return (frame: Parameters<typeof renderWording>[0]) => renderWording(frame, view, labeled)
}

async function readSubmittedView(request: SessionRequest, deps: SettingsDeps) {
  const { session, id, fields } = request
  const key = keyOf(id)
  const changed = await findWording(deps.database.read, session.account.id, key)
  const values = submittedWording(fields)
  const enteredNumber = fields.text('invoice').trim()
  const sample =
    enteredNumber === '' ? await readSample(request, deps, key, values, ANY_INVOICE) : undefined
  return {
    session,
    key,
    values,
    stored: changed ?? defaultWording(key.stage, key.language),
    isChanged: changed !== undefined,
    isUnsaved: true,
    invoice: sample?.invoice?.number ?? enteredNumber,
  }
}

function keyOf(name: string): WordingKey {
  return KEYS.find((key) => nameOfWording(key) === name) ?? notFound('wording', name)
}

async function currentWording(
  reader: Reader,
  accountId: string,
  key: WordingKey,
): Promise<Wording> {
  return (await findWording(reader, accountId, key)) ?? defaultWording(key.stage, key.language)
}

/** Returns all texts of the form, including those that it does not change. */
function submittedWording(fields: Fields): Wording {
  return {
    subject: fields.textEvenIfUnchanged('subject'),
    greeting: fields.textEvenIfUnchanged('greeting'),
    opening: fields.textEvenIfUnchanged('opening'),
    opening_several: fields.textEvenIfUnchanged('opening_several'),
    closing: fields.textEvenIfUnchanged('closing'),
    sign_off: fields.textEvenIfUnchanged('sign_off'),
  }
}

/**
 * Returns a sample of a reminder with this wording. If the number is empty, as `ANY_INVOICE` is, the sample is about
 * the unpaid invoice with the earliest due date or, if nothing is owed, a made-up invoice. Throws `validation_failed`
 * at `/invoice` if no invoice has the number.
 */
async function readSample(
  { session, now }: SessionRequest,
  { database: { read }, baseUrl }: SettingsDeps,
  key: WordingKey,
  wording: Wording,
  invoiceNumber: string,
): Promise<SampleReminder> {
  const account = await getAccount(read, session.account.id)
  const invoiceId = await findInvoiceId(read, account.id, invoiceNumber.trim())
  const sample = await createSampleReminder(
    read,
    account,
    { ...key, wording, invoiceId },
    baseUrl,
    now,
  )
  // `findInvoiceId` has just found the invoice, so this error is not expected.
  return sample ?? notFound('invoice', invoiceNumber)
}

async function respondWithPreview(
  { database: { read } }: SettingsDeps,
  { content, accountId }: SampleReminder,
): Promise<PageResponse> {
  const written = writeReminder(content)
  const logo = await findLogo(read, accountId, content.creditor.logo?.id ?? null)
  const document = embedLogo(written.html, logo)
  return { json: { object: 'reminder_preview', ...written, html: document }, document }
}

async function findInvoiceId(
  reader: Reader,
  accountId: string,
  number: string,
): Promise<string | null> {
  if (number === '') return null
  const row = await reader
    .selectFrom('invoices')
    .select('id')
    .where('account_id', '=', accountId)
    .where('number', '=', number)
    .executeTakeFirst()
  if (row !== undefined) return row.id
  throw fieldErrorsProblem([
    {
      pointer: '/invoice',
      code: 'invalid_format',
      detail: 'invoice must be the number of an existing invoice',
    },
  ])
}

/** `changed` is the wording of the account; undefined if the account uses the default. */
function represent(key: WordingKey, changed: Wording | undefined) {
  const wording = changed ?? defaultWording(key.stage, key.language)
  return {
    object: 'reminder_wording',
    id: nameOfWording(key),
    ...key,
    is_default: changed === undefined,
    ...wording,
    variables: VARIABLES,
  }
}
