/**
 * The second factor of a login: an authenticator app, and recovery codes for the case that it is lost. The
 * app's secret is stored encrypted, since codes are computed from it; recovery codes are stored as hashes.
 */
import { randomBytes } from 'node:crypto'
import { Problem } from '../../shared/contract/problem.ts'
import { type Act, type AuditAction, recordAudit } from '../accounts/audit.ts'
import type { Transaction, UserRow } from '../database/tables.ts'
import { hashToken } from '../users/tokens.ts'
import { createTotpSecret, matchTotp, totpUri } from '../users/totp.ts'

const RECOVERY_CODES = 10
/** 80 random bits per code. */
const RECOVERY_BYTES = 10

/** Encrypts the secrets of apps. An encrypted secret can be decrypted for its own user only. */
export interface SecondFactorBox {
  seal(secret: string, owner: BoxOwner): string
  open(sealed: string, owner: BoxOwner): string
}

interface BoxOwner {
  readonly accountId: string
  readonly endpointId: string
}

export interface TotpSetup {
  /** In base32, to be typed into an app. */
  readonly secret: string
  /** The secret as a link that opens an app. */
  readonly uri: string
}

/** Stores a new secret, which applies after `enableSecondFactor`. Throws `second_factor_conflict`. */
export async function beginSecondFactor(
  tx: Transaction,
  userId: string,
  box: SecondFactorBox,
  now: Date,
): Promise<TotpSetup> {
  const user = await lockUser(tx, userId)
  if (user.totp_enabled_at !== null) throw alreadyEnabled()
  const secret = createTotpSecret()
  const totp_secret = box.seal(secret, ownerOf(user))
  await change(tx, userId, { totp_secret, totp_last_step: null }, now)
  return { secret, uri: totpUri(secret, user.email) }
}

/** Returns the setup in progress, to be shown again; undefined if there is none. */
export function openSetup(user: UserRow, box: SecondFactorBox): TotpSetup | undefined {
  if (user.totp_secret === null || user.totp_enabled_at !== null) return undefined
  const secret = box.open(user.totp_secret, ownerOf(user))
  return { secret, uri: totpUri(secret, user.email) }
}

/** Returns the recovery codes, to be shown once. Throws `second_factor_conflict`, `validation_failed`. */
export async function enableSecondFactor(
  tx: Transaction,
  userId: string,
  code: string,
  box: SecondFactorBox,
  act: Act,
): Promise<readonly string[]> {
  const user = await lockUser(tx, userId)
  if (user.totp_enabled_at !== null) throw alreadyEnabled()
  if (user.totp_secret === null) {
    throw new Problem('second_factor_conflict', 'Begin the setup of your authenticator app first.')
  }
  const step = matchTotp(box.open(user.totp_secret, ownerOf(user)), code, {
    now: act.now,
    lastStep: null,
  })
  if (step === undefined) {
    const detail = 'This is not the current code of the app. Check the clock of your phone.'
    const errors = [{ pointer: '/code', code: 'invalid_format', detail }]
    throw new Problem('validation_failed', detail, { members: { errors } })
  }
  const enabled = { totp_enabled_at: act.now.toISOString(), totp_last_step: step }
  await change(tx, userId, enabled, act.now)
  await audit(tx, user, 'user.second_factor_enabled', act)
  return insertRecoveryCodes(tx, userId, act.now)
}

/** Invalidates the previous codes. Throws `second_factor_conflict`. */
export async function replaceRecoveryCodes(
  tx: Transaction,
  userId: string,
  act: Act,
): Promise<readonly string[]> {
  const user = await lockUser(tx, userId)
  if (user.totp_enabled_at === null) {
    throw new Problem('second_factor_conflict', 'Your login has no second factor.')
  }
  await audit(tx, user, 'user.recovery_codes_replaced', act)
  return insertRecoveryCodes(tx, userId, act.now)
}

/** Lets the user log in with the password alone. */
export async function disableSecondFactor(tx: Transaction, userId: string, act: Act) {
  const user = await lockUser(tx, userId)
  const none = { totp_secret: null, totp_enabled_at: null, totp_last_step: null }
  await change(tx, userId, none, act.now)
  await tx.deleteFrom('recovery_codes').where('user_id', '=', userId).execute()
  if (user.totp_enabled_at !== null) await audit(tx, user, 'user.second_factor_disabled', act)
}

/** Consumes a code of the app or a recovery code. Returns false if the code is wrong or was used before. */
export async function useSecondFactor(
  tx: Transaction,
  userId: string,
  code: string,
  box: SecondFactorBox,
  act: Act,
): Promise<boolean> {
  // Without the lock, two concurrent requests with one code would both be accepted.
  const user = await lockUser(tx, userId)
  if (user.totp_secret === null || user.totp_enabled_at === null) return false
  const step = matchTotp(box.open(user.totp_secret, ownerOf(user)), code, {
    now: act.now,
    lastStep: user.totp_last_step === null ? null : Number(user.totp_last_step),
  })
  if (step !== undefined) {
    await change(tx, userId, { totp_last_step: step }, act.now)
    return true
  }
  const { numUpdatedRows } = await tx
    .updateTable('recovery_codes')
    .set({ used_at: act.now.toISOString() })
    .where('user_id', '=', userId)
    .where('code_hash', '=', recoveryHash(code))
    .where('used_at', 'is', null)
    .executeTakeFirstOrThrow()
  if (numUpdatedRows === 0n) return false
  await audit(tx, user, 'user.recovery_code_used', act)
  return true
}

async function insertRecoveryCodes(tx: Transaction, userId: string, now: Date) {
  const codes = Array.from({ length: RECOVERY_CODES }, () =>
    (randomBytes(RECOVERY_BYTES).toString('hex').match(/.{5}/g) ?? []).join('-'),
  )
  await tx.deleteFrom('recovery_codes').where('user_id', '=', userId).execute()
  const rows = codes.map((code) => ({
    user_id: userId,
    code_hash: recoveryHash(code),
    created_at: now.toISOString(),
    used_at: null,
  }))
  await tx.insertInto('recovery_codes').values(rows).execute()
  return codes
}

/** Accepts the code with or without hyphens. A fast hash suffices for 80 random bits. */
function recoveryHash(code: string): string {
  return hashToken(`recovery ${code.replace(/[\s-]/g, '').toLowerCase()}`)
}

async function lockUser(tx: Transaction, id: string): Promise<UserRow> {
  return await tx
    .selectFrom('users')
    .selectAll()
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
}

async function change(
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

function ownerOf({ account_id, id }: UserRow): BoxOwner {
  return { accountId: account_id, endpointId: id }
}

function alreadyEnabled(): Problem {
  return new Problem('second_factor_conflict', 'Your login has a second factor already.')
}

async function audit(tx: Transaction, user: UserRow, action: AuditAction, act: Act): Promise<void> {
  await recordAudit(tx, act, {
    accountId: user.account_id,
    action,
    subjectId: user.id,
    detail: { email: user.email },
  })
}
