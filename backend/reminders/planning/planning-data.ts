/**
 * Reads what the planner and the send check base their decisions on. Both must lock the debtors first. Predictions,
 * such as the preview, read the same data without a lock.
 */
import { type SqlBool, sql } from 'kysely'
import type { Reader } from '../../database/database.ts'
import type {
  AccountRow,
  ChasingSettingsRow,
  DebtorRow,
  InvoiceRow,
  KillSwitchRow,
  MessageStatus,
} from '../../database/tables.ts'
import { mostSevere } from '../../debtors/suppressed-addresses.ts'
import { coverInvoices, readMoneyOnAccount } from '../../on-account/cover.ts'
import { type ChasingSettings, settingsOf } from '../chasing-settings.ts'
import { INSTALLATION, type KillSwitch, switchesOf } from '../kill-switch.ts'
import type { Situation } from '../safety-rails.ts'
import type { LadderStage } from './ladder.ts'
import type { InvoiceToPlan } from './planner.ts'
import { createWorkingTime, sendingTimezone, type WorkingTime } from './working-time.ts'

export interface ChasingAccount {
  readonly row: AccountRow
  readonly settings: ChasingSettings
  /** The kill switches of the installation and of the account, whether or not they are active. */
  readonly switches: readonly KillSwitch[]
  /** What blocked all reminders of the account when the last planning run checked it; null if nothing did. */
  readonly recordedBlock: ChasingSettingsRow['blocked_by']
  /** Returns the working time in the time zone that `sendingTimezone` returns, with the account's holidays. */
  workingTimeOf(debtor: Pick<DebtorRow, 'timezone'>): WorkingTime
}

/** An open invoice, with the fields that the planner needs and those that a message shows. */
export type ChasedInvoice = InvoiceToPlan &
  Pick<
    InvoiceRow,
    'account_id' | 'debtor_id' | 'number' | 'currency' | 'amount_due' | 'chasing_cycle'
  > & {
    /** The part of the amount due that money on account covers, in minor units. */
    readonly onAccount: number
  }

export interface ChasedDebtor {
  readonly invoices: readonly ChasedInvoice[]
  readonly suppressionReason: Situation['suppressionReason']
  /** When a reminder was last sent to the debtor, or may have been sent. */
  readonly lastSentAt: string | null
  readonly hasScheduledMessage: boolean
}

/**
 * This condition has literals instead of parameters: a database uses a partial index only if the statement contains the
 * condition of the index.
 */
const IS_OPEN = sql<SqlBool>`invoices.status in ('open', 'partially_paid')`

/** Statuses of messages that will be sent without another decision by a person. */
const SCHEDULED: readonly MessageStatus[] = ['scheduled', 'approved', 'queued', 'sending']
/** Statuses of messages that are not sent yet, including those that are being handed over or await approval. */
export const WAITING: readonly MessageStatus[] = [...SCHEDULED, 'awaiting_approval']

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
    accounts.map((row) => {
      const settingsRow = settings.find(({ account_id }) => account_id === row.id)
      return [row.id, accountOf(row, settingsRow, switches)]
    }),
  )
}

/** Returns the data of each debtor by the id of the debtor. */
export async function readChasedDebtors(
  reader: Reader,
  debtors: readonly DebtorRow[],
): Promise<ReadonlyMap<string, ChasedDebtor>> {
  const ids = debtors.map(({ id }) => id)
  const invoices = Map.groupBy(await readOpenInvoices(reader, ids), (row) => row.debtor_id)
  const stageRows = Map.groupBy(await readTakenStages(reader, ids), (row) => row.debtor_id)
  const sentAt = await readLastSent(reader, ids)
  const suppressionOf = await readSuppressions(reader, debtors)
  const moneyOnAccount = await readMoneyOnAccount(reader, ids)
  return new Map(
    debtors.map((debtor) => {
      const stageRowsOfDebtor = stageRows.get(debtor.id) ?? []
      const stageRowsByInvoice = Map.groupBy(stageRowsOfDebtor, (row) => row.invoice_id)
      const open = invoices.get(debtor.id) ?? []
      const coveredAmounts = coverInvoices(open, moneyOnAccount.get(debtor.id) ?? new Map())
      const chasedInvoices = open.map((row): ChasedInvoice => {
        const stageRowsOfInvoice = stageRowsByInvoice.get(row.id) ?? []
        const onAccount = coveredAmounts.get(row.id) ?? 0
        return {
          ...row,
          onAccount,
          isCovered: onAccount > 0 && onAccount === row.amount_due,
          sentOrPlannedStages: stageRowsOfInvoice.map(({ stage }) => stage),
          hasWaitingMessage: stageRowsOfInvoice.some(({ status }) => WAITING.includes(status)),
        }
      })
      const hasScheduledMessage = stageRowsOfDebtor.some(({ status }) => SCHEDULED.includes(status))
      // `chasing_last_message_at` is also set for a message with an unknown outcome, which counts as sent.
      const lastSentAt = latestOf([
        sentAt.get(debtor.id) ?? null,
        ...open.map((row) => row.chasing_last_message_at),
      ])
      const chased = {
        invoices: chasedInvoices,
        suppressionReason: suppressionOf(debtor),
        lastSentAt,
        hasScheduledMessage,
      }
      return [debtor.id, chased]
    }),
  )
}

function latestOf(instants: readonly (string | null)[]): string | null {
  return instants.reduce((a, b) => (a === null || (b !== null && b > a) ? b : a), null)
}

function accountOf(
  row: AccountRow,
  settingsRow: ChasingSettingsRow | undefined,
  switches: readonly KillSwitchRow[],
): ChasingAccount {
  const settings = settingsOf(settingsRow)
  const times = new Map<string, WorkingTime>()
  return {
    row,
    settings,
    switches: switchesOf(switches, row.id),
    recordedBlock: settingsRow?.blocked_by ?? null,
    workingTimeOf(debtor) {
      const timezone = sendingTimezone(debtor, row.timezone)
      const cached = times.get(timezone)
      if (cached !== undefined) return cached
      const workingTime = createWorkingTime(timezone, settings.holidays)
      times.set(timezone, workingTime)
      return workingTime
    },
  }
}

/**
 * Returns the number of open invoices of each debtor by the id of the debtor. Counts no more than `countMax` of them,
 * so that a debtor with many invoices takes no longer than others.
 */
export async function countOpenInvoices(
  reader: Reader,
  debtorIds: readonly string[],
  countMax: number,
): Promise<ReadonlyMap<string, number>> {
  const rows = await reader
    .selectFrom('debtors')
    .select(({ selectFrom }) => [
      'debtors.id',
      // The statement selects a column of the index `invoices_open`, so that it need not read the invoices themselves.
      selectFrom(
        selectFrom('invoices')
          .select('invoices.debtor_id')
          .whereRef('invoices.debtor_id', '=', 'debtors.id')
          .where(IS_OPEN)
          .limit(countMax)
          .as('open_invoices'),
      )
        .select(({ fn }) => fn.countAll<number | string>().as('count'))
        .as('count'),
    ])
    .where('debtors.id', 'in', debtorIds)
    .execute()
  return new Map(rows.map(({ id, count }) => [id, Number(count)]))
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

/** A stage that already has a message in the current `chasing_cycle` of the invoice, and the status of the message. */
interface TakenStage {
  readonly debtor_id: string
  readonly invoice_id: string
  readonly stage: LadderStage
  readonly status: MessageStatus
}

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

/** Returns when the last reminder to each debtor was sent, even if it later bounced permanently. */
export async function readLastSent(
  reader: Reader,
  debtorIds: readonly string[],
): Promise<ReadonlyMap<string, string | null>> {
  // `max` would read all messages of each debtor; with the limit, the index provides the last one.
  const rows = await reader
    .selectFrom('debtors')
    .select(({ selectFrom }) => [
      'debtors.id',
      selectFrom('messages')
        .select('messages.sent_at')
        .whereRef('messages.debtor_id', '=', 'debtors.id')
        .where('messages.sent_at', 'is not', null)
        .where('messages.kind', '=', 'reminder')
        .orderBy('messages.sent_at', 'desc')
        .limit(1)
        .as('sent_at'),
    ])
    .where('debtors.id', 'in', debtorIds)
    .execute()
  return new Map(rows.map((row) => [row.id, row.sent_at]))
}

/**
 * Returns a function that returns why a debtor's address is suppressed; undefined if it is not. A suppression applies
 * to every debtor of the account with the same address.
 */
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
  const rowsByAddress = Map.groupBy(rows, ({ account_id, address }) => `${account_id} ${address}`)
  return ({ account_id, email }: DebtorRow) =>
    email === null
      ? undefined
      : mostSevere(rowsByAddress.get(`${account_id} ${email.toLowerCase()}`) ?? [])?.reason
}

/**
 * Selects the debtors that have open invoices and an id greater than `after`, in the order of their ids. If `accountId`
 * is undefined, selects debtors of all accounts.
 */
export function selectOwingDebtors(reader: Reader, accountId: string | undefined, after: string) {
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
