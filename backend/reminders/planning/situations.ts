/** What planner and gate decide by, read for some debtors at once. Whoever decides holds them. */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../../database/database.ts'
import type {
  AccountRow,
  DebtorRow,
  InvoiceRow,
  KillSwitchRow,
  MessageStatus,
} from '../../database/tables.ts'
import { coverInvoices, readCredit } from '../../debtors/credit.ts'
import { INSTALLATION, type KillSwitch, switchesOf } from '../kill-switch.ts'
import type { Situation } from '../rails.ts'
import { type ChasingSettings, settingsOf } from '../settings.ts'
import type { LadderStage } from './ladder.ts'
import type { PlannedInvoice } from './planner.ts'
import { createWorkingTime, type WorkingTime } from './working-time.ts'

/** An account as far as its reminders go. */
export interface ChasingAccount {
  readonly row: AccountRow
  readonly settings: ChasingSettings
  readonly switches: readonly KillSwitch[]
  /** Where a debtor is, by the account's holidays. */
  timeOf(debtor: Pick<DebtorRow, 'timezone'>): WorkingTime
}

/** Open, as the planner needs it and a message shows it. */
export type ChasedInvoice = PlannedInvoice &
  Pick<
    InvoiceRow,
    'account_id' | 'debtor_id' | 'number' | 'currency' | 'amount_due' | 'chasing_cycle'
  > & {
    /** How much of what is due money on account covers, in minor units. */
    readonly onAccount: number
  }

export interface ChasedDebtor {
  readonly invoices: readonly ChasedInvoice[]
  readonly suppressed: Situation['suppressed']
  readonly lastSentAt: string | null
  readonly isLeaving: boolean
}

/** As a literal: the partial index is used only where the statement's text implies it. */
const IS_OPEN = sql<SqlBool>`invoices.status in ('open', 'partially_paid')`

/** On its way without anybody's doing. */
const LEAVING: readonly MessageStatus[] = ['scheduled', 'approved', 'queued', 'sending']
/** On its way, or waiting for a person. */
export const WAITING: readonly MessageStatus[] = [...LEAVING, 'awaiting_approval']

export async function readChasingAccounts(
  reader: Reader,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ChasingAccount>> {
  const accounts = await reader.selectFrom('accounts').selectAll().where('id', 'in', ids).execute()
  const settings = await reader
    .selectFrom('chasing_settings')
    .selectAll()
    .where('account_id', 'in', ids)
    .execute()
  const switches = await reader
    .selectFrom('kill_switches')
    .selectAll()
    .where('scope', 'in', [INSTALLATION, ...ids])
    .execute()
  return new Map(
    accounts.map((row) => [
      row.id,
      accountOf(
        row,
        settingsOf(settings.find(({ account_id }) => account_id === row.id)),
        switches,
      ),
    ]),
  )
}

/** By debtor's id. */
export async function readChasedDebtors(
  reader: Reader,
  debtors: readonly DebtorRow[],
): Promise<ReadonlyMap<string, ChasedDebtor>> {
  const ids = debtors.map(({ id }) => id)
  const invoices = Map.groupBy(await readOpenInvoices(reader, ids), (row) => row.debtor_id)
  const taken = Map.groupBy(await readTakenStages(reader, ids), (row) => row.debtor_id)
  const sentAt = await readLastSent(reader, ids)
  const suppressed = await readSuppressions(reader, debtors)
  const credits = await readCredit(reader, ids)
  return new Map(
    debtors.map((debtor) => {
      const stages = Map.groupBy(taken.get(debtor.id) ?? [], (row) => row.invoice_id)
      const open = invoices.get(debtor.id) ?? []
      const covered = coverInvoices(open, credits.get(debtor.id) ?? new Map())
      const own = open.map((row): ChasedInvoice => {
        const mine = stages.get(row.id) ?? []
        const onAccount = covered.get(row.id) ?? 0
        return {
          ...row,
          onAccount,
          isCovered: onAccount > 0 && onAccount === row.amount_due,
          taken: mine.map(({ stage }) => stage),
          isWaiting: mine.some(({ status }) => WAITING.includes(status)),
        }
      })
      const isLeaving = (taken.get(debtor.id) ?? []).some(({ status }) => LEAVING.includes(status))
      // What may have arrived counts as sent.
      const lastSentAt = latestOf([
        sentAt.get(debtor.id) ?? null,
        ...open.map((row) => row.chasing_last_message_at),
      ])
      const chased = { invoices: own, suppressed: suppressed(debtor), lastSentAt, isLeaving }
      return [debtor.id, chased]
    }),
  )
}

function latestOf(instants: readonly (string | null)[]): string | null {
  return instants.reduce((a, b) => (a === null || (b !== null && b > a) ? b : a), null)
}

function accountOf(
  row: AccountRow,
  settings: ChasingSettings,
  switches: readonly KillSwitchRow[],
): ChasingAccount {
  const times = new Map<string, WorkingTime>()
  return {
    row,
    settings,
    switches: switchesOf(switches, row.id),
    timeOf(debtor) {
      const timezone = debtor.timezone ?? row.timezone
      const known = times.get(timezone)
      if (known !== undefined) return known
      const time = createWorkingTime(timezone, settings.holidays)
      times.set(timezone, time)
      return time
    },
  }
}

function readOpenInvoices(reader: Reader, debtorIds: readonly string[]) {
  return reader
    .selectFrom('invoices')
    .select([
      'id',
      'account_id',
      'debtor_id',
      'number',
      'currency',
      'amount_due',
      'due_date',
      'chasing_status',
      'chasing_stage',
      'chasing_next_stage',
      'chasing_next_action_at',
      'chasing_last_message_at',
      'chasing_blocked_reason',
      'chasing_cycle',
    ])
    .where('debtor_id', 'in', debtorIds)
    .where(IS_OPEN)
    .orderBy('id')
    .execute()
}

interface TakenStage {
  readonly debtor_id: string
  readonly invoice_id: string
  readonly stage: LadderStage
  readonly status: MessageStatus
}

/** Of the cycle that each open invoice is in. */
function readTakenStages(reader: Reader, debtorIds: readonly string[]): Promise<TakenStage[]> {
  return reader
    .selectFrom('invoices')
    .innerJoin('taken_stages', (join) =>
      join
        .onRef('taken_stages.invoice_id', '=', 'invoices.id')
        .onRef('taken_stages.cycle', '=', 'invoices.chasing_cycle'),
    )
    .innerJoin('messages', 'messages.id', 'taken_stages.message_id')
    .select([
      'invoices.debtor_id',
      'taken_stages.invoice_id',
      'taken_stages.stage',
      'messages.status',
    ])
    .where('invoices.debtor_id', 'in', debtorIds)
    .where(IS_OPEN)
    .execute()
}

/** Whatever became of it later. */
export async function readLastSent(
  reader: Reader,
  debtorIds: readonly string[],
): Promise<ReadonlyMap<string, string | null>> {
  const rows = await reader
    .selectFrom('messages')
    .select(['debtor_id', ({ fn }) => fn.max('sent_at').as('sent_at')])
    .where('debtor_id', 'in', debtorIds)
    .where('sent_at', 'is not', null)
    .where('kind', '=', 'reminder')
    .groupBy('debtor_id')
    .execute()
  return new Map(rows.map((row) => [row.debtor_id, row.sent_at]))
}

/** Of addresses: an account may not write to one whichever debtor has it. */
export async function readSuppressions(reader: Reader, debtors: readonly DebtorRow[]) {
  const addresses = debtors.flatMap(({ email }) => (email === null ? [] : [email.toLowerCase()]))
  const rows =
    addresses.length === 0
      ? []
      : await reader
          .selectFrom('suppressed_addresses')
          .select(['account_id', 'address', 'reason'])
          .where('account_id', 'in', [...new Set(debtors.map((row) => row.account_id))])
          .where('address', 'in', addresses)
          .execute()
  const reasons = new Map(rows.map((row) => [`${row.account_id} ${row.address}`, row.reason]))
  return ({ account_id, email }: DebtorRow) =>
    email === null ? undefined : reasons.get(`${account_id} ${email.toLowerCase()}`)
}

/** Debtors that owe something, some at a time by id: for whoever looks at all of them. */
export function selectOwing(reader: Reader, accountId: string | undefined, after: string) {
  const query = reader
    .selectFrom('debtors')
    .where('debtors.id', '>', after)
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('invoices')
          .select('invoices.id')
          .whereRef('invoices.debtor_id', '=', 'debtors.id')
          .where(IS_OPEN),
      ),
    )
    .orderBy('debtors.id')
  return accountId === undefined ? query : query.where('debtors.account_id', '=', accountId)
}
