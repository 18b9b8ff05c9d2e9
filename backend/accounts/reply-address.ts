/** An additional address for debtors' replies. Mail programs send a reply to this address and to the service. */
import type { AccountRow, Transaction } from '../database/tables.ts'
import { parseEmail } from '../validation/contact.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { lockAccount } from './accounts.ts'
import { type ActionContext, recordAudit } from './audit.ts'

/**
 * If `address` is null, replies are sent only to the service, which notifies Admins of each reply that it receives.
 * Throws `not_found`, `validation_failed`.
 */
export async function setReplyAddress(
  tx: Transaction,
  accountId: string,
  address: string | null,
  actionContext: ActionContext,
): Promise<AccountRow> {
  const replyTo = address === null ? null : checkAddress(address)
  const account = await lockAccount(tx, accountId)
  if (account.reply_to === replyTo) return account
  const change = { reply_to: replyTo, updated_at: actionContext.now.toISOString() }
  await tx.updateTable('accounts').set(change).where('id', '=', accountId).execute()
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'account.reply_address_changed',
    subjectId: accountId,
    detail: { reply_to: replyTo },
  })
  return { ...account, ...change }
}

function checkAddress(text: string): string {
  const address = parseEmail(text.trim())
  if (address !== undefined) return address
  const detail = 'reply_to must be one e-mail address.'
  throw enteredValuesProblem([{ pointer: '/reply_to', code: 'invalid_format', detail }])
}
