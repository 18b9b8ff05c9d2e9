import { Problem } from '../../../shared/contract/problem.ts'
import { getAccount } from '../../accounts/accounts.ts'
import { setApplyCredit } from '../../accounts/apply-credit.ts'
import { setReplyAddress } from '../../accounts/reply-address.ts'
import type { Reader } from '../../database/database.ts'
import { getLockedDebtor } from '../../debtors/change.ts'
import { findDebtor } from '../../debtors/debtors.ts'
import { countAwaitingApproval } from '../../messages/approval-log.ts'
import {
  type ChasingSettings,
  changeChasingSettings,
  readChasingSettings,
  setDebtorLadder,
} from '../../reminders/chasing-settings.ts'
import { type Ladder, readLadder } from '../../reminders/planning/ladder.ts'
import { truncate } from '../../validation/truncate.ts'
import { notFound, withFieldLabels } from '../shell/faults.ts'
import type { Fields } from '../shell/fields.ts'
import { EDIT_METHODS, type SessionPage, type SessionRequest } from '../shell/page-request.ts'
import {
  LADDER_FIELDS,
  renderCustomerSchedule,
  renderSchedule,
  SCHEDULE_WORDS,
  type Schedule,
  type ScheduleValues,
  valuesOf,
} from './schedule-page.ts'

const PATH = '/settings/schedule'
const CUSTOMER_PATH = '/settings/customers/{id}/schedule'
const ADMINS_ONLY = 'Only an Admin can change when reminders are sent.'

export const schedulePages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: PATH,
    async handle({ session }, { database, receivesReplies }) {
      const schedule = await readSchedule(database.read, session.account.id)
      const awaitingApproval = await countAwaitingApproval(database.read, session.account.id)
      const values = valuesOf(schedule)
      return {
        json: represent(schedule),
        page: (frame) =>
          renderSchedule(frame, {
            session,
            awaitingApproval,
            values,
            stored: values,
            receivesReplies,
          }),
      }
    },
  },
  {
    // Settings whose fields were not sent do not change.
    method: EDIT_METHODS,
    path: PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    // Without the password, a person who finds an open session could redirect the customers' replies to themselves.
    needsRecentPassword: (fields) => fields.has('reply_to'),
    expected: {
      numbers: LADDER_FIELDS,
      lists: ['holidays'],
      texts: ['chase_from', 'reply_to', 'apply_credit'],
      ignoresUnchangedFields: true,
    },
    async handle({ session, fields, actionContext, performAction }) {
      const accountId = session.account.id
      const schedule = await performAction('schedule_changed', async (tx) => {
        const before = await readChasingSettings(tx, accountId)
        const change = {
          ladder: ladderOf(fields, before.ladder),
          ...(fields.has('holidays') && { holidays: holidayDatesOf(fields) }),
          ...(fields.has('chase_from') && { chaseFrom: fields.text('chase_from').trim() || null }),
        }
        await changeChasingSettings(tx, accountId, change, actionContext)
        if (fields.has('reply_to')) {
          await setReplyAddress(
            tx,
            accountId,
            fields.text('reply_to').trim() || null,
            actionContext,
          )
        }
        if (fields.has('apply_credit')) {
          await setApplyCredit(tx, accountId, fields.text('apply_credit'), actionContext)
        }
        return readSchedule(tx, accountId)
      })
      return { json: represent(schedule), location: PATH }
    },
    async rerender({ session, fields }, problem, { database, receivesReplies }) {
      if (problem.code !== 'validation_failed') return undefined
      const awaitingApproval = await countAwaitingApproval(database.read, session.account.id)
      const stored = valuesOf(await readSchedule(database.read, session.account.id))
      const values = sentValues(fields, stored)
      const view = { session, awaitingApproval, values, stored, receivesReplies }
      const labeled = withFieldLabels(withHolidayLines(problem, fields), SCHEDULE_WORDS)
      return (frame) => renderSchedule(frame, view, labeled)
    },
  },
  {
    method: 'GET',
    path: CUSTOMER_PATH,
    async handle(request, { database }) {
      const { row, ladder, settings } = await readCustomerSchedule(request, database.read)
      const values = customerValuesOf(ladder, settings)
      return {
        json: { own: ladder !== undefined, ladder: ladder ?? settings.ladder },
        page: (frame) =>
          renderCustomerSchedule(frame, {
            row,
            values,
            stored: values,
            isOwn: ladder !== undefined,
            session: request.session,
          }),
      }
    },
  },
  {
    // If the field `own` is `no`, the customer follows the account's schedule. With any other value, or without the
    // field, the customer gets its own schedule.
    method: EDIT_METHODS,
    path: CUSTOMER_PATH,
    adminsOnlyMessage: ADMINS_ONLY,
    expected: { numbers: LADDER_FIELDS, texts: ['own'], ignoresUnchangedFields: true },
    async handle(request, { database }) {
      const { session, fields, actionContext, id } = request
      await request.performAction('customer_schedule', async (tx) => {
        await getLockedDebtor(tx, session.account.id, id)
        const { ladder, settings } = await readCustomerSchedule(request, tx)
        const isOwn = fields.text('own') !== 'no'
        const ownLadder = isOwn ? ladderOf(fields, ladder ?? settings.ladder) : null
        await setDebtorLadder(tx, session.account.id, id, ownLadder, actionContext)
      })
      const { ladder, settings } = await readCustomerSchedule(request, database.read)
      return {
        json: { own: ladder !== undefined, ladder: ladder ?? settings.ladder },
        location: `/settings/customers/${id}`,
      }
    },
    async rerender(request, problem, { database }) {
      if (problem.code !== 'validation_failed') return undefined
      const { row, ladder, settings } = await readCustomerSchedule(request, database.read)
      const stored = customerValuesOf(ladder, settings)
      const values = sentValues(request.fields, stored)
      const view = { row, values, stored, isOwn: ladder !== undefined, session: request.session }
      const labeled = withFieldLabels(problem, SCHEDULE_WORDS)
      return (frame) => renderCustomerSchedule(frame, view, labeled)
    },
  },
]

async function readCustomerSchedule({ session, id }: SessionRequest, reader: Reader) {
  const row = (await findDebtor(reader, session.account.id, id)) ?? notFound('customer', id)
  const settings = await readChasingSettings(reader, session.account.id)
  return { row, ladder: readLadder(row.ladder), settings }
}

/** The form of a customer shows only the ladder, so the other values are not used. */
function customerValuesOf(ladder: Ladder | undefined, settings: ChasingSettings): ScheduleValues {
  const others = { replyTo: null, applyCredit: 'manual' } as const
  return valuesOf({ ...settings, ladder: ladder ?? settings.ladder, ...others })
}

async function readSchedule(reader: Reader, accountId: string): Promise<Schedule> {
  const { reply_to: replyTo, apply_credit: applyCredit } = await getAccount(reader, accountId)
  return { ...(await readChasingSettings(reader, accountId)), replyTo, applyCredit }
}

function represent({ ladder, holidays, chaseFrom, replyTo, applyCredit }: Schedule) {
  return {
    ladder,
    holidays,
    chase_from: chaseFrom,
    reply_to: replyTo,
    apply_credit: applyCredit,
  }
}

/**
 * A ladder contains, for each stage, the number of days from the due date to the reminder; a negative number means days
 * before the due date. If the field of a stage was not sent, the number is that of `current`. An empty field of the
 * stage `courtesy` means that no courtesy reminder is sent. Any other empty field becomes NaN, which the ladder's
 * validation rejects.
 */
function ladderOf(fields: Fields, current: Ladder): Ladder {
  const daysAt = (stage: keyof Ladder) =>
    fields.has(`ladder/${stage}`) ? fields.number(`ladder/${stage}`) : current[stage]
  const required = (stage: Exclude<keyof Ladder, 'courtesy'>) => daysAt(stage) ?? Number.NaN
  return {
    courtesy: daysAt('courtesy'),
    friendly: required('friendly'),
    reminder: required('reminder'),
    firm: required('firm'),
    final: required('final'),
  }
}

/** Reads the holidays from the list in JSON, or from the one field that a form has for all of them. */
function holidayDatesOf(fields: Fields): string[] {
  return holidayLinesOf(fields).map(({ date }) => date)
}

/** Returns each holiday with the number of its line in the form's field. The first line has the number 1. */
function holidayLinesOf(fields: Fields): { readonly date: string; readonly line: number }[] {
  return fields
    .list('holidays')
    .join('\n')
    .split(/\r\n|\r|\n/)
    .flatMap((text, index) =>
      text.split(/[,;]/).map((part) => ({ date: part.trim(), line: index + 1 })),
    )
    .filter(({ date }) => date !== '')
}

/** Fields that were not sent have the values of `stored`. */
function sentValues(fields: Fields, stored: ScheduleValues): ScheduleValues {
  const text = (name: string, value = '') => (fields.has(name) ? fields.text(name) : value)
  return {
    days: Object.fromEntries(LADDER_FIELDS.map((name) => [name, text(name, stored.days[name])])),
    holidays: fields.has('holidays') ? fields.list('holidays').join('\n') : stored.holidays,
    chaseFrom: text('chase_from', stored.chaseFrom),
    replyTo: text('reply_to', stored.replyTo),
    applyCredit: text('apply_credit', stored.applyCredit),
  }
}

/**
 * The errors of holidays point to elements of a list, but the form has one field for all holidays. Returns the problem
 * with errors that point to this field and name the line.
 */
function withHolidayLines(problem: Problem, fields: Fields): Problem {
  const elementErrors = problem.members['errors']
  if (!Array.isArray(elementErrors)) return problem
  const holidays = holidayLinesOf(fields)
  const errors = elementErrors.map((error) => {
    const pointer = String(error.pointer)
    const [, index] = /^\/holidays\/(\d+)$/.exec(pointer) ?? []
    const holiday = index === undefined ? undefined : holidays[Number(index)]
    if (holiday === undefined) return error
    const { line, date } = holiday
    const detail = `Line ${line}, “${truncate(date, 40)}”, is not a date such as 2026-12-25.`
    return { ...error, pointer: '/holidays', detail }
  })
  return new Problem('validation_failed', problem.message, { members: { errors } })
}
