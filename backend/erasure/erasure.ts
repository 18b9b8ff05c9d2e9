/**
 * Erases the personal data of a debtor at the debtor's request (GDPR, article 17). Data that a business must keep by
 * law stays: amounts, dates, invoice numbers, line items and states. The `external_id` stays too, because without it
 * the next run of an integration that copies customers would create the person again.
 *
 * The debtor's row is erased first, in one transaction: from then on the debtor is not chased, and reads of the debtor
 * return no personal data. Other tables follow in small steps. After an interruption, another run completes the
 * erasure.
 */

import { Problem } from '../../shared/contract/problem.ts'
import { type ActionContext, type Actor, recordAudit } from '../accounts/audit.ts'
import { checkReason } from '../accounts/reason.ts'
import type { OpenDatabase, Transaction } from '../database/database.ts'
import { nextRevision } from '../database/revision.ts'
import type { DebtorRow } from '../database/tables.ts'
import { readBalances } from '../debtors/balances.ts'
import { lockDebtor, normalizeForSearch } from '../debtors/debtors.ts'
import { representDebtor } from '../debtors/representation.ts'
import type { EventType } from '../events/event-types.ts'
import { recordEvent } from '../events/events.ts'
import { stopMessagesTo } from '../messages/cancel-messages.ts'
import { ERASED_TEXT } from './personal.ts'
import { type ErasedDebtor, eraseInTable, PERSONAL_TABLES } from './personal-tables.ts'

export interface Erasure {
  readonly debtor: DebtorRow
  readonly wasErasedBefore: boolean
  /**
   * How many rows of each table in `PERSONAL_TABLES` this run changed or deleted. Tables without such rows are absent.
   */
  readonly erased: Readonly<Record<string, number>>
}

export interface ErasureRequest {
  readonly actor: Actor
  readonly reason: string
  /**
   * Each transaction reads the clock, because erasing may take minutes: with an old `updated_at`, clients that
   * synchronize their copies would miss the records that are erased last, and keep the personal data.
   */
  readonly clock: () => Date
}

/** Throws `not_found`, and `validation_failed` at `/reason`. */
export async function eraseDebtor(
  database: OpenDatabase,
  id: string,
  { actor, reason, clock }: ErasureRequest,
): Promise<Erasure> {
  const checkedReason = checkReason(reason)
  const found = await database.read
    .selectFrom('debtors')
    .select(['account_id', 'erased_at'])
    .where('id', '=', id)
    .executeTakeFirst()
  if (found === undefined) throw new Problem('not_found', `There is no debtor ${id}.`)
  const erasedDebtor = { accountId: found.account_id, debtorId: id }
  const debtor = await database.transaction((tx) =>
    eraseRow(tx, erasedDebtor, checkedReason, { actor, now: clock() }),
  )
  const erased: Record<string, number> = {}
  for (const personalTable of PERSONAL_TABLES) {
    const count = await eraseInTable(database, personalTable, erasedDebtor, clock)
    if (count > 0) erased[personalTable.table] = count
  }
  return { debtor, wasErasedBefore: found.erased_at !== null, erased }
}

/** A debtor that was erased before does not change. */
async function eraseRow(
  tx: Transaction,
  { accountId, debtorId }: ErasedDebtor,
  reason: string,
  actionContext: ActionContext,
): Promise<DebtorRow> {
  const before = await lockDebtor(tx, accountId, debtorId)
  if (before === undefined) throw new Problem('not_found', `There is no debtor ${debtorId}.`)
  if (before.erased_at !== null) return before
  await deleteSuppressions(tx, before)
  await stopMessagesTo(tx, before, 'the customer was erased', actionContext.now)
  const debtor = await tx
    .updateTable('debtors')
    .set({
      name: ERASED_TEXT,
      name_search: normalizeForSearch(ERASED_TEXT),
      email: null,
      phone: null,
      address: null,
      tax_id: null,
      company_number: null,
      metadata: '{}',
      contactability_email: 'missing',
      status: 'archived',
      chasing_status: 'stopped',
      chasing_reason: 'erased',
      chasing_until: null,
      plan_at: null,
      erased_at: actionContext.now.toISOString(),
      ...nextRevision(tx, actionContext.now.toISOString()),
    })
    .where('account_id', '=', accountId)
    .where('id', '=', debtorId)
    .returningAll()
    .executeTakeFirstOrThrow()
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'debtor.erased',
    subjectId: debtorId,
    detail: { reason },
  })
  await recordEvents(tx, before, debtor, actionContext.now)
  return debtor
}

/**
 * An address that another debtor of the account also has stays suppressed, because no mail may be sent to that debtor.
 */
async function deleteSuppressions(
  tx: Transaction,
  { id, account_id, email }: DebtorRow,
): Promise<void> {
  if (email === null) return
  const address = email.toLowerCase()
  await tx
    .deleteFrom('suppressed_addresses')
    .where('account_id', '=', account_id)
    .where('address', '=', address)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('debtors')
            .select('debtors.id')
            .where('debtors.account_id', '=', account_id)
            .where(({ fn }) => fn('lower', ['debtors.email']), '=', address)
            .where('debtors.id', '<>', id),
        ),
      ),
    )
    .execute()
}

/** The events contain only those previous values that are not personal data. */
async function recordEvents(tx: Transaction, before: DebtorRow, debtor: DebtorRow, now: Date) {
  const { id, account_id: accountId } = debtor
  const represent = async (row: DebtorRow, today: string) =>
    representDebtor(row, (await readBalances(tx, accountId, [id], today)).get(id) ?? [])
  const { status, chasing_status, chasing_until, contactability_email } = before
  const { updated_at, revision } = before
  const former: DebtorRow = {
    ...debtor,
    ...{ status, chasing_status, chasing_until, contactability_email, updated_at, revision },
    // A user may have mentioned the customer in the reason of a pause.
    chasing_reason: null,
    erased_at: null,
  }
  const record = (type: EventType) => {
    const event = {
      accountId,
      type,
      subjectId: id,
      represent: (today: string) => represent(debtor, today),
      representBefore: (today: string) => represent(former, today),
    }
    return recordEvent(tx, event, now)
  }
  await record('debtor.updated')
  if (contactability_email !== debtor.contactability_email) {
    await record('debtor.contactability_changed')
  }
}
