/** The message that the next page of a session shows once, after an action. Its button may undo the action. */
import type { Transaction } from '../database/database.ts'
import { hashToken } from '../users/tokens.ts'

/** The request that undoes an action: a form of Settings, without its CSRF token. */
export interface Undo {
  readonly path: string
  readonly fields: readonly (readonly [name: string, value: string])[]
}

export interface Flash {
  /** The name of the message: a key of `FLASH_WORDS`. */
  readonly name: string
  readonly undo?: Undo | undefined
}

/** `token` is the token of the session. If `name` is null, the message is removed. */
export async function setFlash(
  tx: Transaction,
  token: string,
  name: string | null,
  undo?: Undo,
): Promise<void> {
  await tx
    .updateTable('sessions')
    .set({ flash: undo === undefined ? name : JSON.stringify({ flash: name, undo }) })
    .where('token_hash', '=', hashToken(token))
    .execute()
}

/** Reads what `setFlash` has stored: the name alone or, if the action can be undone, JSON. */
export function readFlash(stored: string | null): Flash | undefined {
  if (stored === null) return undefined
  if (!stored.startsWith('{')) return { name: stored, undo: undefined }
  const { flash, undo }: { flash: string; undo: Undo } = JSON.parse(stored)
  return { name: flash, undo }
}
