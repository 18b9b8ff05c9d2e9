/** Recovery codes: each can be used once instead of a lost second factor. Only hashes of the codes are stored. */
import { randomBytes } from 'node:crypto'
import type { Transaction } from '../database/tables.ts'
import { hashToken } from '../users/tokens.ts'
import { normalizeText } from '../validation/unicode.ts'

const RECOVERY_CODES = 10
/** 80 random bits per code. */
const RECOVERY_BYTES = 10

/** Creates new codes and returns them, so that they can be shown once. The previous codes become invalid. */
export async function regenerateRecoveryCodes(
  tx: Transaction,
  userId: string,
  now: Date,
): Promise<readonly string[]> {
  const codes = Array.from({ length: RECOVERY_CODES }, () =>
    (randomBytes(RECOVERY_BYTES).toString('hex').match(/.{5}/g) ?? []).join('-'),
  )
  await deleteRecoveryCodes(tx, userId)
  const rows = codes.map((code) => ({
    user_id: userId,
    code_hash: recoveryHash(code),
    created_at: now.toISOString(),
    used_at: null,
  }))
  await tx.insertInto('recovery_codes').values(rows).execute()
  return codes
}

/** Returns false if the code is wrong or was used before. */
export async function consumeRecoveryCode(
  tx: Transaction,
  userId: string,
  code: string,
  now: Date,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('recovery_codes')
    .set({ used_at: now.toISOString() })
    .where('user_id', '=', userId)
    .where('code_hash', '=', recoveryHash(code))
    .where('used_at', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows === 1n
}

export async function deleteRecoveryCodes(tx: Transaction, userId: string): Promise<void> {
  await tx.deleteFrom('recovery_codes').where('user_id', '=', userId).execute()
}

/**
 * Hashes the code as a person types it, with or without hyphens. Text processors replace hyphens with other
 * characters, so all characters except hexadecimal digits are ignored. NFKC converts digits of full width, which some
 * keyboards type. A fast hash suffices for 80 random bits.
 */
function recoveryHash(code: string): string {
  return hashToken(
    `recovery ${normalizeText(code, 'NFKC')
      .toLowerCase()
      .replace(/[^\da-f]/g, '')}`,
  )
}
