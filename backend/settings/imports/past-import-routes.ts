/**
 * The routes of past imports. One request takes back as many records of an import as its time allows; if records
 * remain, the script of the page sends the next request.
 */
import type { Database } from '../../database/database.ts'
import type { ImportRow, Reader } from '../../database/tables.ts'
import {
  type CountedImport,
  findImport,
  type ImportCounts,
  listImports,
} from '../../import/imports.ts'
import { auditTakeBack, takeBack } from '../../import/take-back.ts'
import {
  countByKind,
  countRecords,
  planTakeBack,
  readImported,
  type TakeBackPlan,
} from '../../import/take-back-plan.ts'
import { notFound, rejectIfReadOnly } from '../shell/faults.ts'
import { listOf, pageOf, parseListQuery } from '../shell/list-query.ts'
import {
  type SessionPage,
  type SessionRequest,
  type SettingsDeps,
  startTimeLimit,
} from '../shell/page-request.ts'
import type { Frame } from '../shell/response.ts'
import { IMPORTS_PATH, renderImport, renderImports } from './past-imports-page.ts'

const ADMINS_ONLY = 'Only an Admin can take an import back.'

export const importHistoryPages: readonly SessionPage[] = [
  {
    method: 'GET',
    path: IMPORTS_PATH,
    async handle({ session, query }, { database }) {
      const { account } = session
      const list = parseListQuery(query, [], 'before')
      const found = await listImports(database.read, account.id, list.limit + 1, list.cursor)
      const { rows, next } = pageOf(found, list.limit)
      const limit = list.value('limit')
      const { timezone } = account
      return {
        json: listOf(rows.map(represent), next),
        page: (frame) => renderImports(frame, rows, { limit, next, timezone }),
      }
    },
  },
  {
    method: 'GET',
    path: `${IMPORTS_PATH}/{id}`,
    async handle({ session, id }, { database }) {
      const row = await getImport(database.read, session.account.id, id)
      const plan = await readPlan(database, row)
      const isAdmin = session.user.role === 'admin'
      const { timezone } = session.account
      return {
        json: { ...represent(row), ...representPlan(plan) },
        page: (frame) => renderImport(frame, { row, plan, timezone, isAdmin }),
      }
    },
  },
  {
    method: 'POST',
    path: `${IMPORTS_PATH}/{id}/take-back`,
    adminsOnlyMessage: ADMINS_ONLY,
    // `done` is the number of records that the earlier requests of this action took back.
    expected: { texts: ['done'] },
    handle: handleTakeBack,
  },
]

async function handleTakeBack(request: SessionRequest, deps: SettingsDeps) {
  const { session, id, fields } = request
  const { database } = deps
  rejectIfReadOnly(session)
  const row = await getImport(database.read, session.account.id, id)
  const { done, isComplete } = await takeBackRecords(request, deps, row)
  const after = await getImport(database.read, session.account.id, id)
  const plan = await readPlan(database, row)
  const progress = { done: done + Math.max(0, fields.number('done') || 0), isComplete }
  const { timezone } = session.account
  return {
    json: { ...represent(after), ...representPlan(plan), complete: isComplete },
    page: (frame: Frame) =>
      renderImport(frame, { row: after, plan, timezone, progress, isAdmin: true }),
  }
}

/**
 * Takes back each group of records, which the plan calls a step, in one transaction, until the time of the request is
 * used up.
 */
async function takeBackRecords(
  { actionContext }: SessionRequest,
  deps: SettingsDeps,
  row: ImportRow,
) {
  const { database, clock } = deps
  const { steps: groups } = await readPlan(database, row)
  const isTimeOver = startTimeLimit(clock, actionContext.now)
  // If taking an import back needs several requests, `auditTakeBack` adds an entry to the audit log only in the first.
  if (groups.length > 0)
    await database.transaction((tx) => auditTakeBack(tx, row, groups, actionContext))
  let done = 0
  for (const group of groups) {
    if (isTimeOver()) return { done, isComplete: false }
    // A group is skipped if its records have been changed or used since the plan was read.
    const isTakenBack = await database.transaction((tx) => takeBack(tx, row, group, actionContext))
    if (isTakenBack) done += countRecords(group)
  }
  return { done, isComplete: true }
}

async function readPlan({ read }: Database, row: ImportRow): Promise<TakeBackPlan> {
  return planTakeBack(read, row.account_id, await readImported(read, row.id))
}

async function getImport(reader: Reader, accountId: string, id: string): Promise<CountedImport> {
  return (await findImport(reader, id, accountId)) ?? notFound('import', id)
}

function represent({ id, file_name, imported_by, created_at, counts }: CountedImport) {
  const { customer, invoice, payment } = counts
  const representCounts = ({ all, takenBack }: ImportCounts['customer']) => ({
    recorded: all,
    taken_back: takenBack,
  })
  return {
    ...{ id, object: 'past_import', file_name, imported_by, created_at },
    customers: representCounts(customer),
    invoices: representCounts(invoice),
    payments: representCounts(payment),
  }
}

function representPlan({ steps, kept }: TakeBackPlan) {
  return {
    can_take_back: countByKind(steps),
    kept: kept.map(({ id, kind, name, reason }) => ({ id, kind, name, reason })),
  }
}
