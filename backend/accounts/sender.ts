/**
 * The sender of reminders as customers see it: a name, and optionally a logo. The name is the display name in
 * From and the creditor's name in the text. The e-mail address in From is always the one in `MAIL_FROM`.
 */
import type { AccountRow, Transaction } from '../database/tables.ts'
import { fieldErrorsProblem } from '../validation/field-errors.ts'
import { matching } from '../validation/fields.ts'
import { check, Rejection } from '../validation/rejections.ts'
import { lockAccount } from './accounts.ts'
import { type ActionContext, recordAudit } from './audit.ts'
import { deleteUnusedLogos, insertLogo, parseLogo } from './logo.ts'

/** Returns the creditor's name in reminders. */
export function senderNameOf({ sender_name, name }: Pick<AccountRow, 'sender_name' | 'name'>) {
  return sender_name ?? name
}

/** In code points. */
export const SENDER_NAME_LENGTH_MAX = 100

/**
 * A sender name must not look like an address, because mail programs might show it instead of the real address.
 * Invisible characters, some of which reverse the direction of text, are therefore rejected too.
 */
const SENDER_NAME = matching(
  // These invisible characters are allowed, because Persian and emoji need them: the zero-width joiner and non-joiner,
  // and two variation selectors.
  /^(?=.*[^\s\u200c\u200d\ufe0e\ufe0f])[^@\ufe6b\uff20<>"\\\p{Zl}\p{Zp}[[\p{Cf}\p{DI}]--[\u200c\u200d\ufe0e\ufe0f]]]*$/v,
  'a name without @, <, >, ", backslashes and invisible characters',
  { max: SENDER_NAME_LENGTH_MAX, trim: true },
)

/**
 * A blank text, null, or the account's own name restores the default, which is the account's name. Returns whether the
 * sender's name changed. Throws `not_found`, and `validation_failed` at `/name`.
 */
export async function setSenderName(
  tx: Transaction,
  accountId: string,
  input: string | null,
  actionContext: ActionContext,
): Promise<boolean> {
  const requested = input === null || input.trim() === '' ? null : checkName(input)
  const account = await lockAccount(tx, accountId)
  const senderName = requested === account.name ? null : requested
  if (account.sender_name === senderName) return false
  await updateAccount(tx, accountId, { sender_name: senderName }, actionContext)
  await recordAudit(tx, actionContext, {
    accountId,
    action: 'account.sender_changed',
    subjectId: accountId,
    detail: { from: senderNameOf(account), to: senderName ?? account.name },
  })
  return true
}

/**
 * Null removes the logo. Throws `not_found`, and `validation_failed` at `/logo`. Returns whether the logo
 * changed.
 */
export async function setLogo(
  tx: Transaction,
  accountId: string,
  content: Buffer | null,
  actionContext: ActionContext,
): Promise<boolean> {
  const logo = content === null ? null : parseLogo(content)
  const account = await lockAccount(tx, accountId)
  const logoId = logo?.id ?? null
  // Equal ids mean the same logo, because the id is the digest of the content.
  if (account.logo_id === logoId) return false
  if (logo !== null) await insertLogo(tx, accountId, logo, actionContext.now)
  await updateAccount(tx, accountId, { logo_id: logoId }, actionContext)
  // Deletes the previous logo unless a message uses it.
  await deleteUnusedLogos(tx, accountId, logoId)
  await recordAudit(tx, actionContext, {
    accountId,
    action: logo === null ? 'account.logo_removed' : 'account.logo_changed',
    subjectId: accountId,
    detail:
      logo === null
        ? {}
        : { media_type: logo.mediaType, width: logo.width, height: logo.height, id: logoId },
  })
  return true
}

function checkName(input: string): string {
  const checked = check(SENDER_NAME, input)
  if (!(checked instanceof Rejection)) return checked
  throw fieldErrorsProblem([
    { pointer: '/name', code: checked.code, detail: `name ${checked.detail}` },
  ])
}

async function updateAccount(
  tx: Transaction,
  accountId: string,
  values: Partial<Pick<AccountRow, 'sender_name' | 'logo_id'>>,
  { now }: ActionContext,
): Promise<void> {
  await tx
    .updateTable('accounts')
    .set({ ...values, updated_at: now.toISOString() })
    .where('id', '=', accountId)
    .execute()
}
