import type { AccountRow, Transaction } from '../database/tables.ts'
import { object, optional, validateBody } from '../validation/body.ts'
import { currency, integer, text, timezone } from '../validation/fields.ts'
import type { JsonObject } from '../validation/json.ts'
import { lockAccount } from './accounts.ts'
import { type ActionContext, recordAudit } from './audit.ts'

export const PROFILE_FIELDS = [
  'name',
  'timezone',
  'default_currency',
  'payment_terms_days',
] as const satisfies readonly (keyof AccountRow)[]

/**
 * `timezone` decides when an invoice is overdue and, for debtors without a time zone of their own, when reminders are
 * sent. Invoices that are created without a due date are due `payment_terms_days` after their issue date, unless the
 * debtor has its own terms. `default_currency` is returned by the API and preselected in forms.
 */
export type AccountProfile = Pick<AccountRow, (typeof PROFILE_FIELDS)[number]>

const schema = object<Partial<AccountProfile>>({
  name: optional(text({ max: 200, trim: true })),
  timezone: optional(timezone),
  default_currency: optional(currency),
  payment_terms_days: optional(integer({ min: 0, max: 365 })),
})

/**
 * A member that is omitted or null leaves its field unchanged. Existing invoices do not change. Throws
 * `not_found`, and `validation_failed` or `unsupported_currency` with the pointers of the members.
 */
export async function changeAccountProfile(
  tx: Transaction,
  accountId: string,
  input: JsonObject,
  actionContext: ActionContext,
): Promise<AccountRow> {
  const requested = validateBody(schema, input)
  const account = await lockAccount(tx, accountId)
  const changed = PROFILE_FIELDS.filter(
    (name) => (requested[name] ?? account[name]) !== account[name],
  )
  if (changed.length === 0) return account
  const change = { ...requested, updated_at: actionContext.now.toISOString() }
  await tx.updateTable('accounts').set(change).where('id', '=', accountId).execute()
  const detail = changed.map((name) => [name, { from: account[name], to: requested[name] }])
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'account.changed',
    subjectId: accountId,
    detail: Object.fromEntries(detail),
  })
  return { ...account, ...change }
}
