/**
 * Writes the plans of debtors: the new messages, and the columns of invoices and debtors that contain the plan. A new
 * message reserves its stage of each of its invoices in `taken_stages`, so that no other message is planned for this
 * stage. A suppressed message reserves nothing.
 */

import { sql } from 'kysely'
import { announce } from '../../database/announcements.ts'
import type { Transaction } from '../../database/database.ts'
import { nextRevision } from '../../database/revision.ts'
import type { MessageRow, TakenStageRow } from '../../database/tables.ts'
import { writeInParts } from '../../database/write-in-parts.ts'
import { REMINDER_TIMES_CHANGED, recordMessageEvent } from '../../messages/lifecycle.ts'
import { recordTransitions } from '../../messages/transitions.ts'
import { type DebtorPlan, newMessage } from './planned-message.ts'
import type { ChasingFields } from './planner.ts'
import type { ChasedInvoice } from './planning-data.ts'

/** Returns the number of messages written. */
export async function writeDebtorPlans(
  tx: Transaction,
  debtorPlans: readonly DebtorPlan[],
  now: Date,
): Promise<number> {
  const messageCount = await writeMessages(tx, debtorPlans, now)
  await writeInvoices(tx, debtorPlans, now)
  await writeDebtors(tx, debtorPlans)
  return messageCount
}

async function writeMessages(
  tx: Transaction,
  debtorPlans: readonly DebtorPlan[],
  now: Date,
): Promise<number> {
  const newMessages = debtorPlans.flatMap((debtorPlan) =>
    debtorPlan.plan.messages.map((planned) => newMessage(debtorPlan, planned, now)),
  )
  if (newMessages.length === 0) return 0
  const messageInvoices = newMessages.flatMap(({ row, invoices }) =>
    invoices.map(({ invoice, stage }, position) => ({ row, invoice, stage, position })),
  )
  await writeInParts(
    newMessages.map(({ row }) => row),
    (part) => tx.insertInto('messages').values(part).execute(),
  )
  await writeInParts(
    messageInvoices.map(({ row, invoice, position }) => ({
      message_id: row.id,
      position,
      account_id: row.account_id,
      invoice_id: invoice.id,
    })),
    (part) => tx.insertInto('message_invoices').values(part).execute(),
  )
  await writeInParts(
    newMessages.map(({ reminder }) => reminder),
    (part) => tx.insertInto('reminders').values(part).execute(),
  )
  announce(tx, REMINDER_TIMES_CHANGED)
  await writeInParts(
    messageInvoices
      .filter(({ row }) => row.status !== 'suppressed')
      .map(
        ({ row, invoice, stage }): TakenStageRow => ({
          invoice_id: invoice.id,
          stage,
          cycle: invoice.chasing_cycle,
          account_id: row.account_id,
          message_id: row.id,
        }),
      ),
    (part) => tx.insertInto('taken_stages').values(part).execute(),
  )
  await recordNewMessages(
    tx,
    newMessages.map(({ row }) => row),
    now,
  )
  return newMessages.length
}

/**
 * Of the new messages, only suppressed ones have an event. `message.awaiting_approval` is recorded later, when the text
 * that a person must approve has been written.
 */
async function recordNewMessages(tx: Transaction, rows: readonly MessageRow[], now: Date) {
  for (const [detail, group] of Map.groupBy(rows, (row) => row.suppression_detail)) {
    await recordTransitions(tx, group, detail ?? 'planned', now)
  }
  for (const row of rows) {
    if (row.status === 'suppressed') await recordMessageEvent(tx, row, now)
  }
}

/** `column1` etc. are the columns of `values`. */
async function writeInvoices(
  tx: Transaction,
  debtorPlans: readonly DebtorPlan[],
  now: Date,
): Promise<void> {
  const changed = debtorPlans.flatMap(({ chased: chasedDebtor, plan }) =>
    chasedDebtor.invoices.flatMap((invoice) => {
      const fields = plan.invoices.get(invoice.id)
      return fields === undefined || isSame(invoice, fields) ? [] : [{ id: invoice.id, ...fields }]
    }),
  )
  const values = changed.map(
    (row) =>
      sql`(${row.id}, ${row.chasing_status}, ${row.chasing_next_stage}, ${row.chasing_next_action_at}, ${row.chasing_blocked_reason})`,
  )
  const revised = nextRevision(tx, now.toISOString())
  await writeInParts(values, (part) =>
    sql`
      update invoices set
        chasing_status = new.column2,
        chasing_next_stage = new.column3,
        chasing_next_action_at = new.column4,
        chasing_blocked_reason = new.column5,
        updated_at = ${revised.updated_at},
        revision = ${revised.revision}
      from (values ${sql.join(part)}) as new where invoices.id = new.column1
    `.execute(tx),
  )
}

async function writeDebtors(tx: Transaction, debtorPlans: readonly DebtorPlan[]): Promise<void> {
  const values = debtorPlans.map(
    ({ debtor, plan }) => sql`(${debtor.id}, ${plan.planAgainAt?.toISOString() ?? null})`,
  )
  await writeInParts(values, (part) =>
    sql`
      update debtors set plan_at = new.column2
      from (values ${sql.join(part)}) as new where debtors.id = new.column1
    `.execute(tx),
  )
}

function isSame(invoice: ChasedInvoice, fields: ChasingFields): boolean {
  return (
    invoice.chasing_status === fields.chasing_status &&
    invoice.chasing_next_stage === fields.chasing_next_stage &&
    invoice.chasing_next_action_at === fields.chasing_next_action_at &&
    invoice.chasing_blocked_reason === fields.chasing_blocked_reason
  )
}
