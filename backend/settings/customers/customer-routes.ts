/** The routes of customers, which the API calls debtors. */
import type { Problem } from '../../../shared/contract/problem.ts'
import { isCalendarDate, parseInstant, startOfDay, todayIn } from '../../calendar/calendar.ts'
import type { DebtorRow, Reader, Transaction } from '../../database/tables.ts'
import { readBalances } from '../../debtors/balances.ts'
import { archiveDebtor, pauseChasing, restoreDebtor, resumeChasing } from '../../debtors/chasing.ts'
import { clearSuppression } from '../../debtors/contactability.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { ADDRESS_PARTS, addressOf, DETAILS, type DebtorDetails } from '../../debtors/details.ts'
import { representDebtor } from '../../debtors/representation.ts'
import { resumeInvoicesOf } from '../../invoices/actions.ts'
import { changeDebtorDetails } from '../../reminders/reminder-content.ts'
import type { Undo } from '../../sessions/flash.ts'
import type { Session } from '../../sessions/sessions.ts'
import { notFound, rejectField, rejectIfReadOnly, withFieldLabels } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import type { FlashName } from '../shell/flash-words.ts'
import type { RejectedAction } from '../shell/page-actions.ts'
import {
  EDIT_METHODS,
  type SessionPage,
  type SessionRequest,
  type SettingsDeps,
} from '../shell/page-request.ts'
import type { PageResponse, RenderPage } from '../shell/response.ts'
import { renderArchive } from './archive-page.ts'
import { renderCustomerForm } from './customer-form-page.ts'
import { type CustomerView, readCustomerView, renderCustomer } from './customer-page.ts'

const PATH = '/settings/customers'
const ADMINS_ONLY = 'Only an Admin can change customers.'
const FIELDS = [...DETAILS, ...ADDRESS_PARTS] as const
/**
 * These actions change the customer's record. The other actions, such as a pause, concern only reminders, and are
 * allowed while the account is read-only. Reminders that are due are sent as soon as the account is no longer
 * read-only, so a person must be able to stop them before that.
 */
const REJECTED_IF_READ_ONLY: readonly string[] = ['archive', 'restore']

export const customerPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: `${PATH}/{id}`,
    handle: async (request, { database }) =>
      responseOf(await readCustomerView(database.read, request)),
  },
  {
    method: 'GET',
    path: `${PATH}/{id}/edit`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session, id }, { database }) {
      rejectIfReadOnly(session)
      const row = await getDebtor(database.read, session, id)
      return {
        page: (frame) => renderCustomerForm(frame, { row, stored: valuesOf(row), entered: {} }),
      }
    },
  },
  {
    // Omitted fields do not change.
    method: EDIT_METHODS,
    path: `${PATH}/{id}`,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: { texts: FIELDS, ignoresUnchangedFields: true },
    async handle(request, { database }) {
      const { session, id, fields, actionContext } = request
      rejectIfReadOnly(session)
      await request.performAction('customer_changed', (tx) =>
        changeDebtorDetails(tx, session.account.id, id, detailsOf(fields), actionContext),
      )
      return responseAfterChange(request, database.read)
    },
    async rerender({ session, id, fields }, problem, { database }) {
      if (problem.code !== 'validation_failed') return undefined
      const row = await getDebtor(database.read, session, id)
      const form = { row, stored: valuesOf(row), entered: detailsOf(fields) }
      return (frame) => renderCustomerForm(frame, form, problem)
    },
  },
  actionPage(
    'pause',
    'customer_paused',
    ['reason', 'until'],
    (tx, { session, fields, actionContext, id }) => {
      const until = untilOf(fields.text('until'), session.account.timezone)
      const pause = { reason: fields.text('reason'), until }
      return pauseChasing(tx, session.account.id, id, pause, actionContext)
    },
    (before) => (before.chasing_status === 'active' ? { name: 'resume' } : pauseAgain(before)),
  ),
  actionPage(
    'resume',
    'customer_resumed',
    [],
    (tx, { session, actionContext, id }) =>
      resumeChasing(tx, session.account.id, id, actionContext),
    pauseAgain,
  ),
  // `resume` ends a pause of the customer. `chase-held` ends the blocks of the customer's invoices, except disputes.
  actionPage('chase-held', 'customer_invoices_resumed', [], (tx, { session, actionContext, id }) =>
    resumeInvoicesOf(tx, session.account.id, id, actionContext),
  ),
  {
    method: 'GET',
    path: `${PATH}/{id}/archive`,
    adminsOnlyMessage: ADMINS_ONLY,
    async handle({ session, id, now }, { database: { read } }) {
      rejectIfReadOnly(session)
      const row = await getDebtor(read, session, id)
      const today = todayIn(session.account.timezone, now)
      const balances = await readBalances(read, session.account.id, [id], today)
      return { page: (frame) => renderArchive(frame, row, balances.get(id) ?? []) }
    },
  },
  actionPage(
    'archive',
    'customer_archived',
    [],
    (tx, { session, actionContext, id }) =>
      archiveDebtor(tx, session.account.id, id, actionContext),
    // Archiving discards a pause, and restoring does not bring it back. Undo is offered only if there was no pause.
    ({ status, chasing_status }) =>
      status === 'active' && chasing_status === 'active' ? { name: 'restore' } : undefined,
  ),
  actionPage(
    'restore',
    'customer_restored',
    [],
    (tx, { session, actionContext, id }) =>
      restoreDebtor(tx, session.account.id, id, actionContext),
    ({ status }) => (status === 'archived' ? { name: 'archive' } : undefined),
  ),
  actionPage('clear-contact', 'customer_cleared', [], (tx, { session, actionContext, id }) =>
    clearSuppression(tx, session.account.id, id, actionContext),
  ),
]

/** An action that restores the state that the customer had before another action. */
interface UndoAction {
  readonly name: string
  readonly fields?: Undo['fields']
}

/** Returns undefined if the customer was not paused. */
function pauseAgain({
  chasing_status,
  chasing_reason,
  chasing_until,
}: DebtorRow): UndoAction | undefined {
  if (chasing_status !== 'paused' || chasing_reason === null) return undefined
  return {
    name: 'pause',
    fields: [
      ['reason', chasing_reason],
      ['until', chasing_until ?? ''],
    ],
  }
}

function actionPage(
  name: string,
  flash: FlashName,
  texts: readonly string[],
  perform: (tx: Transaction, request: SessionRequest) => Promise<unknown>,
  undoOf: (before: DebtorRow) => UndoAction | undefined = () => undefined,
): SessionPage {
  return {
    method: 'POST',
    path: `${PATH}/{id}/${name}`,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: { texts },
    async handle(request, { database }) {
      const { session, id } = request
      if (REJECTED_IF_READ_ONLY.includes(name)) rejectIfReadOnly(session)
      const flashOf = (undo: UndoAction | undefined) => {
        const path = `${PATH}/${id}/${undo?.name}`
        return { name: flash, undo: undo && { path, fields: undo.fields ?? [] } }
      }
      await request.performAction(flashOf, async (tx) => {
        const undo = undoOf(await getDebtor(tx, session, id))
        await perform(tx, request)
        return undo
      })
      return responseAfterChange(request, database.read)
    },
    rerender: (request, problem, deps) => rerenderAction(request, name, problem, deps),
  }
}

async function rerenderAction(
  request: SessionRequest,
  name: string,
  problem: Problem,
  { database }: SettingsDeps,
) {
  if (problem.code === 'not_found') return undefined
  const customer = await readCustomerView(database.read, request)
  const labeled = withFieldLabels(problem, { until: 'The end of the pause' })
  const rejected = { name, fields: request.fields, problem: labeled }
  return responseOf(customer, rejected).page
}

function responseOf(customer: CustomerView, rejected?: RejectedAction) {
  const page: RenderPage = (frame) => renderCustomer(frame, customer, rejected)
  return { json: representDebtor(customer.row, customer.balances), page }
}

async function responseAfterChange(
  { session, id, now }: SessionRequest,
  reader: Reader,
): Promise<PageResponse> {
  const row = await getDebtor(reader, session, id)
  const today = todayIn(session.account.timezone, now)
  const balances = await readBalances(reader, session.account.id, [id], today)
  return { json: representDebtor(row, balances.get(id) ?? []), location: `${PATH}/${id}` }
}

async function getDebtor(reader: Reader, session: Session, id: string): Promise<DebtorRow> {
  return (await findDebtor(reader, session.account.id, id)) ?? notFound('customer', id)
}

function detailsOf(fields: Fields): DebtorDetails {
  const given = FIELDS.filter((name) => fields.has(name))
  return Object.fromEntries(given.map((name) => [name, fields.text(name)]))
}

function valuesOf(row: DebtorRow): DebtorDetails {
  const { name, email, phone, language, timezone } = row
  const values = { name, email, phone, language, timezone, ...addressOf(row) }
  return Object.fromEntries(Object.entries(values).map(([field, value]) => [field, value ?? '']))
}

/**
 * A form sends a date: the pause ends when that day begins in the account's time zone. For an empty text, returns null:
 * the pause lasts until a person resumes reminders.
 */
function untilOf(text: string, timezone: string): Date | null {
  if (text === '') return null
  const until = isCalendarDate(text) ? startOfDay(text, timezone) : parseInstant(text)
  return (
    until ??
    rejectField(
      'until',
      'The end of the pause must be a date, YYYY-MM-DD, or a time with a UTC offset.',
    )
  )
}
