/**
 * Sets up, checks and removes an authenticator app as the second factor of a login, with recovery codes in case the app
 * is lost. The app's secret is stored encrypted rather than hashed, because checking a code requires the secret.
 */
import { Problem } from '../../shared/contract/problem.ts'
import type { ActionContext } from '../accounts/audit.ts'
import type { Transaction, UserRow } from '../database/tables.ts'
import { createTotpSecret, matchTotp, totpUri } from '../users/totp.ts'
import { enteredValuesProblem } from '../validation/field-errors.ts'
import {
  APP,
  hasSecondFactor,
  lockUser,
  notifyOfAddedFactor,
  notifyOfRemovedFactor,
  recordFactorAction,
} from './factors.ts'
import { listPasskeys, removePasskey } from './passkeys.ts'
import {
  consumeRecoveryCode,
  deleteRecoveryCodes,
  regenerateRecoveryCodes,
} from './recovery-codes.ts'

/** Encrypts and decrypts the secrets of apps. Decrypting requires the owner for whom the secret was encrypted. */
export interface SecretCipher {
  seal(secret: string, owner: SecretOwner): string
  open(sealed: string, owner: SecretOwner): string
}

interface SecretOwner {
  readonly accountId: string
  /** The id of the user, whose row contains the secret. */
  readonly recordId: string
}

export interface TotpSetup {
  /** In base32, which people can type into an app. */
  readonly secret: string
  /** The secret as a link that opens an app. */
  readonly uri: string
}

/** Stores the secret of a new app. The app is in use only after `enableApp`. Throws `second_factor_conflict`. */
export async function beginAppSetup(
  tx: Transaction,
  userId: string,
  cipher: SecretCipher,
  now: Date,
): Promise<TotpSetup> {
  const user = await lockUser(tx, userId)
  if (user.totp_enabled_at !== null) throw alreadyEnabled()
  const secret = createTotpSecret()
  const totp_secret = cipher.seal(secret, ownerOf(user))
  await updateApp(tx, userId, { totp_secret, totp_last_step: null }, now)
  return { secret, uri: totpUri(secret, user.email) }
}

/** Returns the setup in progress; undefined if there is none. */
export function readAppSetup(user: UserRow, cipher: SecretCipher): TotpSetup | undefined {
  if (user.totp_secret === null || user.totp_enabled_at !== null) return undefined
  const secret = cipher.open(user.totp_secret, ownerOf(user))
  return { secret, uri: totpUri(secret, user.email) }
}

/**
 * Enables the app if `code` is the app's current code. Returns new recovery codes, to be shown once. Earlier
 * recovery codes become invalid. Throws `second_factor_conflict`, `validation_failed`.
 */
export async function enableApp(
  tx: Transaction,
  userId: string,
  code: string,
  cipher: SecretCipher,
  actionContext: ActionContext,
): Promise<readonly string[]> {
  const user = await lockUser(tx, userId)
  if (user.totp_enabled_at !== null) throw alreadyEnabled()
  if (user.totp_secret === null) {
    throw new Problem('second_factor_conflict', 'Begin the setup of your authenticator app first.')
  }
  // The step is the interval of 30 seconds in which the code is current. It is stored, so that no code is accepted
  // twice.
  const step = matchTotp(cipher.open(user.totp_secret, ownerOf(user)), code, {
    now: actionContext.now,
    lastStep: null,
  })
  if (step === undefined) {
    const detail = 'This is not the current code of the app. Check the clock of your phone.'
    throw enteredValuesProblem([{ pointer: '/code', code: 'invalid_format', detail }])
  }
  const enabled = { totp_enabled_at: actionContext.now.toISOString(), totp_last_step: step }
  await updateApp(tx, userId, enabled, actionContext.now)
  await recordFactorAction(tx, user, 'user.second_factor_enabled', APP.name, actionContext)
  await notifyOfAddedFactor(tx, user, APP, actionContext)
  return regenerateRecoveryCodes(tx, userId, actionContext.now)
}

/** Returns new recovery codes, and invalidates the previous codes. Throws `second_factor_conflict`. */
export async function replaceRecoveryCodes(
  tx: Transaction,
  userId: string,
  actionContext: ActionContext,
): Promise<readonly string[]> {
  const user = await lockUser(tx, userId)
  if (!(await hasSecondFactor(tx, user))) {
    throw new Problem('second_factor_conflict', 'Your login has no second factor.')
  }
  await recordFactorAction(tx, user, 'user.recovery_codes_replaced', null, actionContext)
  return regenerateRecoveryCodes(tx, userId, actionContext.now)
}

/**
 * Disables the authenticator app, or ends its setup. Deletes the recovery codes unless the user has a passkey. If the
 * app was in use, also records in the audit log that it was disabled, and notifies the user.
 */
export async function disableApp(tx: Transaction, userId: string, actionContext: ActionContext) {
  const user = await lockUser(tx, userId)
  const withoutApp = { totp_secret: null, totp_enabled_at: null, totp_last_step: null }
  await updateApp(tx, userId, withoutApp, actionContext.now)
  const changed = { ...user, ...withoutApp }
  if (!(await hasSecondFactor(tx, changed))) await deleteRecoveryCodes(tx, userId)
  if (user.totp_enabled_at === null) return
  await recordFactorAction(tx, user, 'user.second_factor_disabled', APP.name, actionContext)
  await notifyOfRemovedFactor(tx, changed, APP, actionContext)
}

/** Removes the app, the passkeys and the recovery codes. The user can then log in with the password alone. */
export async function removeSecondFactors(
  tx: Transaction,
  userId: string,
  actionContext: ActionContext,
) {
  await disableApp(tx, userId, actionContext)
  for (const { id } of await listPasskeys(tx, userId))
    await removePasskey(tx, userId, id, actionContext)
}

/** Consumes a code of the app or a recovery code. Returns false if the code is wrong or was used before. */
export async function consumeSecondFactorCode(
  tx: Transaction,
  userId: string,
  code: string,
  cipher: SecretCipher,
  actionContext: ActionContext,
): Promise<boolean> {
  // Without the lock, two concurrent requests with one code would both be accepted.
  const user = await lockUser(tx, userId)
  // Recovery codes are checked first, so that they work even if the key that encrypted the secret of the app is lost.
  if (await consumeRecoveryCode(tx, userId, code, actionContext.now)) {
    await recordFactorAction(tx, user, 'user.recovery_code_used', null, actionContext)
    return true
  }
  const step = matchApp(user, code, cipher, actionContext.now)
  if (step === undefined) return false
  await updateApp(tx, userId, { totp_last_step: step }, actionContext.now)
  return true
}

/** Returns the step of the code; undefined if the code is wrong or was used before, or if no app is in use. */
function matchApp(user: UserRow, code: string, cipher: SecretCipher, now: Date) {
  if (user.totp_secret === null || user.totp_enabled_at === null) return undefined
  return matchTotp(cipher.open(user.totp_secret, ownerOf(user)), code, {
    now,
    lastStep: user.totp_last_step === null ? null : Number(user.totp_last_step),
  })
}

async function updateApp(
  tx: Transaction,
  id: string,
  values: Partial<Pick<UserRow, 'totp_secret' | 'totp_enabled_at' | 'totp_last_step'>>,
  now: Date,
): Promise<void> {
  await tx
    .updateTable('users')
    .set({ ...values, updated_at: now.toISOString() })
    .where('id', '=', id)
    .execute()
}

function ownerOf({ account_id, id }: UserRow): SecretOwner {
  return { accountId: account_id, recordId: id }
}

function alreadyEnabled(): Problem {
  return new Problem('second_factor_conflict', 'Your login already has an authenticator app.')
}
