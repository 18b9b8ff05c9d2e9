import { lockAccount } from '../accounts/accounts.ts'
import { type ActionContext, recordAudit } from '../accounts/audit.ts'
import { isCalendarDate } from '../calendar/calendar.ts'
import type { Reader, Transaction } from '../database/database.ts'
import type { ChasingSettingsRow } from '../database/tables.ts'
import { changeDebtor, getLockedDebtor } from '../debtors/change.ts'
import { fieldErrorsProblem } from '../validation/field-errors.ts'
import {
  checkLadder,
  DEFAULT_LADDER,
  findLadderErrors,
  type Ladder,
  readLadder,
  STAGES,
} from './planning/ladder.ts'
import {
  rescheduleMessagesReadyToSend,
  rescheduleUnapprovedMessages,
} from './reschedule-messages.ts'

export interface ChasingSettings {
  readonly ladder: Ladder
  /** Sorted calendar dates on which no reminders are sent. */
  readonly holidays: readonly string[]
  /** Invoices that were due before this date are never chased. If it is null, all invoices are chased. */
  readonly chaseFrom: string | null
}

export type ChasingSettingsChange = Partial<ChasingSettings>

/** Enough for more than twenty years of public holidays. */
const HOLIDAYS_MAX = 500

export async function readChasingSettings(
  reader: Reader,
  accountId: string,
): Promise<ChasingSettings> {
  const row = await reader
    .selectFrom('chasing_settings')
    .selectAll()
    .where('account_id', '=', accountId)
    .executeTakeFirst()
  return settingsOf(row)
}

export function settingsOf(
  row: Pick<ChasingSettingsRow, 'ladder' | 'holidays' | 'chase_from'> | undefined,
): ChasingSettings {
  if (row === undefined) return { ladder: DEFAULT_LADDER, holidays: [], chaseFrom: null }
  return {
    ladder: readLadder(row.ladder) ?? DEFAULT_LADDER,
    holidays: readHolidays(row.holidays),
    chaseFrom: row.chase_from,
  }
}

/**
 * The new values apply to reminders that are planned later. Planned messages keep their stages, but are postponed if
 * they would be sent on a holiday, sent earlier if a holiday is removed, and cancelled if one of their invoices fell
 * due before `chaseFrom`. Throws `not_found`, and `validation_failed` with pointers `/ladder/…`, `/holidays`,
 * `/holidays/…` and `/chase_from`.
 */
export async function changeChasingSettings(
  tx: Transaction,
  accountId: string,
  change: ChasingSettingsChange,
  actionContext: ActionContext,
): Promise<ChasingSettings> {
  // Serializes concurrent changes.
  await lockAccount(tx, accountId)
  const before = await readChasingSettings(tx, accountId)
  const settings = checkSettings({ ...before, ...change }, before.ladder)
  const changes = changesOf(before, settings)
  if (Object.keys(changes).length === 0) return before
  const row = {
    ladder: JSON.stringify(settings.ladder),
    holidays: JSON.stringify(settings.holidays),
    chase_from: settings.chaseFrom,
    // All debtors are planned again, because the next reminder to each may now be due at another time. The empty id
    // precedes the ids of all debtors.
    replan_after: '',
  }
  // An existing row keeps its `blocked_by`. In a new row, `recordAccountBlocks` sets it if all reminders are blocked.
  await tx
    .insertInto('chasing_settings')
    .values({ account_id: accountId, blocked_by: null, ...row })
    .onConflict((conflict) => conflict.column('account_id').doUpdateSet(row))
    .execute()
  // Messages that await approval are checked immediately, so that no person approves a message that will be cancelled.
  if (settings.chaseFrom !== before.chaseFrom)
    await rescheduleUnapprovedMessages(tx, accountId, actionContext.now)
  // The send check of messages that are ready to send runs immediately, and applies the new holidays.
  if (`${settings.holidays}` !== `${before.holidays}`)
    await rescheduleMessagesReadyToSend(tx, accountId, actionContext.now)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'account.chasing_changed',
    subjectId: accountId,
    detail: changes,
  })
  return settings
}

/**
 * With null, the debtor uses the account's ladder again. Throws `not_found`, `validation_failed`, and
 * `debtor_state_conflict` if the debtor was erased.
 */
export async function setDebtorLadder(
  tx: Transaction,
  accountId: string,
  debtorId: string,
  ladder: Ladder | null,
  actionContext: ActionContext,
): Promise<void> {
  const checked = ladder === null ? null : checkLadder(ladder)
  const debtor = await getLockedDebtor(tx, accountId, debtorId)
  const change = {
    ladder: checked === null ? null : JSON.stringify(checked),
    plan_at: actionContext.now.toISOString(),
  }
  await changeDebtor(tx, debtor, change, actionContext.now)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'debtor.ladder_changed',
    subjectId: debtorId,
    detail: { ladder: checked },
  })
}

/** An unchanged ladder is not checked: it remains valid even if a rule was added after it was stored. */
function checkSettings(
  { ladder, holidays, chaseFrom }: ChasingSettings,
  stored: Ladder,
): ChasingSettings {
  if (holidays.length > HOLIDAYS_MAX) {
    const detail = `there may be at most ${HOLIDAYS_MAX} holidays`
    throw fieldErrorsProblem([{ pointer: '/holidays', code: 'too_many', detail }])
  }
  const dates = [
    ...holidays.map((date, at) => ({ pointer: `/holidays/${at}`, subject: 'each holiday', date })),
    ...(chaseFrom === null
      ? []
      : [{ pointer: '/chase_from', subject: 'chase_from', date: chaseFrom }]),
  ]
  const dateErrors = dates
    .filter(({ date }) => !isCalendarDate(date))
    .map(({ pointer, subject }) => ({
      pointer,
      code: 'invalid_format',
      detail: `${subject} must be a date, YYYY-MM-DD`,
    }))
  const isLadderUnchanged = STAGES.every((stage) => ladder[stage] === stored[stage])
  const errors = [...(isLadderUnchanged ? [] : findLadderErrors(ladder)), ...dateErrors]
  if (errors.length > 0) throw fieldErrorsProblem(errors)
  // The stages are put into this order, so that `changesOf`, which compares JSON, finds no change in an equal ladder.
  const { courtesy, friendly, reminder, firm, final } = ladder
  return {
    ladder: { courtesy, friendly, reminder, firm, final },
    holidays: [...new Set(holidays)].sort(),
    chaseFrom,
  }
}

function changesOf(before: ChasingSettings, after: ChasingSettings) {
  const represent = ({ ladder, holidays, chaseFrom }: ChasingSettings) => ({
    ladder,
    holidays,
    chase_from: chaseFrom,
  })
  const previous = new Map<string, unknown>(Object.entries(represent(before)))
  return Object.fromEntries(
    Object.entries(represent(after)).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(previous.get(name)),
    ),
  )
}

function readHolidays(text: string): string[] {
  const stored: unknown = JSON.parse(text)
  return Array.isArray(stored) ? stored.filter((date) => typeof date === 'string') : []
}
