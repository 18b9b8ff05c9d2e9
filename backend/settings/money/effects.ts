/**
 * Previews an action on money by performing it in a transaction that is rolled back. The real action has the same
 * effects, unless the data changes in between.
 */
import type { Database } from '../../database/database.ts'
import type { InvoiceRow, Reader, Transaction } from '../../database/tables.ts'
import { type Balance, readBalances } from '../../debtors/balances.ts'
import { lockDebtor } from '../../debtors/debtors.ts'
import { COLUMNS_WITHOUT_LINES, findInvoices } from '../../invoices/invoices.ts'
import { CANCELLABLE } from '../../messages/cancel-messages.ts'
import { byDueDate } from '../../on-account/cover.ts'
import { planDebtors } from '../../reminders/planning/planning.ts'

type InvoiceWithoutLines = Omit<InvoiceRow, 'line_items'>

export interface ChangedInvoice {
  readonly before: InvoiceWithoutLines
  readonly after: InvoiceWithoutLines
}

export interface Effects {
  /** The debtor's invoices that the action changes (see `isChanged`), earliest due date first. */
  readonly invoices: readonly ChangedInvoice[]
  readonly onAccount: readonly { currency: string; before: number; after: number }[]
  readonly messagesCancelled: number
  /** The number of messages that are being sent and cannot be stopped. */
  readonly messagesInFlight: number
}

/** The debtor whose records an action changes, and the time of the action. */
export interface PreviewContext {
  readonly accountId: string
  readonly debtorId: string
  /** Invoices that the action may change although they are closed. */
  readonly invoiceIds?: readonly string[]
  /** The current date in the account's time zone. */
  readonly today: string
  readonly now: Date
}

/** Resolves with the effects of the action, or rejects as the action would. */
export async function previewEffects(
  database: Database,
  context: PreviewContext,
  perform: (tx: Transaction) => Promise<unknown>,
): Promise<Effects> {
  const rollback = new Rollback()
  try {
    await database.transaction(async (tx) => {
      const before = await readSnapshot(tx, context)
      await perform(tx)
      // The real action is followed by planning, whose effects on the reminders belong to the preview.
      const debtor = await lockDebtor(tx, context.accountId, context.debtorId)
      if (debtor !== undefined) await planDebtors(tx, [debtor], context.now)
      rollback.effects = compare(before, await readSnapshot(tx, context, before))
      throw rollback
    })
  } catch (error) {
    if (error !== rollback) throw error
  }
  if (rollback.effects === undefined)
    throw new Error('the transaction of a preview was not rolled back')
  return rollback.effects
}

/** The error that rolls the transaction back. It carries the effects. */
class Rollback extends Error {
  override readonly name = 'Rollback'
  effects: Effects | undefined
}

interface Snapshot {
  readonly invoices: ReadonlyMap<string, InvoiceWithoutLines>
  /** The statuses of messages, by message id. */
  readonly messages: ReadonlyMap<string, string>
  readonly balances: readonly Balance[]
}

/**
 * Reads the open invoices and the invoices `invoiceIds`, the messages that wait or are being sent, and the balances. If
 * `before` is given, also reads the invoices of `before`, and reads only the messages of `before`, whatever their
 * status is now.
 */
async function readSnapshot(
  reader: Reader,
  context: PreviewContext,
  before?: Snapshot,
): Promise<Snapshot> {
  const { accountId, debtorId, today, invoiceIds = [] } = context
  const open = await reader
    .selectFrom('invoices')
    .select(COLUMNS_WITHOUT_LINES)
    .where('account_id', '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where('status', 'in', ['open', 'partially_paid'])
    .execute()
  const wanted = [...invoiceIds, ...(before?.invoices.keys() ?? [])]
  const openIds = new Set(open.map(({ id }) => id))
  const ids = wanted.filter((id) => !openIds.has(id))
  const closed = ids.length === 0 ? [] : await findInvoices(reader, accountId, ids)
  const messages = await reader
    .selectFrom('messages')
    .select(['id', 'status'])
    .where('account_id', '=', accountId)
    .where('debtor_id', '=', debtorId)
    .where('direction', '=', 'outbound')
    .where((eb) =>
      before === undefined
        ? eb('status', 'in', [...CANCELLABLE, 'sending'])
        : // The empty text, which is no id, prevents an empty list, which PostgreSQL rejects.
          eb('id', 'in', ['', ...before.messages.keys()]),
    )
    .execute()
  const balances = await readBalances(reader, accountId, [debtorId], today)
  return {
    invoices: new Map([...open, ...closed].map((row) => [row.id, row])),
    messages: new Map(messages.map(({ id, status }) => [id, status])),
    balances: balances.get(debtorId) ?? [],
  }
}

function compare(before: Snapshot, after: Snapshot): Effects {
  const pairs = [...before.invoices].flatMap(([id, row]) => {
    const changed = after.invoices.get(id)
    return changed !== undefined && isChanged(row, changed) ? [{ before: row, after: changed }] : []
  })
  const messagesBefore = [...before.messages]
  const unappliedOf = ({ balances }: Snapshot, currency: string) =>
    balances.find((balance) => balance.currency === currency)?.unapplied ?? 0
  const currencies = new Set([...before.balances, ...after.balances].map((row) => row.currency))
  return {
    invoices: pairs.toSorted((a, b) => byDueDate(a.before, b.before)),
    onAccount: [...currencies]
      .map((currency) => ({
        currency,
        before: unappliedOf(before, currency),
        after: unappliedOf(after, currency),
      }))
      .filter((balance) => balance.before !== balance.after),
    messagesCancelled: messagesBefore.filter(
      ([id, status]) => status !== 'cancelled' && after.messages.get(id) === 'cancelled',
    ).length,
    messagesInFlight: messagesBefore.filter(([, status]) => status === 'sending').length,
  }
}

/** Ignores `chasing_next_action_at`: an invoice is not in the preview if only this time changes. */
function isChanged(before: InvoiceWithoutLines, after: InvoiceWithoutLines): boolean {
  return (
    before.status !== after.status ||
    before.amount_due !== after.amount_due ||
    before.chasing_status !== after.chasing_status ||
    before.chasing_next_stage !== after.chasing_next_stage ||
    before.chasing_blocked_reason !== after.chasing_blocked_reason
  )
}

export function representEffects({ invoices, ...others }: Effects) {
  return {
    object: 'preview',
    invoices: invoices.map(({ before, after }) => ({
      id: after.id,
      number: after.number,
      currency: after.currency,
      before: stateOf(before),
      after: stateOf(after),
    })),
    on_account: others.onAccount,
    messages_cancelled: others.messagesCancelled,
    messages_in_flight: others.messagesInFlight,
  }
}

function stateOf(row: InvoiceWithoutLines) {
  return {
    status: row.status,
    amount_due: row.amount_due,
    next_stage: row.chasing_next_stage,
    next_action_at: row.chasing_next_action_at,
    blocked_reason: row.chasing_blocked_reason,
  }
}
