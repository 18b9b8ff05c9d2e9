/**
 * Stores the passkeys of users; `relying-party.ts` verifies them. A passkey can be the second factor after the password
 * or replace the password, because a login with the passkey proves both that the device is present and that the owner
 * unlocked it.
 */

import { createId } from '../../shared/contract/id.ts'
import { Problem } from '../../shared/contract/problem.ts'
import type { ActionContext } from '../accounts/audit.ts'
import { ConstraintViolation } from '../database/constraint-violation.ts'
import type { PasskeyRow, Reader, Transaction } from '../database/tables.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import { normalizeText, trimText } from '../validation/unicode.ts'
import {
  hasSecondFactor,
  lockUser,
  notifyOfAddedFactor,
  notifyOfRemovedFactor,
  recordFactorAction,
} from './factors.ts'
import { deleteRecoveryCodes, regenerateRecoveryCodes } from './recovery-codes.ts'
import type { Credential } from './relying-party.ts'

/** Limits the data that a browser receives with a challenge. */
const PASSKEYS_MAX = 20
export const PASSKEY_NAME_LENGTH_MAX = 80

export interface AddedPasskey {
  readonly passkey: PasskeyRow
  /** The codes to show once; undefined if the user already had a second factor, and therefore recovery codes. */
  readonly recoveryCodes: readonly string[] | undefined
}

/** Throws `second_factor_conflict`, `validation_failed`. */
export async function addPasskey(
  tx: Transaction,
  userId: string,
  given: Credential & { readonly name: string },
  actionContext: ActionContext,
): Promise<AddedPasskey> {
  // Without the lock, two concurrent requests could both add a first passkey, and the user could keep the recovery
  // codes that the later request has replaced.
  const user = await lockUser(tx, userId)
  const hadSecondFactor = await hasSecondFactor(tx, user)
  if ((await listPasskeys(tx, userId)).length >= PASSKEYS_MAX) {
    throw new Problem(
      'second_factor_conflict',
      `A login has at most ${PASSKEYS_MAX} passkeys. Remove one that you no longer use.`,
    )
  }
  const passkey: PasskeyRow = {
    id: createId('psk'),
    account_id: user.account_id,
    user_id: userId,
    name: checkPasskeyName(given.name),
    credential_id: given.credential_id,
    public_key: given.public_key,
    sign_count: given.sign_count,
    transports: given.transports,
    created_at: actionContext.now.toISOString(),
    last_used_at: null,
  }
  try {
    await tx.insertInto('passkeys').values(passkey).execute()
  } catch (error) {
    if (!(error instanceof ConstraintViolation && error.kind === 'unique')) throw error
    throw new Problem('second_factor_conflict', 'This passkey has already been added.')
  }
  const factor = { kind: 'passkey', name: passkey.name } as const
  await recordFactorAction(tx, user, 'user.passkey_added', passkey.name, actionContext)
  await notifyOfAddedFactor(tx, user, factor, actionContext)
  const recoveryCodes = hadSecondFactor
    ? undefined
    : await regenerateRecoveryCodes(tx, userId, actionContext.now)
  return { passkey, recoveryCodes }
}

/** Lists the passkeys in the order in which they were added. */
export async function listPasskeys(reader: Reader, userId: string): Promise<PasskeyRow[]> {
  return reader
    .selectFrom('passkeys')
    .selectAll()
    .where('user_id', '=', userId)
    .orderBy('id')
    .execute()
}

/** Throws `not_found`, also for a passkey of another user. */
export async function getPasskey(reader: Reader, userId: string, id: string): Promise<PasskeyRow> {
  const row = await reader
    .selectFrom('passkeys')
    .selectAll()
    .where('user_id', '=', userId)
    .where('id', '=', id)
    .executeTakeFirst()
  if (row === undefined) throw new Problem('not_found', `There is no passkey ${id}.`)
  return row
}

/** Throws `not_found`, `validation_failed`. */
export async function renamePasskey(
  tx: Transaction,
  userId: string,
  id: string,
  newName: string,
  actionContext: ActionContext,
): Promise<PasskeyRow> {
  const user = await lockUser(tx, userId)
  const passkey = await getPasskey(tx, userId, id)
  const name = checkPasskeyName(newName)
  if (name === passkey.name) return passkey
  await tx.updateTable('passkeys').set({ name }).where('id', '=', id).execute()
  await recordFactorAction(tx, user, 'user.passkey_renamed', name, actionContext)
  return { ...passkey, name }
}

/** If the user has no second factor left, the recovery codes are deleted too. Throws `not_found`. */
export async function removePasskey(
  tx: Transaction,
  userId: string,
  id: string,
  actionContext: ActionContext,
): Promise<void> {
  const user = await lockUser(tx, userId)
  const { name } = await getPasskey(tx, userId, id)
  await tx.deleteFrom('passkeys').where('id', '=', id).execute()
  if (!(await hasSecondFactor(tx, user))) await deleteRecoveryCodes(tx, userId)
  const factor = { kind: 'passkey', name } as const
  await recordFactorAction(tx, user, 'user.passkey_removed', name, actionContext)
  await notifyOfRemovedFactor(tx, user, factor, actionContext)
}

/** Throws `validation_failed` at `/name`. */
export function checkPasskeyName(given: string): string {
  const name = normalizeText(trimText(given), 'NFC')
  const detail =
    name === ''
      ? 'Give the passkey a name, e.g. the name of the device.'
      : [...name].length > PASSKEY_NAME_LENGTH_MAX
        ? `The name must have at most ${PASSKEY_NAME_LENGTH_MAX} characters.`
        : /\p{Cc}/u.test(name)
          ? 'The name must not contain line breaks or other control characters.'
          : undefined
  if (detail === undefined) return name
  throw enteredValuesProblem([{ pointer: '/name', code: 'invalid_format', detail }])
}
